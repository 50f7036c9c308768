# SPDX-License-Identifier: Apache-2.0
"""The QEMU process of a domain, named so that it can be mistaken for no other."""

from collections.abc import Iterator
import contextlib
import dataclasses
import os
import pathlib
import select
import signal

_PROC = pathlib.Path('/proc')
# Of the fields of /proc/PID/stat behind the name: when it was started.
_STARTED = 19


@dataclasses.dataclass(frozen=True)
class Process:
    """A process.

    :param started: when, in the kernel's ticks; with it a PID is unique until the next boot
    :param command: its command line
    """

    pid: int
    started: int
    command: str = dataclasses.field(compare=False, default='')

    @property
    def key(self) -> str:
        """Names the process among all that this boot of the host has seen."""
        return f'{self.pid}.{self.started}'

    @property
    def began(self) -> float:
        """The time of its start, in seconds since 1970."""
        booted = next(line.split()[1] for line in (_PROC / 'stat').read_text().splitlines()
                      if line.startswith('btime '))
        return int(booted) + self.started / os.sysconf('SC_CLK_TCK')

    def ended(self, timeout: float) -> bool:
        """Wait for its end.

        :param timeout: seconds
        :returns: whether it has
        """
        with self._pidfd() as descriptor:
            return descriptor is None or bool(
                select.select([descriptor], [], [], timeout)[0])

    def kill(self) -> None:
        """Kill it, if it is still the same process."""
        with self._pidfd() as descriptor:
            if descriptor is not None:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)

    @contextlib.contextmanager
    def _pidfd(self) -> Iterator[int | None]:
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            yield None
            return
        try:
            # What the descriptor means can be another process by now, but not later.
            same = _started(_PROC / str(self.pid)) == self.started
            yield descriptor if same else None
        finally:
            os.close(descriptor)


def qemu(uuid: str, proc: pathlib.Path = _PROC) -> Process | None:
    """Find the QEMU process of a domain.

    :param uuid: the domain's
    :returns: None if there is none, or more than one
    """
    matches = []
    for path in proc.iterdir():
        if not path.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            words = (path / 'cmdline').read_bytes().split(b'\0')
            if b'-uuid' in words and uuid.encode() in words and b'-blockdev' in words:
                started = _started(path)
                if started is not None:
                    matches.append(Process(int(path.name), started,
                                           b' '.join(words).decode(errors='replace')))
    return matches[0] if len(matches) == 1 else None


def _started(path: pathlib.Path) -> int | None:
    try:
        # The name, in brackets, may hold anything.
        fields = (path / 'stat').read_text().rpartition(')')[2].split()
    except OSError:
        return None
    return int(fields[_STARTED])

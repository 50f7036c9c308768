# SPDX-License-Identifier: Apache-2.0
"""A writer's process, which the test starts, steers, stops, wakes and kills."""

from collections.abc import Callable
import contextlib
import dataclasses
import json
import pathlib
import signal
import subprocess
import sys
import time

from testing.race import control
from testing.race import hosts
from testing.race import journal
from testing.race import writer

_START = 60.0
_QUIET = 30.0
_QUIT = 60.0


class WriterProcess:
    """A writer in a process of its own.

    :param directory: for its files: journal, control, stderr
    :param disks: as in :class:`writer.Spec`
    :param spec: its other settings; disks, journal and control are filled in
    :param host: where it runs; None for this machine
    :ivar wakes: the times at which it woke
    """

    def __init__(self, directory: pathlib.Path, name: str, disks: list[tuple[int, list[str]]],
                 spec: writer.Spec, host: hosts.Host | None = None) -> None:
        self.name = name
        self._host = host
        self._cut = False
        self.journal = directory / f'{name}.journal'
        self._stderr = directory / f'{name}.stderr'
        steering = directory / f'{name}.control'
        file = directory / f'{name}.json'
        file.write_text(json.dumps(dataclasses.asdict(dataclasses.replace(
            spec, disks=disks, journal=str(self.journal), control=str(steering)))))
        self.control = control.Control(steering)
        self.stopped = False
        self.gone = False
        self.wakes: list[float] = []
        self._held = control.Mode.PAUSED
        with self._stderr.open('wb') as stderr:
            self._process = subprocess.Popen(
                [*(host.prefix if host else ()), sys.executable, '-m', writer.__name__,
                 str(file)], stderr=stderr,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)

    def ready(self) -> None:
        """Wait until the writer has started, and filled the disks if its spec says so.

        :raises WriterGone: it ended, or is not ready in time
        """
        self._wait(lambda: self.control.state is not control.State.STARTING, 'ready', _START)

    def ops(self) -> list[journal.Op]:
        """Return its operations so far."""
        return journal.read([self.journal])

    def mode(self, mode: control.Mode, target: control.Target | None = None) -> None:
        """Change the mode of a writer that runs.

        :param target: the only blocks to write to; None for no limit
        """
        if not self.gone:
            self.control.target = target
            self.control.mode = mode

    def quiet(self) -> None:
        """Pause the writer, and wait until none of its operations is in flight.

        :raises WriterGone: it does not pause
        """
        self.control.state = control.State.BUSY
        self.control.mode = control.Mode.PAUSED
        self._wait(lambda: self.control.state is control.State.QUIET, 'quiet', _QUIET)

    def hold(self, quiet: bool) -> None:
        """Pause the writer, or resume it in its previous mode."""
        if quiet:
            self._held = self.control.mode
            self.quiet()
        else:
            self.control.mode = self._held

    def stop(self) -> None:
        """Stop the process, so that it hangs."""
        self._signal(signal.SIGSTOP)
        self.stopped = True

    @property
    def is_cut(self) -> bool:
        """Return whether its host is cut off."""
        return self._cut

    def cut(self) -> bool:
        """Cut its host off instead of stopping it; report whether it has a host of its own."""
        if self._host is None:
            return False
        self._host.cut()
        self.stopped = self._cut = True
        return True

    def wake(self) -> None:
        """Continue a stopped process, or heal the link of its host."""
        if self._cut and self._host is not None:
            self._host.heal()
            self._cut = False
        if self.stopped:
            self.wakes.append(time.monotonic())
        self._signal(signal.SIGCONT)
        self.stopped = False

    def kill(self) -> None:
        """Kill the process at once."""
        if self.gone:
            return
        self._signal(signal.SIGKILL)
        self._process.wait()
        self.gone = True
        self.control.close()

    def quit(self) -> None:
        """End the writer cleanly if possible, or kill it."""
        if self.gone:
            return
        if self.stopped:
            self.wake()
        self.control.mode = control.Mode.QUIT
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_QUIT)
        self.kill()

    def _signal(self, number: int) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)

    def _wait(self, met: Callable[[], bool], what: str, timeout: float) -> None:
        def over() -> bool:
            if self._process.poll() is not None:
                output = self._stderr.read_text(errors='replace').strip()
                raise control.WriterGone(f'{self.name} ended by itself: {output}')
            return met()
        control.wait(over, f'{self.name} is not {what}', timeout)

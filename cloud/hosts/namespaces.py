# SPDX-License-Identifier: Apache-2.0
"""Create, enter, freeze and kill the namespaces of a compute host."""

from collections.abc import Callable, Sequence
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

from cloud import commands
from cloud import deadline

_TIMEOUT = 15.0
_PROC = pathlib.Path('/proc')


class Machine:
    """All processes of one host.

    :param name: unique on this machine
    """

    def __init__(self, name: str) -> None:
        mounted = _control_groups()
        # Without control groups of version 2 signals do the same, one process after the other.
        self._group = mounted / name if mounted else None

    def start(self, conf: pathlib.Path, log: pathlib.Path,
              connect: Callable[[int], None]) -> int:
        """Start a host.

        :param conf: file that its first process reads
        :param log: file for the output of its first process
        :param connect: function that makes its network devices, called with one of its processes
        :return: its first process
        :raises CloudError: it did not start
        """
        argv = ['unshare', '--mount', '--uts', '--ipc', '--pid', '--net', '--fork',
                '--kill-child', '--mount-proc', sys.executable, '-m', 'cloud.hosts.init',
                str(conf)]
        with log.open('ab') as output:
            # Its own session: a Ctrl-C in the terminal is not meant for the host.
            outer = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=output, stderr=output,
                                     start_new_session=True, cwd='/', env=_environment())
        assert outer.stdin
        try:
            pid = _first_child(outer)
            if self._group:
                self._group.mkdir(exist_ok=True)
                for member in (outer.pid, pid):
                    _join(self._group, member)
            connect(pid)
            with outer.stdin as line:
                line.write(b'go\n')
        except BaseException:
            outer.kill()
            outer.wait()
            raise
        return pid

    def freeze(self, pid: int) -> None:
        """Stop all processes where they are; the kernel goes on.

        :param pid: the host's first process
        :raises CloudError: some would not
        """
        if self._group:
            self._gather(pid)
            (self._group / 'cgroup.freeze').write_text('1')
            _wait('some of its processes do not stop',
                  lambda: 'frozen 1' in self._events() and not self._gather(pid))
        else:
            # A process that was started meanwhile is found in the next round.
            _wait('some of its processes do not stop', lambda: not _signal(
                [member for member in members(pid) if _state(member) != 'T'], signal.SIGSTOP))

    def thaw(self, pid: int) -> None:
        """Let all processes go on.

        :param pid: the host's first process
        """
        if self._group:
            (self._group / 'cgroup.freeze').write_text('0')
        else:
            _signal(members(pid), signal.SIGCONT)

    def frozen(self, pid: int) -> bool:
        """Return whether the processes are stopped."""
        if self._group:
            return 'frozen 1' in self._events()
        return _state(pid) == 'T'

    def kill(self, pid: int) -> None:
        """Kill all processes at once, also when they are frozen.

        :param pid: the host's first process
        :raises CloudError: some do not die
        """
        known = members(pid)
        _signal([pid], signal.SIGKILL)
        if self._group and (self._group / 'cgroup.kill').exists():
            (self._group / 'cgroup.kill').write_text('1')
        elif self._group:
            # Nothing runs again between its thaw and its death.
            _signal(known, signal.SIGKILL)
            (self._group / 'cgroup.freeze').write_text('0')
        _wait('some of its processes do not die',
              lambda: all(_state(member) in ('', 'Z', 'X') for member in (*known, pid)))
        if self._group:
            _wait(f'{self._group} stays in use', self._remove)

    def _gather(self, pid: int) -> list[int]:
        """Move the processes that entered the host from outside into its control group.

        :return: the processes that were not in it
        """
        assert self._group
        inside = set((self._group / 'cgroup.procs').read_text().split())
        late = [member for member in members(pid) if str(member) not in inside]
        for member in late:
            _join(self._group, member)
        return late

    def _events(self) -> str:
        assert self._group
        try:
            return (self._group / 'cgroup.events').read_text()
        except FileNotFoundError:
            return ''

    def _remove(self) -> bool:
        assert self._group
        try:
            self._group.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True


def members(pid: int) -> list[int]:
    """Return all processes of the host with this first process."""
    space = _namespace(pid)
    return [member for member in _processes() if space and _namespace(member) == space]


def entered(pid: int, argv: Sequence[str]) -> list[str]:
    """Return a command that runs in a host; killing it kills its children there, too.

    :param pid: the host's first process
    """
    return ['nsenter', '--target', str(pid), '--mount', '--uts', '--ipc', '--pid', '--net',
            '--wdns=/', '--', 'setpriv', '--pdeathsig', 'KILL', '--', *argv]


def started(pid: int) -> str:
    """Return the start time of a process in the kernel's units, empty if it has ended."""
    fields = _stat(pid)
    return fields[19] if fields and fields[0] not in 'ZX' else ''


def _environment() -> dict[str, str]:
    """What is the machine's alone is not passed on."""
    root = pathlib.Path(__file__).parent.parent.parent
    kept = {name: value for name, value in commands.environment().items()
            if name in ('HOME', 'LANG', 'LOGNAME', 'USER')}
    return kept | {'PATH': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
                   'PYTHONPATH': str(root)}


def _control_groups() -> pathlib.Path | None:
    """Return where control groups of version 2 are mounted, None if they cannot be used."""
    for line in pathlib.Path('/proc/self/mounts').read_text().splitlines():
        _, path, kind, options, *_ = line.split()
        if kind == 'cgroup2' and 'rw' in options.split(',') and os.access(path, os.W_OK):
            return pathlib.Path(path)
    return None


def _join(group: pathlib.Path, pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        (group / 'cgroup.procs').write_text(str(pid))


def _first_child(outer: 'subprocess.Popen[bytes]') -> int:
    """:raises CloudError: there is none"""
    limit = deadline.Deadline(_TIMEOUT)
    while outer.poll() is None and not limit.passed:
        for child in _processes():
            fields = _stat(child)
            if fields and fields[1] == str(outer.pid):
                return child
        time.sleep(0.01)
    raise commands.CloudError("the host's namespaces could not be made: does the machine allow "
                              'it (root, unshare)?')


def _processes() -> list[int]:
    return [int(path.name) for path in _PROC.iterdir() if path.name.isdigit()]


def _namespace(pid: int) -> str:
    try:
        return os.readlink(_PROC / str(pid) / 'ns' / 'pid')
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return ''


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the third (the state) on, none if it has ended."""
    try:
        return (_PROC / str(pid) / 'stat').read_text().rpartition(')')[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _state(pid: int) -> str:
    fields = _stat(pid)
    return fields[0] if fields else ''


def _signal(pids: Sequence[int], number: int) -> Sequence[int]:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    return pids


def _wait(trouble: str, done: Callable[[], bool]) -> None:
    """:raises CloudError: it was not done in time"""
    limit = deadline.Deadline(_TIMEOUT)
    while not done():
        if limit.passed:
            raise commands.CloudError(f'after {limit.elapsed:.0f} s {trouble}')
        time.sleep(0.01)

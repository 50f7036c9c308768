# SPDX-License-Identifier: Apache-2.0
"""A container with systemd as its first process, run by systemd-nspawn."""

from collections.abc import Callable, Sequence
import os
import pathlib
import shlex
import signal
import subprocess
import time

from cloud import commands
from cloud import deadline
from cloud.devstack import layout
from cloud.matrix import jail

# Services have 5 s each (see contents), and some stop after others.
_STOP_SECONDS = 30.0
_BOOT_SECONDS = 120.0
_PERIOD_SECONDS = 0.5
_BOOTED = ('running', 'degraded')
_RESOLVED = pathlib.Path('/run/systemd/resolve/resolv.conf')


class Container:
    """One container.

    :param name: of the machine that it is
    :param root: its root directory
    :param log: file for the output of systemd-nspawn
    """

    def __init__(self, name: str, root: pathlib.Path, log: pathlib.Path) -> None:
        self.name = name
        self.root = root
        self._log = log

    @property
    def leader(self) -> int | None:
        """The container's first process, as this machine numbers it; None if it does not run."""
        if not self.root.exists():
            return None
        for pid in jail.inhabitants(self.root):
            if is_leader(pathlib.Path('/proc', str(pid))):
                return pid
        return None

    def start(self, bridge: str, shared: Sequence[tuple[pathlib.Path, pathlib.PurePosixPath]],
              attach: Callable[[int], None]) -> None:
        """Start it if it does not run, and wait until its services have started.

        :param bridge: of this machine, to which its interface is added
        :param shared: directories of this machine that it may read, and where
        :param attach: gives the container, by its first process, its address
        :raises CloudError: it does not start
        """
        if self.leader is None:
            with self._log.open('ab') as output:
                process = subprocess.Popen(
                    nspawn(self.name, self.root, bridge, shared), stdin=subprocess.DEVNULL,
                    stdout=output, stderr=output, start_new_session=True)
            attach(self._wait_for_leader(process))
        self.wait_booted()

    def _wait_for_leader(self, process: 'subprocess.Popen[bytes]') -> int:
        limit = deadline.Deadline(_BOOT_SECONDS)
        while (leader := self.leader) is None:
            if process.poll() is not None or limit.passed:
                raise commands.CloudError(f'{self.name} did not start: see {self._log}')
            time.sleep(_PERIOD_SECONDS)
        return leader

    def wait_booted(self) -> None:
        """Wait until systemd has started all services, or given up those that fail.

        :raises CloudError: it takes too long
        """
        limit = deadline.Deadline(_BOOT_SECONDS)
        while (state := self._state()) not in _BOOTED:
            if limit.passed:
                raise commands.CloudError(f'{self.name} is still {state or "starting"} after '
                                          f'{limit.elapsed:.0f} s: see {self._log}')
            time.sleep(_PERIOD_SECONDS)

    def _state(self) -> str:
        done = subprocess.run(self.command(['systemctl', 'is-system-running']),
                              capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return done.stdout.strip()

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command that runs a program in the container.

        :raises CloudError: the container does not run
        """
        if (leader := self.leader) is None:
            raise commands.CloudError(f'{self.name} does not run: ./run devstack up')
        return ['nsenter', '--target', str(leader), '--all', '--', 'env', '-i',
                *(f'{name}={value}'
                  for name, value in jail.environment(os.environ).items()), *argv]

    def run(self, argv: Sequence[str], timeout: float = 600.0) -> str:
        """Run a program as root, and return its output.

        :raises CloudError: the program failed, or the container does not run
        """
        return commands.run(self.command(argv), timeout)

    def as_stack(self, script: str) -> list[str]:
        """Return the command that runs a script as DevStack's user, in the user's directory."""
        return self.command(['su', '-', 'stack', '-c', script])

    def shell(self, argv: Sequence[str]) -> int:
        """Run a program on this terminal as DevStack's user, and return its exit status."""
        return subprocess.run(
            self.as_stack(f'cd devstack && exec {shlex.join(argv)}')).returncode

    def stop(self, kill: bool = False) -> None:
        """Stop it if it runs.

        :param kill: at once; by default in good order, and killed only if that takes too long
        """
        if (leader := self.leader) is None:
            return
        # The second is what systemd understands as: halt.
        os.kill(leader, signal.SIGKILL if kill else signal.SIGRTMIN + 3)
        limit = deadline.Deadline(_STOP_SECONDS)
        while self.leader is not None:
            if limit.passed:
                os.kill(leader, signal.SIGKILL)
            time.sleep(_PERIOD_SECONDS)
        # Its other processes die with it, and some take a moment.
        while self.root.exists() and jail.inhabitants(self.root):
            time.sleep(_PERIOD_SECONDS)


def nspawn(name: str, root: pathlib.Path, bridge: str,
           shared: Sequence[tuple[pathlib.Path, pathlib.PurePosixPath]]) -> list[str]:
    """Return the command that runs a container.

    All capabilities, because DevStack makes network namespaces, devices and cgroups. No filter for
    keyrings and BPF, which libvirt and iproute2 use.
    """
    resolver = 'copy-uplink' if _RESOLVED.exists() else 'copy-host'
    return ['systemd-nspawn', '--quiet', f'--directory={root}', '--boot', f'--machine={name}',
            '--register=no', '--keep-unit', '--capability=all', f'--network-bridge={bridge}',
            f'--network-veth-extra={layout.data_device(name)}:{layout.DATA}',
            f'--resolv-conf={resolver}', '--link-journal=no', '--console=pipe',
            '--system-call-filter=@keyring bpf',
            *(f'--bind-ro={source}:{target}' for source, target in shared)]


def is_leader(process: pathlib.Path) -> bool:
    """Whether a process is systemd, and the first one of a process namespace.

    :param process: its directory in ``/proc``
    """
    try:
        lines = (process / 'status').read_text().splitlines()
    except OSError:
        return False  # it has ended
    fields = dict(line.split(':', 1) for line in lines if ':' in line)
    numbers = fields.get('NSpid', '').split()
    return (fields.get('Name', '').strip() == 'systemd' and len(numbers) > 1
            and numbers[-1] == '1')

# SPDX-License-Identifier: Apache-2.0
"""One DevStack on this machine, from nothing to nothing."""

from collections.abc import Mapping, Sequence
import os
import shutil

from cloud import commands
from cloud import directory
from cloud.devstack import container as containers
from cloud.devstack import contents
from cloud.devstack import layout
from cloud.devstack import network as networks
from cloud.devstack import repositories
from cloud.devstack import stacking
from cloud.devstack import tempest

_SERVICES = ['systemctl', 'list-units', '--all', '--plain', '--no-legend', 'devstack@*',
             'ceph-*@*']


class Devstack:
    """A DevStack in a container, with a network of its own.

    :param files: its places
    """

    def __init__(self, files: layout.Layout) -> None:
        self._files = files
        self._container = containers.Container(files.root.path, files.logs / 'container.log')
        self._network = networks.Network(files.network)

    @property
    def container(self) -> containers.Container:
        """Its container."""
        return self._container

    def up(self, subnet: str, addresses: Mapping[str, str], from_packages: bool,
           mirror: str | None, progress: commands.Progress) -> None:
        """Make what is missing, start what does not run, and run stack.sh if it has not succeeded.

        :param subnet: of the container and of the bridge
        :param addresses: of repositories, by name
        :param from_packages: whether to clone and download only what is no package
        :param mirror: address of the distribution's archive; None for apt's
        :raises CloudError: it cannot be done
        """
        _, host, _ = layout.addresses(subnet)
        self._files.data.mkdir(parents=True, exist_ok=True)
        with directory.locked(self._files.data / 'lock'):
            self._files.root.make(mirror, progress)
            if self._container.leader is None:
                contents.fill(self._files, host, progress)
            self._network.up(subnet)
            progress('starting the container')
            self._container.start(networks.BRIDGE, self._attach)
            stack = stacking.Stacking(self._files, self._container, host)
            if not stack.done:
                repos = repositories.Repositories(self._files, addresses, from_packages)
                repos.make(progress)
                stack.prepare(repos, from_packages, progress)
                stack.run(progress)

    def _attach(self, leader: int) -> None:
        changes = self._network.changes
        assert changes
        self._network.attach(leader, changes.subnet)

    def status(self) -> list[tuple[str, str]]:
        """Return what there is, line by line: its name and its state."""
        changes = self._network.changes
        running = self._container.leader is not None
        lines = [('root', str(self._files.root.path) if self._files.root.exists else 'none'),
                 ('container', 'running' if running else 'stopped'),
                 ('network', f'{changes.subnet} by {changes.uplink}' if changes else 'none'),
                 ('stack.sh', 'succeeded' if self._files.stacked.exists() else
                  'not run' if not self._files.begun.exists() else
                  f'runs, or did not succeed: see {self._files.stack_log}')]
        if running:
            lines += [(words[0], words[2]) for line in self._container.run(_SERVICES).splitlines()
                      if len(words := line.split()) > 3]
        return lines

    @property
    def healthy(self) -> bool:
        """Whether it is up, and none of its services has failed."""
        return self._files.stacked.exists() and self._container.leader is not None and not any(
            state == 'failed' for _, state in self.status())

    def test(self, sets: Mapping[str, str], progress: commands.Progress
             ) -> dict[str, tempest.Totals]:
        """Run Tempest's tests.

        :param sets: regular expressions by title
        :raises CloudError: it is not up, or Tempest does not work
        """
        if not self._files.stacked.exists():
            raise commands.CloudError('stack.sh has not succeeded: ./run devstack up')
        return {title: tempest.run(self._container, title, regex,
                                   self._files.logs / f'tempest-{title.replace(" ", "-")}.log',
                                   progress)
                for title, regex in sets.items()}

    def shell(self, argv: Sequence[str]) -> int:
        """Run a command as DevStack's user on this terminal, and return its exit status."""
        return self._container.shell(argv)

    def down(self, progress: commands.Progress, kill: bool = False) -> None:
        """Stop the container, and take the changes to this machine's network back.

        :param kill: whether to kill the container, with all that runs in it
        """
        if not self._files.data.exists():
            return
        with directory.locked(self._files.data / 'lock'):
            if self._container.leader is not None:
                progress('stopping the container')
                self._container.stop(kill)
            self._network.down()

    def wipe(self, cache: bool, progress: commands.Progress) -> None:
        """Stop it, and remove all that it has made.

        :param cache: the fresh root, too
        """
        self.down(progress, kill=True)
        if os.path.exists(self._files.data):
            self._files.root.wipe(cache)
            shutil.rmtree(self._files.data)

# SPDX-License-Identifier: Apache-2.0
"""One DevStack on this machine, from nothing to nothing."""

from collections.abc import Mapping, Sequence
from concurrent import futures
import os
import shutil

from cloud import commands
from cloud import directory
from cloud.devstack import layout
from cloud.devstack import network as networks
from cloud.devstack import node as nodes
from cloud.devstack import repositories
from cloud.devstack import tempest

# It would take the end of the other node's nova-compute for the death of a host.
_ENGINE = 'devstack@specreds-engine'


class Devstack:
    """A DevStack in one or several containers, with a network of their own.

    :param files: its places, and the places of its first node
    """

    def __init__(self, files: layout.Layout) -> None:
        self._files = files
        self._network = networks.Network(files.network)
        self._first = nodes.Node(files, self._network)
        self._others = [nodes.Node(other, self._network) for other in files.others]

    def up(self, count: int, subnet: str, repos: repositories.Repositories,
           mirror: str | None, progress: commands.Progress) -> None:
        """Make what is missing, start what does not run, and run stack.sh if it has not succeeded.

        :param count: of nodes; those that exist are started in any case
        :param subnet: of the containers and of the bridge
        :param repos: what DevStack clones
        :param mirror: address of the distribution's archive; None for apt's
        :raises CloudError: it cannot be done
        """
        hosts = layout.addresses(subnet).nodes
        self._files.data.mkdir(parents=True, exist_ok=True)
        with directory.locked(self._files.data / 'lock'):
            self._network.up(subnet)
            self._first.start(mirror, hosts, None, progress)
            if not self._first.stacking.done:
                repos.make(progress)
                self._first.stacking.prepare(hosts, repos, '', progress)
                self._first.stacking.run(progress)
            for number, other in enumerate(self._others, 2):
                if count >= number or other.exists:
                    self._add(other, hosts, repos, mirror, progress)

    def _add(self, other: nodes.Node, hosts: tuple[str, ...], repos: repositories.Repositories,
             mirror: str | None, progress: commands.Progress) -> None:
        """Add a compute host, or start one that exists."""
        first = self._first
        other.start(mirror, hosts, first.files, progress)
        if not other.stacking.done:
            repos.make(progress)
            other.stacking.prepare(hosts, repos, first.stacking.key, progress)
            other.stacking.run(progress, before=lambda: other.follow(first))
        # Each may have been done already.
        for node in (first, other):
            node.connect()
            node.admit(first)
        first.container.run(['su', '-', 'stack', '-c', 'devstack/tools/discover_hosts.sh'])

    @property
    def _nodes(self) -> list[nodes.Node]:
        return [self._first, *(node for node in self._others if node.exists)]

    def status(self) -> list[tuple[str, str]]:
        """Return a line for each part: its name and its state."""
        changes = self._network.changes
        network = f'{changes.subnet} by {changes.uplink}' if changes else 'none'
        return [('network', network), *((
            f'{node.files.name}: {name}', state)
            for node in self._nodes for name, state in node.status())]

    @property
    def healthy(self) -> bool:
        """Whether all nodes are up, and none of their services has failed."""
        return all(node.healthy for node in self._nodes)

    def test(self, sets: Mapping[str, str], progress: commands.Progress
             ) -> dict[str, tempest.Totals]:
        """Run Tempest's tests.

        :param sets: regular expressions by title
        :raises CloudError: it is not up, or Tempest does not work
        """
        if not all(node.stacking.done for node in self._nodes):
            raise commands.CloudError('stack.sh has not succeeded: ./run devstack up')
        return {title: tempest.run(self._first.container, title, regex,
                                   self._files.logs / f'tempest-{title.replace(" ", "-")}.log',
                                   progress)
                for title, regex in sets.items()}

    def shell(self, index: int, argv: Sequence[str]) -> int:
        """Run a command as DevStack's user on this terminal, and return its exit status.

        :param index: of the node
        """
        return [self._first, *self._others][index].container.shell(argv)

    def down(self, progress: commands.Progress, kill: bool = False) -> None:
        """Stop the containers, and take the changes to this machine's network back.

        :param kill: whether to kill the containers, with all that runs in them
        """
        if not self._files.data.exists():
            return
        with directory.locked(self._files.data / 'lock'):
            running = [node for node in reversed(self._nodes) if node.container.leader]
            if len(running) > 1 and not kill:
                self._first.container.run(['systemctl', 'stop', _ENGINE])
            for node in running:
                progress(f'stopping {node.files.name}')
            with futures.ThreadPoolExecutor() as pool:
                # A list, so that an error of a thread is raised here.
                list(pool.map(lambda node: node.container.stop(kill), running))
            self._network.down()

    def wipe(self, cache: bool, progress: commands.Progress) -> None:
        """Stop it, and remove all that it has made.

        :param cache: the fresh root, too
        """
        self.down(progress, kill=True)
        if os.path.exists(self._files.data):
            for node in reversed(self._nodes):
                node.files.root.wipe(cache)
            shutil.rmtree(self._files.data)

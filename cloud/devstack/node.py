# SPDX-License-Identifier: Apache-2.0
"""One node of a DevStack: a container, and DevStack in it."""

import pathlib

from cloud import commands
from cloud.devstack import container as containers
from cloud.devstack import contents
from cloud.devstack import layout
from cloud.devstack import network as networks
from cloud.devstack import stacking

_SERVICES = ['systemctl', 'list-units', '--all', '--plain', '--no-legend', 'devstack@*',
             'ceph-*@*']
# Deletes the nova-compute of a host, and its resource provider.
_FORGET = """\
. devstack/openrc admin admin >/dev/null
openstack compute service list --service nova-compute --host {host} -f value -c ID |
xargs --no-run-if-empty openstack compute service delete
"""
# The downloads of a node: what another one need not download.
_APT = pathlib.PurePosixPath('/var/cache/apt/archives')
_PIP = pathlib.PurePosixPath('/opt/stack/.cache')


class Node:
    """A node.

    :param files: its places
    :param network: of all nodes
    """

    def __init__(self, files: layout.Layout, network: networks.Network) -> None:
        self.files = files
        self.container = containers.Container(files.name, files.root.path,
                                              files.logs / 'container.log')
        self.stacking = stacking.Stacking(files, self.container)
        self._network = network

    @property
    def exists(self) -> bool:
        """Whether it has been made."""
        return self.files.data.exists()

    def start(self, mirror: str | None, nodes: tuple[str, ...], git: layout.Layout | None,
              progress: commands.Progress) -> None:
        """Make its root if it is not there, and start its container if it does not run.

        :param mirror: address of the distribution's archive; None for apt's
        :param nodes: addresses of all nodes
        :param git: the node that has the repositories; None if this one has
        :raises CloudError: it cannot be done
        """
        self.files.data.mkdir(parents=True, exist_ok=True)
        self.files.root.make(mirror, progress)
        if self.container.leader is None:
            if git:
                share(git.inside(_APT), self.files.inside(_APT))
            contents.fill(self.files, nodes, progress)
        progress(f'starting {self.files.name}')
        shared = [(git.inside(layout.GIT), layout.GIT)] if git else []
        self.container.start(networks.BRIDGE, shared, lambda leader: self._network.attach(
            leader, self.files.index))

    def status(self) -> list[tuple[str, str]]:
        """Return a line for each part: its name and its state."""
        files, running = self.files, self.container.leader is not None
        lines = [('root', str(files.root.path) if files.root.exists else 'none'),
                 ('container', 'running' if running else 'stopped'),
                 ('stack.sh', 'succeeded' if self.stacking.done else
                  'not run' if not files.begun.exists() else
                  f'runs, or did not succeed: see {files.stack_log}')]
        if running:
            lines += [(words[0], words[2]) for line in self.container.run(_SERVICES).splitlines()
                      if len(words := line.split()) > 3]
        return lines

    @property
    def healthy(self) -> bool:
        """Whether it is up, and none of its services has failed."""
        return self.stacking.done and self.container.leader is not None and not any(
            state == 'failed' for _, state in self.status())

    def follow(self, first: 'Node') -> None:
        """Prepare what stack.sh of another node expects of the first one.

        Nova must not know its nova-compute from an attempt that failed: unstack.sh has removed the
        identity of the host, without which the same nova-compute refuses to start
        (``ComputeManager._ensure_existing_node_identity``).

        :param first: on which stack.sh has succeeded
        :raises CloudError: it cannot be done
        """
        first.container.run(['su', '-', 'stack', '-c', _FORGET.format(host=self.files.name)])
        commands.run(['rm', '-rf', str(self.files.inside(layout.ETC_CEPH))])
        commands.run(['cp', '-a', str(first.files.inside(layout.ETC_CEPH)),
                      str(self.files.inside(layout.ETC_CEPH))])
        share(first.files.inside(_PIP), self.files.inside(_PIP))

    def connect(self) -> None:
        """Connect the networks of tenants to those on the other node.

        :raises CloudError: it cannot be done
        """
        self.container.run(['ovs-vsctl', '--may-exist', 'add-port', 'br-ex', layout.DATA])

    def admit(self, first: 'Node') -> None:
        """Let the first node's stack user log in, as on DevStack's nodes in the gate.

        :raises CloudError: it cannot be done
        """
        key = first.container.run(['su', '-', 'stack', '-c', (
            'mkdir -p -m 700 .ssh && { [ -e .ssh/id_ed25519 ] || '
            "ssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519; } && cat .ssh/id_ed25519.pub")])
        self.container.run(['su', '-', 'stack', '-c', (
            'mkdir -p -m 700 .ssh && touch .ssh/authorized_keys && '
            f'{{ grep -qxF "{key.strip()}" .ssh/authorized_keys || '
            f'echo "{key.strip()}" >>.ssh/authorized_keys; }}')])


def share(source: pathlib.Path, target: pathlib.Path) -> None:
    """Link the files of a directory that do not exist in another one, without copying them."""
    if source.exists():
        commands.run(['cp', '--archive', '--link', '--no-clobber', f'{source}/.', str(target)])

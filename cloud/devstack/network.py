# SPDX-License-Identifier: Apache-2.0
"""The containers' network: a bridge on this machine, from which packets leave by its uplink."""

import dataclasses
import json
import pathlib

from cloud import commands
from cloud.devstack import layout

BRIDGE = 'sr-devstack'
TABLE = 'specreds-devstack'
_INTERFACE = 'host0'
# No packet is sent there: only its route is looked at. Of a range for documentation.
_ANYWHERE = '192.0.2.255'
_RULES = """\
table ip {table} {{
    chain postrouting {{
        type nat hook postrouting priority 100;
        ip saddr {subnet} oifname "{uplink}" masquerade
    }}
    chain forward {{
        type filter hook forward priority 0;
        ip saddr {subnet} tcp flags syn tcp option maxseg size set rt mtu
        ip daddr {subnet} iifname "{uplink}" ct state established,related accept
        ip daddr {subnet} iifname "{uplink}" drop
    }}
}}
"""


@dataclasses.dataclass(frozen=True)
class Changes:
    """The changes to this machine's network.

    :param uplink: interface by which packets leave this machine
    :param forwarding: the uplink's former ``forwarding``
    """

    subnet: str
    uplink: str
    forwarding: str


def uplink(route: str) -> str:
    """Return the interface of a route.

    :param route: as ``ip -o route get`` prints it
    :raises CloudError: it names none
    """
    words = route.split()
    if 'dev' not in words[:-1]:
        raise commands.CloudError(f'this machine has no route to elsewhere: {route.strip()}')
    return words[words.index('dev') + 1]


def rules(changes: Changes) -> str:
    """Return the table for nft: the containers reach others, and others do not reach them."""
    return _RULES.format(table=TABLE, subnet=changes.subnet, uplink=changes.uplink)


class Network:
    """The network of the containers.

    :param state: file that records the changes, so that they can be taken back
    """

    def __init__(self, state: pathlib.Path) -> None:
        self._state = state

    @property
    def changes(self) -> Changes | None:
        """The changes to this machine's network, None if there are none."""
        if not self._state.exists():
            return None
        return Changes(**json.loads(self._state.read_text()))

    def up(self, subnet: str) -> None:
        """Make the bridge and the rules; nothing happens to those that exist.

        :raises CloudError: it cannot be done
        """
        addresses = layout.addresses(subnet)
        changes = self.changes
        if changes and changes.subnet != subnet:
            self.down()
            changes = None
        if not changes:
            device = uplink(commands.run(['ip', '-o', 'route', 'get', _ANYWHERE]))
            changes = Changes(subnet, device, _forwarding(device).read_text().strip())
            # Before the first change: what is interrupted can be taken back.
            self._state.write_text(json.dumps(dataclasses.asdict(changes)) + '\n')
        if not _exists(BRIDGE):
            commands.run(['ip', 'link', 'add', BRIDGE, 'type', 'bridge'])
        commands.run(['ip', 'address', 'replace', f'{addresses.bridge}/{addresses.prefix}', 'dev',
                      BRIDGE])
        commands.run(['ip', 'link', 'set', BRIDGE, 'up'])
        for device in (BRIDGE, changes.uplink):
            _forwarding(device).write_text('1')
        _delete_table()
        load(rules(changes))

    def attach(self, leader: int, index: int) -> None:
        """Set the address and the route of a container's interface, and connect the second one.

        :param leader: the container's first process
        :param index: of the node
        """
        assert self.changes
        addresses = layout.addresses(self.changes.subnet)
        address = f'{addresses.nodes[index]}/{addresses.prefix}'
        commands.run(['ip', 'link', 'set', layout.data_device(layout.NODES[index]), 'master',
                      BRIDGE, 'up'])
        for words in (['address', 'replace', address, 'dev', _INTERFACE],
                      ['link', 'set', _INTERFACE, 'up'],
                      ['link', 'set', layout.DATA, 'up'],
                      ['route', 'replace', 'default', 'via', addresses.bridge]):
            commands.run(['nsenter', '--target', str(leader), '--net', '--', 'ip', *words])

    def down(self) -> None:
        """Take all changes back.

        :raises CloudError: it cannot be done
        """
        if not (changes := self.changes):
            return
        _delete_table()
        if _exists(BRIDGE):
            commands.run(['ip', 'link', 'delete', BRIDGE])
        if (forwarding := _forwarding(changes.uplink)).exists():
            forwarding.write_text(changes.forwarding)
        self._state.unlink()


def load(text: str) -> None:
    """Have nft read rules."""
    commands.run(['sh', '-c', 'printf %s "$RULES" | nft -f -'], variables={'RULES': text})


def _exists(device: str) -> bool:
    return pathlib.Path('/sys/class/net', device).exists()


def _forwarding(device: str) -> pathlib.Path:
    return pathlib.Path('/proc/sys/net/ipv4/conf', device, 'forwarding')


def _delete_table() -> None:
    tables = commands.run(['nft', 'list', 'tables', 'ip'])
    if f'table ip {TABLE}' in tables.splitlines():
        commands.run(['nft', 'delete', 'table', 'ip', TABLE])

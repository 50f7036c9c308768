# SPDX-License-Identifier: Apache-2.0
"""Mend what the userspace datapath of Open vSwitch has broken on a host: devices, and flows.

libvirt brings a guest's device up while Open vSwitch begins to use it. With the userspace
datapath, which sets the flags of the device too, now and then it is down in the end, and for good.

A guest that is resumed or rebooted softly gets a new device with the old name, and Nova keeps the
port. The kernel's datapath takes the new device; the userspace datapath goes on listening to the
old one, and hears nothing of the guest. The port is then added again.

The host's sentinel sets devices down, too, and writes down which: those are left alone.

A switch that has crashed is started again without flows. Neutron's agent notices that, but the
agent of Neutron 29 forgets it at the end of the same look, so that it makes the flows of networks
again only if the ports are reported in that very moment. The agent is then restarted.
"""

from collections.abc import Callable, Mapping
import contextlib
import json
import pathlib
import subprocess
import sys
import time
import xmlrpc.client

from cloud import processes
from cloud.hosts import layout as hosts_layout

_DEVICES = pathlib.Path('/sys/class/net')
_SWITCH = pathlib.Path('/run/openvswitch/ovs-vswitchd.pid')
_UP = 0x1
_INTERVAL_S = 1.0
# What Nova, os-vif and Neutron's agent have set of an interface and of its port.
_INTERFACE = ('external_ids', 'mtu_request', 'other_config')
_PORT = ('tag', 'other_config', 'vlan_mode', 'trunks')


class Replaced:
    """Finds the devices that have replaced those that Open vSwitch uses.

    :param interfaces: returns the ids of the interfaces in Open vSwitch, by name
    """

    def __init__(self, interfaces: Callable[[], Mapping[str, str]]) -> None:
        self._interfaces = interfaces
        # Interface in Open vSwitch and index of the device, by the device's name.
        self._used: dict[str, tuple[str, int]] = {}

    def find(self, devices: Mapping[str, int]) -> set[str]:
        """Return the names of devices that are new while the interface is not.

        :param devices: indices of devices, by name
        """
        if all(name in self._used and self._used[name][1] == index
               for name, index in devices.items()):
            return set()
        used = {name: (interface, devices[name])
                for name, interface in self._interfaces().items() if name in devices}
        replaced = {name for name, (interface, index) in used.items()
                    if name in self._used and self._used[name][0] == interface
                    and self._used[name][1] != index}
        self._used.update(used)
        return replaced


class Restarted:
    """Finds out whether the switch was started again.

    :param file: with the number of its process
    """

    def __init__(self, file: pathlib.Path) -> None:
        self._file = file
        self._last = ''

    def again(self) -> bool:
        """Return whether the switch that runs is another one than at the last call."""
        try:
            number = self._file.read_text().strip()
        except FileNotFoundError:
            return False
        last, self._last = self._last, number or self._last
        return bool(last) and last != self._last


def hidden(file: pathlib.Path) -> set[str]:
    """Return the devices that the host's sentinel has set down.

    :param file: where the sentinel writes them down, which it does first
    """
    try:
        return set(json.loads(file.read_text())['taps'])
    except FileNotFoundError:
        return set()


def _down(file: pathlib.Path) -> set[str]:
    """Return the devices of guests that are down, but for those that the sentinel hides.

    :param file: as for :func:`hidden`
    """
    devices = set()
    for device in _DEVICES.glob('tap*'):
        with contextlib.suppress(OSError):
            if not int((device / 'flags').read_text(), 16) & _UP:
                devices.add(device.name)
    return devices - hidden(file)


def _devices() -> dict[str, int]:
    """Return the indices of the devices of guests, by name."""
    devices = {}
    for device in _DEVICES.glob('tap*'):
        with contextlib.suppress(OSError):
            devices[device.name] = int((device / 'ifindex').read_text())
    return devices


def _vsctl(*words: str) -> str:
    return subprocess.run(['ovs-vsctl', '--timeout=10', *words], check=True, text=True,
                          capture_output=True).stdout.strip()


def _interfaces() -> dict[str, str]:
    """Return the ids of the interfaces in Open vSwitch, by name."""
    rows = json.loads(_vsctl('--format=json', '--columns=_uuid,name', 'list', 'Interface'))
    return {name: identifier for (_kind, identifier), name in rows['data']}


def _add_again(name: str) -> None:
    """Remove the port of a device from its bridge and add it, with all that was set of it."""
    bridge = _vsctl('port-to-br', name)
    number = _vsctl('get', 'Interface', name, 'ofport')
    if int(number) < 1:
        # Open vSwitch noticed that the device was gone, and takes the new one by itself.
        return
    settings = ['--', 'set', 'Interface', name,
                *(f'{column}={_vsctl("get", "Interface", name, column)}'
                  for column in _INTERFACE), f'ofport_request={number}',
                '--', 'set', 'Port', name,
                *(f'{column}={_vsctl("get", "Port", name, column)}' for column in _PORT)]
    # In one transaction, Open vSwitch would see no change.
    _vsctl('del-port', bridge, name)
    _vsctl('add-port', bridge, name, *settings)


def main(taps: str, agent: str = '') -> None:
    """Check the devices for ever.

    :param taps: file in which the sentinel writes down the devices that it has set down
    :param agent: service to restart when the switch was started again, if any
    """
    file = pathlib.Path(taps)
    switch = Restarted(_SWITCH)
    supervisor = processes.Supervisor(hosts_layout.RUN, hosts_layout.RUN)
    before: set[str] = set()
    replaced = Replaced(_interfaces)
    while True:
        down = _down(file)
        # Require two looks: the sentinel takes a device down right before it ends its guest.
        for name in down & before:
            subprocess.run(['ip', 'link', 'set', name, 'up'], check=False)
            print(f'{name} was down', flush=True)
        before = down
        # Nova may remove a port meanwhile, and Open vSwitch may be down.
        with contextlib.suppress(subprocess.CalledProcessError):
            for name in replaced.find(_devices()):
                _add_again(name)
                print(f'{name} has a new device', flush=True)
        if switch.again() and agent and supervisor.process(agent).pid:
            # Somebody else may stop the agent meanwhile.
            with contextlib.suppress(xmlrpc.client.Fault):
                supervisor.stop_daemon(agent)
                supervisor.start_daemon(agent, wait=False)
                print(f'the switch was started again, and so was {agent}', flush=True)
        time.sleep(_INTERVAL_S)


if __name__ == '__main__':
    main(*sys.argv[1:])

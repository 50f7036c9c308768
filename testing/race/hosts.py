# SPDX-License-Identifier: Apache-2.0
"""Hosts of races: network namespaces whose clients have an address and a link of their own."""

import pathlib
import subprocess

from cloud import commands

# Above what clouds use, which is below 198.19.72.0 for every port.
_NETWORK = '198.19.{}'
_FIRST, _NETWORKS = 128, 127
# Each host has a network of four addresses; those above are the cluster's.
MOST = 60
_CLUSTER = 254


class Network:
    """The address of a Ceph that hosts reach; it exists while the context lasts.

    :param port: the cluster's first port, which tells networks apart
    """

    def __init__(self, port: int) -> None:
        self._device = f'sf{port}'
        self._network = _NETWORK.format(_FIRST + port // 100 % _NETWORKS)
        self.address = f'{self._network}.{_CLUSTER}'

    def __enter__(self) -> 'Network':
        # An earlier run may have been killed.
        subprocess.run(['ip', 'link', 'delete', self._device], capture_output=True)
        # A bridge of no links only holds the address; kernels may lack dummy devices.
        _ip('link', 'add', self._device, 'type', 'bridge')
        _ip('address', 'add', f'{self.address}/32', 'dev', self._device)
        _ip('link', 'set', self._device, 'up')
        return self

    def __exit__(self, *_exc: object) -> None:
        _ip('link', 'delete', self._device)

    def claim(self, directory: pathlib.Path) -> 'Host':
        """Return a host that no other process has.

        :param directory: the same one for all processes
        """
        for number in range(MOST):
            try:
                (directory / f'host-{number}').mkdir()
            except FileExistsError:
                continue
            return Host(f'{self._device}.{number}', f'{self._network}.{4 * number + 1}',
                        f'{self._network}.{4 * number + 2}')
        raise commands.CloudError(f'{MOST} hosts race already: choose fewer jobs')


class Host:
    """A network namespace, which ends with the process that has made it.

    :param device: name of its link on this machine
    :param gateway: this machine's address on the link
    :param address: its address
    """

    def __init__(self, device: str, gateway: str, address: str) -> None:
        self._device = device
        # The programs are one process, one after the other; the line says that they have begun.
        self._holder = subprocess.Popen(
            ['setpriv', '--pdeathsig', 'KILL', 'unshare', '--net', 'sh', '-c',
             'echo; exec sleep infinity'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert self._holder.stdout is not None
        self._holder.stdout.readline()
        self.prefix = ['nsenter', f'--net=/proc/{self._holder.pid}/ns/net']
        subprocess.run(['ip', 'link', 'delete', device], capture_output=True)
        _ip('link', 'add', device, 'type', 'veth', 'peer', 'name', 'eth0', 'netns',
            str(self._holder.pid))
        _ip('address', 'add', f'{gateway}/30', 'dev', device)
        _ip('link', 'set', device, 'up')
        for words in (['link', 'set', 'lo', 'up'],
                      ['address', 'add', f'{address}/30', 'dev', 'eth0'],
                      ['link', 'set', 'eth0', 'up'], ['route', 'add', 'default', 'via', gateway]):
            commands.run([*self.prefix, 'ip', *words])

    def cut(self) -> None:
        """Cut the link: what is sent meanwhile arrives after it has healed."""
        _ip('link', 'set', self._device, 'down')

    def heal(self) -> None:
        """Heal the link."""
        _ip('link', 'set', self._device, 'up')

    def close(self) -> None:
        """End the namespace, and with it the link."""
        self._holder.kill()
        self._holder.wait()


def _ip(*words: str) -> None:
    commands.run(['ip', *words])

# SPDX-License-Identifier: Apache-2.0
"""The compute hosts of a cloud."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
import contextlib
import functools
import pathlib
import time

from cloud import commands
from cloud import guests
from cloud.hosts import conf
from cloud.hosts import fabric as fabrics
from cloud.hosts import host as one_host
from cloud.hosts import layout as hosts_layout
from cloud.hosts import packets
from cloud.hosts import services
from cloud.hosts import tenant as tenants
from cloud.openstack import files as private
from cloud.openstack import layout
from cloud.openstack import probes

# Its name in Nova.
_VIRT_TYPES = {'kvm': 'kvm', 'tcg': 'qemu'}


class Hosts:
    """The hosts, and the networks that they share.

    :param files: the cloud's
    :param settings: the cloud's
    :param passwords: the cloud's
    :param backends: of Cinder; those on the cloud's own Ceph first
    """

    def __init__(self, files: layout.Layout, settings: layout.Settings,
                 passwords: Mapping[str, str], backends: Sequence[layout.Backend]) -> None:
        # The guests' accelerator, found when the hosts start for the first time.
        self._virt_type = files.hosts / 'virt-type'
        self._passwords = passwords
        self._backends = backends
        self.fabric = fabrics.Fabric(settings)
        self.tenant = tenants.Tenant(self.fabric)
        self._hosts = {}
        for number in range(1, settings.hosts + 1):
            host_layout = hosts_layout.Layout(files, settings, number)
            self._hosts[host_layout.name] = one_host.Host(
                host_layout, self.fabric, functools.partial(self._writer, host_layout))

    def __iter__(self) -> Iterator[one_host.Host]:
        return iter(self._hosts.values())

    def host(self, name: str) -> one_host.Host:
        """:raises CloudError: there is no such host"""
        try:
            return self._hosts[name]
        except KeyError:
            raise commands.CloudError(f'there is no host {name}; there are: '
                                      f'{", ".join(self._hosts) or "none"}') from None

    def networks_up(self) -> None:
        """Make the networks unless they are there.

        :raises CloudError: the machine does not allow it
        """
        self.fabric.up()

    def networks_down(self) -> None:
        """Remove the networks, which must be unused."""
        self.fabric.down()

    def up(self, progress: commands.Progress = commands.silent) -> None:
        """Start the hosts that are off, side by side, and the services that do not run.

        :raises CloudError: one did not come up
        """
        began = time.monotonic()
        if not self._virt_type.exists():
            private.write(self._virt_type, _VIRT_TYPES[guests.accelerator(progress)])
        self._each(lambda host: host.boot(progress))
        progress(f'{len(self._hosts)} hosts run, {time.monotonic() - began:.1f} s')

    def down(self, progress: commands.Progress = commands.silent) -> None:
        """Switch all hosts off, as a power failure does: their guests end, their disks remain."""
        def switch_off(host: one_host.Host) -> None:
            if host.pid:
                progress(f'switching {host.name} off')
                host.kill()
        self._each(switch_off)

    def running(self) -> list[str]:
        """Return the names of the hosts that are neither off nor hung."""
        return [host.name for host in self if host.state == one_host.RUNNING]

    def status(self) -> list[probes.Check]:
        """Return the state of each host and of its services."""
        with futures.ThreadPoolExecutor() as pool:
            return list(pool.map(_check, self._hosts.values()))

    @property
    def logs(self) -> dict[str, pathlib.Path]:
        """Return the log of each service of each host, by `HOST/SERVICE`."""
        return {f'{host.name}/{name}': host.files.log / f'{name}.out'
                for host in self for name in services.programs(host.files)}

    def capture(self, network: str, file: pathlib.Path, expression: str = ''
                ) -> contextlib.AbstractContextManager[None]:
        """Record the packets of a network for as long as the context lasts.

        :param network: one of :data:`hosts_layout.NETWORKS`
        :param file: where the packets are kept
        :param expression: filter, in tcpdump's syntax
        :raises CloudError: it does not begin
        """
        return packets.capture(self.fabric.argv('tcpdump', '-i', network, expression), file)

    def _writer(self, files: hosts_layout.Layout) -> conf.Writer:
        return conf.Writer(files, self._passwords, self._backends, self._virt_type.read_text())

    def _each(self, task: Callable[[one_host.Host], object]) -> None:
        with futures.ThreadPoolExecutor() as pool:
            for _ in pool.map(task, self._hosts.values()):
                pass


def _check(host: one_host.Host) -> probes.Check:
    state = host.state
    if state != one_host.RUNNING:
        return probes.Check(host.name, False, state, host.files.log)
    wanted = services.programs(host.files)
    known = {service.name: service.state for service in host.services}
    wrong = [f'{name} {known.get(name, "absent").lower()}' for name in wanted
             if known.get(name) != 'RUNNING']
    cuts = host.cuts
    if cuts:
        wrong.append(f'cut off from {", ".join(cuts)}')
    words = '; '.join(wrong) if wrong else ', '.join(
        str(address.ip) for address in host.files.addresses.values())
    return probes.Check(host.name, not wrong, words, host.files.log)

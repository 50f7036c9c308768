# SPDX-License-Identifier: Apache-2.0
"""Requests of a cloud's administrator, and waits for their effects."""

from collections.abc import Callable, Mapping
import dataclasses
import datetime
import functools
import pathlib
import time
from typing import Any

from keystoneauth1 import adapter

from cloud import cloud as openstack_cloud
from cloud import commands
from cloud import deadline
from cloud.hosts import services
from cloud.openstack import database
from cloud.openstack import neutron

# The newest at which an evacuated server is started again.
_COMPUTE_API = '2.94'
_TIMEOUT = 120.0
_POLL = 0.1
# Characters of a guest's console that an error quotes.
_QUOTED = 1000
_NETWORK = 'private'
_GONE = (404, 410)
# The time at which a nova-compute reported that it is alive.
_SEEN = ('SELECT last_seen_up FROM services '
         "WHERE `binary` = 'nova-compute' AND host = %s AND deleted = 0")


@dataclasses.dataclass(frozen=True)
class Server:
    """A server that runs.

    :param address: on the tenants' network
    :param volumes: ids, the one that it boots from first
    """

    id: str
    name: str
    host: str
    address: str
    volumes: tuple[str, ...]


class Administrator:
    """An administrator of a cloud.

    :param cloud: one with compute hosts, which is up
    :raises CloudError: a request is refused, or its effect is not seen in time
    """

    def __init__(self, cloud: openstack_cloud.Cloud) -> None:
        self.cloud = cloud
        session = cloud.session()
        self.compute = adapter.Adapter(session, service_type='compute', interface='public',
                                       default_microversion=_COMPUTE_API)
        self.volume = adapter.Adapter(session, service_type='block-storage', interface='public',
                                      default_microversion='3.70')
        self.network = adapter.Adapter(session, service_type='network', interface='public')
        self.placement = adapter.Adapter(session, service_type='placement', interface='public',
                                         default_microversion='1.36')
        # Bindings are for services to look at.
        self.neutron = adapter.Adapter(cloud.session('service'), service_type='network',
                                       interface='public')
        self.image = adapter.Adapter(session, service_type='image', interface='public')

    # Servers

    def boot(self, name: str, host: str, *, image: str = 'g1', flavor: str | None = None,
             sizes: tuple[int, ...] = (2,), metadata: Mapping[str, str] | None = None,
             **more: Any) -> Server:
        """Boot a server from a volume, and wait until it is active.

        :param sizes: of its volumes in GiB; the first one is made from the image
        :param more: further fields of the request to Nova
        """
        server_id = self.boot_later(name, host, image=image, flavor=flavor, sizes=sizes,
                                    metadata=metadata, **more)
        return self.active(server_id)

    def boot_later(self, name: str, host: str | None, *, image: str = 'g1',
                   flavor: str | None = None, sizes: tuple[int, ...] = (2,),
                   metadata: Mapping[str, str] | None = None,
                   hints: Mapping[str, str] | None = None, **more: Any) -> str:
        """Boot a server as `boot` does, without waiting, and return its id.

        :param hints: for Nova's scheduler
        """
        placed = {} if host is None else {'host': host}
        body = {'name': name, 'flavorRef': self.flavor_id(flavor or f'm1.{image}'), 'imageRef': '',
                'block_device_mapping_v2': self.devices(image, sizes),
                'networks': [{'uuid': self.network_id()}],
                'metadata': dict(metadata or {}), **placed, **more}
        made: dict[str, Any] = self.compute.post('/servers', json={
            'server': body, 'os:scheduler_hints': dict(hints or {})}).json()
        return str(made['server']['id'])

    def devices(self, image: str, sizes: tuple[int, ...]) -> list[dict[str, Any]]:
        """Return the block devices of a request to Nova; the first is made from an image.

        :param sizes: in GiB
        """
        devices: list[dict[str, Any]] = [
            {'boot_index': 0, 'source_type': 'image', 'uuid': self._image(image)},
            *({'boot_index': -1, 'source_type': 'blank'} for _ in sizes[1:])]
        for device, size in zip(devices, sizes, strict=True):
            device.update(destination_type='volume', volume_size=size,
                          delete_on_termination=True)
        return devices

    def network_id(self) -> str:
        """The network that the tenants' servers are on."""
        [network] = self.network.get('/v2.0/networks', params={
            'name': _NETWORK}).json()['networks']
        return str(network['id'])

    def flavor_id(self, name: str) -> str:
        """A flavour by its name."""
        flavors = self.compute.get('/flavors').json()['flavors']
        return str(next(flavor['id'] for flavor in flavors if flavor['name'] == name))

    def active(self, server_id: str, host: str | None = None) -> Server:
        """Wait until a server is active and no task is under way.

        :param host: where
        """
        def found() -> dict[str, Any] | None:
            shown = self.show(server_id)
            if shown['status'] == 'ERROR':
                raise commands.CloudError(
                    f'server {server_id} is in error: {shown.get("fault", {}).get("message")}')
            ready = (shown['status'] == 'ACTIVE' and shown['OS-EXT-STS:task_state'] is None
                     and host in (None, shown['OS-EXT-SRV-ATTR:host']))
            return shown if ready else None
        shown = self.wait(f'server {server_id} to be active'
                          + (f' on {host}' if host else ''), found)
        addresses = [address['addr'] for group in shown['addresses'].values()
                     for address in group]
        return Server(server_id, shown['name'], shown['OS-EXT-SRV-ATTR:host'],
                      addresses[0] if addresses else '', tuple(self._attached(server_id)))

    def show(self, server_id: str) -> dict[str, Any]:
        """Return a server as Nova shows it."""
        shown: dict[str, Any] = self.compute.get(f'/servers/{server_id}').json()['server']
        return shown

    def act(self, server_id: str, action: str, body: Any = None) -> Any:
        """Ask Nova for an action on a server."""
        answer = self.compute.post(f'/servers/{server_id}/action', json={action: body})
        return answer.json() if answer.text else None

    def delete(self, server_id: str, *, volumes: bool = True) -> None:
        """Delete a server, and wait until it is gone.

        :param volumes: wait for its volumes, too, which are deleted with it
        """
        if self._gone(self.compute, f'/servers/{server_id}'):
            return
        attached = self._attached(server_id) if volumes else []
        self.compute.delete(f'/servers/{server_id}', raise_exc=False)
        self.wait(f'server {server_id} to be gone',
                  lambda: self._gone(self.compute, f'/servers/{server_id}'))
        for volume_id in attached:
            self.wait(f'volume {volume_id} to be gone',
                      functools.partial(self._deleted, volume_id))

    def pid(self, server: Server, host: str) -> int | None:
        """The process of a server's QEMU on a host, None if there is none."""
        for pid in self.cloud.host(host).members():
            words = _argv(pid)
            if words and 'qemu' in words[0] and server.id in words:
                return pid
        return None

    def console(self, server: Server, host: str | None = None) -> str:
        """Return the end of what a server's guest has written to its console.

        :param host: where the guest runs or ran (default: the server's)
        """
        files = self.cloud.host(host or server.host).files
        try:
            text = (files.instances / server.id / 'console.log').read_text(errors='replace')
        except OSError as exc:
            return f'({exc})'
        return text[-_QUOTED:].strip()

    def wait_guest(self, server: Server, what: str, condition: Callable[[], Any],
                   seconds: float = _TIMEOUT, host: str | None = None) -> Any:
        """Wait for something that a server's guest does, as `wait` waits.

        :param host: where the guest runs (default: the server's)
        :raises CloudError: it did not in time; the error quotes the guest's console
        """
        try:
            return self.wait(what, condition, seconds)
        except commands.CloudError as exc:
            raise commands.CloudError(
                f'{exc}; the console of {server.name} on {host or server.host} ends with:\n'
                f'{self.console(server, host)}') from exc

    def running(self, server: Server) -> list[str]:
        """The hosts that run, on which a server's QEMU does."""
        return [host for host in self.cloud.hosts.running() if self.pid(server, host) is not None]

    # Hosts

    def force_down(self, host: str, down: bool = True, *, refused: bool = False) -> None:
        """Force a host down in Nova, or take that back.

        :param refused: accept a refusal by Nova
        """
        self.compute.put(f'/os-services/{self.service(host)["id"]}', json={'forced_down': down},
                         raise_exc=not refused)

    def compute_up(self, host: str) -> bool:
        """Return whether Nova believes that a host's nova-compute is up."""
        return bool(self.service(host)['state'] == 'up')

    def schedulable(self, host: str) -> bool:
        """Return whether Nova places servers on a host: it is enabled there, and up."""
        service = self.service(host)
        return bool(service['status'] == 'enabled' and service['state'] == 'up')

    def enable(self, host: str, enabled: bool = True) -> None:
        """Enable or disable scheduling to a host."""
        self.compute.put(f'/os-services/{self.service(host)["id"]}', json={
            'status': 'enabled' if enabled else 'disabled'})

    def bring_up(self, host: str) -> None:
        """Wait until Nova takes a host for up, even if it was told that it is down for certain.

        Only a report of the running nova-compute counts: Nova also counts one of its predecessor,
        and a server that is booted before the new one is ready ends in error.
        """
        def up() -> bool:
            # Not the API's time: that is the last change of the service's row, whatever made it.
            [(seen,)] = database.rows(self.cloud.files, self.cloud.settings.nova_database(host),
                                      _SEEN, host)
            if not self._heard(host, services.COMPUTE, seen):
                return False
            if self.compute_up(host):
                return True
            # Nova refuses until an evacuation from this host has been cleaned up.
            self.force_down(host, False, refused=True)
            return False
        self.wait(f'nova-compute on {host} to be up', up)

    def networked(self, host: str) -> bool:
        """Return whether a host's network agent has reported to Neutron since its start."""
        [agent] = (agent for agent in self.network.get('/v2.0/agents', params={
            'host': host}).json()['agents'] if agent['binary'] in neutron.AGENTS)
        heard = datetime.datetime.fromisoformat(agent['heartbeat_timestamp'])
        return bool(agent['alive']) and self._heard(
            host, services.agent(self.cloud.settings), heard)

    def _heard(self, host: str, name: str, when: datetime.datetime | None) -> bool:
        """Return whether a service of a host was heard since it was started, and runs.

        :param when: time of its last report, in UTC without a time zone, as Nova and Neutron keep
            it; None for never
        """
        return when is not None and any(
            process.name == name and process.pid
            and when.replace(tzinfo=datetime.UTC).timestamp() > process.started
            for process in self.cloud.host(host).services)

    def restart_compute(self, host: str) -> None:
        """Start a host's nova-compute again and wait until it is up.

        It cleans up after what was evacuated from there when it starts, and at no other time.
        """
        self.cloud.host(host).restart(services.COMPUTE)
        self.bring_up(host)

    def forced_down(self, host: str) -> bool:
        """Return whether a host is forced down in Nova."""
        return bool(self.service(host)['forced_down'])

    def service(self, host: str) -> dict[str, Any]:
        """Return a host's nova-compute as Nova shows it."""
        computes: list[dict[str, Any]] = self.compute.get('/os-services', params={
            'host': host, 'binary': 'nova-compute'}).json()['services']
        return computes[0]

    # Placement and Neutron

    def allocations(self, consumer: str) -> dict[str, Any]:
        """Return what a consumer has claimed in Placement, by resource provider."""
        allocations: dict[str, Any] = self.placement.get(
            f'/allocations/{consumer}').json()['allocations']
        return allocations

    def providers(self) -> dict[str, str]:
        """The resource providers of the hosts: id by name."""
        providers = self.placement.get('/resource_providers').json()['resource_providers']
        return {provider['name']: provider['uuid'] for provider in providers}

    def ports(self, server: Server) -> list[str]:
        """The ids of a server's ports."""
        ports = self.network.get('/v2.0/ports', params={
            'device_id': server.id}).json()['ports']
        return [str(port['id']) for port in ports]

    def mac(self, server: Server) -> str:
        """The address of a server's first port in hardware."""
        port = self.network.get(f'/v2.0/ports/{self.ports(server)[0]}').json()['port']
        return str(port['mac_address'])

    def bindings(self, server: Server) -> list[str]:
        """The hosts that a server's first port is bound to."""
        path = f'/v2.0/ports/{self.ports(server)[0]}/bindings'
        bindings = self.neutron.get(path).json()['bindings']
        return sorted(str(binding['host']) for binding in bindings)

    def migrate(self, server_id: str, host: str) -> Server:
        """Migrate a server live, and return it on its new host, with its network.

        Neutron's agent on that host skips a port while another host has an inactive binding of
        it, and is not notified when that binding is removed (``get_device_details`` in Neutron's
        ``agent/rpc.py``). If the agent polls only in between (every 2 s), the guest has no network
        until its port is updated.
        """
        self.act(server_id, 'os-migrateLive', {'host': host, 'block_migration': 'auto'})
        server = self.active(server_id, host)
        self.wait(f'one binding of {server.name}', lambda: self.bindings(server) == [host])
        for port in self.ports(server):
            self.network.put(f'/v2.0/ports/{port}', json={'port': {'description': host}})
        return server

    # Waits and lookups

    @staticmethod
    def wait(what: str, condition: Callable[[], Any], seconds: float = _TIMEOUT) -> Any:
        """Wait until a function returns a value that is true, and return that.

        :raises CloudError: it did not in time
        """
        limit = deadline.Deadline(seconds)
        while True:
            if value := condition():
                return value
            if limit.passed:
                raise commands.CloudError(f'waited {limit.elapsed:.0f} s for {what}')
            time.sleep(_POLL)

    @staticmethod
    def _gone(api: adapter.Adapter, path: str) -> bool:
        return api.get(path, raise_exc=False).status_code in _GONE

    def _deleted(self, volume_id: str) -> bool:
        """Return whether a volume is gone, and delete it again if that has failed.

        Deleting fails as long as Ceph takes the client of a dead host for alive.
        """
        path = f'/volumes/{volume_id}'
        answer = self.volume.get(path, raise_exc=False)
        if answer.status_code == 200 and answer.json()['volume']['status'] == 'available':
            self.volume.delete(path, raise_exc=False)
        return answer.status_code in _GONE

    def _attached(self, server_id: str) -> list[str]:
        """The ids of a server's volumes, by the names of their devices."""
        attachments = self.compute.get(
            f'/servers/{server_id}/os-volume_attachments').json()['volumeAttachments']
        return [attachment['volumeId'] for attachment in sorted(
            attachments, key=lambda attachment: str(attachment['device']))]

    def _image(self, name: str) -> str:
        [image] = self.image.get('/v2/images', params={'name': name}).json()['images']
        return str(image['id'])


def _argv(pid: int) -> list[str]:
    """The command line of a process, empty if it has ended."""
    try:
        return pathlib.Path(f'/proc/{pid}/cmdline').read_text().split('\0')
    except OSError:
        return []

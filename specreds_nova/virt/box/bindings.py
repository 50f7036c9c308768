# SPDX-License-Identifier: Apache-2.0
"""The network service's side of a box: port bindings, as a live migration uses them.

The server's ports stay bound where the primary is. A second, inactive binding for this host, and
the name of this host in the active binding's profile, make the agent here wire its end in advance
and the agent there leave its port alone. Activating the second binding is what moves a port.

Changing a profile makes Neutron bind the port anew on the primary's host. That fails while it
thinks the agent there is dead, and would cut a primary off that is not: so the profile is only
touched while that agent is alive. Without it a promoted server gets its network some seconds
later, once this host's agent has seen the activation.

Nor is it touched where the port's network has a distributed router: Neutron would have the
router's part on this host announce the port's floating IP at once, and a suspicion would move the
address away from a primary that serves. Such a port is wired at the activation as well.
"""
from collections.abc import Iterable, Mapping, Sequence
import dataclasses
from typing import Any

from neutronclient.common import exceptions as client_exceptions
from nova.network import constants
from nova.network import neutron
from oslo_log import log as logging

from specreds_nova.virt.box import errors

LOG = logging.getLogger(__name__)

_ACTIVE = 'ACTIVE'
_AGENT = 'Open vSwitch agent'
# Of the port of a distributed router, highly available or not.
_DISTRIBUTED = 'network:router_interface_distributed'
_CONFLICT = 409
_NOT_FOUND = 404


@dataclasses.dataclass(frozen=True)
class Binding:
    """A port's binding on this host.

    :param active: whether it is the one in force
    """

    port: str
    vif_type: str
    vnic_type: str
    details: Mapping[str, Any]
    profile: Mapping[str, Any]
    active: bool


class Bindings:
    """The bindings of one host.

    :param host: Nova's name of this host
    """

    def __init__(self, host: str) -> None:
        self._host = host

    def warm_up(self, context: Any) -> None:
        """Get a token, and find the network service."""
        _client(context).list_ports(fields='id', limit=1)

    def ports(self, context: Any, instance_uuid: str) -> dict[str, Mapping[str, Any]]:
        """:returns: the server's ports by id, as the network service shows them"""
        found = _client(context).list_ports(device_id=instance_uuid)['ports']
        return {port['id']: port for port in found}

    def refusal(self, port: Mapping[str, Any] | None) -> str | None:
        """:returns: why a port of the server cannot have a second binding here now, or None"""
        if port is None:
            return 'the network service does not know one of its ports any more'
        if port.get('trunk_details'):
            return f'port {port["id"]} is the parent of a trunk'
        return None

    def bind(self, context: Any, ports: Iterable[Mapping[str, Any]]) -> dict[str, Binding]:
        """Make an inactive binding for each port. Idempotent.

        :raises errors.BoxFailed: the network service refused
        """
        client = _client(context)
        return {port['id']: self._bind(client, port) for port in ports}

    def prepare(self, context: Any, ports: Sequence[Mapping[str, Any]]) -> bool:
        """Have this host's agent wire the ports before they are activated. Idempotent.

        A port of a server of which Nova does nothing can be prepared for another host by nobody
        but a backup there that was lost with its host: that is taken back.

        :returns: False if that must wait for the activation, for one of the ports at least
        """
        client = _client(context)
        hosts = {port[constants.BINDING_HOST_ID] for port in ports}
        if not all(_agent_alive(client, host) for host in hosts):
            LOG.warning('The network agents of %s do not answer: the ports of a backup here are '
                        'wired when it is promoted, not before', ', '.join(sorted(hosts)))
            return False
        distributed = {network for network in {port['network_id'] for port in ports}
                       if _distributed(client, network)}
        if distributed:
            LOG.info('Networks %s have distributed routers: the ports of a backup here are wired '
                     'when it is promoted, not before', ', '.join(sorted(distributed)))
        for port in ports:
            wanted = None if port['network_id'] in distributed else self._host
            profile = dict(neutron.get_binding_profile(port))
            elsewhere = profile.pop(constants.MIGRATING_ATTR, None)
            if elsewhere not in (None, self._host):
                LOG.warning('Port %s was prepared for a backup on %s, which was lost', port['id'],
                            elsewhere)
                _ignore_missing(client.delete_port_binding, port['id'], elsewhere)
            if elsewhere != wanted:
                _set_profile(client, port['id'], profile if wanted is None else {
                    **profile, constants.MIGRATING_ATTR: wanted})
        return not distributed

    def neighbours(self, context: Any, network: str, addresses: Iterable[str]) -> dict[str, str]:
        """:returns: hardware addresses of those of the addresses that are the network service's
        own (routers, DHCP servers)"""
        wanted = set(addresses)
        if not wanted:
            return {}
        found = _client(context).list_ports(
            network_id=network, fields=['mac_address', 'fixed_ips'],
            fixed_ips=[f'ip_address={address}' for address in sorted(wanted)])['ports']
        return {ip['ip_address']: port['mac_address'].lower()
                for port in found for ip in port['fixed_ips'] if ip['ip_address'] in wanted}

    def activate(self, context: Any, ports: Iterable[str]) -> None:
        """Move the ports to this host. Idempotent.

        :raises errors.BoxFailed: the network service refused
        """
        client = _client(context)
        for port in ports:
            try:
                client.activate_port_binding(port, self._host)
            except client_exceptions.NeutronClientException as error:
                if error.status_code == _NOT_FOUND:
                    # Somebody removed it; this is how ordinary evacuation moves a port.
                    client.update_port(port, {'port': {constants.BINDING_HOST_ID: self._host}})
                elif error.status_code != _CONFLICT:
                    raise errors.BoxFailed(port=port, reason=(
                        f'its binding on {self._host} could not be activated: {error}')) from error

    def forget_others(self, context: Any, ports: Iterable[str]) -> None:
        """Remove the bindings that ports of this host still have on others. Idempotent.

        As long as there is one, the agent here takes the port for one that is being migrated
        there, and does nothing for it.
        """
        client = _client(context)
        for port in ports:
            found = _bindings(client, port)
            if not any(one['host'] == self._host and one['status'] == _ACTIVE for one in found):
                continue
            for binding in found:
                if binding['host'] != self._host:
                    _ignore_missing(client.delete_port_binding, port, binding['host'])
            # Nobody is told of a binding that is deleted, but of a port that is updated.
            client.update_port(port, {'port': {constants.BINDING_HOST_ID: self._host}})

    def remove(self, context: Any, ports: Iterable[str]) -> None:
        """Take the ports' inactive bindings here back, and what prepared them. Idempotent.

        :raises errors.BoxFailed: something is left, try again
        """
        client = _client(context)
        for port in ports:
            for binding in _bindings(client, port):
                if binding['host'] == self._host and binding['status'] != _ACTIVE:
                    _ignore_missing(client.delete_port_binding, port, self._host)
            self._unprepare(client, port)

    def _bind(self, client: Any, port: Mapping[str, Any]) -> Binding:
        profile = {key: value for key, value in neutron.get_binding_profile(port).items()
                   if key != constants.MIGRATING_ATTR}
        request = {'binding': {'host': self._host, 'profile': profile,
                               'vnic_type': port['binding:vnic_type']}}
        try:
            made = client.create_port_binding(port['id'], request)['binding']
        except client_exceptions.NeutronClientException as error:
            if error.status_code != _CONFLICT:
                raise errors.BoxFailed(port=port['id'], reason=(
                    f'it could not be bound to {self._host}: {error}. '
                    f'Is the network agent there alive?')) from error
            made = client.show_port_binding(port['id'], self._host)['binding']
        return Binding(port=port['id'], vif_type=made['vif_type'], vnic_type=made['vnic_type'],
                       details=made['vif_details'] or {}, profile=made['profile'] or {},
                       active=made['status'] == _ACTIVE)

    def _unprepare(self, client: Any, port_id: str) -> None:
        try:
            port = client.show_port(port_id)['port']
        except client_exceptions.PortNotFoundClient:
            return
        profile = dict(neutron.get_binding_profile(port))
        if profile.get(constants.MIGRATING_ATTR) != self._host:
            return
        primary = port[constants.BINDING_HOST_ID]
        if primary != self._host and not _agent_alive(client, primary):
            raise errors.BoxFailed(port=port_id, reason=(
                f'its binding on {primary} still names this host, and changing that while the '
                f'network agent there is dead would break the binding'))
        del profile[constants.MIGRATING_ATTR]
        _set_profile(client, port_id, profile)


def _client(context: Any) -> Any:
    return neutron.get_client(context, admin=True)


def _agent_alive(client: Any, host: str) -> bool:
    agents = client.list_agents(host=host, agent_type=_AGENT)['agents']
    return any(agent['alive'] for agent in agents)


def _distributed(client: Any, network: str) -> bool:
    return bool(client.list_ports(network_id=network, device_owner=_DISTRIBUTED, fields='id',
                                  limit=1)['ports'])


def _bindings(client: Any, port: str) -> list[Mapping[str, Any]]:
    try:
        return list(client.list_port_bindings(port)['bindings'])
    except client_exceptions.NeutronClientException as error:
        if error.status_code == _NOT_FOUND:
            return []
        raise


def _set_profile(client: Any, port: str, profile: Mapping[str, Any]) -> None:
    client.update_port(port, {'port': {constants.BINDING_PROFILE: profile}})


def _ignore_missing(call: Any, *args: str) -> None:
    try:
        call(*args)
    except client_exceptions.NeutronClientException as error:
        if error.status_code != _NOT_FOUND:
            raise

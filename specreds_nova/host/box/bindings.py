# SPDX-License-Identifier: Apache-2.0
"""The network service's part of a box: port bindings, used as in a live migration.

The server's ports stay bound on the primary's host. A second, inactive binding for this host, and
the name of this host in the profile of the active binding, make the agent here wire its end in
advance and the agent there leave the port alone. Activation of the second binding moves the port.

A change of a profile makes Neutron bind the port anew on the primary's host. While Neutron takes
the agent there for dead, that fails, and would cut off a primary that lives: the profile is only
changed while that agent is alive. Otherwise a promoted server gets its network some seconds later,
when this host's agent has noticed the activation.

The profile is not changed either if the port's network has a distributed router: the router's part
on this host would announce the port's floating IP at once, and a mere suspicion would move the
address away from a primary that serves. Such a port, too, is wired after the activation.

Nor is the profile changed where OVN wires ports: OVN would at once move the port, or give it to
two hosts. By the activation Neutron names this host to OVN.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
from typing import Any

from neutronclient.common import exceptions as client_exceptions
from nova.network import constants
from nova.network import neutron
from oslo_log import log as logging

from specreds_nova.host.box import errors
from specreds_nova.host.box import plan as box_plan

LOG = logging.getLogger(__name__)

_ACTIVE = 'ACTIVE'
_AGENTS = {'Open vSwitch agent', 'OVN Controller agent', 'OVN Controller Gateway agent'}
# Device owner of the ports at which OVN's metadata agents answer.
_METADATA = 'network:distributed'
# Device owner of the ports of a distributed router, highly available or not.
_DISTRIBUTED = 'network:router_interface_distributed'
_CONFLICT = 409
_NOT_FOUND = 404
# A port has another revision than the one that an update was for.
_CHANGED = 412
_TRIES = 5


@dataclasses.dataclass(frozen=True)
class Binding:
    """A port's binding on this host."""

    vif_type: str
    vnic_type: str
    details: Mapping[str, Any]


class Bindings:
    """The bindings of one host.

    :param host: Nova's name of this host
    """

    def __init__(self, host: str) -> None:
        self._host = host

    def warm_up(self, context: Any) -> None:
        """Get a token and find the network service."""
        _client(context).list_ports(fields='id', limit=1)

    def ports(self, context: Any, instance_uuid: str) -> dict[str, Mapping[str, Any]]:
        """Return the server's ports by id, as the network service shows them."""
        ports = _client(context).list_ports(device_id=instance_uuid)['ports']
        return {port['id']: port for port in ports}

    def refusal(self, port: Mapping[str, Any]) -> str | None:
        """Return why a port of the server cannot have a second binding here, or None."""
        if port.get('trunk_details'):
            return f'port {port["id"]} is the parent of a trunk'
        if port.get('resource_request'):
            return (f'port {port["id"]} has guaranteed bandwidth or packet rate, which nothing '
                    f'would reserve here')
        return None

    def refusals(self, context: Any, ports: Mapping[str, Mapping[str, Any]],
                 wanted: Iterable[str]) -> list[str]:
        """Return why ports of the server cannot be in a box here.

        A backup is started without those that are not the server's any more.

        :param ports: the server's ports by id, from :meth:`ports`
        """
        client = _client(context)
        reasons = (self.refusal(ports[port]) or _limit(client, ports[port])
                   for port in wanted if port in ports)
        return [reason for reason in reasons if reason]

    def bind(self, context: Any, ports: Iterable[Mapping[str, Any]]) -> dict[str, Binding]:
        """Make an inactive binding for each port. Idempotent.

        :raises errors.BoxFailed: the network service refused
        """
        client = _client(context)
        return {port['id']: self._bind(client, port) for port in ports}

    def prepare(self, context: Any, ports: Sequence[Mapping[str, Any]]) -> bool:
        """Make this host's agent wire the ports before they are activated. Idempotent.

        While Nova does nothing with the server, only a backup that was lost with its host can have
        prepared a port for another host: that preparation is removed.

        :returns: False if the agent wires at least one of the ports only after the activation
        """
        if any(box_plan.is_ovn(port.get('binding:vif_details') or {}) for port in ports):
            return False
        client = _client(context)
        hosts = {port[constants.BINDING_HOST_ID] for port in ports}
        if not all(_agent_alive(client, host) for host in hosts):
            LOG.warning('network agents of %s do not answer: the ports of a backup here are '
                        'wired after its promotion', ', '.join(sorted(hosts)))
            return False
        distributed = {network for network in {port['network_id'] for port in ports}
                       if _distributed(client, network)}
        if distributed:
            LOG.info('networks %s have distributed routers: the ports of a backup here are wired '
                     'after its promotion', ', '.join(sorted(distributed)))
        for port in ports:
            wanted = None if port['network_id'] in distributed else self._host
            self._prepare(client, port, wanted)
        return not distributed

    def neighbours(self, context: Any, network: str, addresses: Iterable[str]) -> dict[str, str]:
        """Return the hardware addresses of those IP addresses that ports of the network have.

        They are the addresses of the network service's own routers and DHCP servers.
        """
        wanted = set(addresses)
        if not wanted:
            return {}
        ports = _client(context).list_ports(
            network_id=network, fields=['mac_address', 'fixed_ips'],
            fixed_ips=[f'ip_address={address}' for address in sorted(wanted)])['ports']
        return {ip['ip_address']: port['mac_address'].lower()
                for port in ports for ip in port['fixed_ips'] if ip['ip_address'] in wanted}

    def metadata_hops(self, context: Any, network: str) -> dict[str, str]:
        """Return the addresses of OVN's metadata agents on a network: routes lead there.

        :returns: IP address to hardware address
        """
        ports = _client(context).list_ports(network_id=network, device_owner=_METADATA,
                                            fields=['mac_address', 'fixed_ips'])['ports']
        return {ip['ip_address']: port['mac_address'].lower()
                for port in ports for ip in port['fixed_ips']}

    def activate(self, context: Any, ports: Iterable[str]) -> None:
        """Move the ports to this host. Idempotent.

        :raises errors.BoxFailed: the network service refused
        """
        client = _client(context)
        for port in ports:
            try:
                client.activate_port_binding(port, self._host)
            except client_exceptions.NeutronClientException as exc:
                if exc.status_code == _NOT_FOUND:
                    # The binding was removed; ordinary evacuation moves a port in this way. A
                    # port that was deleted is not missed.
                    _ignore_missing(client.update_port, port,
                                    {'port': {constants.BINDING_HOST_ID: self._host}})
                elif exc.status_code != _CONFLICT:
                    raise errors.BoxFailed(port=port, reason=(
                        f'its binding on {self._host} could not be activated: {exc}')) from exc

    def delete_other_bindings(self, context: Any, ports: Iterable[str]) -> None:
        """Delete the bindings that ports of this host still have on other hosts. Idempotent.

        While there is one, the agent here treats the port as being migrated there, and does
        nothing for it.
        """
        client = _client(context)
        for port in ports:
            port_bindings = _bindings(client, port)
            if not any(binding['host'] == self._host and binding['status'] == _ACTIVE
                       for binding in port_bindings):
                continue
            for binding in port_bindings:
                if binding['host'] != self._host:
                    _ignore_missing(client.delete_port_binding, port, binding['host'])
            # The deletion of a binding notifies no agent; an update of the port does.
            client.update_port(port, {'port': {constants.BINDING_HOST_ID: self._host}})

    def remove(self, context: Any, ports: Iterable[str]) -> None:
        """Delete the ports' inactive bindings here, and undo their preparation. Idempotent.

        A port that was plugged again on its own host meanwhile is wired there afterwards: while it
        had a second binding, the agent of that host treated it as being migrated away.

        :raises errors.BoxFailed: something is left, try again
        """
        client = _client(context)
        for port in ports:
            try:
                # A change of the profile leaves the port without a binding for a moment. The agent
                # of the primary's host cuts off such a port if it looks then, unless the port has
                # a binding on another host, too.
                self._unprepare(client, port)
            finally:
                self._unbind(client, port)
            # If an earlier attempt has ended between the two, nobody has been notified.
            _notify(client, port)

    def _bind(self, client: Any, port: Mapping[str, Any]) -> Binding:
        profile = {key: value for key, value in neutron.get_binding_profile(port).items()
                   if key != constants.MIGRATING_ATTR}
        request = {'binding': {'host': self._host, 'profile': profile,
                               'vnic_type': port['binding:vnic_type']}}
        try:
            created = client.create_port_binding(port['id'], request)['binding']
        except client_exceptions.NeutronClientException as exc:
            if exc.status_code != _CONFLICT:
                raise errors.BoxFailed(port=port['id'], reason=(
                    f'it could not be bound to {self._host}: {exc}. '
                    f'is the network agent there alive?')) from exc
            created = client.show_port_binding(port['id'], self._host)['binding']
        return Binding(created['vif_type'], created['vnic_type'], created['vif_details'] or {})

    def _prepare(self, client: Any, port: Mapping[str, Any], wanted: str | None) -> None:
        """Name this host in the port's profile, or no host."""
        before = neutron.get_binding_profile(port).get(constants.MIGRATING_ATTR)
        if before not in (None, self._host):
            LOG.warning('port %s was prepared for a backup on %s, which was lost: removing its '
                        'binding there', port['id'], before)
            _ignore_missing(client.delete_port_binding, port['id'], before)

        def prepared(current: Mapping[str, Any]) -> Mapping[str, Any] | None:
            profile = dict(neutron.get_binding_profile(current))
            named = profile.pop(constants.MIGRATING_ATTR, None)
            if (named not in (before, wanted)
                    or current[constants.BINDING_HOST_ID] != port[constants.BINDING_HOST_ID]):
                raise errors.BoxFailed(port=port['id'], reason='Nova moves it to another host')
            if named == wanted:
                return None
            if wanted is not None:
                profile[constants.MIGRATING_ATTR] = wanted
            return {constants.BINDING_PROFILE: profile}
        _update(client, port['id'], prepared)

    def _unbind(self, client: Any, port: str) -> None:
        if any(binding['host'] == self._host and binding['status'] != _ACTIVE
               for binding in _bindings(client, port)):
            _ignore_missing(client.delete_port_binding, port, self._host)

    def _unprepare(self, client: Any, port_id: str) -> None:
        def unprepared(port: Mapping[str, Any]) -> Mapping[str, Any] | None:
            profile = dict(neutron.get_binding_profile(port))
            if profile.pop(constants.MIGRATING_ATTR, None) != self._host:
                return None
            primary = port.get(constants.BINDING_HOST_ID)
            # The port of a shelved server is bound to no host.
            if primary and primary != self._host and not _agent_alive(client, primary):
                raise errors.BoxFailed(port=port_id, reason=(
                    f'its binding on {primary} still names this host, and a change of it would '
                    f'break the binding while the network agent there is dead'))
            return {constants.BINDING_PROFILE: profile}
        _update(client, port_id, unprepared)


def _client(context: Any) -> Any:
    return neutron.get_client(context, admin=True)


def _agent_alive(client: Any, host: str) -> bool:
    agents = client.list_agents(host=host)['agents']
    return any(agent['alive'] for agent in agents if agent['agent_type'] in _AGENTS)


def _limit(client: Any, port: Mapping[str, Any]) -> str | None:
    """Return that a port has a limit of bandwidth, if it has one.

    The network service's agent limits the device that it finds at the integration bridge. Behind
    a box that is the end of a patch, which has no device.
    """
    policy = port.get('qos_policy_id') or port.get('qos_network_policy_id')
    if not policy:
        return None
    try:
        rules = client.show_qos_policy(policy)['policy']['rules']
    except client_exceptions.NeutronClientException as exc:
        if exc.status_code == _NOT_FOUND:
            return None
        raise
    if any(rule.get('type') == 'bandwidth_limit' for rule in rules):
        return (f'port {port["id"]} has a limit of bandwidth (QoS policy {policy}), which would '
                f'not hold for a promoted backup')
    return None


def _distributed(client: Any, network: str) -> bool:
    return bool(client.list_ports(network_id=network, device_owner=_DISTRIBUTED, fields='id',
                                  limit=1)['ports'])


def _bindings(client: Any, port: str) -> list[Mapping[str, Any]]:
    try:
        return list(client.list_port_bindings(port)['bindings'])
    except client_exceptions.NeutronClientException as exc:
        if exc.status_code == _NOT_FOUND:
            return []
        raise


def _update(client: Any, port_id: str,
            changes: Callable[[Mapping[str, Any]], Mapping[str, Any] | None]) -> None:
    """Update a port, unless it changes meanwhile: Nova may be moving it. Repeat it then.

    :param changes: returns the attributes to update of the port that it gets, None for nothing
    :raises errors.BoxFailed: the port changes all the time
    """
    for _ in range(_TRIES):
        try:
            port = client.show_port(port_id)['port']
        except client_exceptions.PortNotFoundClient:
            return
        attributes = changes(port)
        if attributes is None:
            return
        try:
            client.update_port(port_id, {'port': attributes},
                               revision_number=port.get('revision_number'))
            return
        except client_exceptions.NeutronClientException as exc:
            if exc.status_code == _NOT_FOUND:
                return
            if exc.status_code != _CHANGED:
                raise
    raise errors.BoxFailed(port=port_id, reason=f'it has changed during {_TRIES} updates')


def _notify(client: Any, port_id: str) -> None:
    """Make the agent of a port's host look at the port again.

    The deletion of a binding notifies no agent; an update of the port does, if only to the host
    that the port has already. OVN has no such agents.
    """
    def same(port: Mapping[str, Any]) -> Mapping[str, Any] | None:
        host = port.get(constants.BINDING_HOST_ID)
        if not host or box_plan.is_ovn(port.get('binding:vif_details') or {}):
            return None
        return {constants.BINDING_HOST_ID: host}
    _update(client, port_id, same)


def _ignore_missing(call: Any, *args: Any) -> None:
    try:
        call(*args)
    except client_exceptions.NeutronClientException as exc:
        if exc.status_code != _NOT_FOUND:
            raise

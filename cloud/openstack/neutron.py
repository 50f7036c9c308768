# SPDX-License-Identifier: Apache-2.0
"""Neutron's configuration, its tables, and the network that servers are on."""

from collections.abc import Mapping
from typing import Any

from keystoneauth1 import adapter
from keystoneauth1 import session as keystone_session

from cloud import commands
from cloud.openstack import accounts
from cloud.openstack import broker
from cloud.openstack import database
from cloud.openstack import files as private
from cloud.openstack import layout
from cloud.openstack import ovn
from cloud.openstack import reported
from cloud.openstack import services

PHYSICAL_NETWORK = 'physnet1'
NETWORK = 'private'
SUBNET = '10.77.0.0/24'
GATEWAY = '10.77.0.1'
# The other addresses are for whoever else is on the network.
POOL = ('10.77.0.10', '10.77.0.250')

_VLANS = '100:199'
_ANYWHERE = '0.0.0.0/0'
AGENTS = ('neutron-openvswitch-agent', 'ovn-controller')
ROUTERS = 'neutron-l3-agent'
# Neutron's plug-ins beside its core: of all clouds, and of routers by network of the cloud.
_PLUGINS = ('trunk', 'qos')
_ROUTER_PLUGINS = {layout.DVR: ('router',), layout.OVN: ('ovn-router',)}
_QUOTAS: private.Conf = {'quotas': {'quota_router': -1, 'quota_floatingip': -1}}
_DVR: private.Conf = {
    'DEFAULT': {'router_distributed': 'true'},
    'ml2': {'type_drivers': 'flat,vlan,vxlan', 'tenant_network_types': 'vxlan',
            'mechanism_drivers': 'openvswitch,l2population'},
    'ml2_type_vxlan': {'vni_ranges': '1000:1999'},
    **_QUOTAS,
}
_TIMEOUT = 60.0


def common(settings: layout.Settings, passwords: Mapping[str, str]) -> private.Conf:
    """What the server and the agents on the hosts have in common."""
    core: private.Conf = {
        'DEFAULT': {
            'transport_url': broker.url(settings, passwords),
            'auth_strategy': 'keystone',
            'core_plugin': 'ml2',
            # The agents of the hosts answer DHCP themselves.
            'service_plugins': ','.join((*_PLUGINS, *_ROUTER_PLUGINS.get(settings.network, ()))),
            'enable_traditional_dhcp': 'false',
            'rpc_response_timeout': 60,
            # An agent that ended is seen to be down, and one that started to be up, soon.
            'agent_down_time': 20,
            'global_physnet_mtu': 1500,
            'debug': 'false',
        },
        'agent': {'report_interval': 5},
        'oslo_messaging_notifications': {'driver': 'messagingv2', 'topics': 'notifications'},
    }
    return private.merged(core, accounts.sections(settings, passwords, 'neutron',
                                                  ('nova', 'placement')))


def conf(files: layout.Layout, settings: layout.Settings,
         passwords: Mapping[str, str]) -> private.Conf:
    """Everything in the server's `neutron.conf`."""
    state = files.state / 'neutron'
    merged = private.merged(common(settings, passwords), {
        'DEFAULT': {
            'state_path': state,
            'api_paste_config': layout.SHARE / 'neutron' / 'api-paste.ini',
            'notify_nova_on_port_status_changes': 'true',
            'notify_nova_on_port_data_changes': 'true',
            'rpc_workers': 1,
            'rpc_state_report_workers': 0,
        },
        'database': {'connection': database.url(settings, 'neutron', passwords)},
        'oslo_concurrency': {'lock_path': state / 'lock'},
        'ml2': {'type_drivers': 'flat,vlan', 'tenant_network_types': 'vlan',
                'mechanism_drivers': 'openvswitch', 'extension_drivers': 'port_security,qos'},
        'ml2_type_vlan': {'network_vlan_ranges': f'{PHYSICAL_NETWORK}:{_VLANS}'},
        'ml2_type_flat': {'flat_networks': PHYSICAL_NETWORK},
        'securitygroup': {'enable_security_group': 'true'},
        'quotas': {f'quota_{kind}': -1 for kind in ('network', 'subnet', 'port',
                                                    'security_group', 'security_group_rule')},
    })
    if settings.ovn:
        return private.merged(merged, _ovn(settings))
    return private.merged(merged, _DVR) if settings.dvr else merged


def _ovn(settings: layout.Settings) -> private.Conf:
    """Return the part of the server's `neutron.conf` that is for OVN only."""
    return {
        'ml2': {'type_drivers': 'flat,vlan,geneve', 'tenant_network_types': 'geneve',
                'mechanism_drivers': 'ovn'},
        # What OVN's options of Geneve take of a frame.
        'ml2_type_geneve': {'vni_ranges': '1000:1999', 'max_header_size': 38},
        'ovn': {'ovn_nb_connection': ovn.connection(settings, ovn.NORTHBOUND),
                'ovn_sb_connection': ovn.connection(settings, ovn.SOUTHBOUND)},
        **_QUOTAS,
    }


def prepare(files: layout.Layout) -> None:
    """Make or update the tables.

    :raises CloudError: `neutron-db-manage` failed
    """
    (files.state / 'neutron' / 'lock').mkdir(parents=True, exist_ok=True)
    commands.run([str(layout.BIN / 'neutron-db-manage'), '--config-file',
                  str(files.neutron_conf), 'upgrade', 'head'], timeout=300)


def workers() -> list[reported.Worker]:
    """The services that the agents ask through a queue."""
    return [reported.Worker(services.NEUTRON_RPC, 'q-plugin')]


class Api:
    """The few requests to Neutron that it takes to set a cloud up and to watch it.

    :param session: the administrator's
    """

    def __init__(self, session: keystone_session.Session) -> None:
        self._api = adapter.Adapter(session, service_type='network', interface='public')

    def make_network(self) -> None:
        """Make the network of all projects, and open their default security groups."""
        # A project's default group, which is made when it is needed first, lets in what comes
        # from its own members only, unless told otherwise.
        rules = self._get('/default-security-group-rules', 'default_security_group_rules')
        if not any(rule['direction'] == 'ingress' and rule['remote_ip_prefix'] == _ANYWHERE
                   for rule in rules):
            self._post('/default-security-group-rules', 'default_security_group_rule', {
                'direction': 'ingress', 'ethertype': 'IPv4', 'remote_ip_prefix': _ANYWHERE,
                'used_in_default_sg': True, 'used_in_non_default_sg': False})
        networks = self._get('/networks', 'networks', name=NETWORK)
        network = networks[0] if networks else self._post('/networks', 'network', {
            'name': NETWORK, 'shared': True, 'provider:network_type': 'flat',
            'provider:physical_network': PHYSICAL_NETWORK})
        if not self._get('/subnets', 'subnets', network_id=network['id']):
            self._post('/subnets', 'subnet', {
                'name': NETWORK, 'network_id': network['id'], 'ip_version': 4, 'cidr': SUBNET,
                'gateway_ip': GATEWAY, 'enable_dhcp': True,
                'allocation_pools': [{'start': POOL[0], 'end': POOL[1]}]})

    def services(self) -> list[reported.Service]:
        """The agents that have ever started."""
        return [reported.Service(item['binary'], item['host'], item['alive'],
                                 item['admin_state_up'])
                for item in self._get('/agents', 'agents')]

    def _get(self, path: str, key: str, **query: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self._api.get(f'/v2.0{path}', params=query,
                                                    timeout=_TIMEOUT).json()[key]
        return items

    def _post(self, path: str, kind: str, values: dict[str, Any]) -> dict[str, Any]:
        item: dict[str, Any] = self._api.post(f'/v2.0{path}', json={kind: values},
                                              timeout=_TIMEOUT).json()[kind]
        return item

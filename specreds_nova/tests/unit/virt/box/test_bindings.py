# SPDX-License-Identifier: Apache-2.0
from typing import Any
from unittest import mock

import fixtures
from neutronclient.common import exceptions as client_exceptions
from nova.network import neutron
import testtools

from specreds_nova.tests.unit.virt.box import fakes
from specreds_nova.virt.box import bindings
from specreds_nova.virt.box import errors

HOST = 'node2'
PRIMARY = 'node1'


class FakeNeutron:
    """One port, bound to the primary's host, as Neutron keeps it."""

    def __init__(self) -> None:
        self.port: dict[str, Any] = {
            'id': fakes.PORT, 'network_id': 'network-1', 'binding:host_id': PRIMARY,
            'binding:vnic_type': 'normal',
            'binding:profile': {'owner': 'x'}}
        self.bindings = {PRIMARY: 'ACTIVE'}
        self.alive = True
        self.distributed: set[str] = set()
        self.updates: list[dict[str, Any]] = []

    def list_ports(self, **query: Any) -> Any:
        if query.get('device_owner') == 'network:router_interface_distributed':
            return {'ports': [{'id': 'router'}] if query['network_id'] in self.distributed
                    else []}
        return {'ports': [self.port]}

    def show_port(self, port: str) -> Any:
        return {'port': self.port}

    def update_port(self, port: str, body: Any) -> None:
        self.updates.append(body['port'])
        self.port.update(body['port'])

    def list_agents(self, host: str, agent_type: str) -> Any:
        return {'agents': [{'alive': self.alive}]}

    def create_port_binding(self, port: str, body: Any) -> Any:
        host = body['binding']['host']
        if host in self.bindings:
            raise client_exceptions.Conflict()
        self.bindings[host] = 'INACTIVE'
        self.profile = body['binding']['profile']
        return self.show_port_binding(port, host)

    def show_port_binding(self, port: str, host: str) -> Any:
        if host not in self.bindings:
            raise client_exceptions.NotFound()
        return {'binding': {'host': host, 'status': self.bindings[host], 'vif_type': 'ovs',
                            'vnic_type': 'normal', 'vif_details': {'bridge_name': 'br-int'},
                            'profile': {}}}

    def list_port_bindings(self, port: str) -> Any:
        return {'bindings': [{'host': host, 'status': status}
                             for host, status in self.bindings.items()]}

    def delete_port_binding(self, port: str, host: str) -> None:
        if self.bindings.pop(host, None) is None:
            raise client_exceptions.NotFound()

    def activate_port_binding(self, port: str, host: str) -> None:
        if host not in self.bindings:
            raise client_exceptions.NotFound()
        if self.bindings[host] == 'ACTIVE':
            raise client_exceptions.Conflict()
        self.bindings = {one: 'ACTIVE' if one == host else 'INACTIVE' for one in self.bindings}
        self.port['binding:host_id'] = host


class TestBindings(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.neutron = FakeNeutron()
        self.useFixture(fixtures.MockPatchObject(neutron, 'get_client',
                                                 return_value=self.neutron))
        self.bindings = bindings.Bindings(HOST)
        self.context = mock.sentinel.context

    def _prepared(self) -> None:
        self.bindings.bind(self.context, [self.neutron.port])
        self.bindings.prepare(self.context, [self.neutron.port])

    def test_the_primary_stays_bound(self) -> None:
        for _ in range(2):
            found = self.bindings.bind(self.context, [self.neutron.port])
        self.assertEqual({PRIMARY: 'ACTIVE', HOST: 'INACTIVE'}, self.neutron.bindings)
        self.assertFalse(found[fakes.PORT].active)
        self.assertEqual('br-int', found[fakes.PORT].details['bridge_name'])

    def test_the_agent_here_is_told_once(self) -> None:
        for _ in range(2):
            self.assertTrue(self.bindings.prepare(self.context, [self.neutron.port]))
        self.assertEqual([{'binding:profile': {'owner': 'x', 'migrating_to': HOST}}],
                         self.neutron.updates)

    def test_the_binding_of_a_dead_agents_port_is_not_touched(self) -> None:
        self.neutron.alive = False
        self.assertFalse(self.bindings.prepare(self.context, [self.neutron.port]))
        self.assertEqual([], self.neutron.updates)

    def test_port_behind_a_distributed_router_does_not_say_that_it_is_migrating(self) -> None:
        self.neutron.distributed = {'network-1'}
        self.assertFalse(self.bindings.prepare(self.context, [self.neutron.port]))
        self.assertEqual([], self.neutron.updates)

    def test_only_ports_behind_distributed_routers_are_left_alone(self) -> None:
        self.neutron.distributed = {'network-2'}
        other = {**self.neutron.port, 'id': 'port-2', 'network_id': 'network-2'}
        self.assertFalse(self.bindings.prepare(self.context, [other, self.neutron.port]))
        self.assertEqual([{'binding:profile': {'owner': 'x', 'migrating_to': HOST}}],
                         self.neutron.updates)

    def test_preparation_is_taken_back_where_a_router_has_become_distributed(self) -> None:
        self._prepared()
        self.neutron.distributed = {'network-1'}
        self._prepared()
        self.assertEqual({'owner': 'x'}, self.neutron.port['binding:profile'])

    def test_this_hosts_binding_does_not_say_that_it_is_migrating(self) -> None:
        self.neutron.port['binding:profile']['migrating_to'] = HOST
        self.bindings.bind(self.context, [self.neutron.port])
        self.assertEqual({'owner': 'x'}, self.neutron.profile)

    def test_refusals(self) -> None:
        self.assertIsNone(self.bindings.refusal(self.neutron.port))
        self.assertIn('not know', str(self.bindings.refusal(None)))
        self.assertIn('trunk', str(self.bindings.refusal({
            **self.neutron.port, 'trunk_details': {'trunk_id': 'x'}})))

    def test_a_backup_elsewhere_was_lost(self) -> None:
        self.neutron.port['binding:profile'] = {'owner': 'x', 'migrating_to': 'node3'}
        self.neutron.bindings['node3'] = 'INACTIVE'
        self._prepared()
        self.assertEqual({PRIMARY: 'ACTIVE', HOST: 'INACTIVE'}, self.neutron.bindings)
        self.assertEqual({'owner': 'x', 'migrating_to': HOST},
                         self.neutron.port['binding:profile'])

    def test_refused_by_neutron(self) -> None:
        self.neutron.create_port_binding = mock.Mock(  # type: ignore[method-assign]
            side_effect=client_exceptions.InternalServerError())
        self.assertRaises(errors.BoxFailed, self.bindings.bind, self.context,
                          [self.neutron.port])

    def test_removal_leaves_what_was_there(self) -> None:
        self._prepared()
        for _ in range(2):
            self.bindings.remove(self.context, [fakes.PORT])
        self.assertEqual({PRIMARY: 'ACTIVE'}, self.neutron.bindings)
        self.assertEqual({'owner': 'x'}, self.neutron.port['binding:profile'])

    def test_removal_does_not_break_the_binding_of_a_dead_agents_port(self) -> None:
        self._prepared()
        self.neutron.alive = False
        self.assertRaises(errors.BoxFailed, self.bindings.remove, self.context, [fakes.PORT])
        self.assertEqual({PRIMARY: 'ACTIVE'}, self.neutron.bindings)
        self.assertEqual(HOST, self.neutron.port['binding:profile']['migrating_to'])
        self.neutron.alive = True
        self.bindings.remove(self.context, [fakes.PORT])
        self.assertNotIn('migrating_to', self.neutron.port['binding:profile'])

    def test_removal_never_unbinds_the_server(self) -> None:
        self._prepared()
        self.bindings.activate(self.context, [fakes.PORT])
        self.bindings.remove(self.context, [fakes.PORT])
        self.assertEqual('ACTIVE', self.neutron.bindings[HOST])

    def test_removal_when_the_port_is_gone(self) -> None:
        gone = mock.Mock(side_effect=client_exceptions.PortNotFoundClient())
        self.neutron.list_port_bindings = gone  # type: ignore[method-assign]
        self.neutron.show_port = gone  # type: ignore[method-assign]
        self.bindings.remove(self.context, [fakes.PORT])
        self.assertEqual([mock.call(fakes.PORT)] * 2, gone.call_args_list)
        self.assertEqual([], self.neutron.updates)

    def test_activation(self) -> None:
        self._prepared()
        for _ in range(2):
            self.bindings.activate(self.context, [fakes.PORT])
        self.assertEqual({PRIMARY: 'INACTIVE', HOST: 'ACTIVE'}, self.neutron.bindings)
        self.bindings.delete_other_bindings(self.context, [fakes.PORT])
        self.assertEqual({HOST: 'ACTIVE'}, self.neutron.bindings)
        self.assertEqual({'binding:host_id': HOST}, self.neutron.updates[-1])

    def test_the_bindings_of_a_port_of_another_host_stay(self) -> None:
        self._prepared()
        self.bindings.delete_other_bindings(self.context, [fakes.PORT])
        self.assertEqual({PRIMARY: 'ACTIVE', HOST: 'INACTIVE'}, self.neutron.bindings)

    def test_activation_of_a_binding_that_somebody_removed(self) -> None:
        self.bindings.activate(self.context, [fakes.PORT])
        self.assertEqual([{'binding:host_id': HOST}], self.neutron.updates)

    def test_neighbours(self) -> None:
        self.neutron.port.update(mac_address='FA:16:3E:00:00:99', fixed_ips=[
            {'ip_address': fakes.GATEWAY}, {'ip_address': '10.88.0.1'}])
        self.assertEqual({fakes.GATEWAY: 'fa:16:3e:00:00:99'}, self.bindings.neighbours(
            self.context, 'network', [fakes.GATEWAY]))
        self.assertEqual({}, self.bindings.neighbours(self.context, 'network', []))

# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
import functools
from typing import Any
from unittest import mock

import fixtures
from neutronclient.common import exceptions as client_exceptions
from nova.network import neutron
import testtools

from specreds_nova.host.box import bindings
from specreds_nova.host.box import errors
from specreds_nova.tests.unit.host.box import fakes

HOST = 'node2'
PRIMARY = 'node1'


class FakeNeutron:
    """A fake Neutron with one port that is bound to the primary's host."""

    def __init__(self) -> None:
        self.port: dict[str, Any] = {
            'id': fakes.PORT, 'network_id': 'network-1', 'binding:host_id': PRIMARY,
            'binding:vnic_type': 'normal',
            'binding:profile': {'owner': 'x'}, 'revision_number': 1}
        self.bindings = {PRIMARY: 'ACTIVE'}
        self.alive = True
        self.agent = 'Open vSwitch agent'
        self.distributed: set[str] = set()
        self.rules: list[str] = []
        self.updates: list[dict[str, Any]] = []
        # Bindings at each update of the port.
        self.seen: list[dict[str, str]] = []
        # What happens right before the next update.
        self.before_update: list[Callable[[], None]] = []

    def list_ports(self, **query: Any) -> Any:
        if query.get('device_owner') == 'network:router_interface_distributed':
            return {'ports': [{'id': 'router'}] if query['network_id'] in self.distributed
                    else []}
        if query.get('device_owner') == 'network:distributed':
            return {'ports': [{'mac_address': 'FA:16:3E:00:00:98',
                               'fixed_ips': [{'ip_address': '10.77.0.3'}]}]}
        return {'ports': [self.port]}

    def show_port(self, port: str) -> Any:
        return {'port': self.port}

    def update_port(self, port: str, body: Any, revision_number: int | None = None) -> None:
        if self.before_update:
            self.before_update.pop(0)()
        if revision_number not in (None, self.port['revision_number']):
            raise client_exceptions.NeutronClientException(status_code=412)
        self.updates.append(body['port'])
        self.seen.append(dict(self.bindings))
        self.change(**body['port'])

    def change(self, **attributes: Any) -> None:
        self.port = {**self.port, **attributes,
                     'revision_number': self.port['revision_number'] + 1}

    def list_agents(self, host: str) -> Any:
        return {'agents': [{'alive': self.alive, 'agent_type': self.agent},
                           {'alive': True, 'agent_type': 'Metadata agent'}]}

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

    def show_qos_policy(self, policy: str) -> Any:
        if policy == 'deleted':
            raise client_exceptions.NotFound()
        return {'policy': {'rules': [{'type': kind} for kind in self.rules]}}

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
        self.bindings = {bound_host: 'ACTIVE' if bound_host == host else 'INACTIVE'
                         for bound_host in self.bindings}
        self.change(**{'binding:host_id': host})


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

    def test_primary_stays_bound(self) -> None:
        for _ in range(2):
            answer = self.bindings.bind(self.context, [self.neutron.port])
        self.assertEqual({PRIMARY: 'ACTIVE', HOST: 'INACTIVE'}, self.neutron.bindings)
        self.assertEqual('br-int', answer[fakes.PORT].details['bridge_name'])

    def test_agent_of_this_host_is_notified_once(self) -> None:
        for _ in range(2):
            self.assertTrue(self.bindings.prepare(self.context, [self.neutron.port]))
        self.assertEqual([{'binding:profile': {'owner': 'x', 'migrating_to': HOST}}],
                         self.neutron.updates)

    def test_binding_of_a_dead_agent_is_not_changed(self) -> None:
        self.neutron.alive = False
        self.assertFalse(self.bindings.prepare(self.context, [self.neutron.port]))
        self.assertEqual([], self.neutron.updates)

    def test_port_of_ovn_is_wired_after_its_activation(self) -> None:
        self.neutron.port['binding:vif_details'] = {'bound_drivers': {'0': 'ovn'}}
        self.neutron.port['binding:profile']['migrating_to'] = 'node3'
        self.assertFalse(self.bindings.prepare(self.context, [self.neutron.port]))
        self.assertEqual([], self.neutron.updates)

    def test_live_controller_of_ovn_counts_as_an_agent(self) -> None:
        self.neutron.agent = 'OVN Controller agent'
        self._prepared()
        self.bindings.remove(self.context, [fakes.PORT])
        self.assertEqual({'owner': 'x'}, self.neutron.port['binding:profile'])

    def test_ovn_routes_to_metadata_by_a_port_of_its_own(self) -> None:
        self.assertEqual({'10.77.0.3': 'fa:16:3e:00:00:98'},
                         self.bindings.metadata_hops(self.context, 'network-1'))

    def test_port_behind_a_distributed_router_is_not_marked_as_migrating(self) -> None:
        self.neutron.distributed = {'network-1'}
        self.assertFalse(self.bindings.prepare(self.context, [self.neutron.port]))
        self.assertEqual([], self.neutron.updates)

    def test_other_ports_are_marked_as_migrating(self) -> None:
        self.neutron.distributed = {'network-2'}
        other = {**self.neutron.port, 'id': 'port-2', 'network_id': 'network-2'}
        self.assertFalse(self.bindings.prepare(self.context, [other, self.neutron.port]))
        self.assertEqual([{'binding:profile': {'owner': 'x', 'migrating_to': HOST}}],
                         self.neutron.updates)

    def test_mark_is_removed_when_a_router_becomes_distributed(self) -> None:
        self._prepared()
        self.neutron.distributed = {'network-1'}
        self._prepared()
        self.assertEqual({'owner': 'x'}, self.neutron.port['binding:profile'])

    def test_binding_of_this_host_is_not_marked_as_migrating(self) -> None:
        self.neutron.port['binding:profile']['migrating_to'] = HOST
        self.bindings.bind(self.context, [self.neutron.port])
        self.assertEqual({'owner': 'x'}, self.neutron.profile)

    def test_unsuitable_port_is_refused(self) -> None:
        self.assertIsNone(self.bindings.refusal(self.neutron.port))
        self.assertIn('trunk', str(self.bindings.refusal({
            **self.neutron.port, 'trunk_details': {'trunk_id': 'x'}})))
        self.assertIn('guaranteed', str(self.bindings.refusal({
            **self.neutron.port, 'resource_request': {'request_groups': []}})))

    def test_port_that_is_not_the_servers_any_more_is_no_reason(self) -> None:
        self.assertEqual([], self.bindings.refusals(self.context, {}, [fakes.PORT]))

    def test_deleted_port_is_not_missed_when_the_ports_are_moved(self) -> None:
        def delete() -> None:
            raise client_exceptions.PortNotFoundClient()
        self.neutron.before_update = [delete]
        self.bindings.activate(self.context, [fakes.PORT])
        self.assertEqual([], self.neutron.updates)

    def assert_moved_unchanged(self, **values: Any) -> None:
        """Assert that a port with some values is moved here, and keeps the values."""
        self.neutron.port.update(values)
        ports = {fakes.PORT: self.neutron.port}
        self.assertEqual([], self.bindings.refusals(self.context, ports, [fakes.PORT]))
        self._prepared()
        self.bindings.activate(self.context, [fakes.PORT])
        self.assertEqual('ACTIVE', self.neutron.bindings[HOST])
        self.assertNotEqual([], self.neutron.updates)
        for update in self.neutron.updates:
            self.assertEqual(set(), set(values) & set(update))

    def test_port_without_port_security_is_moved_like_others(self) -> None:
        self.assert_moved_unchanged(port_security_enabled=False, security_groups=[])

    def test_port_with_allowed_address_pairs_keeps_them(self) -> None:
        self.assert_moved_unchanged(allowed_address_pairs=[
            {'ip_address': '10.77.0.99', 'mac_address': fakes.MAC}])

    def test_limits_of_bandwidth_are_refused(self) -> None:
        def refusals(**values: Any) -> list[str]:
            ports = {fakes.PORT: {**self.neutron.port, **values}}
            return self.bindings.refusals(self.context, ports, [fakes.PORT])

        self.assertEqual([], refusals())
        self.neutron.rules = ['dscp_marking']
        self.assertEqual([], refusals(qos_policy_id='q'))
        self.neutron.rules = ['dscp_marking', 'bandwidth_limit']
        for key in ('qos_policy_id', 'qos_network_policy_id'):
            [reason] = refusals(**{key: 'q'})
            self.assertIn('limit of bandwidth (QoS policy q)', reason)
        self.assertEqual([], refusals(qos_policy_id='deleted'))

    def test_binding_of_a_lost_backup_elsewhere_is_removed(self) -> None:
        self.neutron.port['binding:profile'] = {'owner': 'x', 'migrating_to': 'node3'}
        self.neutron.bindings['node3'] = 'INACTIVE'
        self._prepared()
        self.assertEqual({PRIMARY: 'ACTIVE', HOST: 'INACTIVE'}, self.neutron.bindings)
        self.assertEqual({'owner': 'x', 'migrating_to': HOST},
                         self.neutron.port['binding:profile'])

    def test_refusal_of_neutron_is_an_error(self) -> None:
        self.neutron.create_port_binding = mock.Mock(  # type: ignore[method-assign]
            side_effect=client_exceptions.InternalServerError())
        self.assertRaises(errors.BoxFailed, self.bindings.bind, self.context,
                          [self.neutron.port])

    def test_removal_keeps_the_earlier_binding(self) -> None:
        self._prepared()
        for _ in range(2):
            self.bindings.remove(self.context, [fakes.PORT])
        self.assertEqual({PRIMARY: 'ACTIVE'}, self.neutron.bindings)
        self.assertEqual({'owner': 'x'}, self.neutron.port['binding:profile'])

    def test_removal_keeps_the_binding_of_a_dead_agent(self) -> None:
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

    def test_removal_of_a_deleted_port_succeeds(self) -> None:
        gone = mock.Mock(side_effect=client_exceptions.PortNotFoundClient())
        self.neutron.list_port_bindings = gone  # type: ignore[method-assign]
        self.neutron.show_port = gone  # type: ignore[method-assign]
        self.bindings.remove(self.context, [fakes.PORT])
        gone.assert_called_with(fakes.PORT)
        self.assertEqual([], self.neutron.updates)

    def test_removal_ends_with_an_update_of_the_port(self) -> None:
        self._prepared()
        self.bindings.remove(self.context, [fakes.PORT])
        self.assertEqual(({'binding:host_id': PRIMARY}, {PRIMARY: 'ACTIVE'}),
                         (self.neutron.updates[-1], self.neutron.seen[-1]))

    def test_removal_updates_a_port_that_was_not_prepared(self) -> None:
        self.bindings.bind(self.context, [self.neutron.port])
        self.bindings.remove(self.context, [fakes.PORT])
        self.assertEqual([{'binding:host_id': PRIMARY}], self.neutron.updates)

    def test_repeated_removal_updates_the_port_again(self) -> None:
        self.bindings.bind(self.context, [self.neutron.port])
        self.neutron.before_update = [mock.Mock(side_effect=OSError('lost'))]
        self.assertRaises(OSError, self.bindings.remove, self.context, [fakes.PORT])
        self.bindings.remove(self.context, [fakes.PORT])
        self.assertEqual([{'binding:host_id': PRIMARY}], self.neutron.updates)

    def test_profile_is_changed_only_while_there_is_a_second_binding(self) -> None:
        self._prepared()
        self.bindings.remove(self.context, [fakes.PORT])
        both = {PRIMARY: 'ACTIVE', HOST: 'INACTIVE'}
        self.assertEqual([both, both], [
            seen for update, seen in zip(self.neutron.updates, self.neutron.seen, strict=True)
            if 'binding:profile' in update])

    def test_port_of_ovn_is_not_updated_by_the_removal(self) -> None:
        self.neutron.port['binding:vif_details'] = {'bound_drivers': {'0': 'ovn'}}
        self._prepared()
        self.bindings.remove(self.context, [fakes.PORT])
        self.assertEqual({PRIMARY: 'ACTIVE'}, self.neutron.bindings)
        self.assertEqual([], self.neutron.updates)

    def test_removal_cleans_the_port_of_a_shelved_server(self) -> None:
        self._prepared()
        self.neutron.change(**{'binding:host_id': ''})
        self.neutron.alive = False
        self.bindings.remove(self.context, [fakes.PORT])
        self.assertEqual({'owner': 'x'}, self.neutron.port['binding:profile'])
        self.assertNotIn({'binding:host_id': ''}, self.neutron.updates)

    def test_removal_keeps_what_nova_has_changed_meanwhile(self) -> None:
        self._prepared()
        migrating = {'owner': 'x', 'migrating_to': 'node3'}
        self.neutron.before_update = [
            lambda: self.neutron.change(**{'binding:profile': migrating})]
        self.bindings.remove(self.context, [fakes.PORT])
        self.assertEqual(migrating, self.neutron.port['binding:profile'])
        self.assertEqual({PRIMARY: 'ACTIVE'}, self.neutron.bindings)

    def test_removal_never_moves_a_port_back(self) -> None:
        self.bindings.bind(self.context, [self.neutron.port])
        self.neutron.before_update = [
            lambda: self.neutron.change(**{'binding:host_id': 'node3'})]
        self.bindings.remove(self.context, [fakes.PORT])
        self.assertEqual([{'binding:host_id': 'node3'}], self.neutron.updates)

    def test_port_that_changes_all_the_time_is_left_for_later(self) -> None:
        self._prepared()
        self.neutron.before_update = [self.neutron.change] * 5
        self.assertRaises(errors.BoxFailed, self.bindings.remove, self.context, [fakes.PORT])
        self.bindings.remove(self.context, [fakes.PORT])
        self.assertEqual({'owner': 'x'}, self.neutron.port['binding:profile'])

    def test_port_that_nova_begins_to_move_is_not_prepared(self) -> None:
        port = self.neutron.port
        self.bindings.bind(self.context, [port])
        for change in ({'binding:profile': {'migrating_to': 'node3'}},
                       {'binding:host_id': 'node3'}):
            self.neutron.before_update = [functools.partial(self.neutron.change, **change)]
            failure = self.assertRaises(errors.BoxFailed, self.bindings.prepare, self.context,
                                        [port])
            self.assertIn('Nova moves it', str(failure))
            self.assertEqual([], self.neutron.updates)
            self.neutron.change(**port)

    def test_activation_moves_the_port_to_this_host(self) -> None:
        self._prepared()
        for _ in range(2):
            self.bindings.activate(self.context, [fakes.PORT])
        self.assertEqual({PRIMARY: 'INACTIVE', HOST: 'ACTIVE'}, self.neutron.bindings)
        self.bindings.delete_other_bindings(self.context, [fakes.PORT])
        self.assertEqual({HOST: 'ACTIVE'}, self.neutron.bindings)
        self.assertEqual({'binding:host_id': HOST}, self.neutron.updates[-1])

    def test_bindings_of_a_port_of_another_host_are_kept(self) -> None:
        self._prepared()
        self.bindings.delete_other_bindings(self.context, [fakes.PORT])
        self.assertEqual({PRIMARY: 'ACTIVE', HOST: 'INACTIVE'}, self.neutron.bindings)

    def test_activation_creates_a_removed_binding(self) -> None:
        self.bindings.activate(self.context, [fakes.PORT])
        self.assertEqual([{'binding:host_id': HOST}], self.neutron.updates)

    def test_hardware_addresses_of_neighbours_are_read(self) -> None:
        self.neutron.port.update(mac_address='FA:16:3E:00:00:99', fixed_ips=[
            {'ip_address': fakes.GATEWAY}, {'ip_address': '10.88.0.1'}])
        self.assertEqual({fakes.GATEWAY: 'fa:16:3e:00:00:99'}, self.bindings.neighbours(
            self.context, 'network', [fakes.GATEWAY]))
        self.assertEqual({}, self.bindings.neighbours(self.context, 'network', []))

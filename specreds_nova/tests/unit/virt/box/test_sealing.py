# SPDX-License-Identifier: Apache-2.0
import pathlib
import threading
from typing import Any
from unittest import mock

import fixtures
from nova import objects
import nova.conf
from nova.network import model as network_model
from oslo_config import fixture as config_fixture
import testtools

from specreds_nova.tests.unit.virt.box import fakes
from specreds_nova.virt.box import announce
from specreds_nova.virt.box import base
from specreds_nova.virt.box import errors
from specreds_nova.virt.box import metadata
from specreds_nova.virt.box import ovs
from specreds_nova.virt.box import plan as plans
from specreds_nova.virt.box import plan_store
from specreds_nova.virt.box import privileged
from specreds_nova.virt.box import sealing

# Seconds after which an awaited event counts as missing.
_TIMEOUT = 20.0


class _TestCase(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        conf = self.useFixture(config_fixture.Config(nova.conf.CONF))
        state = self.useFixture(fixtures.TempDir()).path
        conf.config(state_path=state, host='node2')
        self.kept = pathlib.Path(state, 'specreds', 'boxes', fakes.PORT)
        self.mechanism = fakes.FakeMechanism()
        self.useFixture(fixtures.MockPatchObject(ovs, 'Ovs', return_value=self.mechanism))
        self.bindings = self.mechanism.bindings
        self.bindings.ports.return_value = {fakes.PORT: {'id': fakes.PORT, 'network_id': 'n'}}
        self.bindings.refusals.return_value = []
        self.bindings.bind.return_value = {fakes.PORT: base.Binding(
            fakes.PORT, 'ovs', 'normal', {'bridge_name': 'br-int'}, {}, False)}
        self.bindings.neighbours.return_value = {}
        self.bindings.metadata_hops.return_value = {}
        self.useFixture(fixtures.MockPatchObject(announce, 'REPEATS', ()))
        self.privileged = {name: self.useFixture(
            fixtures.MockPatchObject(privileged, name)).mock for name in (
                'start_services', 'start_responder', 'stop_services', 'namespace_runs',
                'accepts_connection', 'warm_up')}
        self.privileged['namespace_runs'].return_value = ['dnsmasq', 'python']
        self.write = self.useFixture(fixtures.MockPatchObject(metadata, 'write')).mock
        self.instance = mock.Mock(uuid=fakes.SERVER)
        self.instance.get_network_info.return_value = network_model.NetworkInfo([fakes.vif()])
        self.read = mock.Mock(task_state=None)
        self.useFixture(fixtures.MockPatchObject(objects.Instance, 'get_by_uuid',
                                                 side_effect=lambda *_: self.read))
        self.box = self.made()

    def made(self) -> sealing.Box:
        """Return the boxes of a nova-compute that has just started."""
        box = sealing.Box(mock.sentinel.driver)
        # The work in the background must not outlive the test.
        self.addCleanup(box._background._workers.shutdown)
        return box

    def sealed(self) -> Any:
        network = self.box.seal(mock.sentinel.context, self.instance, fakes.BACKUP_ID)
        self.box.attached(self.instance, fakes.BACKUP_ID)
        self.mechanism.done.clear()
        return network

    def opened(self) -> None:
        self.sealed()
        self.box.open(mock.sentinel.context, self.instance, fakes.BACKUP_ID)
        self.mechanism.done.clear()


class TestWarmUp(_TestCase):
    """The preparations before the first box."""

    def test_everything_is_prepared(self) -> None:
        self.box.warm_up_helpers()
        self.box.warm_up_network(mock.sentinel.context)
        self.privileged['warm_up'].assert_called_once_with()
        self.assertEqual(['warm_up'], self.mechanism.done)
        self.bindings.warm_up.assert_called_once_with(mock.sentinel.context)


class TestSeal(_TestCase):

    def test_port_of_the_guest_is_connected_to_the_box(self) -> None:
        [vif] = self.sealed()
        self.assertEqual(plans.bridge_of(fakes.PORT), vif['network']['bridge'])
        [before] = self.instance.get_network_info()
        self.assertEqual('br-int', before['network']['bridge'])
        self.bindings.bind.assert_called_once()
        self.bindings.prepare.assert_called_once()
        self.privileged['start_services'].assert_called_once()
        self.privileged['start_responder'].assert_called_once()

    def test_seal_may_be_repeated(self) -> None:
        for _ in range(2):
            self.sealed()
        self.assertEqual([fakes.PORT], list(self.mechanism.boxes))

    def test_port_that_nova_may_be_moving_is_not_prepared(self) -> None:
        self.read.task_state = 'migrating'
        refusal = self.assertRaises(errors.BoxRefused, self.sealed)
        self.assertIn('task migrating', str(refusal))
        self.bindings.prepare.assert_not_called()

    def test_unsuitable_port_is_refused_without_effects(self) -> None:
        self.mechanism.refused = 'no'
        self.assertRaises(errors.BoxRefused, self.box.seal, mock.sentinel.context, self.instance,
                          fakes.BACKUP_ID)
        self.assertEqual([], self.mechanism.done)
        self.assertFalse(self.kept.exists())
        self.bindings.bind.assert_not_called()

    def test_refusal_of_the_network_service_is_an_error(self) -> None:
        self.bindings.refusals.return_value = ['it is being migrated']
        error = self.assertRaises(errors.BoxRefused, self.sealed)
        self.assertIn('being migrated', str(error))
        self.assertEqual(['it is being migrated'],
                         self.box.reasons(mock.sentinel.context, self.instance))

    def test_refusal_precedes_the_start_of_the_guest(self) -> None:
        self.bindings.refusals.return_value = ['it is the parent of a trunk']
        self.box.seal(mock.sentinel.context, self.instance, fakes.BACKUP_ID)
        error = self.assertRaises(errors.BoxRefused, self.box.admitted, fakes.BACKUP_ID)
        self.assertIn('trunk', str(error))
        self.bindings.bind.assert_not_called()

    def test_admission_reads_the_ports_once(self) -> None:
        self.box.seal(mock.sentinel.context, self.instance, fakes.BACKUP_ID)
        self.box.admitted(fakes.BACKUP_ID)
        self.box.admitted(fakes.BACKUP_ID)
        self.bindings.ports.assert_called_once()

    def test_silent_network_service_is_an_error(self) -> None:
        self.bindings.ports.side_effect = OSError('no route')
        self.assertRaises(OSError, self.sealed)
        self.assertNotIn('open', self.mechanism.done)

    def test_bridge_of_this_host_is_used(self) -> None:
        self.bindings.bind.return_value = {fakes.PORT: base.Binding(
            fakes.PORT, 'ovs', 'normal', {'bridge_name': 'br-other'}, {}, False)}
        error = self.assertRaises(errors.BoxRefused, self.sealed)
        self.assertIn('br-other', str(error))

    def test_other_firewall_of_this_host_is_refused(self) -> None:
        self.bindings.bind.return_value = {fakes.PORT: base.Binding(
            fakes.PORT, 'ovs', 'normal', {'bridge_name': 'br-int', 'ovs_hybrid_plug': True}, {},
            False)}
        error = self.assertRaises(errors.BoxRefused, self.sealed)
        self.assertIn('security groups would not apply', str(error))

    def test_host_that_another_driver_wires_is_refused(self) -> None:
        self.bindings.bind.return_value = {fakes.PORT: base.Binding(
            fakes.PORT, 'ovs', 'normal', {'bridge_name': 'br-int', 'bound_drivers': {'0': 'ovn'}},
            {}, False)}
        error = self.assertRaises(errors.BoxRefused, self.sealed)
        self.assertIn('this host only', str(error))

    def test_device_does_not_have_the_id_of_a_port_of_ovn(self) -> None:
        self._bind_by_ovn()
        [vif] = self.sealed()
        self.assertEqual(plans.foreign_id(fakes.PORT), vif['ovs_interfaceid'])
        [through] = self.box.through(self.instance.get_network_info())
        self.assertEqual(plans.foreign_id(fakes.PORT), through['ovs_interfaceid'])
        self.assertNotEqual(fakes.PORT, plans.foreign_id(fakes.PORT))

    def test_guest_routes_to_metadata_as_outside_the_box(self) -> None:
        self._bind_by_ovn()
        self.bindings.metadata_hops.return_value = {'10.77.0.3': 'fa:16:3e:00:00:98'}
        self.bindings.neighbours.return_value = {fakes.GATEWAY: 'fa:16:3e:00:00:99'}
        self.sealed()
        [served] = self.privileged['start_services'].call_args.args
        self.assertEqual(('10.77.0.3',), plans.Plan.from_json(served).metadata_hops)
        assert self.mechanism.plan
        self.assertEqual(
            ('fa:16:3e:00:00:98', 'fa:16:3e:00:00:99'),
            tuple(self.mechanism.plan.answered[address] for address in ('10.77.0.3',
                                                                        fakes.GATEWAY)))

    def _bind_by_ovn(self) -> None:
        details = {'bridge_name': 'br-int', 'bound_drivers': {'0': 'ovn'}}
        self.instance.get_network_info.return_value = network_model.NetworkInfo(
            [fakes.vif(details=details)])
        self.bindings.bind.return_value = {fakes.PORT: base.Binding(
            fakes.PORT, 'ovs', 'normal', details, {}, False)}

    def test_hardware_addresses_outside_are_learned(self) -> None:
        self.bindings.neighbours.return_value = {fakes.GATEWAY: 'fa:16:3e:00:00:99'}
        self.sealed()
        assert self.mechanism.plan
        self.assertEqual('fa:16:3e:00:00:99', self.mechanism.plan.answered[fakes.GATEWAY])

    def test_failed_dhcp_is_an_error_and_failed_metadata_is_not(self) -> None:
        self.write.side_effect = ValueError('no')
        self.sealed()
        self.privileged['start_services'].side_effect = OSError('no')
        self.assertRaises(errors.BoxFailed, self.sealed)


class TestOpen(_TestCase):

    def test_switch_is_opened_before_the_binding_moves(self) -> None:
        self.sealed()
        self.bindings.activate.side_effect = lambda *_: self.mechanism.done.append('activate')
        timings = self.box.open(mock.sentinel.context, self.instance, fakes.BACKUP_ID)
        self.assertEqual(['open', 'activate', 'settle'], self.mechanism.done)
        self.assertEqual({'box_open', 'bindings', 'box_settled'}, timings.keys())
        self.privileged['stop_services'].assert_called_once_with(fakes.PORT)

    def test_open_is_repeated_after_a_failure_of_the_network_service(self) -> None:
        self.sealed()
        self.bindings.activate.side_effect = [errors.BoxFailed(port='x', reason='no'), None]
        self.assertRaises(errors.BoxFailed, self.box.open, mock.sentinel.context, self.instance,
                          fakes.BACKUP_ID)
        self.assertEqual(['open'], self.mechanism.done)
        self.box.open(mock.sentinel.context, self.instance, fakes.BACKUP_ID)
        self.assertEqual(base.State.OPEN, self.mechanism.boxes[fakes.PORT].state)

    def test_open_without_a_box_is_an_error(self) -> None:
        self.assertRaises(errors.BoxNotFound, self.box.open, mock.sentinel.context,
                          self.instance, fakes.BACKUP_ID)
        self.assertEqual([], self.mechanism.done)


class TestRemove(_TestCase):

    def test_box_is_removed_completely(self) -> None:
        self.sealed()
        for _ in range(2):
            self.box.remove(mock.sentinel.context, None, fakes.BACKUP_ID)
        self.assertEqual({}, self.mechanism.boxes)
        self.assertFalse(self.kept.exists())
        self.privileged['stop_services'].assert_called_once_with(fakes.PORT)
        self.bindings.remove.assert_called_with(mock.sentinel.context, [])

    def test_removal_waits_for_work_in_the_background(self) -> None:
        self.box.seal(mock.sentinel.context, self.instance, fakes.BACKUP_ID)
        order = mock.Mock()
        order.attach_mock(self.bindings.bind, 'bind')
        order.attach_mock(self.bindings.remove, 'remove')
        self.box.remove(mock.sentinel.context, None, fakes.BACKUP_ID)
        names = [call[0] for call in order.mock_calls]
        self.assertEqual('remove', names[-1])

    def test_removal_waits_for_the_work_that_goes_on_after_a_failure(self) -> None:
        self.bindings.bind.side_effect = errors.BoxFailed(port='x', reason='no')
        goes_on, removed = threading.Event(), threading.Event()
        self.addCleanup(goes_on.set)
        self.write.side_effect = lambda *arguments: goes_on.wait(_TIMEOUT)
        self.box.seal(mock.sentinel.context, self.instance, fakes.BACKUP_ID)
        self.assertRaises(errors.BoxFailed, self.box.attached, self.instance, fakes.BACKUP_ID)

        def remove() -> None:
            self.box.remove(mock.sentinel.context, None, fakes.BACKUP_ID)
            removed.set()
        thread = threading.Thread(target=remove)
        thread.start()
        self.addCleanup(thread.join)
        self.assertFalse(removed.wait(0.1))
        goes_on.set()
        self.assertTrue(removed.wait(_TIMEOUT))

    def test_device_of_the_guest_is_unplugged_before_its_box_is_removed(self) -> None:
        self.sealed()
        self.box.remove(mock.sentinel.context, None, fakes.BACKUP_ID)
        self.assertEqual(['unplug', 'remove'], self.mechanism.done[-2:])

    def test_failed_unplugging_keeps_no_box_and_is_repeated(self) -> None:
        self.sealed()
        self.mechanism.failure = OSError('busy')
        self.assertRaises(errors.BoxNotRemoved, self.box.remove, mock.sentinel.context, None,
                          fakes.BACKUP_ID)
        self.assertEqual({}, self.mechanism.boxes)
        self.assertTrue(self.kept.exists())
        self.assertEqual([fakes.BACKUP_ID],
                         [plan.backup_id for plan in plan_store.PlanStore(
                             self.kept.parent).all()])

    def test_removal_is_incomplete_without_the_network_service(self) -> None:
        self.sealed()
        self.bindings.remove.side_effect = [OSError('no route'), None]
        self.assertRaises(errors.BoxNotRemoved, self.box.remove, mock.sentinel.context, None,
                          fakes.BACKUP_ID)
        self.assertEqual({}, self.mechanism.boxes)
        self.box.remove(mock.sentinel.context, None, fakes.BACKUP_ID)
        self.bindings.remove.assert_called_with(mock.sentinel.context, [fakes.PORT])
        self.assertFalse(self.kept.exists())


class TestReconcile(_TestCase):

    def _after_a_restart(self) -> None:
        self.box = self.made()
        self.mechanism.done.clear()

    def test_healthy_box_is_left_alone(self) -> None:
        self.sealed()
        self._after_a_restart()
        self.box.reconcile({fakes.BACKUP_ID}, set())
        self.assertEqual([], self.mechanism.done)

    def test_restarted_switch_gets_its_flows(self) -> None:
        self.sealed()
        self._after_a_restart()
        self.mechanism.boxes[fakes.PORT] = base.ExistingBox(
            fakes.PORT, fakes.BACKUP_ID, fakes.SERVER, base.State.SHUT, False)
        self.privileged['namespace_runs'].return_value = []
        self.box.reconcile({fakes.BACKUP_ID}, set())
        self.assertEqual(['seal', 'serve'], self.mechanism.done)

    def test_dead_dhcp_server_is_started(self) -> None:
        self.sealed()
        self._after_a_restart()
        self.privileged['namespace_runs'].return_value = []
        self.box.reconcile({fakes.BACKUP_ID}, set())
        self.assertEqual(['serve'], self.mechanism.done)

    def test_open_box_of_an_unpromoted_backup_is_sealed(self) -> None:
        self.opened()
        self._after_a_restart()
        self.box.reconcile({fakes.BACKUP_ID}, set())
        self.assertEqual(base.State.SHUT, self.mechanism.boxes[fakes.PORT].state)

    def test_look_from_before_the_promotion_seals_nothing(self) -> None:
        self.opened()
        self.box.reconcile({fakes.BACKUP_ID}, set())
        self.assertEqual(base.State.OPEN, self.mechanism.boxes[fakes.PORT].state)

    def test_sealed_box_of_a_promoted_backup_is_opened(self) -> None:
        self.sealed()
        self._after_a_restart()
        self.box.reconcile(set(), {fakes.BACKUP_ID})
        self.assertEqual(['open', 'settle'], self.mechanism.done)

    def test_unknown_sealed_box_is_removed(self) -> None:
        self.sealed()
        self._after_a_restart()
        self.box.reconcile(set(), set())
        self.assertEqual({}, self.mechanism.boxes)
        self.assertFalse(self.kept.exists())

    def test_box_of_an_unsure_backup_is_left_alone(self) -> None:
        self.sealed()
        self._after_a_restart()
        self.box.reconcile(set(), set(), {fakes.BACKUP_ID})
        self.assertEqual([], self.mechanism.done)

    def test_open_box_of_an_adopted_server_is_kept(self) -> None:
        self.opened()
        self._after_a_restart()
        self.box.reconcile(set(), set())
        self.assertEqual([], self.mechanism.done)
        self.assertTrue(self.kept.exists())


class TestAdopted(_TestCase):

    def test_adopted_server_stays_in_its_open_box(self) -> None:
        self.opened()
        before = self.instance.get_network_info()
        [vif] = self.box.through(before)
        self.assertEqual(plans.bridge_of(fakes.PORT), vif['network']['bridge'])
        self.assertEqual('br-int', before[0]['network']['bridge'])

    def test_server_without_a_box_is_plugged_by_nova(self) -> None:
        before = self.instance.get_network_info()
        self.assertIs(before, self.box.through(before))
        self.box.unplugged(before)
        self.assertEqual([], self.mechanism.done)

    def test_open_box_is_removed_when_the_server_is_unplugged(self) -> None:
        self.opened()
        for _ in range(2):
            self.box.unplugged(self.instance.get_network_info())
        self.assertEqual({}, self.mechanism.boxes)
        self.assertFalse(self.kept.exists())
        self.bindings.remove.assert_not_called()

    def test_sealed_box_is_kept_when_the_server_is_unplugged(self) -> None:
        self.sealed()
        self.box.unplugged(self.instance.get_network_info())
        self.assertEqual(base.State.SHUT, self.mechanism.boxes[fakes.PORT].state)

    def test_restarted_guest_is_plugged_again(self) -> None:
        self.box.prepare_plug(fakes.PORT)
        self.sealed()
        self.box.prepare_plug(fakes.PORT)
        self.assertNotIn('release', self.mechanism.done)
        self.opened()
        self.box.prepare_plug(fakes.PORT)
        self.assertEqual(1, self.mechanism.done.count('release'))


class TestProbe(_TestCase):

    def test_any_address_of_the_guest_is_probed(self) -> None:
        self.sealed()
        self.privileged['accepts_connection'].return_value = True
        self.assertTrue(self.box.accepts_connection(fakes.BACKUP_ID, 80, 0.5))
        self.privileged['accepts_connection'].assert_called_once_with(
            fakes.PORT, fakes.ADDRESS, 80, 0.5)
        self.assertFalse(self.box.accepts_connection('another', 80, 0.5))
        self.assertEqual(plans.namespace_of(fakes.PORT), self.box.namespace(fakes.BACKUP_ID))

# SPDX-License-Identifier: Apache-2.0
"""Boxes are made, opened and removed."""

import threading
from unittest import mock

import fixtures
from nova.network import model as network_model

from specreds_nova.host.box import errors
from specreds_nova.host.box import ovs
from specreds_nova.host.box import plan as plans
from specreds_nova.tests.unit.host.box import fakes
from specreds_nova.tests.unit.host.box import sealing_base

# Seconds after which an awaited event counts as missing.
_TIMEOUT = 20.0


class TestWarmUp(sealing_base.SealingTestCase):
    """The preparations before the first box."""

    def test_everything_is_prepared(self) -> None:
        self.box.warm_up_helpers()
        self.box.warm_up_network(mock.sentinel.context)
        self.privileged['warm_up'].assert_called_once_with()
        self.assertEqual(['warm_up'], self.mechanism.done)
        self.bindings.warm_up.assert_called_once_with(mock.sentinel.context)


class TestSeal(sealing_base.SealingTestCase):

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

    def test_device_does_not_have_the_id_of_a_port_of_ovn(self) -> None:
        self.bind_by_ovn()
        [vif] = self.sealed()
        self.assertEqual(plans.foreign_id(fakes.PORT), vif['ovs_interfaceid'])
        [through] = self.box.through(self.instance.get_network_info())
        self.assertEqual(plans.foreign_id(fakes.PORT), through['ovs_interfaceid'])
        self.assertNotEqual(fakes.PORT, plans.foreign_id(fakes.PORT))


class TestGone(sealing_base.SealingTestCase):
    """A port that Nova still knows, and the network service does not."""

    other = 'eeeeeeee-1111-4111-8111-111111111111'

    def setUp(self) -> None:
        super().setUp()
        self.instance.get_network_info.return_value = network_model.NetworkInfo(
            [fakes.vif(id=self.other, devname='tapeeeeeeee-11'), fakes.vif()])

    def test_backup_has_the_ports_that_are_left(self) -> None:
        [vif] = self.sealed()
        self.assertEqual(fakes.PORT, vif['id'])
        self.assertEqual([fakes.PORT], list(self.mechanism.boxes))
        [bound] = self.bindings.bind.call_args.args[1]
        self.assertEqual(fakes.PORT, bound['id'])
        self.privileged['start_services'].assert_called_once()
        self.box.admitted(fakes.BACKUP_ID)
        self.opened()
        self.bindings.activate.assert_called_once_with(mock.sentinel.context, [fakes.PORT])

    def test_backup_without_a_port_is_opened(self) -> None:
        self.bindings.ports.return_value = {}
        self.bindings.bind.return_value = {}
        self.assertEqual([], list(self.sealed()))
        self.assertEqual({}, self.mechanism.boxes)
        self.assertIsNone(self.box.namespace(fakes.BACKUP_ID))
        self.box.open(mock.sentinel.context, self.instance, fakes.BACKUP_ID)
        self.assertEqual([], self.mechanism.done)


class TestOpen(sealing_base.SealingTestCase):

    def test_binding_moves_while_the_switch_is_opened(self) -> None:
        self.sealed()
        both = threading.Barrier(2, timeout=_TIMEOUT)
        self.bindings.activate.side_effect = lambda *_: both.wait()
        opened = self.mechanism.open

        def wait_and_open(plan: plans.Plan) -> None:
            both.wait()
            opened(plan)
        self.useFixture(fixtures.MockPatchObject(self.mechanism, 'open', wait_and_open))
        timings = self.box.open(mock.sentinel.context, self.instance, fakes.BACKUP_ID)
        self.assertEqual(['open', 'settle'], self.mechanism.done)
        self.assertEqual({'box_open', 'bindings', 'box_settled'}, timings.keys())
        self.privileged['stop_services'].assert_called_once_with(fakes.PORT)

    def test_open_is_repeated_after_a_failure_of_the_network_service(self) -> None:
        self.sealed()
        self.bindings.activate.side_effect = [errors.BoxFailed(port='x', reason='no'), None]
        self.assertRaises(errors.BoxFailed, self.box.open, mock.sentinel.context, self.instance,
                          fakes.BACKUP_ID)
        self.assertEqual(['open'], self.mechanism.done)
        self.box.open(mock.sentinel.context, self.instance, fakes.BACKUP_ID)
        self.assertEqual(ovs.State.OPEN, self.mechanism.boxes[fakes.PORT].state)

    def test_open_without_a_box_is_an_error(self) -> None:
        self.assertRaises(errors.BoxNotFound, self.box.open, mock.sentinel.context,
                          self.instance, fakes.BACKUP_ID)
        self.assertEqual([], self.mechanism.done)


class TestRemove(sealing_base.SealingTestCase):

    def test_box_is_removed_completely(self) -> None:
        self.sealed()
        for _ in range(2):
            self.box.remove(mock.sentinel.context, fakes.BACKUP_ID)
        self.assertEqual({}, self.mechanism.boxes)
        self.assertFalse(self.kept.exists())
        self.privileged['stop_services'].assert_called_once_with(fakes.PORT)
        self.bindings.remove.assert_called_with(mock.sentinel.context, [])

    def test_removal_waits_for_work_in_the_background(self) -> None:
        self.box.seal(mock.sentinel.context, self.instance, fakes.BACKUP_ID)
        order = mock.Mock()
        order.attach_mock(self.bindings.bind, 'bind')
        order.attach_mock(self.bindings.remove, 'remove')
        self.box.remove(mock.sentinel.context, fakes.BACKUP_ID)
        names = [call[0] for call in order.mock_calls]
        self.assertEqual('remove', names[-1])

    def test_removal_waits_for_the_work_that_goes_on_after_a_failure(self) -> None:
        self.bindings.bind.side_effect = errors.BoxFailed(port='x', reason='no')
        begun, goes_on, removed = threading.Event(), threading.Event(), threading.Event()
        self.addCleanup(goes_on.set)

        def write(*_arguments: object) -> None:
            begun.set()
            goes_on.wait(_TIMEOUT)
        self.write.side_effect = write
        self.box.seal(mock.sentinel.context, self.instance, fakes.BACKUP_ID)
        self.assertTrue(begun.wait(_TIMEOUT))
        self.assertRaises(errors.BoxFailed, self.box.attached, self.instance, fakes.BACKUP_ID)

        def remove() -> None:
            self.box.remove(mock.sentinel.context, fakes.BACKUP_ID)
            removed.set()
        thread = threading.Thread(target=remove)
        thread.start()
        self.addCleanup(thread.join)
        self.assertFalse(removed.wait(0.1))
        goes_on.set()
        self.assertTrue(removed.wait(_TIMEOUT))

    def test_device_of_the_guest_is_unplugged_before_its_box_is_removed(self) -> None:
        self.sealed()
        self.box.remove(mock.sentinel.context, fakes.BACKUP_ID)
        self.assertEqual(['unplug', 'remove'], self.mechanism.done[-2:])

    def test_failed_unplugging_keeps_no_box_and_is_repeated(self) -> None:
        self.sealed()
        self.mechanism.failure = OSError('busy')
        self.assertRaises(errors.BoxNotRemoved, self.box.remove, mock.sentinel.context,
                          fakes.BACKUP_ID)
        self.assertEqual({}, self.mechanism.boxes)
        self.assertTrue(self.kept.exists())
        self.assertEqual([fakes.BACKUP_ID],
                         [plan.backup_id for plan in plans.PlanStore(
                             self.kept.parent).all()])

    def test_removal_is_incomplete_without_the_network_service(self) -> None:
        self.sealed()
        self.bindings.remove.side_effect = [OSError('no route'), None]
        self.assertRaises(errors.BoxNotRemoved, self.box.remove, mock.sentinel.context,
                          fakes.BACKUP_ID)
        self.assertEqual({}, self.mechanism.boxes)
        self.box.remove(mock.sentinel.context, fakes.BACKUP_ID)
        self.bindings.remove.assert_called_with(mock.sentinel.context, [fakes.PORT])
        self.assertFalse(self.kept.exists())


class TestProbe(sealing_base.SealingTestCase):

    def test_any_address_of_the_guest_is_probed(self) -> None:
        self.sealed()
        self.privileged['accepts_connection'].return_value = True
        self.assertTrue(self.box.accepts_connection(fakes.BACKUP_ID, 80, 0.5))
        self.privileged['accepts_connection'].assert_called_once_with(
            fakes.PORT, fakes.ADDRESS, 80, 0.5)
        self.assertFalse(self.box.accepts_connection('another', 80, 0.5))
        self.assertEqual(plans.namespace_of(fakes.PORT), self.box.namespace(fakes.BACKUP_ID))

# SPDX-License-Identifier: Apache-2.0
import pathlib
from typing import Any
from unittest import mock

import fixtures
import nova.conf
from nova.network import model as network_model
from oslo_config import fixture as config_fixture
import testtools

from specreds_nova.tests.unit.virt.box import fakes
from specreds_nova.virt.box import announce
from specreds_nova.virt.box import base
from specreds_nova.virt.box import bindings
from specreds_nova.virt.box import errors
from specreds_nova.virt.box import metadata
from specreds_nova.virt.box import ovs
from specreds_nova.virt.box import plan as plans
from specreds_nova.virt.box import privileged
from specreds_nova.virt.box import sealing


class FakeMechanism:
    """Boxes of which nothing but the state is there, and all that is done to them."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.boxes: dict[str, base.ExistingBox] = {}
        self.plan: plans.Plan | None = None
        self.refused: str | None = None

    def warm_up(self) -> None:
        self.done.append('warm_up')

    def refusal(self, vif_type: str, vnic_type: str, details: Any) -> str | None:
        return self.refused

    def seal(self, plan: plans.Plan) -> None:
        self.done.append('seal')
        self.plan = plan
        self._put(plan, base.State.SHUT)

    def settle(self, plan: plans.Plan) -> None:
        self.done.append('settle')
        self._put(plan, base.State.OPEN)

    def remove(self, port: str) -> None:
        self.done.append('remove')
        self.boxes.pop(port, None)

    def existing(self) -> list[base.ExistingBox]:
        return list(self.boxes.values())

    def _put(self, plan: plans.Plan, state: base.State) -> None:
        self.boxes[plan.port] = base.ExistingBox(
            plan.port, plan.backup_id, plan.instance, state, True)

    def __getattr__(self, name: str) -> Any:
        return lambda plan: self.done.append(name)


class _TestCase(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        conf = self.useFixture(config_fixture.Config(nova.conf.CONF))
        state = self.useFixture(fixtures.TempDir()).path
        conf.config(state_path=state, host='node2')
        self.kept = pathlib.Path(state, 'specreds', 'boxes', fakes.PORT)
        self.mechanism = FakeMechanism()
        self.useFixture(fixtures.MockPatchObject(ovs, 'Ovs', return_value=self.mechanism))
        self.bindings = mock.Mock()
        self.bindings.ports.return_value = {fakes.PORT: {'id': fakes.PORT, 'network_id': 'n'}}
        self.bindings.refusal.return_value = None
        self.bindings.bind.return_value = {fakes.PORT: bindings.Binding(
            fakes.PORT, 'ovs', 'normal', {'bridge_name': 'br-int'}, {}, False)}
        self.bindings.neighbours.return_value = {}
        self.useFixture(fixtures.MockPatchObject(bindings, 'Bindings',
                                                 return_value=self.bindings))
        self.useFixture(fixtures.MockPatchObject(announce, 'REPEATS', ()))
        self.privileged = {name: self.useFixture(
            fixtures.MockPatchObject(privileged, name)).mock for name in (
                'start_services', 'start_responder', 'stop_services', 'namespace_runs',
                'accepts_connection', 'warm_up')}
        self.privileged['namespace_runs'].return_value = ['dnsmasq', 'python']
        self.write = self.useFixture(fixtures.MockPatchObject(metadata, 'write')).mock
        self.instance = mock.Mock(uuid=fakes.SERVER)
        self.instance.get_network_info.return_value = network_model.NetworkInfo([fakes.vif()])
        self.box = self.made()

    def made(self) -> sealing.Box:
        """The boxes of a nova-compute that has just started."""
        box = sealing.Box(mock.sentinel.driver)
        # What it does in the background must not come to do it when the test is over.
        self.addCleanup(box._workers.shutdown)
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
    """What runs, and is known, before there is a box."""

    def test_all(self) -> None:
        self.box.warm_up_helpers()
        self.box.warm_up_network(mock.sentinel.context)
        self.privileged['warm_up'].assert_called_once_with()
        self.assertEqual(['warm_up'], self.mechanism.done)
        self.bindings.warm_up.assert_called_once_with(mock.sentinel.context)


class TestSeal(_TestCase):

    def test_the_guest_goes_into_the_box(self) -> None:
        [vif] = self.sealed()
        self.assertEqual(plans.bridge_of(fakes.PORT), vif['network']['bridge'])
        [before] = self.instance.get_network_info()
        self.assertEqual('br-int', before['network']['bridge'])
        self.bindings.bind.assert_called_once()
        self.bindings.prepare.assert_called_once()
        self.privileged['start_services'].assert_called_once()
        self.privileged['start_responder'].assert_called_once()

    def test_again(self) -> None:
        for _ in range(2):
            self.sealed()
        self.assertEqual([fakes.PORT], list(self.mechanism.boxes))

    def test_refused_before_anything_is_begun(self) -> None:
        self.mechanism.refused = 'no'
        self.assertRaises(errors.BoxRefused, self.box.seal, mock.sentinel.context, self.instance,
                          fakes.BACKUP_ID)
        self.assertEqual([], self.mechanism.done)
        self.assertFalse(self.kept.exists())
        self.bindings.bind.assert_not_called()

    def test_the_network_service_refuses(self) -> None:
        self.bindings.refusal.return_value = 'it is being migrated'
        error = self.assertRaises(errors.BoxRefused, self.sealed)
        self.assertIn('being migrated', str(error))
        self.assertEqual(['it is being migrated'],
                         self.box.reasons(mock.sentinel.context, self.instance))

    def test_the_network_service_does_not_answer(self) -> None:
        self.bindings.ports.side_effect = OSError('no route')
        self.assertRaises(OSError, self.sealed)
        self.assertNotIn('open', self.mechanism.done)

    def test_another_bridge_here(self) -> None:
        self.bindings.bind.return_value = {fakes.PORT: bindings.Binding(
            fakes.PORT, 'ovs', 'normal', {'bridge_name': 'br-other'}, {}, False)}
        error = self.assertRaises(errors.BoxRefused, self.sealed)
        self.assertIn('br-other', str(error))

    def test_hardware_addresses_outside_are_learnt(self) -> None:
        self.bindings.neighbours.return_value = {fakes.GATEWAY: 'fa:16:3e:00:00:99'}
        self.sealed()
        assert self.mechanism.plan
        self.assertEqual('fa:16:3e:00:00:99', self.mechanism.plan.answered[fakes.GATEWAY])

    def test_no_dhcp_is_a_failure_and_no_metadata_is_not(self) -> None:
        self.write.side_effect = ValueError('no')
        self.sealed()
        self.privileged['start_services'].side_effect = OSError('no')
        self.assertRaises(errors.BoxFailed, self.sealed)


class TestOpen(_TestCase):

    def test_the_switch_is_first(self) -> None:
        self.sealed()
        self.bindings.activate.side_effect = lambda *_: self.mechanism.done.append('activate')
        timings = self.box.open(mock.sentinel.context, self.instance, fakes.BACKUP_ID)
        self.assertEqual(['open', 'activate', 'settle'], self.mechanism.done)
        self.assertEqual({'box_open', 'bindings', 'box_settled'}, timings.keys())
        self.privileged['stop_services'].assert_called_once_with(fakes.PORT)

    def test_again_after_the_network_service_failed(self) -> None:
        self.sealed()
        self.bindings.activate.side_effect = [errors.BoxFailed(port='x', reason='no'), None]
        self.assertRaises(errors.BoxFailed, self.box.open, mock.sentinel.context, self.instance,
                          fakes.BACKUP_ID)
        self.assertEqual(['open'], self.mechanism.done)
        self.box.open(mock.sentinel.context, self.instance, fakes.BACKUP_ID)
        self.assertEqual(base.State.OPEN, self.mechanism.boxes[fakes.PORT].state)

    def test_no_box(self) -> None:
        self.assertRaises(errors.BoxNotFound, self.box.open, mock.sentinel.context,
                          self.instance, fakes.BACKUP_ID)
        self.assertEqual([], self.mechanism.done)


class TestRemove(_TestCase):

    def test_nothing_is_left(self) -> None:
        self.sealed()
        for _ in range(2):
            self.box.remove(mock.sentinel.context, None, fakes.BACKUP_ID)
        self.assertEqual({}, self.mechanism.boxes)
        self.assertFalse(self.kept.exists())
        self.privileged['stop_services'].assert_called_once_with(fakes.PORT)
        self.bindings.remove.assert_called_with(mock.sentinel.context, [])

    def test_what_was_begun_ends_first(self) -> None:
        self.box.seal(mock.sentinel.context, self.instance, fakes.BACKUP_ID)
        order = mock.Mock()
        order.attach_mock(self.bindings.bind, 'bind')
        order.attach_mock(self.bindings.remove, 'remove')
        self.box.remove(mock.sentinel.context, None, fakes.BACKUP_ID)
        names = [call[0] for call in order.mock_calls]
        self.assertEqual('remove', names[-1])

    def test_the_network_service_does_not_answer(self) -> None:
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

    def test_a_box_that_is_well_is_left_alone(self) -> None:
        self.sealed()
        self._after_a_restart()
        self.box.reconcile({fakes.BACKUP_ID}, set())
        self.assertEqual([], self.mechanism.done)

    def test_a_switch_that_restarted_gets_its_flows(self) -> None:
        self.sealed()
        self._after_a_restart()
        self.mechanism.boxes[fakes.PORT] = base.ExistingBox(
            fakes.PORT, fakes.BACKUP_ID, fakes.SERVER, base.State.SHUT, False)
        self.privileged['namespace_runs'].return_value = []
        self.box.reconcile({fakes.BACKUP_ID}, set())
        self.assertEqual(['seal', 'serve'], self.mechanism.done)

    def test_a_dhcp_server_that_died_is_started(self) -> None:
        self.sealed()
        self._after_a_restart()
        self.privileged['namespace_runs'].return_value = []
        self.box.reconcile({fakes.BACKUP_ID}, set())
        self.assertEqual(['serve'], self.mechanism.done)

    def test_an_open_box_of_what_is_not_promoted_is_shut(self) -> None:
        self.opened()
        self._after_a_restart()
        self.box.reconcile({fakes.BACKUP_ID}, set())
        self.assertEqual(base.State.SHUT, self.mechanism.boxes[fakes.PORT].state)

    def test_who_has_looked_before_the_promotion_shuts_nothing(self) -> None:
        self.opened()
        self.box.reconcile({fakes.BACKUP_ID}, set())
        self.assertEqual(base.State.OPEN, self.mechanism.boxes[fakes.PORT].state)

    def test_a_shut_box_of_what_is_promoted_is_opened(self) -> None:
        self.sealed()
        self._after_a_restart()
        self.box.reconcile(set(), {fakes.BACKUP_ID})
        self.assertEqual(['open', 'settle'], self.mechanism.done)

    def test_a_shut_box_that_nothing_is_known_of_is_removed(self) -> None:
        self.sealed()
        self._after_a_restart()
        self.box.reconcile(set(), set())
        self.assertEqual({}, self.mechanism.boxes)
        self.assertFalse(self.kept.exists())

    def test_as_long_as_it_is_not_known_nothing_is_done(self) -> None:
        self.sealed()
        self._after_a_restart()
        self.box.reconcile(set(), set(), {fakes.BACKUP_ID})
        self.assertEqual([], self.mechanism.done)

    def test_an_open_box_carries_an_adopted_server(self) -> None:
        self.opened()
        self._after_a_restart()
        self.box.reconcile(set(), set())
        self.assertEqual([], self.mechanism.done)
        self.assertTrue(self.kept.exists())


class TestAdopted(_TestCase):

    def test_is_plugged_where_it_is(self) -> None:
        self.opened()
        before = self.instance.get_network_info()
        [vif] = self.box.through(before)
        self.assertEqual(plans.bridge_of(fakes.PORT), vif['network']['bridge'])
        self.assertEqual('br-int', before[0]['network']['bridge'])

    def test_a_server_like_any_other(self) -> None:
        before = self.instance.get_network_info()
        self.assertIs(before, self.box.through(before))
        self.box.unplugged(before)
        self.assertEqual([], self.mechanism.done)

    def test_its_box_goes_when_it_is_unplugged(self) -> None:
        self.opened()
        for _ in range(2):
            self.box.unplugged(self.instance.get_network_info())
        self.assertEqual({}, self.mechanism.boxes)
        self.assertFalse(self.kept.exists())
        self.bindings.remove.assert_not_called()

    def test_a_shut_box_does_not(self) -> None:
        self.sealed()
        self.box.unplugged(self.instance.get_network_info())
        self.assertEqual(base.State.SHUT, self.mechanism.boxes[fakes.PORT].state)

    def test_a_guest_that_is_started_again_is_plugged_anew(self) -> None:
        self.box.prepare_plug(fakes.PORT)
        self.sealed()
        self.box.prepare_plug(fakes.PORT)
        self.assertNotIn('release', self.mechanism.done)
        self.opened()
        self.box.prepare_plug(fakes.PORT)
        self.assertEqual(1, self.mechanism.done.count('release'))


class TestProbe(_TestCase):

    def test_any_address(self) -> None:
        self.sealed()
        self.privileged['accepts_connection'].return_value = True
        self.assertTrue(self.box.accepts_connection(fakes.BACKUP_ID, 80, 0.5))
        self.privileged['accepts_connection'].assert_called_once_with(
            fakes.PORT, fakes.ADDRESS, 80, 0.5)
        self.assertFalse(self.box.accepts_connection('another', 80, 0.5))
        self.assertEqual(plans.namespace_of(fakes.PORT), self.box.namespace(fakes.BACKUP_ID))

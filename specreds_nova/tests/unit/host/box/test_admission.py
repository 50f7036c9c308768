# SPDX-License-Identifier: Apache-2.0
"""Which ports may be in a box on this host."""

from unittest import mock

from specreds_nova.host.box import bindings
from specreds_nova.host.box import errors
from specreds_nova.tests.unit.host.box import fakes
from specreds_nova.tests.unit.host.box import sealing_base


class TestAdmission(sealing_base.SealingTestCase):

    def test_port_that_nova_may_be_moving_is_not_prepared(self) -> None:
        self.read.task_state = 'migrating'
        refusal = self.assertRaises(errors.BoxRefused, self.sealed)
        self.assertIn('task migrating', str(refusal))
        self.bindings.prepare.assert_not_called()

    def test_port_of_a_server_that_is_to_be_rebooted_is_prepared(self) -> None:
        self.read.task_state = 'rebooting_hard'
        self.sealed()
        self.bindings.prepare.assert_called_once()

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
        self.bindings.bind.return_value = {fakes.PORT: bindings.Binding(
            'ovs', 'normal', {'bridge_name': 'br-other'})}
        error = self.assertRaises(errors.BoxRefused, self.sealed)
        self.assertIn('br-other', str(error))

    def test_other_firewall_of_this_host_is_refused(self) -> None:
        self.bindings.bind.return_value = {fakes.PORT: bindings.Binding(
            'ovs', 'normal', {'bridge_name': 'br-int', 'ovs_hybrid_plug': True})}
        error = self.assertRaises(errors.BoxRefused, self.sealed)
        self.assertIn('security groups would not apply', str(error))

    def test_host_that_another_driver_wires_is_refused(self) -> None:
        self.bindings.bind.return_value = {fakes.PORT: bindings.Binding(
            'ovs', 'normal', {'bridge_name': 'br-int', 'bound_drivers': {'0': 'ovn'}})}
        error = self.assertRaises(errors.BoxRefused, self.sealed)
        self.assertIn('this host only', str(error))

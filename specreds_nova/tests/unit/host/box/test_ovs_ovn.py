# SPDX-License-Identifier: Apache-2.0
import dataclasses
from unittest import mock

from specreds_nova.host.box import errors
from specreds_nova.tests.unit.host.box import ovs_base


class OvnTest(ovs_base.OvsTestCase):
    """Where OVN wires ports, ovn-controller takes an interface with a port's id for the port."""

    def setUp(self) -> None:
        super().setUp()
        self.plan = dataclasses.replace(self.plan, ovn=True)

    def test_no_interface_has_the_id_of_the_port_while_the_box_is_shut(self) -> None:
        self.ovs.seal(self.plan)
        [commands] = self.database.transactions
        self.assertIn(('db_remove', 'Interface', self.plan.patch_peer, 'external_ids',
                       'iface-id'), commands)
        self.assertFalse([command for command in commands if command[0] == 'db_set'
                          and "'iface-id'" in str(command)])

    def test_patch_has_the_id_of_the_port_before_the_box_passes_frames(self) -> None:
        done = []
        self.sent.side_effect = lambda *_: done.append('flows')
        command = mock.Mock()
        command.execute.side_effect = lambda check_error: done.append('id')
        with mock.patch.object(ovs_base.FakeDatabase, 'db_set', create=True,
                               return_value=command) as db_set:
            self.ovs.open(self.plan)
        db_set.assert_called_once_with('Interface', self.plan.patch_peer, (
            'external_ids', {'iface-id': self.plan.port}))
        self.assertEqual(['id', 'flows'], done)

    def test_box_stays_shut_if_the_patch_cannot_have_the_id(self) -> None:
        command = mock.Mock()
        command.execute.side_effect = RuntimeError('no switch')
        with mock.patch.object(ovs_base.FakeDatabase, 'db_set', create=True, return_value=command):
            self.assertRaises(errors.BoxFailed, self.ovs.open, self.plan)
        self.sent.assert_not_called()

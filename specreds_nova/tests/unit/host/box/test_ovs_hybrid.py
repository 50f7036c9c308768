# SPDX-License-Identifier: Apache-2.0
import pathlib
from unittest import mock

import fixtures

from specreds_nova.host.box import errors
from specreds_nova.host.box import flows
from specreds_nova.host.box import ovs
from specreds_nova.tests.unit.host.box import fakes
from specreds_nova.tests.unit.host.box import ovs_base


class HybridTest(ovs_base.OvsTestCase):
    """A Linux bridge is between the guest's device and the box."""

    def setUp(self) -> None:
        super().setUp()
        self.plan = fakes.plan(hybrid=True)
        self.database.bridges[self.plan.device] = self.plan.bridge
        self.database.rows['Interface', self.plan.device] = {'ofport': flows.GUEST}
        self.master = self.useFixture(fixtures.MockPatchObject(
            ovs, '_master', return_value='qbraaaaaaaa-11')).mock
        self.removed = self.useFixture(fixtures.MockPatchObject(ovs, 'linux_net')).mock
        devices = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(fixtures.MockPatchObject(ovs, '_DEVICES', devices))
        self.veth = devices / self.plan.device
        self.veth.touch()

    def test_veth_pair_is_the_guest_s_end_of_the_box(self) -> None:
        self.ovs.seal(self.plan)
        [commands] = self.database.transactions
        added = {command[2]: command[1] for command in commands if command[0] == 'add_port'}
        self.assertEqual(self.plan.bridge, added[self.plan.device])
        self.assertNotIn(self.plan.tap, added)

    def test_guest_is_attached_through_its_linux_bridge(self) -> None:
        self.ovs.attached(self.plan)
        self.up.assert_called_once_with(self.plan.tap)

    def test_linux_bridge_elsewhere_is_not_attached(self) -> None:
        self.database.bridges[self.plan.device] = 'br-int'
        error = self.assertRaises(errors.BoxFailed, self.ovs.attached, self.plan)
        self.assertIn('br-int', str(error))

    def test_device_outside_of_the_linux_bridge_is_not_attached(self) -> None:
        self.master.return_value = None
        error = self.assertRaises(errors.BoxFailed, self.ovs.attached, self.plan)
        self.assertIn('no bridge', str(error))

    def test_veth_pair_stays_when_the_guest_is_stopped(self) -> None:
        self.ovs.release(self.plan)
        self.assertEqual([], self.database.transactions)

    def test_linux_bridge_is_removed_with_its_box(self) -> None:
        self.ovs.remove(fakes.PORT)
        self.removed.delete_bridge.assert_called_once_with('qbraaaaaaaa-11', None)
        self.removed.delete_net_dev.assert_called_once_with(self.plan.device)

    def test_database_is_not_asked_for_a_missing_veth_pair(self) -> None:
        self.veth.unlink()
        with mock.patch.object(self.database, 'port_to_br', wraps=self.database.port_to_br) as ask:
            self.ovs.remove(fakes.PORT)
        ask.assert_called_once_with(self.plan.patch_peer)
        self.removed.delete_bridge.assert_not_called()

    def test_linux_bridge_of_a_port_outside_of_a_box_stays(self) -> None:
        self.database.bridges[self.plan.device] = 'br-int'
        self.ovs.remove(fakes.PORT)
        self.removed.delete_bridge.assert_not_called()
        self.removed.delete_net_dev.assert_not_called()

# SPDX-License-Identifier: Apache-2.0
import dataclasses
from typing import Any
from unittest import mock

import fixtures
from os_vif import objects as os_vif_objects
from os_vif.objects import vif as vif_objects
from oslo_concurrency import processutils
from oslo_config import cfg
from vif_plug_ovs import ovs as vif_ovs
from vif_plug_ovs import privsep as vif_privsep

from specreds_nova.host.box import errors
from specreds_nova.host.box import flows
from specreds_nova.host.box import ovs
from specreds_nova.tests.unit.host.box import fakes
from specreds_nova.tests.unit.host.box import ovs_base


class WarmUpTest(ovs_base.OvsTestCase):

    def setUp(self) -> None:
        super().setUp()
        os_vif_objects.register_all()
        self.helper = self.useFixture(fixtures.MockPatchObject(
            vif_privsep.vif_plug, 'start')).mock
        self.useFixture(fixtures.MockPatchObject(vif_privsep.vif_plug, 'channel'))
        vif_privsep.vif_plug.channel = None
        self.unplug = self.useFixture(fixtures.MockPatch('os_vif.unplug')).mock
        cfg.CONF.neutron.ovs_bridge = 'br-int'

    def test_warm_up_unplugs_an_unused_port_by_os_vif(self) -> None:
        self.ovs.warm_up()
        self.helper.assert_called_once_with()
        [vif, instance] = self.unplug.call_args.args
        self.assertEqual(('ovs', 'br-int', vif.id), (vif.plugin, vif.bridge_name, instance.uuid))
        self.assertEqual(f'tap{vif.id[:11]}', vif.vif_name)

    def test_running_helper_is_not_started_again(self) -> None:
        vif_privsep.vif_plug.channel = mock.Mock()
        self.ovs.warm_up()
        self.helper.assert_not_called()

    def test_backup_is_unplugged_as_nova_plugs_it(self) -> None:
        plan = fakes.plan(details={'ovs_create_tap': True, 'datapath_type': 'system'})
        self.ovs.unplug(plan)
        [vif, instance] = self.unplug.call_args.args
        self.assertEqual((plan.tap, plan.bridge, plan.instance),
                         (vif.vif_name, vif.network.bridge, instance.uuid))
        self.assertEqual('system', vif.port_profile.datapath_type)
        # os-vif of older releases makes no devices.
        if 'create_tap' in vif.port_profile.fields:
            self.assertTrue(vif.port_profile.create_tap)

    def test_os_vif_deletes_device_and_qos_of_the_kernel_datapath(self) -> None:
        plan = fakes.plan(details={'ovs_create_tap': True, 'datapath_type': 'system'})
        self.ovs.unplug(plan)
        plugin = vif_ovs.OvsPlugin.load(vif_ovs.constants.PLUGIN_NAME)
        plugin.config.per_port_bridge = False
        plugin.ovsdb = mock.Mock()
        with mock.patch.object(vif_ovs.ip_lib, 'exists', lambda name: name == plan.tap), \
                mock.patch.object(vif_ovs.linux_net, 'delete_net_dev') as delete:
            plugin.unplug(*self.unplug.call_args.args)
        plugin.ovsdb.delete_ovs_vif_port.assert_called_once_with(
            plan.bridge, plan.tap, qos_type=plugin.config.default_qos_type)
        if 'create_tap' in vif_objects.VIFPortProfileOpenVSwitch.fields:
            delete.assert_called_once_with(plan.tap)

    def test_backup_behind_a_linux_bridge_is_unplugged_with_it(self) -> None:
        plan = fakes.plan(hybrid=True, details={'datapath_type': 'system'})
        self.ovs.unplug(plan)
        plugin = vif_ovs.OvsPlugin.load(vif_ovs.constants.PLUGIN_NAME)
        plugin.ovsdb = mock.Mock()
        with mock.patch.object(vif_ovs.linux_net, 'delete_bridge') as delete:
            plugin.unplug(*self.unplug.call_args.args)
        delete.assert_called_once_with('qbraaaaaaaa-11', 'qvbaaaaaaaa-11')
        plugin.ovsdb.delete_ovs_vif_port.assert_called_once_with(
            plan.bridge, plan.device, qos_type=plugin.config.default_qos_type)

    def test_os_vif_is_not_called_without_a_switch(self) -> None:
        # os-vif would log the failure at length.
        self.database.up = False
        self.assertRaises(OSError, self.ovs.warm_up)
        self.unplug.assert_not_called()


class TestRefusal(ovs_base.OvsTestCase):

    def _refusal(self, vif_type: str = 'ovs', vnic_type: str = 'normal', **details: Any) -> Any:
        return self.ovs.refusal(vif_type, vnic_type, details)

    def test_open_vswitch_is_supported(self) -> None:
        self.assertIsNone(self._refusal())
        self.assertIsNone(self._refusal(bound_drivers={'0': 'openvswitch'}))
        self.assertIsNone(self._refusal(ovs_hybrid_plug=True))
        self.assertIsNone(self._refusal(bound_drivers={'0': 'ovn'}))

    def test_other_types_are_refused(self) -> None:
        self.assertIn('vhostuser', self._refusal('vhostuser'))
        self.assertIn('direct', self._refusal(vnic_type='direct'))
        self.assertIn('l2population', self._refusal(bound_drivers={'0': 'l2population'}))
        self.assertIn('trunk', self._refusal(bridge_name='tbr-12345678-9'))


class TestSeal(ovs_base.OvsTestCase):

    def test_box_is_sealed_before_the_port_is_connected(self) -> None:
        self.ovs.seal(self.plan)
        [commands] = self.database.transactions
        bridge, mode = commands[:2]
        self.assertEqual(('add_br', self.plan.bridge), bridge[:2])
        self.assertIn(('datapath_type', 'netdev'), bridge)
        self.assertEqual(('db_set', 'Bridge', self.plan.bridge, ('fail_mode', 'secure')),
                         mode[:4])
        self.sent.assert_called_once_with(self.plan.bridge,
                                          flows.bundle(flows.sealed(self.plan)))

    def test_only_the_patch_is_the_port_of_the_network_service(self) -> None:
        self.ovs.seal(self.plan)
        [commands] = self.database.transactions
        marked = [command for command in commands if 'iface-id' in str(command)]
        self.assertEqual([self.plan.patch_peer], [command[2] for command in marked])

    def test_missing_bridge_is_an_error(self) -> None:
        self.database.rows.clear()
        error = self.assertRaises(errors.BoxFailed, self.ovs.seal, self.plan)
        self.assertIn('br-int', str(error))

    def test_failed_flows_are_an_error(self) -> None:
        self.sent.side_effect = processutils.ProcessExecutionError('no')
        self.assertRaises(errors.BoxFailed, self.ovs.seal, self.plan)


class TestAttached(ovs_base.OvsTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.device = self.database.rows['Interface', self.plan.tap] = {'ofport': flows.GUEST}
        self.database.bridges[self.plan.tap] = self.plan.bridge

    def test_device_in_its_box_is_attached(self) -> None:
        self.ovs.attached(self.plan)
        self.up.assert_called_once_with(self.plan.tap)

    def test_device_elsewhere_is_not_attached(self) -> None:
        self.database.bridges[self.plan.tap] = 'br-int'
        error = self.assertRaises(errors.BoxFailed, self.ovs.attached, self.plan)
        self.assertIn('br-int', str(error))

    def test_missing_device_is_not_attached(self) -> None:
        self.device['ofport'] = -1
        self.assertRaises(errors.BoxFailed, self.ovs.attached, self.plan)
        self.up.assert_not_called()


class TestOpen(ovs_base.OvsTestCase):

    def test_box_is_opened_by_one_transaction(self) -> None:
        self.ovs.open(self.plan)
        [call] = self.sent.mock_calls
        bridge, commands = call.args
        self.assertEqual(self.plan.bridge, bridge)
        self.assertTrue(commands.startswith('flow delete\nflow add '))
        self.assertIn('packet-out', commands)

    def test_guest_is_told_again_that_the_box_is_no_router(self) -> None:
        self.ovs.announce(fakes.plan(fakes.subnet_ipv6(), ipv6_served=True))
        [call] = self.sent.mock_calls
        self.assertEqual(1, call.args[1].count(f'actions=output:{flows.GUEST}'))
        self.sent.reset_mock()
        self.ovs.announce(self.plan)
        [call] = self.sent.mock_calls
        self.assertNotIn(f'actions=output:{flows.GUEST}', call.args[1])

    def test_dhcp_ends_before_the_bridge_switches(self) -> None:
        self.ovs.settle(self.plan)
        [commands] = self.database.transactions
        self.assertEqual([('del_port', self.plan.service, self.plan.bridge),
                          ('db_set', 'Bridge', self.plan.bridge)],
                         [command[:3] for command in commands])
        self.assertEqual(('fail_mode', 'standalone'), commands[1][3])
        # A guest that is started again may have another port. NORMAL would learn addresses.
        self.assertEqual('flow delete\nflow add priority=10,actions=FLOOD\n',
                         self.sent.call_args.args[1])

    def test_device_of_a_stopped_guest_is_replaced(self) -> None:
        self.ovs.release(self.plan)
        # The network service's agent would take the port for removed by the device's id.
        self.assertEqual([('db_remove', 'Interface', self.plan.tap, 'external_ids', 'iface-id',
                           ('if_exists', True)),
                          ('del_port', self.plan.tap, self.plan.bridge, ('if_exists', True))],
                         [command for [command] in self.database.transactions])
        # A running guest keeps its device.
        self.ovs.release(dataclasses.replace(self.plan, tap='lo'))
        self.assertEqual(2, len(self.database.transactions))

    def test_end_of_a_device_is_hidden_from_the_agent(self) -> None:
        for plan in (self.plan, dataclasses.replace(self.plan, hybrid=True)):
            self.database.transactions.clear()
            self.ovs.conceal(plan)
            [[command]] = self.database.transactions
            self.assertEqual(('db_remove', 'Interface', plan.device, 'external_ids', 'iface-id',
                              ('if_exists', True)), command)

    def test_device_is_there_before_os_vif_would_isolate_it(self) -> None:
        cfg.CONF.os_vif_ovs.isolate_vif = True
        self.ovs.release(self.plan)
        # Two transactions, or else a switch in user space would keep the removed device.
        _, [deletion], [addition] = self.database.transactions
        self.assertEqual(('del_port', self.plan.tap, self.plan.bridge), deletion[:3])
        self.assertEqual(('add_port', self.plan.bridge, self.plan.tap), addition[:3])
        # An agent that has noticed the end of the old device notices the new one.
        self.assertEqual({'iface-id': fakes.PORT, 'attached-mac': self.plan.mac,
                          'iface-status': 'active', 'vm-uuid': fakes.SERVER},
                         dict(addition[3:])['external_ids'])


class TestFound(ovs_base.OvsTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.bridge = self.database.rows['Bridge', self.plan.bridge] = {
            'name': self.plan.bridge, 'fail_mode': 'secure', 'external_ids': {
                'specreds-port': fakes.PORT, 'specreds-backup': fakes.BACKUP_ID,
                'specreds-instance': fakes.SERVER}}

    def test_sealed_box_is_found(self) -> None:
        [box] = self.ovs.existing()
        self.assertEqual((fakes.PORT, fakes.BACKUP_ID, fakes.SERVER, ovs.State.SHUT, True),
                         (box.port, box.backup_id, box.instance, box.state, box.intact))

    def test_box_without_flows_is_found_after_a_restart(self) -> None:
        self.flows.return_value = []
        [box] = self.ovs.existing()
        self.assertEqual((ovs.State.SHUT, False), (box.state, box.intact))

    def test_box_that_is_removed_meanwhile_is_not_found(self) -> None:
        def remove(_bridge: str) -> list[str]:
            del self.database.rows['Bridge', self.plan.bridge]
            raise processutils.ProcessExecutionError('is not a bridge or a socket')
        self.flows.side_effect = remove
        self.assertEqual([], self.ovs.existing())

    def test_switch_that_does_not_answer_is_an_error(self) -> None:
        self.flows.side_effect = processutils.ProcessExecutionError('timeout')
        self.assertRaises(processutils.ProcessExecutionError, self.ovs.existing)

    def test_open_box_is_found(self) -> None:
        self.bridge['fail_mode'] = 'standalone'
        [box] = self.ovs.existing()
        self.assertEqual((ovs.State.OPEN, True), (box.state, box.intact))

    def test_box_is_removed(self) -> None:
        self.database.bridges[self.plan.patch_peer] = 'br-int'
        self.ovs.remove(fakes.PORT)
        [commands] = self.database.transactions
        self.assertEqual([('del_port', self.plan.patch_peer, 'br-int'),
                          ('del_br', self.plan.bridge)],
                         [command[:len(command) - 1] for command in commands])

# SPDX-License-Identifier: Apache-2.0
from unittest import mock

import fixtures
from nova.network import neutron
from nova.virt.libvirt import vif as libvirt_vif
from oslo_config import cfg
from oslo_config import fixture as config_fixture
import testtools

from specreds_nova.host.box import vifs

_VIF = {'id': 'aaaaaaaa-1111-4111-8111-111111111111'}


class TestVIFDriver(testtools.TestCase):

    def test_port_with_a_box_is_plugged_into_it(self) -> None:
        box = mock.Mock()
        box.through.return_value = [mock.sentinel.boxed]
        driver = vifs.VIFDriver(mock.sentinel.host, box)
        for name in ('plug', 'unplug', 'get_config'):
            nova = self.useFixture(fixtures.MockPatchObject(
                libvirt_vif.LibvirtGenericVIFDriver, name)).mock
            getattr(driver, name)(mock.sentinel.instance, _VIF)
            nova.assert_called_once_with(mock.sentinel.instance, mock.sentinel.boxed)
        box.through.assert_called_with([_VIF])
        box.unplugged.assert_called_once_with([_VIF])

    def test_restarted_server_keeps_its_boxes(self) -> None:
        box, driver = self._nova()
        with vifs.restarting():
            driver.unplug(mock.sentinel.instance, _VIF)
            box.unplugged.assert_not_called()
            driver.plug(mock.sentinel.instance, _VIF)
        driver.unplug(mock.sentinel.instance, _VIF)
        box.unplugged.assert_called_once_with([_VIF])

    def test_restart_is_hidden_from_the_network_service_before_the_device_goes(self) -> None:
        box, driver = self._nova()
        box.attach_mock(self.unplug, 'nova_unplugs')
        driver.unplug(mock.sentinel.instance, _VIF)
        box.prepare_replug.assert_not_called()
        box.reset_mock()
        with vifs.restarting():
            driver.unplug(mock.sentinel.instance, _VIF)
        self.assertEqual(['prepare_replug', 'through', 'nova_unplugs'],
                         [call[0] for call in box.method_calls])

    def test_restart_for_which_nova_awaits_the_agent_is_not_hidden(self) -> None:
        box, driver = self._nova()
        self.useFixture(config_fixture.Config(cfg.CONF)).config(
            group='workarounds', wait_for_vif_plugged_event_during_hard_reboot=['normal'])
        with vifs.restarting():
            driver.unplug(mock.sentinel.instance, {**_VIF, 'vnic_type': 'normal'})
            box.prepare_replug.assert_not_called()
            driver.unplug(mock.sentinel.instance, {**_VIF, 'vnic_type': 'direct'})
        box.prepare_replug.assert_called_once_with(_VIF['id'])

    def test_port_that_lost_its_box_is_plugged_by_nova(self) -> None:
        box, driver = self._nova()
        slept: list[float] = []
        clock = self.useFixture(fixtures.MockPatchObject(vifs, 'time')).mock
        clock.monotonic.return_value = 100.0
        clock.sleep = slept.append
        box.unplugged.return_value = False
        driver.unplug(mock.sentinel.instance, _VIF)
        driver.plug(mock.sentinel.instance, _VIF)
        self.assertEqual([], slept)
        box.unplugged.return_value = True
        driver.unplug(mock.sentinel.instance, _VIF)
        clock.monotonic.return_value = 102.0
        driver.plug(mock.sentinel.instance, _VIF)
        driver.plug(mock.sentinel.instance, _VIF)
        self.assertEqual([3.0], slept)

    def test_port_that_is_bound_anew_is_awaited(self) -> None:
        read = self._read('unbound', 'unbound', 'ovs')
        for name in ('get_config', 'plug'):
            box, driver = self._nova()
            box.through.side_effect = lambda vifs: vifs
            nova = self.useFixture(fixtures.MockPatchObject(
                libvirt_vif.LibvirtGenericVIFDriver, name)).mock
            vif = {**_VIF, 'type': 'unbound', 'ovs_interfaceid': None}
            getattr(driver, name)(mock.sentinel.instance, vif)
            bound = {**_VIF, 'type': 'ovs', 'ovs_interfaceid': _VIF['id']}
            nova.assert_called_once_with(mock.sentinel.instance, bound)
            self.assertEqual(bound, vif)
            self.assertEqual(3, read.call_count)
            read = self._read('unbound', 'unbound', 'ovs')

    def test_port_that_stays_unbound_is_left_to_nova(self) -> None:
        self._read(*['unbound'] * 1000)
        _, driver = self._nova()
        clock = self.useFixture(fixtures.MockPatchObject(vifs, 'time')).mock
        clock.monotonic.side_effect = range(100)
        driver.plug(mock.sentinel.instance, {**_VIF, 'type': 'unbound'})
        self.assertLess(clock.sleep.call_count, 20)

    def test_bound_port_is_not_read_again(self) -> None:
        read = self._read()
        _, driver = self._nova()
        driver.plug(mock.sentinel.instance, {**_VIF, 'type': 'ovs'})
        read.assert_not_called()

    def _read(self, *types: str) -> mock.Mock:
        """Set the types that Nova finds for the port, one after the other."""
        self.useFixture(fixtures.MockPatchObject(vifs, '_INTERVAL', 0.0))
        read: mock.Mock = self.useFixture(fixtures.MockPatchObject(
            neutron.API, 'get_instance_nw_info')).mock
        ids = {'unbound': None, 'ovs': _VIF['id']}
        read.side_effect = [
            [{'id': 'another', 'type': 'ovs'},
             {**_VIF, 'type': kind, 'ovs_interfaceid': ids[kind]}] for kind in types]
        return read

    def _nova(self) -> tuple[mock.Mock, vifs.VIFDriver]:
        """A driver without Nova's own part."""
        self.plug, self.unplug = (
            self.useFixture(fixtures.MockPatchObject(
                libvirt_vif.LibvirtGenericVIFDriver, name)).mock for name in ('plug', 'unplug'))
        box = mock.Mock()
        box.through.return_value = [_VIF]
        return box, vifs.VIFDriver(mock.sentinel.host, box)

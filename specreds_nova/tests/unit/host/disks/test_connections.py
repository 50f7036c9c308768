# SPDX-License-Identifier: Apache-2.0
"""The connections of volumes, as recorded by Nova and as current in Cinder."""

import copy
from typing import Any
from unittest import mock

from nova import objects
from nova.virt import driver as virt_driver
import testtools

from specreds_nova.host.disks import connections
from specreds_nova.host.disks import errors

SERVER = 'b6a1d7f0-5c56-4a52-8f50-3a2f6c1f7d10'
PLAIN = {'driver_volume_type': 'rbd', 'data': {'name': 'volumes/volume-1'}}
OTHER = {'driver_volume_type': 'iscsi', 'data': {}}


def through(superposition: str) -> dict[str, Any]:
    """Return a connection through the overlay of a superposition."""
    return {'driver_volume_type': 'rbd_super', 'data': {
        'name': 'volumes/volume-1', 'superposition': {'id': superposition, 'state': 'promoted'}}}


class Device(dict[str, Any]):
    """A volume as Nova's block device info has it."""

    volume_id = 'volume-1'

    def __init__(self, noted: dict[str, Any] | None, now: Any = None) -> None:
        super().__init__(connection_info=copy.deepcopy(noted))
        self.now = now
        self.asked = 0

    def refresh_connection_info(self, _context: Any, _instance: Any, _api: Any,
                                _driver: Any) -> None:
        """Set the connection, which Nova also saves."""
        self.asked += 1
        if isinstance(self.now, Exception):
            raise self.now
        self['connection_info'] = self.now


class ConnectionsTestCase(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.instance = objects.Instance(uuid=SERVER, metadata={})
        patch = mock.patch.object(connections, 'cinder')
        self.cinder = patch.start()
        self.addCleanup(patch.stop)

    def refresh(self, *devices: Device, protected: bool = True) -> None:
        """Refresh a server's volumes."""
        self.instance.metadata = {'specreds:protect': str(protected)}
        connections.refresh(mock.sentinel.driver, self.instance,
                            {'block_device_mapping': list(devices)})


class RefreshTest(ConnectionsTestCase):

    def test_merged_volume_is_connected_plainly(self) -> None:
        device = Device(through('one'), PLAIN)
        self.refresh(device)
        self.assertEqual(PLAIN, device['connection_info'])

    def test_unmerged_volume_keeps_its_overlay(self) -> None:
        device = Device(through('one'), through('one'))
        self.refresh(device)
        self.assertEqual(through('one'), device['connection_info'])

    def test_volume_promoted_elsewhere_is_connected_by_its_overlay(self) -> None:
        # The case of a suspected host that starts its servers again.
        for noted in (PLAIN, through('earlier')):
            exc = self.assertRaises(errors.NotHere, self.refresh, Device(noted, through('one')))
            self.assertIn('superposition one', str(exc))
            self.assertIn(SERVER, str(exc))

    def test_volume_of_a_lost_promoted_backup_is_refreshed(self) -> None:
        device = Device(PLAIN, through('one'))
        connections.refresh(mock.sentinel.driver, self.instance,
                            {'block_device_mapping': [device]}, anywhere=True)
        self.assertEqual(through('one'), device['connection_info'])

    def test_unknown_state_is_an_error(self) -> None:
        for noted in (PLAIN, through('one')):
            exc = self.assertRaises(errors.VersionUnknown, self.refresh,
                                    Device(noted, RuntimeError('Cinder is down')))
            self.assertIn('Cinder is down', str(exc))

    def test_unprotected_server_is_not_looked_up(self) -> None:
        device = Device(PLAIN, RuntimeError('Cinder is down'))
        self.refresh(device, protected=False)
        self.assertEqual(0, device.asked)

    def test_overlay_of_an_unprotected_server_is_refreshed(self) -> None:
        device = Device(through('one'), PLAIN)
        self.refresh(device, protected=False)
        self.assertEqual(PLAIN, device['connection_info'])

    def test_other_volumes_are_not_changed(self) -> None:
        devices = [Device(OTHER), Device(None)]
        self.refresh(*devices)
        self.assertEqual([0, 0], [device.asked for device in devices])

    def test_server_without_volumes_is_not_looked_up(self) -> None:
        self.instance.metadata = {'specreds:protect': 'True'}
        empty: connections.BlockDeviceInfo = {'block_device_mapping': []}
        for nothing in (None, {}, empty):
            connections.refresh(mock.sentinel.driver, self.instance, nothing)
            self.assertEqual(set(), connections.superpositions(nothing))
        self.cinder.API.assert_not_called()


class SuperpositionsTest(ConnectionsTestCase):

    def test_superpositions_of_all_volumes_are_listed(self) -> None:
        info = {'block_device_mapping': [Device(PLAIN), Device(OTHER), Device(through('one')),
                                         Device(through('one')), Device(through('two'))]}
        self.assertEqual({'one', 'two'}, connections.superpositions(info))
        self.assertEqual(set(), connections.superpositions(None))

    def test_deleted_volumes_have_no_superposition(self) -> None:
        kept, deleted = Device(through('one')), Device(through('two'))
        kept['delete_on_termination'], deleted['delete_on_termination'] = False, True
        self.assertEqual({'two'}, connections.superpositions(
            {'block_device_mapping': [kept, deleted]}, deleted=True))


class NotedTest(ConnectionsTestCase):

    def test_recorded_superposition_is_read(self) -> None:
        objects.register_all()
        devices = [Device(PLAIN), Device(through('one'))]
        with mock.patch.object(objects.BlockDeviceMappingList, 'get_by_instance_uuid'), \
                mock.patch.object(virt_driver, 'get_block_device_info',
                                  return_value={'block_device_mapping': devices}):
            self.assertEqual('one', connections.superposition(self.instance))
            self.assertEqual('one', connections.superposition(self.instance, {'volume-1'}))
            self.assertIsNone(connections.superposition(self.instance, {'volume-2'}))

    def test_superposition_of_a_server_is_read(self) -> None:
        self.assertEqual('one', connections.superposition_of(through('one')))
        self.assertIsNone(connections.superposition_of(None))
        self.assertIsNone(connections.superposition_of(PLAIN))

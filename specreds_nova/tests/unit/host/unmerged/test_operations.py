# SPDX-License-Identifier: Apache-2.0
"""Nova's operations on servers before the end of their merge."""

from typing import Any
from unittest import mock

from nova import exception as nova_exception
from nova import objects
import testtools

from specreds_nova import exception
from specreds_nova.host.disks import connections
from specreds_nova.host.disks import durable
from specreds_nova.host.disks import errors as disk_errors
from specreds_nova.host.disks import server_disks
from specreds_nova.host.unmerged import operations
from specreds_nova.host.unmerged import settling
from specreds_nova.tests.unit.host.disks import test_connections as data
from specreds_nova.tests.unit.host.merge import fakes


class OperationsTestCase(testtools.TestCase):
    """A server that runs on overlays."""

    def setUp(self) -> None:
        super().setUp()
        self.domain: Any = fakes.Domain()
        self.instance = objects.Instance(uuid=data.SERVER, metadata={}, task_state=None,
                                         vm_state='active')
        self.driver = mock.Mock()
        self.driver._host.get_guest.return_value = mock.Mock(_domain=self.domain)
        self.cinder = mock.Mock()
        self.cinder.state.return_value = 'merging'
        self.merger = mock.Mock()
        self.merger.progress.return_value = None
        self.disks = mock.create_autospec(server_disks.ServerDisks, instance=True)
        self.disks.unmerged.return_value = None
        self.unmerged = operations.Unmerged(self.driver, self.cinder, self.merger, self.disks)
        patch = mock.patch.object(connections, 'superposition', return_value='one')
        self.noted = patch.start()
        self.addCleanup(patch.stop)
        for module in (operations, settling):
            self.patch(module, 'time', mock.Mock(
                monotonic=self.now, sleep=lambda seconds: self.pass_by(seconds)))
        self.clock = 0.0

    def now(self) -> float:
        """Return the time."""
        return self.clock

    def pass_by(self, seconds: float) -> None:
        """Let time pass."""
        self.clock += seconds

    def merged(self) -> None:
        """Let the server run on its volumes."""
        for disk in self.domain.disks:
            disk.overlay = None

    def gone(self) -> None:
        """Let there be no domain."""
        self.driver._host.get_guest.side_effect = nova_exception.InstanceNotFound(
            instance_id=data.SERVER)


class RefuseTest(OperationsTestCase):

    def test_operation_on_overlays_is_refused(self) -> None:
        self.merger.progress.return_value = {
            'done': 3 << 20, 'total': 9 << 20, 'error': 'Ceph is full'}
        exc = self.assertRaises(operations.NotMerged, self.unmerged.refuse_until_merged,
                                self.instance, 'rescued')
        self.assertIn('cannot be rescued', str(exc))
        self.assertIn('3 of 9 MiB: Ceph is full', str(exc))

    def test_server_that_was_evacuated_is_not_stopped_by_an_old_request(self) -> None:
        instance = self.instance
        instance.task_state, instance.host = 'powering-off', 'h1'
        with mock.patch.object(objects.Instance, 'get_by_uuid') as read:
            # A domain that is here is shut down.
            self.unmerged.before_power_off(instance)
            read.assert_not_called()
            self.gone()
            read.return_value.host = 'h1'
            self.unmerged.before_power_off(instance)
            read.return_value.host = 'h2'
            self.assertRaises(nova_exception.UnexpectedTaskStateError,
                              self.unmerged.before_power_off, instance)

    def test_operation_on_a_stopped_unmerged_server_is_refused(self) -> None:
        self.gone()
        self.assertRaises(operations.NotMerged, self.unmerged.refuse_until_merged, self.instance,
                          'rescued')

    def test_operation_on_a_merged_server_is_allowed(self) -> None:
        self.merged()
        for state in ('merged', None):
            self.cinder.state.return_value = state
            self.cinder.state.reset_mock()
            self.unmerged.refuse_until_merged(self.instance, 'rescued')
            # Cinder decides that.
            self.cinder.state.assert_called_once_with('one')

    def test_operation_on_a_usual_server_is_allowed(self) -> None:
        self.merged()
        self.noted.return_value = None
        self.unmerged.refuse_until_merged(self.instance, 'rescued')
        self.cinder.state.assert_not_called()

    def test_unknown_state_refuses_the_operation(self) -> None:
        self.merged()
        self.cinder.state.side_effect = exception.SuperpositionUnknown('Cinder is down')
        exc = self.assertRaises(disk_errors.VersionUnknown, self.unmerged.refuse_until_merged,
                                self.instance, 'rescued')
        self.assertIn('Cinder is down', str(exc))

    def test_refused_operation_keeps_the_state_of_the_server(self) -> None:
        # Nova would set the server to ERROR for these.
        for task in ('suspending', 'rebuilding'):
            self.instance.task_state = task
            exc = self.assertRaises(nova_exception.InstanceFaultRollback,
                                    self.unmerged.refuse_until_merged, self.instance, 'changed')
            self.assertIsInstance(exc.inner_exception, operations.NotMerged)

    def test_live_migration_of_an_unmerged_server_is_refused(self) -> None:
        exc = self.assertRaises(nova_exception.MigrationPreCheckError,
                                self.unmerged.before_live_migration, self.instance)
        self.assertIn('cannot be migrated live', str(exc))
        self.merged()
        self.cinder.state.return_value = None
        self.unmerged.before_live_migration(self.instance)

    def test_detach_of_an_overlay_is_refused(self) -> None:
        self.unmerged.before_detach(self.instance, data.PLAIN)
        exc = self.assertRaises(
            operations.NotMerged, self.unmerged.before_detach, self.instance,
            {**data.through('one'), 'serial': 'volume-1'})
        self.assertIn('volume-1', str(exc))

    def test_detach_on_the_failed_host_is_refused_while_a_backup_goes_on(self) -> None:
        self.gone()
        plain = {**data.PLAIN, 'serial': 'volume-1'}
        for state in ('collapsing', 'promoted', 'merging'):
            self.cinder.with_volume.return_value = {'one': state}
            exc = self.assertRaises(operations.NotMerged, self.unmerged.before_detach,
                                    self.instance, plain)
            self.assertIn(f'superposition one, which is {state}', str(exc))
        self.cinder.with_volume.assert_called_with(data.SERVER, 'volume-1')
        # The backup that races is dropped, and one that was merged has its own connection.
        for known in ({'one': 'superposed'}, {'one': 'merged'}, {'one': 'aborting'}, {}):
            self.cinder.with_volume.return_value = known
            self.unmerged.before_detach(self.instance, plain)
        self.cinder.with_volume.side_effect = exception.SuperpositionUnknown('Cinder is down')
        exc = self.assertRaises(disk_errors.VersionUnknown, self.unmerged.before_detach,
                                self.instance, plain)
        self.assertIn('Cinder is down', str(exc))

    def test_detach_of_a_volume_without_backups_asks_nobody(self) -> None:
        self.instance.metadata = {'specreds:protect': 'false'}
        self.unmerged.before_detach(self.instance, {**data.PLAIN, 'serial': 'volume-1'})
        self.instance.metadata = {'specreds:protect': 'true'}
        self.unmerged.before_detach(self.instance, {**data.OTHER, 'serial': 'volume-1'})
        self.cinder.with_volume.assert_not_called()


class OpenTest(OperationsTestCase):

    def info(self, noted: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
        """Return the block device info of a server with one volume."""
        return {'block_device_mapping': [data.Device(noted, now)]}

    def setUp(self) -> None:
        super().setUp()
        patch = mock.patch.object(connections, 'cinder')
        patch.start()
        self.addCleanup(patch.stop)

    def test_connections_are_refreshed(self) -> None:
        info = self.info(data.through('one'), data.PLAIN)
        self.unmerged.refresh(self.instance, info)
        self.assertEqual(data.PLAIN, info['block_device_mapping'][0]['connection_info'])

    def merged_after(self, looks: int) -> None:
        """Let Cinder merge, and return plain connections from then on."""
        states = ['merging'] * looks + ['merged']
        self.cinder.state.side_effect = lambda _id: (
            states.pop(0) if len(states) > 1 else states[0])
        device = self.device

        def refresh(*_arguments: Any) -> None:
            device['connection_info'] = (data.PLAIN if states == ['merged']
                                         else data.through('one'))
        device.refresh_connection_info = refresh  # type: ignore

    def test_spawn_on_volumes_needs_no_merge(self) -> None:
        self.unmerged.before_spawn(self.instance, self.info(data.PLAIN, data.PLAIN))
        self.cinder.merge.assert_not_called()

    def test_spawn_of_a_lost_backup_waits_for_the_merge(self) -> None:
        for noted in (data.PLAIN, data.through('one')):
            self.device = data.Device(noted)
            self.merged_after(25)
            self.cinder.merge.reset_mock()
            began = self.clock
            self.unmerged.before_spawn(self.instance, {'block_device_mapping': [self.device]})
            self.assertEqual(data.PLAIN, self.device['connection_info'])
            self.assertEqual(25, self.clock - began)
            # Repeated now and then, because the overlay may seem to be in use at first.
            self.assertEqual([mock.call('one', 'offline')] * 3,
                             self.cinder.merge.call_args_list)

    def test_spawn_beside_a_running_backup_is_refused(self) -> None:
        self.cinder.merge.side_effect = exception.SuperpositionRefused('the overlay is open')
        info = self.info(data.PLAIN, data.through('one'))
        exc = self.assertRaises(disk_errors.NotHere, self.unmerged.before_spawn, self.instance,
                                info)
        self.assertIn('superposition one', str(exc))
        self.assertIn('evacuate the server to that host', str(exc))
        self.assertGreater(self.clock, settling.PATIENCE_S)

    def test_spawn_without_cinder_is_refused(self) -> None:
        self.cinder.state.side_effect = exception.SuperpositionUnknown('Cinder is down')
        self.assertRaises(disk_errors.VersionUnknown, self.unmerged.before_spawn, self.instance,
                          self.info(data.PLAIN, data.through('one')))

    def test_rescue_waits_for_the_merge(self) -> None:
        self.device = data.Device(data.through('one'))
        self.merged_after(2)
        info = {'block_device_mapping': [self.device]}
        with mock.patch.object(operations, 'blockinfo'), \
                mock.patch.object(objects.Instance, 'image_meta'):
            self.unmerged.before_rescue(self.instance, [], info)
        self.driver._host.write_instance_config.assert_called_once_with(
            self.driver._get_guest_xml.return_value)
        self.assertEqual(data.PLAIN, self.device['connection_info'])

    def test_rescue_of_a_merged_server_is_novas(self) -> None:
        self.unmerged.before_rescue(self.instance, [], self.info(data.PLAIN, data.PLAIN))
        self.driver._host.write_instance_config.assert_not_called()

    def test_cleanup_of_a_deleted_server_merges_first(self) -> None:
        self.deleted()
        # Also called where a server is only stopped, or has gone.
        self.instance.task_state = None
        self.unmerged.after_cleanup(self.instance)
        self.cinder.merge.assert_not_called()
        self.instance.task_state = 'deleting'
        self.merged_after(2)
        self.unmerged.after_cleanup(self.instance)
        self.cinder.merge.assert_called_once_with('one', 'offline')

    def test_cleanup_continues_without_a_merge(self) -> None:
        self.deleted()
        self.cinder.state.side_effect = exception.SuperpositionUnknown('Cinder is down')
        self.unmerged.after_cleanup(self.instance)
        self.cinder.merge.assert_not_called()

    def deleted(self) -> None:
        """Let the server be deleted, with a volume that goes through an overlay."""
        self.device = data.Device(data.through('one'))
        self.device['delete_on_termination'] = True
        self.instance.task_state = 'deleting'
        patch = mock.patch.object(connections, 'noted', return_value={
            'block_device_mapping': [self.device]})
        patch.start()
        self.addCleanup(patch.stop)

    def test_resumed_server_has_a_durable_definition(self) -> None:
        # The server was suspended with the definition with which its backup was started.
        saved = ('<domain><devices><disk type="network"><driver cache="{}"/>'
                 '<source protocol="rbd"/></disk></devices></domain>')
        self.domain = mock.Mock()
        self.driver._host.get_guest.return_value._domain = self.domain
        self.domain.managedSaveGetXMLDesc.return_value = saved.format('unsafe')
        self.unmerged.before_resume(self.instance, None)
        self.domain.managedSaveDefineXML.assert_called_once_with(
            durable.with_flushes(saved.format('unsafe')), 0)
        self.domain.managedSaveDefineXML.reset_mock()
        self.domain.managedSaveGetXMLDesc.return_value = saved.format('none')
        self.unmerged.before_resume(self.instance, None)
        self.domain.hasManagedSaveImage.return_value = False
        self.unmerged.before_resume(self.instance, None)
        self.gone()
        self.unmerged.before_resume(self.instance, None)
        self.domain.managedSaveDefineXML.assert_not_called()


class ServerDisksTest(OperationsTestCase):
    """A server that is off, with disks that Nova keeps in RBD, and no volumes."""

    def setUp(self) -> None:
        super().setUp()
        self.gone()
        self.noted.return_value = None
        self.disks.unmerged.return_value = 'one'

    def merged_after(self, looks: int) -> None:
        """Let Cinder merge the disks."""
        states = ['merging'] * looks + ['merged']
        self.cinder.state.side_effect = lambda _id: (
            states.pop(0) if len(states) > 1 else states[0])

    def test_operations_on_unmerged_disks_are_refused(self) -> None:
        for done in ('snapshotted', 'rebuilt', 'suspended'):
            self.assertRaises(operations.NotMerged, self.unmerged.refuse_until_merged,
                              self.instance, done)
        self.disks.unmerged.return_value = None
        self.unmerged.refuse_until_merged(self.instance, 'snapshotted')

    def test_cold_migration_of_unmerged_disks_keeps_the_state_of_the_server(self) -> None:
        self.instance.task_state = 'resize_migrating'
        exc = self.assertRaises(
            nova_exception.InstanceFaultRollback, self.unmerged.refuse_unless_merged_disks,
            self.instance, 'migrated or resized')
        self.assertIsInstance(exc.inner_exception, operations.NotMerged)
        self.assertIn('cannot be migrated or resized', str(exc.inner_exception))

    def test_cold_migration_on_overlays_of_volumes_is_allowed(self) -> None:
        self.disks.unmerged.return_value = None
        self.noted.return_value = 'one'
        self.unmerged.refuse_unless_merged_disks(self.instance, 'migrated or resized')

    def test_server_is_not_shut_down_for_shelving(self) -> None:
        self.unmerged.before_power_off(self.instance)
        self.instance.task_state = 'shelving'
        self.assertRaises(operations.NotMerged, self.unmerged.before_power_off, self.instance)

    def test_start_elsewhere_is_refused(self) -> None:
        self.disks.check.side_effect = disk_errors.NotHere('elsewhere')
        for start in (self.unmerged.refresh, self.unmerged.before_reboot):
            self.assertRaises(disk_errors.NotHere, start, self.instance, None)

    def test_evacuation_waits_for_the_merge(self) -> None:
        self.merged_after(3)
        self.unmerged.before_spawn(self.instance, None)
        self.assertEqual(3, self.clock)
        self.cinder.merge.assert_called_once_with('one', 'offline')

    def test_evacuation_beside_a_running_backup_is_refused(self) -> None:
        self.cinder.merge.side_effect = exception.SuperpositionRefused('the overlay is open')
        self.assertRaises(disk_errors.NotHere, self.unmerged.before_spawn, self.instance, None)

    def test_rescue_waits_for_the_merge(self) -> None:
        self.merged_after(2)
        with mock.patch.object(operations, 'blockinfo'), \
                mock.patch.object(objects.Instance, 'image_meta'):
            self.unmerged.before_rescue(self.instance, [], None)
        self.assertEqual(2, self.clock)
        self.driver._host.write_instance_config.assert_called_once_with(
            self.driver._get_guest_xml.return_value)

    def test_deletion_waits_for_the_merge(self) -> None:
        self.unmerged.before_cleanup(self.instance)
        self.cinder.merge.assert_not_called()
        self.instance.task_state = 'deleting'
        self.merged_after(2)
        self.unmerged.before_cleanup(self.instance)
        self.assertEqual(2, self.clock)
        self.cinder.state.side_effect = exception.SuperpositionUnknown('Cinder is down')
        self.assertRaises(disk_errors.VersionUnknown, self.unmerged.before_cleanup,
                          self.instance)

# SPDX-License-Identifier: Apache-2.0
"""The driver's additions to Nova's own driver, whose tests are the suite upstream."""

import inspect
import pathlib
import types
from typing import Any
from unittest import mock

import ddt
from nova.virt import event as virtevent
from nova.virt.libvirt import config as vconfig
from nova.virt.libvirt import driver as nova_driver

from specreds_nova import protected
from specreds_nova.host import driver
from specreds_nova.host import protection
from specreds_nova.host.backup import domain as backup_domain
from specreds_nova.host.backup import journal as journals
from specreds_nova.host.backup import marks
from specreds_nova.host.disks import volume_driver
from specreds_nova.host.unmerged import driver as unmerged_driver
from specreds_nova.host.unmerged import operations
from specreds_nova.tests.unit.host import base

OTHER = '55555555-5555-4555-8555-555555555555'


class DriverTest(base.TestCase):
    """A driver of a host with two domains."""

    def setUp(self) -> None:
        super().setUp()
        self.virtapi = mock.Mock()
        self.virtapi._compute.additional_endpoints = []
        self.ours = driver.SpeculativeLibvirtDriver(self.virtapi)
        self.ours._host = mock.Mock()
        self.ours._journal = self.journal
        self.guests = [types.SimpleNamespace(name='instance-1', uuid=base.SERVER),
                       types.SimpleNamespace(name='instance-2', uuid=OTHER)]
        self.ours._host.list_guests.side_effect = lambda only_running: self.guests

    def theirs(self, name: str, **more: Any) -> Any:
        """Replace a method of Nova's driver by a mock with its signature."""
        patch = mock.patch.object(nova_driver.LibvirtDriver, name, autospec=True, **more)
        self.addCleanup(patch.stop)
        return patch.start()

    # Hiding

    def test_nothing_is_hidden_without_backups(self) -> None:
        self.assertEqual(['instance-1', 'instance-2'], self.ours.list_instances())
        self.assertEqual([base.SERVER, OTHER], self.ours.list_instance_uuids())
        self.assertEqual(2, self.ours.get_num_instances())
        self.assertTrue(self.ours.instance_exists(self.instance))

    def test_only_backups_are_hidden(self) -> None:
        for phase in journals.HIDDEN:
            self.record(phase)
            self.assertEqual(['instance-2'], self.ours.list_instances())
            self.assertEqual([OTHER], self.ours.list_instance_uuids())
            self.assertEqual(1, self.ours.get_num_instances())
            self.assertFalse(self.ours.instance_exists(self.instance))
            self.assertTrue(self.ours.instance_exists(types.SimpleNamespace(uuid=OTHER)))

    def test_adopted_server_is_not_hidden(self) -> None:
        for phase in journals.OURS:
            self.record(phase)
            self.assertEqual([base.SERVER, OTHER], self.ours.list_instance_uuids())
            self.assertTrue(self.ours.instance_exists(self.instance))

    # Evacuation

    def rebuild(self, **more: Any) -> None:
        arguments = {name: mock.Mock() for name in (
            'context', 'image_meta', 'injected_files', 'admin_password', 'allocations', 'bdms',
            'detach_block_devices', 'attach_block_devices')}
        self.ours.rebuild(instance=self.instance, **arguments, **more)

    def test_rebuild_is_novas_without_backups(self) -> None:
        self.assertRaises(NotImplementedError, self.rebuild)
        self.assertRaises(NotImplementedError, self.rebuild, evacuate=True)

    def ready(self) -> None:
        self.adoption, self.reconciler, self.unmerged = mock.Mock(), mock.Mock(), mock.Mock()
        self.ours._adoption, self.ours._reconciler = self.adoption, self.reconciler
        self.ours.unmerged = self.unmerged
        self.spawned = self.replace('specreds_nova.host.releases.spawn', mock.Mock())

    def test_evacuation_without_a_backup_is_novas(self) -> None:
        self.ready()
        self.adoption.adopt.return_value = None
        self.assertRaises(NotImplementedError, self.rebuild, evacuate=True)
        self.spawned.assert_not_called()

    def test_evacuation_with_a_backup_adopts_it(self) -> None:
        self.ready()
        self.rebuild(evacuate=True)
        self.assertIs(self.instance, self.adoption.adopt.call_args.args[0].instance)
        self.spawned.assert_called_once_with(
            self.reconciler.await_adoption, self.adoption.adopt.return_value)

    def test_rebuild_on_the_same_host_is_novas(self) -> None:
        self.ready()
        self.assertRaises(NotImplementedError, self.rebuild)
        self.unmerged.refuse_until_merged.assert_called_once_with(self.instance, 'rebuilt')
        self.adoption.adopt.assert_not_called()

    # Disks and devices

    def test_protected_and_superposed_volumes_use_the_own_driver(self) -> None:
        theirs = self.theirs('_get_volume_driver')
        server = types.SimpleNamespace(metadata={}, flavor=types.SimpleNamespace(extra_specs={}),
                                       obj_attr_is_set=lambda name: True)
        for kind, ours in (('rbd', False), ('iscsi', False), ('rbd_super', True)):
            disk_driver = self.ours._get_volume_driver({'driver_volume_type': kind})
            self.assertEqual(ours, disk_driver is not theirs.return_value, kind)
        with protection.of(server):
            for kind, ours in (('rbd', True), ('iscsi', False), ('rbd_super', True)):
                disk_driver = self.ours._get_volume_driver({'driver_volume_type': kind})
                self.assertEqual(
                    ours, isinstance(disk_driver, volume_driver.ChainedVolumeDriver), kind)

    def config(self, mark: marks.Mark | None, **metadata: str) -> vconfig.LibvirtConfigGuest:
        config = vconfig.LibvirtConfigGuest()
        config.virt_type, config.name, config.uuid = 'qemu', 'instance-1', base.SERVER
        server = types.SimpleNamespace(metadata=metadata,
                                       flavor=types.SimpleNamespace(extra_specs={}),
                                       obj_attr_is_set=lambda name: True,
                                       system_metadata={}, uuid=base.SERVER)
        self.replace('specreds_nova.host.ready.conditions.parse',
                     lambda instance: mock.Mock(devices=lambda: [mock.sentinel.device]))
        theirs = mock.patch.object(nova_driver.LibvirtDriver, '_get_guest_config', autospec=True,
                                   return_value=config)
        with theirs, mock.patch.object(backup_domain, 'marking', return_value=mark):
            return self.ours._get_guest_config(server, [], mock.Mock(), {})

    def test_domain_of_a_backup_is_marked(self) -> None:
        for numa_topology in (None, {'cells': ['<&"\'>']}):
            mark = marks.Mark(base.BACKUP_ID, base.SUPERPOSITION, numa_topology)
            config = self.config(mark)
            config.devices = []
            self.assertEqual(mark, marks.mark_of(config.to_xml()))

    def test_unprotected_server_is_configured_as_by_nova(self) -> None:
        config = self.config(None, HA_Enabled='false')
        self.assertEqual(([], []), (config.devices, config.metadata))
        self.assertIsNone(marks.mark_of(config.to_xml()))

    def test_protected_server_has_a_port_for_readiness(self) -> None:
        self.assertEqual([mock.sentinel.device], self.config(None).devices)

    def test_mark_is_kept_until_the_end_of_the_merge(self) -> None:
        self.record(journals.ADOPTED)
        self.assertEqual(1, len(self.config(None).metadata))
        self.record(journals.MERGED)
        self.assertEqual(0, len(self.config(None).metadata))

    # Events

    def test_events_of_libvirt_are_passed_on(self) -> None:
        emit_event = self.theirs('emit_event')
        stopped = virtevent.LifecycleEvent(base.SERVER, virtevent.EVENT_LIFECYCLE_STOPPED)
        started = virtevent.LifecycleEvent(base.SERVER, virtevent.EVENT_LIFECYCLE_STARTED)
        self.ours.emit_event(stopped)
        self.assertEqual(1, emit_event.call_count)
        self.record(journals.RUNNING)
        self.ours._periodic = mock.Mock()
        self.ours.emit_event(started)
        self.ours._periodic.wake.assert_not_called()
        self.ours.emit_event(stopped)
        self.ours._periodic.wake.assert_called_once_with()
        self.record(journals.ABORTED)
        note = pathlib.Path(self.state, 'specreds', 'stale', f'{base.SERVER}.json')
        note.parent.mkdir()
        note.write_text('{}')
        self.ours.emit_event(stopped)
        self.assertEqual(1, emit_event.call_count)
        self.ours.emit_event(started)
        self.assertEqual(2, emit_event.call_count)
        # A server that is started here again is not stale.
        self.theirs('_create_guest')
        self.ours._create_guest(mock.Mock(), '<domain/>', self.instance)
        self.ours.emit_event(stopped)
        self.assertEqual(3, emit_event.call_count)

    def test_end_of_each_domain_but_of_backups_is_reported_as_crash(self) -> None:
        self.theirs('init_host')
        self.theirs('cleanup_host')
        self.guests = []
        for name in ('nova.compute.claims.Claim._test_numa_topology',
                     'specreds_nova.host.box.sealing.Box',
                     'specreds_nova.host.merge.merger.Merger',
                     'specreds_nova.host.backup.reconcile.Periodic.start'):
            self.replace(name, mock.Mock())
        of = self.replace('specreds_nova.beats.heartbeat.of', mock.Mock())
        self.ours.init_host(base.HOST)
        self.addCleanup(self.ours.cleanup_host, base.HOST)
        *_, overlooked = of.call_args.args
        self.assertFalse(overlooked(base.SERVER))
        # The sentinel has ended a server whose volumes Cinder has merged and fenced.
        note = pathlib.Path(self.state, 'specreds', 'stale', f'{base.SERVER}.json')
        note.parent.mkdir(parents=True)
        note.write_text('{}')
        for phase in (*journals.OURS, *journals.ENDED):
            self.record(phase)
            self.assertFalse(overlooked(base.SERVER), phase)
        for phase in journals.HIDDEN:
            self.record(phase)
            self.assertTrue(overlooked(base.SERVER), phase)

    # Start and stop

    def test_init_host_starts_all_services(self) -> None:
        self.theirs('init_host')
        # Claims of Nova are made to respect those of backups.
        self.replace('nova.compute.claims.Claim._test_numa_topology', mock.Mock())
        self.replace('specreds_nova.host.box.sealing.Box', mock.Mock())
        self.replace('specreds_nova.host.merge.merger.Merger', mock.Mock())
        started = self.replace('specreds_nova.host.backup.reconcile.Periodic.start', mock.Mock())
        heartbeat = self.replace('specreds_nova.beats.heartbeat.of', mock.Mock())
        self.record(journals.PROMOTED)
        self.guests = []
        self.ours._journal = journals.Journal(f'{self.state}/specreds')
        self.ours.init_host(base.HOST)
        [endpoint] = self.virtapi._compute.additional_endpoints
        self.assertEqual([base.BACKUP_ID],
                         [record.backup_id for record in self.ours._journal.records()])
        self.assertEqual('specreds', endpoint.target.namespace)
        started.assert_called_once()
        heartbeat.return_value.start.assert_called_once_with()
        self.theirs('cleanup_host')
        self.ours.cleanup_host(base.HOST)
        heartbeat.return_value.stop.assert_called_once_with()

    def test_init_host_outside_of_nova_compute_starts_nothing(self) -> None:
        self.theirs('init_host')
        del self.virtapi._compute
        self.ours.init_host(base.HOST)
        self.assertIsNone(self.ours._box)


@ddt.ddt
class GuardedTest(base.TestCase):
    """Each guarded operation calls Nova's own."""

    def setUp(self) -> None:
        super().setUp()
        self.ours = driver.SpeculativeLibvirtDriver.__new__(driver.SpeculativeLibvirtDriver)
        self.unmerged = self.ours.unmerged = mock.create_autospec(
            operations.Unmerged, instance=True)
        self.unmerged.through_overlay.return_value = False
        self.server = mock.Mock(metadata={}, obj_attr_is_set=lambda name: True,
                                **{'flavor.extra_specs': {}})

    def call(self, name: str) -> None:
        """Call an operation with all its positional arguments, as Nova's compute manager may."""
        parameters = inspect.signature(getattr(nova_driver.LibvirtDriver, name)).parameters
        getattr(self.ours, name)(*[
            self.server if parameter == 'instance' else getattr(mock.sentinel, parameter)
            for parameter in list(parameters)[1:]])

    def test_every_argument_is_passed_to_nova(self) -> None:
        # The soft reboot of a protected server is replaced.
        self.tell(protected.OPT_IN)
        names = [name for name, member in vars(unmerged_driver.UnmergedLibvirtDriver).items()
                 if inspect.isfunction(member) and hasattr(nova_driver.LibvirtDriver, name)]
        self.assertIn('finish_migration', names)
        for name in [*names, 'attach_volume']:
            signature = inspect.signature(getattr(nova_driver.LibvirtDriver, name))
            with mock.patch.object(nova_driver.LibvirtDriver, name, autospec=True) as theirs:
                self.call(name)
            passed = signature.bind(*theirs.call_args.args, **theirs.call_args.kwargs)
            self.assertEqual({parameter: self.ours if parameter == 'self'
                              else self.server if parameter == 'instance'
                              else getattr(mock.sentinel, parameter)
                              for parameter in signature.parameters}, passed.arguments, name)

    def test_disks_of_an_arriving_server_are_refreshed(self) -> None:
        with mock.patch.object(nova_driver.LibvirtDriver, 'finish_migration', autospec=True):
            self.call('finish_migration')
        self.unmerged.refresh.assert_called_once_with(
            self.server, mock.sentinel.block_device_info)

    def test_each_operation_has_one_guard(self) -> None:
        for name in ('spawn', 'power_on', 'reboot', 'resume', 'rescue', 'pause', 'unpause',
                     'suspend', 'snapshot', 'volume_snapshot_create', 'volume_snapshot_delete',
                     'swap_volume', 'extend_volume', 'detach_volume', 'finish_revert_migration',
                     'check_can_live_migrate_source', 'resume_state_on_host_boot', 'power_off',
                     'migrate_disk_and_power_off'):
            self.unmerged.reset_mock()
            with mock.patch.object(nova_driver.LibvirtDriver, name, autospec=True):
                self.call(name)
            self.assertEqual(1, len(self.unmerged.method_calls), name)

    def test_disks_are_merged_before_their_removal_and_volumes_before_theirs(self) -> None:
        with mock.patch.object(nova_driver.LibvirtDriver, '_cleanup', autospec=True) as theirs:
            self.unmerged.before_cleanup.side_effect = RuntimeError('not merged')
            self.assertRaises(RuntimeError, self.call, '_cleanup')
            theirs.assert_not_called()
            self.unmerged.before_cleanup.side_effect = None
            self.call('_cleanup')
        theirs.assert_called_once()
        self.unmerged.after_cleanup.assert_called_once_with(self.server)

    @ddt.data((True, False), (False, True))
    @ddt.unpack
    def test_soft_reboot_of_a_server_with_backups_is_replaced(
            self, protects: bool, overlaid: bool) -> None:
        self.tell(protected.OPT_OUT if protects else protected.OPT_IN)
        self.unmerged.through_overlay.return_value = overlaid
        with mock.patch.object(nova_driver.LibvirtDriver, '_soft_reboot',
                               autospec=True) as theirs:
            self.call('_soft_reboot')
        theirs.assert_not_called()
        self.unmerged.soft_reboot.assert_called_once_with(self.server)

    def test_operations_before_the_start_of_backups_are_novas(self) -> None:
        self.ours.unmerged = None
        for name in ('spawn', 'snapshot', 'finish_migration', '_cleanup', '_soft_reboot'):
            with mock.patch.object(nova_driver.LibvirtDriver, name, autospec=True) as theirs:
                self.call(name)
            theirs.assert_called_once()

    def test_refused_operation_is_not_passed_to_nova(self) -> None:
        self.unmerged.refuse_until_merged.side_effect = RuntimeError('not merged')
        with mock.patch.object(nova_driver.LibvirtDriver, 'snapshot', autospec=True) as theirs:
            self.assertRaises(RuntimeError, self.call, 'snapshot')
        theirs.assert_not_called()

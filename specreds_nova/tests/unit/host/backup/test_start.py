# SPDX-License-Identifier: Apache-2.0
"""The start of a backup: the server as it is read before, the steps, and their undoing."""

from concurrent import futures
import threading
import types
from typing import Any
from unittest import mock

from nova import objects
from nova.network import model
import testtools

from specreds_nova import exception
from specreds_nova.host.backup import journal as journals
from specreds_nova.host.backup import start as starts
from specreds_nova.host.box import errors as box_errors
from specreds_nova.tests.unit.host import base


class LoadTest(testtools.TestCase):
    """Neutron shows a port as unbound for a moment while it binds the port again."""

    def setUp(self) -> None:
        """Create a server whose port Nova has seen in that moment."""
        super().setUp()
        objects.register_all()
        self.instance = mock.Mock(uuid=base.SERVER)
        self.types = ['unbound']
        self.instance.get_network_info.side_effect = lambda: [
            model.VIF(id='p1', type=self.types[0])]
        self.api = mock.Mock()
        self.now = 0.0
        self.replace('specreds_nova.host.backup.domain.load_instance', lambda *_: self.instance)
        self.replace('specreds_nova.host.backup.start.neutron.API', lambda: self.api)
        self.replace('specreds_nova.host.backup.start.time', mock.Mock(
            monotonic=lambda: self.now, sleep=self.sleep))

    def replace(self, name: str, new: Any) -> None:
        """Replace an attribute until the test ends."""
        patch = mock.patch(name, new)
        patch.start()
        self.addCleanup(patch.stop)

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def load(self) -> Any:
        """Load the server."""
        with mock.patch.object(objects.BlockDeviceMappingList, 'get_by_instance_uuid'):
            return starts.load('context', base.SERVER)[0]

    def test_bound_port_is_read_once(self) -> None:
        self.types = ['ovs']
        self.assertIs(self.instance, self.load())
        self.api.get_instance_nw_info.assert_not_called()

    def test_unbound_port_is_read_until_it_is_bound(self) -> None:
        def look(context: Any, instance: Any, force_refresh: bool) -> None:
            self.assertTrue(force_refresh)
            if self.api.get_instance_nw_info.call_count == 3:
                self.types = ['ovs']
        self.api.get_instance_nw_info.side_effect = look
        self.load()
        self.assertEqual(3, self.api.get_instance_nw_info.call_count)

    def test_wait_for_the_binding_of_a_port_is_limited(self) -> None:
        self.assertIs(self.instance, self.load())
        self.assertLess(1, self.api.get_instance_nw_info.call_count)


class StartTest(base.TestCase):
    """The start of a backup, and its undoing after a failure."""

    def start(self, recovery: str = base.BACKUP_ID,
              superposition: str = base.SUPERPOSITION) -> dict[str, Any]:
        return self.backups.start(recovery, base.SERVER, superposition)

    def test_backup_runs_in_a_sealed_box(self) -> None:
        status = self.start()
        self.assertEqual(('running', {'pid': 4711, 'state': 'running'}, None),
                         (status['phase'], status['domain'], status['error']))
        self.assertEqual('running', self.phase())
        self.assertEqual({base.BACKUP_ID}, self.watches.watched)
        for what in ('connection', 'seal', 'claim', 'domain', 'rpc_to_running'):
            self.assertIn(what, status['timings_ms'])
        self.launcher.launch.assert_called_once()
        self.box.attached.assert_called_once_with(self.instance, base.BACKUP_ID)
        record = self.on_disk()
        assert record is not None
        self.assertEqual((base.PRIMARY, [base.VOLUME], 'instance-00000001'),
                         (record.primary, record.volume_ids, record.instance_name))

    def test_tagged_devices_are_located_before_metadata_are_served(self) -> None:
        self.start()
        self.launcher.locate_devices.assert_not_called()
        self.backups.abort(base.BACKUP_ID)
        self.instance.device_metadata = mock.sentinel.of_the_primary
        order = mock.Mock()
        order.attach_mock(self.launcher.launch, 'launch')
        order.attach_mock(self.launcher.locate_devices, 'locate')
        order.attach_mock(self.box.attached, 'attached')
        self.start('another')
        self.assertEqual(['launch', 'locate', 'attached'],
                         [call[0] for call in order.mock_calls])

    def test_sentinel_of_the_primary_is_asked_before_anything_is_made(self) -> None:
        sentinels = mock.Mock(**{'runs.return_value': None}, asks=True)
        sentinels.expect.side_effect = lambda host: self.box.seal.assert_not_called()
        self.backups.consult(sentinels)
        self.assertEqual('running', self.start()['phase'])
        sentinels.expect.assert_called_once_with(base.PRIMARY)

    def test_start_may_be_repeated(self) -> None:
        self.start()
        self.assertEqual('running', self.start()['phase'])
        self.launcher.launch.assert_called_once()

    def test_ineligible_server_is_refused_without_effects(self) -> None:
        self.eligibility.reasons.return_value = ['it has a virtual TPM']
        error = self.assertRaises(exception.ServerNotEligible, self.start)
        self.assertIn('it has a virtual TPM', str(error))
        self.assertIsNone(self.phase())
        self.box.seal.assert_not_called()
        self.claims.claim.assert_not_called()
        self.launcher.launch.assert_not_called()

    def test_topology_of_the_host_is_what_the_domain_gets(self) -> None:
        self.pin()
        self.start()
        self.assertEqual('of this host', self.instance.numa_topology)
        self.assertIs(self.instance, self.launcher.launch.call_args.args[1])
        mark = self.launcher.launch.call_args.args[-1]
        self.assertEqual({'cells': []}, mark.numa_topology)
        self.topologies.report.assert_called_once_with()

    def pin(self) -> None:
        """Make the server one with pinned CPUs."""
        self.instance.numa_topology = 'of its own host'

        def claim(record: journals.Record, instance: Any) -> str:
            record.numa_topology = {'cells': []}
            return 'of this host'
        self.topologies.claim.side_effect = claim

    def test_topology_that_does_not_fit_is_refused_before_anything_is_made(self) -> None:
        self.instance.numa_topology = 'of its own host'
        self.topologies.claim.side_effect = exception.ServerNotEligible('it does not fit')
        error = self.assertRaises(exception.ServerNotEligible, self.start)
        self.assertIn('it does not fit', str(error))
        self.assertEqual('failed', self.phase())
        self.claims.claim.assert_not_called()
        self.box.seal.assert_not_called()
        self.launcher.launch.assert_not_called()

    def test_backup_starts_although_nova_does_not_take_the_report(self) -> None:
        self.pin()
        self.topologies.report.side_effect = exception.ReportFailed('no answer')
        self.assertEqual('running', self.start()['phase'])

    def test_server_without_a_topology_claims_and_reports_none(self) -> None:
        self.start()
        self.topologies.claim.assert_not_called()
        self.topologies.report.assert_not_called()
        self.assertIsNone(self.launcher.launch.call_args.args[-1].numa_topology)

    def test_ports_that_are_not_admitted_start_no_guest(self) -> None:
        self.box.admitted.side_effect = box_errors.BoxRefused(
            instance=base.SERVER, host=base.HOST, reason='it is the parent of a trunk')
        error = self.assertRaises(exception.ServerNotEligible, self.start)
        self.assertIn('trunk', str(error))
        self.launcher.launch.assert_not_called()
        self.box.remove.assert_called_once()
        self.claims.release.assert_called_once()

    def test_failed_start_is_undone(self) -> None:
        self.launcher.launch.side_effect = RuntimeError('no QEMU')
        error = self.assertRaises(exception.StartFailed, self.start)
        self.assertIn('no QEMU', str(error))
        self.assertEqual('failed', self.phase())
        self.launcher.remove.assert_called_once_with(base.BACKUP_ID, base.SERVER)
        self.box.remove.assert_called_once()
        self.claims.release.assert_called_once()
        self.launcher.remove_files.assert_called_once_with(base.SERVER)
        self.launcher.remove_secrets.assert_called_once_with([base.VOLUME])

    def test_start_on_a_full_host_is_refused_and_undone(self) -> None:
        self.claims.claim.side_effect = exception.ServerNotEligible('not enough left')
        self.assertRaises(exception.ServerNotEligible, self.start)
        self.assertEqual('failed', self.phase())
        self.box.remove.assert_called_once()
        self.launcher.launch.assert_not_called()

    def test_incomplete_undo_is_kept_for_a_later_attempt(self) -> None:
        self.launcher.launch.side_effect = RuntimeError('no QEMU')
        self.box.remove.side_effect = exception.BackupError('Neutron does not answer')
        self.assertRaises(exception.StartFailed, self.start)
        record = self.on_disk()
        assert record is not None
        self.assertEqual('aborting', record.phase)
        self.assertIn('Neutron does not answer', record.error or '')
        # All other parts are undone.
        self.claims.release.assert_called_once()

    def test_abort_during_the_start_undoes_it(self) -> None:
        aborts = self.abort_when(self.claims.claim)
        error = self.assertRaises(exception.StartFailed, self.start)
        self.assertIn('was aborted', str(error))
        self.assertEqual(['aborted'], [abort.result()['phase'] for abort in aborts])
        self.launcher.launch.assert_not_called()
        self.box.remove.assert_called_once()
        self.claims.release.assert_called_once()
        # Another backup of the server can start.
        self.claims.claim.side_effect = None
        self.assertEqual('running', self.start('another')['phase'])

    def test_abort_before_the_start_refuses_it(self) -> None:
        self.eligibility.reasons.return_value = []
        aborts = self.abort_when(self.eligibility.reasons)
        self.assertRaises(exception.StartFailed, self.start)
        self.assertEqual(['aborted'], [abort.result()['phase'] for abort in aborts])
        self.box.seal.assert_not_called()
        self.box.remove.assert_not_called()
        # A later start of the same recovery is refused.
        self.assertRaises(exception.BackupConflict, self.start)

    def test_abort_at_the_end_of_the_start_undoes_it(self) -> None:
        aborts = self.abort_when(self.launcher.launch)
        self.start()
        self.assertEqual(['aborted'], [abort.result()['phase'] for abort in aborts])
        self.launcher.remove.assert_called_once()

    def abort_when(self, step: mock.Mock) -> list[futures.Future[dict[str, Any]]]:
        """Abort the recovery during a step of its start."""
        aborts: list[futures.Future[dict[str, Any]]] = []
        pool = futures.ThreadPoolExecutor(1)
        self.addCleanup(pool.shutdown)
        heard = threading.Event()
        cancel = starts.StartsInProgress.cancel

        def hear(under_way: starts.StartsInProgress, backup_id: str) -> str | None:
            reason = cancel(under_way, backup_id)
            heard.set()
            return reason

        patch = mock.patch.object(starts.StartsInProgress, 'cancel', hear)
        patch.start()
        self.addCleanup(patch.stop)

        def abort(*_arguments: Any, **_named: Any) -> Any:
            aborts.append(pool.submit(self.backups.abort, base.BACKUP_ID))
            self.assertTrue(heard.wait(10.0))
            return mock.DEFAULT
        step.side_effect = abort
        return aborts

    def test_start_with_other_volumes_is_refused(self) -> None:
        self.cinder.connections.return_value = {'another': {}}
        error = self.assertRaises(exception.StartFailed, self.start)
        self.assertIn('superpose all of them together', str(error))
        self.launcher.launch.assert_not_called()

    def test_start_without_one_of_the_servers_disks_is_refused(self) -> None:
        disks = {f'{base.SERVER}_disk', f'{base.SERVER}_disk.eph1'}
        self.replace('specreds_nova.host.backup.domain.disk_ids', lambda instance, bdms: disks)
        self.bdms.append(types.SimpleNamespace(volume_id=None))
        self.cinder.connections.return_value = {base.VOLUME: {}, f'{base.SERVER}_disk': {}}
        error = self.assertRaises(exception.ServerNotEligible, self.start)
        self.assertIn('disk.eph1', str(error))
        self.launcher.launch.assert_not_called()

    def test_start_has_volumes_and_disks(self) -> None:
        disk = f'{base.SERVER}_disk'
        self.replace('specreds_nova.host.backup.domain.disk_ids', lambda instance, bdms: {disk})
        self.bdms.append(types.SimpleNamespace(volume_id=None))
        self.cinder.connections.return_value = {base.VOLUME: {}, disk: {}}
        self.assertEqual('running', self.start()['phase'])
        self.assertEqual({base.VOLUME: {}, disk: {}}, self.launcher.launch.call_args.args[3])
        record = self.on_disk()
        assert record is not None
        self.assertEqual([base.VOLUME], record.volume_ids)

    def test_interrupted_start_is_repeated(self) -> None:
        self.record(journals.STARTING)
        self.assertEqual('running', self.start()['phase'])
        self.launcher.remove.assert_called_once()
        self.launcher.launch.assert_called_once()

    def test_id_of_an_ended_recovery_is_refused(self) -> None:
        self.record(journals.ABORTED)
        error = self.assertRaises(exception.BackupConflict, self.start)
        self.assertIn('use another id', str(error))

    def test_id_with_another_superposition_is_refused(self) -> None:
        self.start()
        self.assertRaises(exception.BackupConflict, self.start, base.BACKUP_ID, 'another')

    def test_second_recovery_of_a_server_is_refused(self) -> None:
        self.start()
        error = self.assertRaises(exception.BackupConflict, self.start, 'another')
        self.assertIn(base.BACKUP_ID, str(error))

    def test_ended_recovery_does_not_prevent_another(self) -> None:
        self.record(journals.FAILED)
        self.assertEqual('running', self.start('another')['phase'])

# SPDX-License-Identifier: Apache-2.0
"""The steps of a backup on its host, and the steps that each phase refuses."""

from concurrent import futures
import threading
import types
from typing import Any
from unittest import mock

from nova import utils
from oslo_concurrency import lockutils

from specreds_nova import exception
from specreds_nova.tests.unit.virt import base
from specreds_nova.virt.backup import host as backup_host
from specreds_nova.virt.backup import journal as journals
from specreds_nova.virt.backup import start as starts
from specreds_nova.virt.box import errors as box_errors
from specreds_nova.virt.disks import durable


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

    def test_marker_of_earlier_boots_is_recorded(self) -> None:
        # A nova-compute that restarts watches the backup again.
        status = self.backups.start(base.BACKUP_ID, base.SERVER, base.SUPERPOSITION,
                                    'web server is up')
        self.assertIsNone(status['learned_marker'])
        record = self.on_disk()
        assert record is not None
        self.assertEqual('web server is up', record.expected_marker)

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
        self.replace('specreds_nova.virt.backup.domain.disk_ids', lambda instance, bdms: disks)
        self.bdms.append(types.SimpleNamespace(volume_id=None))
        self.cinder.connections.return_value = {base.VOLUME: {}, f'{base.SERVER}_disk': {}}
        error = self.assertRaises(exception.ServerNotEligible, self.start)
        self.assertIn('disk.eph1', str(error))
        self.launcher.launch.assert_not_called()

    def test_start_has_volumes_and_disks(self) -> None:
        disk = f'{base.SERVER}_disk'
        self.replace('specreds_nova.virt.backup.domain.disk_ids', lambda instance, bdms: {disk})
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


class DecideTest(base.TestCase):
    """Harden, promote, abort and clean up."""

    def test_harden_makes_the_disks_durable(self) -> None:
        self.record(journals.RUNNING)
        self.assertEqual('hardened', self.backups.harden(base.BACKUP_ID)['phase'])
        self.assertEqual('hardened', self.phase())
        self.backups.harden(base.BACKUP_ID)
        self.assertEqual(2, self.harden.call_count)

    def test_ready_backup_is_hardened_at_once(self) -> None:
        self.record(journals.RUNNING)
        self.watches.then(base.BACKUP_ID)
        self.assertEqual('hardened', self.phase())

    def test_failed_hardening_does_not_end_the_watch(self) -> None:
        self.record(journals.RUNNING)
        for error in (durable.NotDurable('vda is not'), RuntimeError('anything')):
            self.harden.side_effect = error
            self.watches.then(base.BACKUP_ID)
            self.assertEqual('running', self.phase())
        self.watches.then('another')

    def test_disk_that_is_not_durable_is_an_error(self) -> None:
        self.record(journals.RUNNING)
        self.harden.side_effect = durable.NotDurable('vda is not')
        error = self.assertRaises(exception.BackupConflict, self.backups.harden, base.BACKUP_ID)
        self.assertIn('do not promote it', str(error))
        self.assertEqual('running', self.phase())

    def test_harden_of_an_ended_backup_is_refused(self) -> None:
        self.record(journals.RUNNING)
        self.domain('shutoff')
        self.assertRaises(exception.BackupLost, self.backups.harden, base.BACKUP_ID)
        self.harden.assert_not_called()

    def test_promote_opens_the_box(self) -> None:
        self.record(journals.HARDENED)
        self.cinder.state.return_value = 'promoted'
        seen = []

        def opened(*ids: Any) -> dict[str, int]:
            seen.append(self.phase())
            return {'box_open': 3}

        self.box.open.side_effect = opened
        status = self.backups.promote(base.BACKUP_ID)
        self.assertEqual('promoted', status['phase'])
        self.assertEqual(3, status['timings_ms']['box_open'])
        # A crash before that record would make the reconciler seal the box again.
        self.assertEqual(['promoted'], seen)
        self.harden.assert_not_called()
        self.claims.release.assert_called_once()
        self.backups.promote(base.BACKUP_ID)
        self.box.open.assert_called_once()

    def test_claim_is_kept_until_the_evacuation(self) -> None:
        self.record(journals.HARDENED)
        self.assertRaises(exception.BackupConflict, self.backups.release, base.BACKUP_ID)
        self.cinder.state.return_value = 'promoted'
        self.backups.promote(base.BACKUP_ID, keep_claim=True)
        self.claims.release.assert_not_called()
        self.assertEqual('promoted', self.backups.release(base.BACKUP_ID)['phase'])
        self.claims.release.assert_called_once()

    def test_promote_hardens_first(self) -> None:
        self.record(journals.RUNNING)
        self.cinder.state.return_value = 'merging'
        self.assertEqual('promoted', self.backups.promote(base.BACKUP_ID)['phase'])
        self.harden.assert_called_once()

    def test_promote_checks_the_decision_in_cinder(self) -> None:
        self.record(journals.HARDENED)
        for state in ('superposed', 'collapsing', 'aborting', None):
            self.cinder.state.return_value = state
            self.assertRaises(exception.BackupConflict, self.backups.promote, base.BACKUP_ID)
        self.box.open.assert_not_called()
        self.assertEqual('hardened', self.phase())

    def test_box_stays_sealed_while_cinder_is_silent(self) -> None:
        self.record(journals.HARDENED)
        self.cinder.state.side_effect = exception.SuperpositionUnknown('no answer')
        self.assertRaises(exception.SuperpositionUnknown, self.backups.promote, base.BACKUP_ID)
        self.box.open.assert_not_called()

    def test_promote_of_a_lost_backup_fails(self) -> None:
        self.record(journals.HARDENED)
        self.cinder.state.return_value = 'promoted'
        self.domain(None)
        error = self.assertRaises(exception.BackupLost, self.backups.promote, base.BACKUP_ID)
        self.assertIn('evacuate the server', str(error))
        self.assertEqual('failed', self.phase())
        self.box.open.assert_not_called()

    def test_opening_of_the_box_is_repeated(self) -> None:
        self.record(journals.HARDENED)
        self.cinder.state.return_value = 'promoted'
        self.box.open.side_effect = [exception.BackupError('half open'), {}]
        self.assertRaises(exception.BackupError, self.backups.promote, base.BACKUP_ID)
        self.assertEqual('promoted', self.phase())
        self.backups.promote(base.BACKUP_ID)
        self.assertEqual(2, self.box.open.call_count)
        record = self.on_disk()
        self.assertTrue(record is not None and record.opened)

    def test_abort_removes_everything(self) -> None:
        for phase in (journals.STARTING, journals.RUNNING, journals.HARDENED,
                      journals.ABORTING):
            self.record(phase)
            self.assertEqual('aborted', self.backups.abort(base.BACKUP_ID)['phase'])
            self.assertEqual('aborted', self.phase())
        self.assertEqual(4, self.launcher.remove.call_count)
        self.backups.abort(base.BACKUP_ID)
        self.assertEqual(4, self.launcher.remove.call_count)

    def test_abort_of_a_promoted_backup_is_refused(self) -> None:
        self.record(journals.HARDENED)
        for state in ('promoted', 'merging', 'merged'):
            self.cinder.state.return_value = state
            self.assertRaises(exception.BackupConflict, self.backups.abort, base.BACKUP_ID)
        for phase in (journals.PROMOTED, journals.ADOPTED, journals.MERGING, journals.MERGED):
            self.record(phase)
            self.assertRaises(exception.BackupConflict, self.backups.abort, base.BACKUP_ID)
        self.launcher.remove.assert_not_called()

    def test_abort_is_refused_while_cinder_is_silent(self) -> None:
        self.record(journals.RUNNING)
        self.cinder.state.side_effect = exception.SuperpositionUnknown('no answer')
        self.assertRaises(exception.SuperpositionUnknown, self.backups.abort, base.BACKUP_ID)
        self.launcher.remove.assert_not_called()

    def test_abort_of_an_unknown_recovery_succeeds(self) -> None:
        self.assertEqual('aborted', self.backups.abort('another')['phase'])

    def test_abort_keeps_the_files_of_a_server_of_this_host(self) -> None:
        self.record(journals.RUNNING)
        self.instance.host = base.HOST
        self.backups.abort(base.BACKUP_ID)
        self.launcher.remove_files.assert_not_called()

    def test_cleanup_forgets_only_ended_backups(self) -> None:
        self.record(journals.RUNNING)
        self.assertRaises(exception.BackupConflict, self.backups.cleanup, base.BACKUP_ID)
        for phase in (journals.ABORTED, journals.FAILED, journals.MERGED):
            self.record(phase)
            self.backups.cleanup(base.BACKUP_ID)
            self.assertIsNone(self.phase())
        self.backups.cleanup(base.BACKUP_ID)

    def test_status_has_the_second_opinion_on_the_primary_while_it_may_be_spared(self) -> None:
        self.record(journals.RUNNING, primary='node9')
        self.assertIsNone(self.backups.status(base.BACKUP_ID)['primary_runs'])
        runs = self.backups.statuses.primary_runs = mock.Mock(return_value=True)
        self.assertIs(True, self.backups.status(base.BACKUP_ID)['primary_runs'])
        runs.assert_called_once_with('node9', base.SERVER)
        self.record(journals.PROMOTED, primary='node9')
        self.assertIsNone(self.backups.status(base.BACKUP_ID)['primary_runs'])

    def test_status_of_an_unknown_recovery_raises(self) -> None:
        self.assertRaises(exception.BackupNotFound, self.backups.status, 'another')

    def test_backups_are_listed(self) -> None:
        self.record(journals.RUNNING)
        self.assertEqual([base.BACKUP_ID],
                         [status['backup_id'] for status in self.backups.list()])


class CheckTest(base.TestCase):
    """The check of whether a backup can be started."""

    def test_eligible_server_has_no_reasons(self) -> None:
        self.assertEqual({'eligible': True, 'reasons': []}, self.backups.check(base.SERVER))

    def test_all_reasons_are_listed(self) -> None:
        self.eligibility.all_reasons.return_value = ['one', 'two']
        self.assertEqual({'eligible': False, 'reasons': ['one', 'two']},
                         self.backups.check(base.SERVER))


class LockTest(base.TestCase):
    """The only lock of a server is Nova's own."""

    def free(self) -> bool:
        lock = lockutils.internal_lock(base.SERVER)
        taken = bool(lock.acquire(blocking=False))
        if taken:
            lock.release()
        return taken

    def test_lock_is_that_of_nova(self) -> None:
        self.assertTrue(self.free())
        with backup_host.locked(base.SERVER):
            self.assertFalse(self.free())
        self.assertFalse(utils.synchronized(base.SERVER)(self.free)())

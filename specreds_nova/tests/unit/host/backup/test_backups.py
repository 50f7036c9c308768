# SPDX-License-Identifier: Apache-2.0
"""The steps of a running backup on its host, and the steps that each phase refuses."""

import contextlib
from typing import Any
from unittest import mock

from nova import utils
from oslo_concurrency import lockutils

from specreds_nova import exception
from specreds_nova.host.backup import host as backup_host
from specreds_nova.host.backup import journal as journals
from specreds_nova.host.disks import durable
from specreds_nova.tests.unit.host import base


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
        self.merge.assert_not_called()
        self.backups.promote(base.BACKUP_ID)
        self.assertEqual(2, self.box.open.call_count)
        record = self.on_disk()
        self.assertTrue(record is not None and record.opened)

    def test_merge_begins_with_the_promotion_and_continues_after_a_crash(self) -> None:
        self.record(journals.HARDENED)
        self.cinder.state.return_value = 'promoted'
        for calls in (1, 2):
            self.backups.promote(base.BACKUP_ID)
            self.assertEqual([mock.call(base.SERVER, base.SUPERPOSITION)] * calls,
                             self.merge.call_args_list)

    def test_abort_removes_everything(self) -> None:
        for phase in (journals.STARTING, journals.RUNNING, journals.HARDENED,
                      journals.ABORTING):
            self.record(phase)
            self.assertEqual('aborted', self.backups.abort(base.BACKUP_ID)['phase'])
            self.assertEqual('aborted', self.phase())
        self.assertEqual(4, self.launcher.remove.call_count)
        self.backups.abort(base.BACKUP_ID)
        self.assertEqual(4, self.launcher.remove.call_count)

    def test_end_of_a_backup_reports_what_it_has_set_free(self) -> None:
        self.topologies.report.side_effect = lambda: phases.append(self.phase())
        for how, phase in ((self.backups.drop, 'aborted'),
                           (lambda record: self.backups.fail(record, 'lost'), 'failed')):
            phases: list[str | None] = []
            how(self.record(journals.RUNNING))
            self.assertEqual([], phases)
            how(self.record(journals.RUNNING, numa_topology={'cells': []}))
            self.assertEqual([phase], phases)
        self.topologies.report.side_effect = exception.ReportFailed('no answer')
        self.backups.drop(self.record(journals.RUNNING, numa_topology={'cells': []}))
        self.assertEqual('aborted', self.phase())

    def test_backup_that_is_removed_in_part_reports_nothing(self) -> None:
        self.launcher.remove.side_effect = exception.UndoIncomplete('QEMU hangs')
        record = self.record(journals.RUNNING, numa_topology={'cells': []})
        self.assertRaises(exception.UndoIncomplete, self.backups.drop, record)
        self.topologies.report.assert_not_called()

    def test_release_has_nova_find_room_for_the_evacuation(self) -> None:
        record = self.record(journals.PROMOTED, opened=True)
        self.backups.release(base.BACKUP_ID)
        self.claims.release.assert_called_once_with(mock.ANY, base.BACKUP_ID)
        self.topologies.offer.assert_called_once_with(record)

    def test_abort_of_a_promoted_backup_is_refused(self) -> None:
        self.record(journals.HARDENED)
        for state in ('promoted', 'merging', 'merged'):
            self.cinder.state.return_value = state
            self.assertRaises(exception.BackupConflict, self.backups.abort, base.BACKUP_ID)
        for phase in (journals.PROMOTED, journals.ADOPTED, journals.MERGED):
            self.record(phase)
            self.assertRaises(exception.BackupConflict, self.backups.abort, base.BACKUP_ID)
        self.launcher.remove.assert_not_called()

    def test_backup_that_is_promoted_meanwhile_is_not_removed(self) -> None:
        self.record(journals.HARDENED)
        held = contextlib.nullcontext()

        def locked(_instance_uuid: str) -> contextlib.AbstractContextManager[None]:
            # What held the lock before has promoted it.
            self.record(journals.PROMOTED)
            return held
        self.replace('specreds_nova.host.backup.host.locked', locked)
        self.assertRaises(exception.BackupConflict, self.backups.abort, base.BACKUP_ID)
        self.launcher.remove.assert_not_called()
        self.assertEqual('promoted', self.phase())

    def test_backup_that_is_removed_meanwhile_is_not_promoted(self) -> None:
        self.record(journals.ABORTING)
        self.cinder.state.return_value = 'promoted'
        self.assertRaises(exception.BackupConflict, self.backups.promote, base.BACKUP_ID)
        self.box.open.assert_not_called()

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

    def test_status_has_the_second_opinion_on_the_primary_while_it_may_be_spared(self) -> None:
        self.record(journals.RUNNING, primary='node9')
        before = self.backups.status(base.BACKUP_ID)
        self.assertEqual((None, False), (before['primary_runs'], before['primary_asked']))
        sentinels = mock.Mock(asks=True)
        sentinels.runs.return_value = sentinels.silent.return_value = True
        self.backups.consult(sentinels)
        status = self.backups.status(base.BACKUP_ID)
        self.assertEqual([True] * 3, [status[f'primary_{name}']
                                      for name in ('runs', 'silent', 'asked')])
        sentinels.runs.assert_called_once_with('node9', base.SERVER)
        self.record(journals.PROMOTED, primary='node9')
        self.assertIsNone(self.backups.status(base.BACKUP_ID)['primary_runs'])

    def test_status_of_an_unknown_recovery_raises(self) -> None:
        self.assertRaises(exception.BackupNotFound, self.backups.status, 'another')



class CheckTest(base.TestCase):
    """The check of whether a backup can be started."""

    def test_eligible_server_has_no_reasons(self) -> None:
        self.replace('specreds_nova.host.backup.domain.disk_ids',
                     lambda instance, bdms: {'s_disk'})
        self.assertEqual({'eligible': True, 'reasons': [], 'immovable': None,
                          'disks': ['s_disk']}, self.backups.check(base.SERVER))

    def test_all_reasons_are_listed(self) -> None:
        self.eligibility.all_reasons.return_value = ['one', 'two']
        self.eligibility.immovable.return_value = 'it has shares'
        self.assertEqual({'eligible': False, 'reasons': ['one', 'two'],
                          'immovable': 'it has shares', 'disks': []},
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

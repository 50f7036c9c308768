# SPDX-License-Identifier: Apache-2.0
"""The result of a reconciliation after the death of nova-compute in each phase."""

from collections.abc import Callable
import json
import queue
from typing import Any
from unittest import mock

from specreds_nova import exception
from specreds_nova.host.backup import adoption
from specreds_nova.host.backup import journal as journals
from specreds_nova.host.backup import marks
from specreds_nova.host.backup import reconcile
from specreds_nova.tests.unit.host import base


class Reconciling(base.TestCase):
    """A test with the reconciler of a restarted nova-compute."""

    def setUp(self) -> None:
        super().setUp()
        self.merger = mock.Mock(**{'progress.return_value': None})
        self.adoption = adoption.Adoption(self.this_host, self.backups)
        self.instance.vm_state = 'active'
        self.reconciler = reconcile.Reconciler(self.this_host, self.backups, self.adoption,
                                               self.watches, self.merger)

    def after(self, phase: str, state: str | None, domain: str | None = 'running',
              **more: Any) -> str | None:
        """Return the phase after a reconciliation, given states of Cinder and libvirt."""
        self.record(phase, primary=base.PRIMARY, **more)
        self.cinder.state.return_value = state
        self.domain(domain)
        self.reconciler.run()
        return self.phase()


class ReconcileTest(Reconciling):
    """Backups in the journal."""

    def test_every_interrupted_phase_is_settled(self) -> None:
        for phase, state, domain, expected in (
                (journals.STARTING, 'superposed', None, 'failed'),
                (journals.STARTING, 'superposed', 'running', 'failed'),
                (journals.STARTING, None, 'running', 'failed'),
                (journals.RUNNING, 'superposed', 'running', 'running'),
                (journals.RUNNING, 'superposed', 'paused', 'running'),
                (journals.RUNNING, 'superposed', 'shutoff', 'failed'),
                (journals.RUNNING, 'superposed', None, 'failed'),
                (journals.RUNNING, 'collapsing', None, 'running'),
                (journals.RUNNING, 'creating', 'running', 'running'),
                (journals.RUNNING, 'aborting', 'running', 'aborted'),
                (journals.RUNNING, None, 'running', 'aborted'),
                (journals.HARDENED, 'superposed', 'running', 'hardened'),
                (journals.HARDENED, 'collapsing', 'running', 'hardened'),
                (journals.HARDENED, None, 'running', 'aborted'),
                (journals.HARDENED, 'promoted', 'running', 'promoted'),
                (journals.HARDENED, 'merging', 'running', 'promoted'),
                (journals.HARDENED, 'promoted', None, 'failed'),
                (journals.RUNNING, 'promoted', 'running', 'promoted'),
                (journals.PROMOTED, 'promoted', 'running', 'promoted'),
                (journals.PROMOTED, 'promoted', 'shutoff', 'failed'),
                (journals.ABORTING, None, 'running', 'aborted'),
                (journals.ABORTING, 'superposed', None, 'aborted'),
                (journals.ABORTED, None, None, 'aborted'),
                (journals.FAILED, None, None, 'failed')):
            self.assertEqual(expected, self.after(phase, state, domain),
                             f'{phase}, Cinder {state}, domain {domain}')

    def test_backup_is_left_alone_while_cinder_is_silent(self) -> None:
        self.record(journals.HARDENED)
        self.cinder.state.side_effect = exception.SuperpositionUnknown('no answer')
        self.reconciler.run()
        self.assertEqual('hardened', self.phase())
        self.launcher.remove.assert_not_called()
        self.box.open.assert_not_called()

    def test_box_of_a_promoted_backup_is_opened_once(self) -> None:
        self.after(journals.PROMOTED, 'promoted')
        self.after(journals.PROMOTED, 'promoted', opened=True)
        self.box.open.assert_called_once()

    def test_running_backup_is_watched_again(self) -> None:
        self.after(journals.RUNNING, 'superposed')
        self.assertEqual({base.BACKUP_ID}, self.watches.watched)

    def test_backup_of_a_deleted_server_is_removed(self) -> None:
        self.replace('specreds_nova.host.backup.host.find_instance', lambda context, uuid: None)
        self.assertEqual('aborted', self.after(journals.RUNNING, 'superposed'))
        self.assertEqual('aborted', self.after(journals.PROMOTED, 'promoted'))
        self.assertIsNone(self.after(journals.ADOPTED, 'merging'))

    def test_adoption_by_nova_is_noticed(self) -> None:
        self.instance.host = base.HOST
        self.assertEqual('adopted', self.after(journals.PROMOTED, 'promoted', adopting=True))
        self.merger.ensure.assert_called_once_with(base.SERVER, base.SUPERPOSITION)
        self.box.adopted.assert_called_once()

    def test_promoted_backup_that_was_overtaken_is_removed(self) -> None:
        # Without its superposition, a backup whose server Nova has not moved is left alone.
        self.assertEqual('promoted', self.after(journals.PROMOTED, None, opened=True))
        self.instance.host = 'node3'
        self.assertEqual('promoted', self.after(journals.PROMOTED, 'promoted', opened=True))
        self.launcher.remove.assert_not_called()
        self.assertEqual('failed', self.after(journals.PROMOTED, None, opened=True))
        self.launcher.remove.assert_called_once()

    def test_merge_meanwhile_is_noticed(self) -> None:
        self.instance.host = base.HOST
        self.assertEqual('adopted', self.after(journals.ADOPTED, 'merging'))
        self.assertEqual('merged', self.after(journals.ADOPTED, None))

    def test_cinder_is_not_asked_about_a_merge_of_this_host(self) -> None:
        self.instance.host = base.HOST
        self.merger.progress.return_value = {'state': 'merging'}
        self.assertEqual('adopted', self.after(journals.ADOPTED, 'merging'))
        self.cinder.state.assert_not_called()
        self.instance.host = 'node3'
        self.assertIsNone(self.after(journals.ADOPTED, 'merging'))

    def test_adopted_server_on_another_host_is_forgotten(self) -> None:
        self.instance.host = 'node3'
        self.assertIsNone(self.after(journals.ADOPTED, 'merging'))

    def test_incomplete_undo_is_repeated(self) -> None:
        self.box.remove.side_effect = [exception.BackupError('Neutron is away'), None]
        self.assertEqual('aborting', self.after(journals.STARTING, 'superposed'))
        self.reconciler.run()
        self.assertEqual('aborted', self.phase())

    def test_old_ended_backup_is_forgotten(self) -> None:
        record = self.record(journals.FAILED)
        record.updated_at = 1.0
        self.reconciler.run()
        self.assertIsNone(self.phase())

    def test_boxes_are_reconciled_by_phase(self) -> None:
        self.after(journals.RUNNING, 'superposed')
        self.box.reconcile.assert_called_with(shut=[base.BACKUP_ID], opened=[], unsure=[])
        self.after(journals.PROMOTED, 'promoted')
        self.box.reconcile.assert_called_with(shut=[], opened=[base.BACKUP_ID], unsure=[])

    def test_failure_of_one_backup_does_not_stop_the_others(self) -> None:
        self.record(journals.RUNNING)
        self.cinder.state.side_effect = RuntimeError('unforeseen')
        self.box.reconcile.side_effect = RuntimeError('unforeseen')
        self.reconciler.run()
        self.merger.scan.assert_called_once()

    def test_end_of_the_adoption_in_nova_is_awaited(self) -> None:
        record = self.record(journals.PROMOTED, opened=True, adopting=True)
        seen: list[float] = []

        def sleep(seconds: float) -> None:
            seen.append(seconds)
            if len(seen) == 3:
                self.instance.host = base.HOST

        with mock.patch('time.sleep', sleep):
            self.reconciler.await_adoption(record)
        self.assertEqual(3, len(seen))
        self.assertEqual('adopted', self.phase())
        self.merger.ensure.assert_called_once()


class LostTest(Reconciling):
    """Domains of backups without a journal."""

    def domain_with(self, mark: marks.Mark | None) -> None:
        element = '' if mark is None else (
            f'<b:backup xmlns:b="{marks.NAMESPACE}" id="{mark.backup_id}" '
            f'superposition="{mark.superposition_id}" '
            f"numa_topology='{json.dumps(mark.numa_topology)}'/>")
        guest = mock.Mock(uuid=base.SERVER)
        guest.name = 'instance-00000001'
        guest.get_xml_desc.return_value = (
            f'<domain><metadata>{element}</metadata></domain>')
        self.driver._host.list_guests.return_value = [guest]

    def test_domain_without_a_journal_is_hidden_from_the_start(self) -> None:
        self.domain_with(marks.Mark(base.BACKUP_ID, base.SUPERPOSITION))
        self.reconciler.restore_records()
        self.assertEqual({base.SERVER}, self.journal.hidden())
        record = self.on_disk()
        assert record is not None
        self.assertEqual((base.SUPERPOSITION, 'running'),
                         (record.superposition_id, record.phase))

    def test_domain_without_a_journal_keeps_its_cpus(self) -> None:
        self.domain_with(marks.Mark(base.BACKUP_ID, base.SUPERPOSITION, {'cells': [1]}))
        self.reconciler.restore_records()
        record = self.on_disk()
        assert record is not None
        self.assertEqual({'cells': [1]}, record.numa_topology)

    def test_known_and_foreign_domains_are_left_alone(self) -> None:
        self.record(journals.PROMOTED)
        self.domain_with(marks.Mark(base.BACKUP_ID, base.SUPERPOSITION))
        self.reconciler.restore_records()
        self.assertEqual('promoted', self.phase())
        self.journal.forget(base.BACKUP_ID)
        self.domain_with(None)
        self.reconciler.restore_records()
        self.assertEqual([], self.journal.records())

    def test_adopted_domain_is_not_hidden(self) -> None:
        self.instance.host = base.HOST
        self.domain_with(marks.Mark(base.BACKUP_ID, base.SUPERPOSITION))
        self.reconciler.restore_records()
        self.assertEqual([], self.journal.records())


class MergeReportTest(base.TestCase):
    """Reports of the merger."""

    def report(self) -> Callable[..., None]:
        report: Callable[..., None] = reconcile.merge_report(self.journal)
        return report

    def test_progress_of_the_merge_is_recorded(self) -> None:
        self.record(journals.ADOPTED)
        self.report()(base.SERVER, base.SUPERPOSITION, {'state': 'merging', 'done': 1})
        record = self.on_disk()
        assert record is not None
        self.assertEqual(('adopted', {'state': 'merging', 'done': 1}),
                         (record.phase, record.merge))
        self.report()(base.SERVER, base.SUPERPOSITION, {'state': 'merged', 'done': 2})
        record = self.on_disk()
        assert record is not None
        self.assertEqual(('merged', {'state': 'merged', 'done': 2}),
                         (record.phase, record.merge))

    def test_merge_beside_the_adoption_leaves_the_phase_to_the_adoption(self) -> None:
        record = self.record(journals.PROMOTED)
        for state in ('copied', 'merged'):
            self.report()(base.SERVER, base.SUPERPOSITION, {'state': state})
            self.assertEqual({'state': state}, record.merge)
            self.assertEqual('promoted', self.phase())

    def test_report_about_another_superposition_is_ignored(self) -> None:
        self.report()(base.SERVER, base.SUPERPOSITION, {'state': 'merging'})
        self.record(journals.ADOPTED)
        self.report()(base.SERVER, 'another', {'state': 'merging'})
        self.assertEqual('adopted', self.phase())


class PeriodicTest(base.TestCase):
    """The times of reconciliations."""

    def test_event_starts_a_reconciliation_at_once(self) -> None:
        looks = queue.SimpleQueue[None]()
        reconciler = mock.Mock()
        reconciler.run.side_effect = lambda: looks.put(None)
        warming = mock.Mock()
        periodic = reconcile.Periodic(reconciler, warming)
        self.addCleanup(periodic.stop)
        periodic.start()
        # None of these waits for the interval of half a minute.
        for _ in range(3):
            looks.get(timeout=20)
            periodic.wake()
        looks.get(timeout=20)
        warming.run.assert_called()

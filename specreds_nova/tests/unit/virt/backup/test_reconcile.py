# SPDX-License-Identifier: Apache-2.0
"""Every phase in which nova-compute may have been killed, and what becomes of it."""

from collections.abc import Callable
import queue
from typing import Any
from unittest import mock

from specreds_nova import exception
from specreds_nova.tests.unit.virt import base
from specreds_nova.virt.backup import adoption
from specreds_nova.virt.backup import journal as journals
from specreds_nova.virt.backup import marks
from specreds_nova.virt.backup import reconcile


class Reconciling(base.TestCase):
    """A reconciler in a new nova-compute."""

    def setUp(self) -> None:
        super().setUp()
        self.merger = mock.Mock()
        self.adoption = adoption.Adoption(self.this_host, self.backups)
        self.instance.vm_state = 'active'
        self.reconciler = reconcile.Reconciler(self.this_host, self.backups, self.adoption,
                                               self.watches, self.merger)

    def after(self, phase: str, state: str | None, domain: str | None = 'running',
              **more: Any) -> str | None:
        """Tell what becomes of a phase with Cinder and libvirt in a state."""
        self.record(phase, primary=base.PRIMARY, **more)
        self.cinder.state.return_value = state
        self.domain(domain)
        self.reconciler.run()
        return self.phase()


class ReconcileTest(Reconciling):
    """What is found in the journal."""

    def test_whatever_was_cut_off(self) -> None:
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

    def test_nothing_is_done_while_cinder_is_silent(self) -> None:
        self.record(journals.HARDENED)
        self.cinder.state.side_effect = exception.SuperpositionUnknown('no answer')
        self.reconciler.run()
        self.assertEqual('hardened', self.phase())
        self.launcher.remove.assert_not_called()
        self.box.open.assert_not_called()

    def test_box_of_what_is_promoted_is_opened_once(self) -> None:
        self.after(journals.PROMOTED, 'promoted')
        self.after(journals.PROMOTED, 'promoted', opened=True)
        self.box.open.assert_called_once()

    def test_running_is_watched_again(self) -> None:
        self.after(journals.RUNNING, 'superposed')
        self.assertEqual({base.BACKUP_ID}, self.watches.watched)

    def test_deleted_server(self) -> None:
        self.replace('specreds_nova.virt.backup.host.find_instance', lambda context, uuid: None)
        self.assertEqual('aborted', self.after(journals.RUNNING, 'superposed'))
        self.assertEqual('aborted', self.after(journals.PROMOTED, 'promoted'))
        self.assertIsNone(self.after(journals.ADOPTED, 'merging'))

    def test_adopted_meanwhile(self) -> None:
        self.instance.host = base.HOST
        self.assertEqual('adopted', self.after(journals.PROMOTED, 'promoted', adopting=True))
        self.merger.ensure.assert_called_once_with(base.SERVER, base.SUPERPOSITION)
        self.box.adopted.assert_called_once()

    def test_merged_meanwhile(self) -> None:
        self.instance.host = base.HOST
        self.assertEqual('adopted', self.after(journals.ADOPTED, 'merging'))
        self.assertEqual('merged', self.after(journals.MERGING, None))

    def test_moved_on(self) -> None:
        self.instance.host = 'node3'
        self.assertIsNone(self.after(journals.ADOPTED, 'merging'))

    def test_what_cannot_be_undone_is_tried_again(self) -> None:
        self.box.remove.side_effect = [exception.BackupError('Neutron is away'), None]
        self.assertEqual('aborting', self.after(journals.STARTING, 'superposed'))
        self.reconciler.run()
        self.assertEqual('aborted', self.phase())

    def test_finished_is_forgotten(self) -> None:
        record = self.record(journals.FAILED)
        record.updated_at = 1.0
        self.reconciler.run()
        self.assertIsNone(self.phase())

    def test_boxes(self) -> None:
        self.after(journals.RUNNING, 'superposed')
        self.box.reconcile.assert_called_with(shut=[base.BACKUP_ID], opened=[], unsure=[])
        self.after(journals.PROMOTED, 'promoted')
        self.box.reconcile.assert_called_with(shut=[], opened=[base.BACKUP_ID], unsure=[])

    def test_one_that_fails_is_in_nobodys_way(self) -> None:
        self.record(journals.RUNNING)
        self.cinder.state.side_effect = RuntimeError('unforeseen')
        self.box.reconcile.side_effect = RuntimeError('unforeseen')
        self.reconciler.run()
        self.merger.scan.assert_called_once()

    def test_waits_for_nova(self) -> None:
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
    """Domains of backups of which the journal is lost."""

    def domain_with(self, mark: marks.Mark | None) -> None:
        element = '' if mark is None else (
            f'<b:backup xmlns:b="{marks.NAMESPACE}" id="{mark.backup_id}" '
            f'superposition="{mark.superposition_id}"/>')
        guest = mock.Mock(uuid=base.SERVER)
        guest.name = 'instance-00000001'
        guest.get_xml_desc.return_value = (
            f'<domain><metadata>{element}</metadata></domain>')
        self.driver._host.list_guests.return_value = [guest]

    def test_hidden_from_the_beginning(self) -> None:
        self.domain_with(marks.Mark(base.BACKUP_ID, base.SUPERPOSITION))
        self.reconciler.restore_records()
        self.assertEqual({base.SERVER}, self.journal.hidden())
        record = self.on_disk()
        assert record is not None
        self.assertEqual((base.SUPERPOSITION, 'running'),
                         (record.superposition_id, record.phase))

    def test_known_and_foreign_ones(self) -> None:
        self.record(journals.PROMOTED)
        self.domain_with(marks.Mark(base.BACKUP_ID, base.SUPERPOSITION))
        self.reconciler.restore_records()
        self.assertEqual('promoted', self.phase())
        self.journal.forget(base.BACKUP_ID)
        self.domain_with(None)
        self.reconciler.restore_records()
        self.assertEqual([], self.journal.records())

    def test_adopted_and_forgotten(self) -> None:
        self.instance.host = base.HOST
        self.domain_with(marks.Mark(base.BACKUP_ID, base.SUPERPOSITION))
        self.reconciler.restore_records()
        self.assertEqual([], self.journal.records())


class MergeReportTest(base.TestCase):
    """What the merger tells."""

    def report(self) -> Callable[..., None]:
        report: Callable[..., None] = reconcile.merge_report(self.journal)
        return report

    def test_progress(self) -> None:
        self.record(journals.ADOPTED)
        self.report()(base.SERVER, base.SUPERPOSITION, {'state': 'merging', 'done': 1})
        self.assertEqual('merging', self.phase())
        self.report()(base.SERVER, base.SUPERPOSITION, {'state': 'merged', 'done': 2})
        record = self.on_disk()
        assert record is not None
        self.assertEqual(('merged', {'state': 'merged', 'done': 2}),
                         (record.phase, record.merge))

    def test_others(self) -> None:
        self.report()(base.SERVER, base.SUPERPOSITION, {'state': 'merging'})
        self.record(journals.PROMOTED)
        self.report()(base.SERVER, base.SUPERPOSITION, {'state': 'merging'})
        self.assertEqual('promoted', self.phase())
        self.record(journals.ADOPTED)
        self.report()(base.SERVER, 'another', {'state': 'merging'})
        self.assertEqual('adopted', self.phase())


class PeriodicTest(base.TestCase):
    """When it is looked."""

    def test_when_something_has_happened(self) -> None:
        looks = queue.SimpleQueue[None]()
        reconciler = mock.Mock()
        reconciler.run.side_effect = lambda: looks.put(None)
        warming = mock.Mock()
        periodic = reconcile.Periodic(reconciler, warming)
        self.addCleanup(periodic.stop)
        periodic.start()
        # None of these takes the interval, which is half a minute.
        for _ in range(3):
            looks.get(timeout=20)
            periodic.wake()
        looks.get(timeout=20)
        warming.run.assert_called()

# SPDX-License-Identifier: Apache-2.0
"""A decision looks once more at what has changed since its last look, before each act."""

from collections.abc import Callable
import time
from typing import Any
from unittest import mock

import ddt
import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import steps
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.evidence import sweep
from specreds_cinder.superposition.exclusion import handover
from specreds_cinder.superposition.exclusion import ledger as ledgers
from specreds_cinder.superposition.exclusion import roles
from specreds_cinder.superposition.overlay import overlay
from specreds_cinder.superposition.steps import clients as looks
from specreds_cinder.superposition.steps import collapse
from specreds_cinder.superposition.steps import end
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.unit import fakes

_CLIENT, _NEWCOMER, _BACKUP = '192.0.2.1:0/17', '192.0.2.3:0/3', '192.0.2.2:0/2'
_CLEAN = sweep.SweepReport(False, None, 1, 0.1)
_DIRTY = sweep.SweepReport(True, 'object 7 was written', 1, 0.1)


def _gone(volume: records.Volume, _id: str) -> int:
    """Stand in for a step on a volume; its pool hdd was removed or renamed."""
    if volume.pool == 'hdd':
        raise errors.PoolGone('could not open pool hdd: not found')
    return 0


class CollapseTestCase(testtools.TestCase):
    """A superposition whose sweeps find what a test says.

    :ivar reports: the reports of the sweeps, in order
    :ivar meanwhile: by number of the sweep: called while it runs
    :ivar visible: the clients of the primary
    """

    def setUp(self) -> None:
        super().setUp()
        self.reports = [_CLEAN, _CLEAN, _CLEAN]
        self.swept = 0
        self.meanwhile: dict[int, Callable[[], object]] = {}
        self.visible = {_CLIENT}
        self.backup: set[str] = set()
        self.entries: dict[str, ledgers.Entry] = {}
        self.patch(sweep, 'Sweeper', mock.Mock(return_value=mock.Mock(run=self.sweep)))
        self.written = self.patched(overlay, 'is_written', mock.Mock(return_value=False))
        self.patch(time, 'sleep', mock.Mock())
        self.patch(volumes, 'watchers', lambda *_arguments: frozenset(self.backup))
        self.step: Any = steps.Protocol(mock.Mock())
        self.step.latch = mock.Mock()
        self.step.ledger = mock.Mock(**{'read.side_effect': lambda _volume: self.entries})
        self.blocklist: set[str] = set()
        self.step.fence = self.fence = mock.Mock(**{
            'close.side_effect': self.blocklist.update,
            'outside.side_effect': lambda clients: frozenset(clients - self.blocklist),
            'remaining.side_effect': lambda clients: dict.fromkeys(
                self.blocklist & set(clients), 60.0)})
        self.patch(looks, 'observe', self.observe)
        self.patch(end, 'clean', mock.Mock())
        self.patch(end, '_unfence', mock.Mock())
        self.patch(end, '_evict', mock.Mock())
        self.begin(states.SUPERPOSED)

    def patched(self, place: object, name: str, what: Any) -> Any:
        """Replace an attribute, and return what has replaced it."""
        self.patch(place, name, what)
        return what

    def begin(self, state: str, **values: Any) -> None:
        """Let the superposition be in a state."""
        self.record = fakes.superposition(state=state, **values)
        self.store = fakes.Store(self.record)
        self.step.store = self.store

    def observe(self, *_arguments: object, **_options: object) -> roles.Roles:
        """Return the clients that are visible."""
        return roles.Roles(frozenset(self.visible), frozenset(self.backup), frozenset(),
                           frozenset())

    def sweep(self) -> sweep.SweepReport:
        """Sweep once."""
        self.swept += 1
        self.meanwhile.get(self.swept, lambda: None)()
        return self.reports[self.swept - 1]

    def collapse(self) -> str:
        """Collapse without a backup at hand, and return the outcome."""
        outcome: str = self.step.collapse(self.record).outcome
        return outcome

    def change(self) -> None:
        """Change the record, as another controller does that decides."""
        self.store.change(self.record, updated_at=records.now())

    @property
    def state(self) -> str:
        """The state that is stored."""
        return self.store.read(self.record.id, self.record.home).state


class CollapseTest(CollapseTestCase):

    def test_clean_superposition_is_promoted_behind_its_fence(self) -> None:
        self.assertEqual(states.PROMOTED, self.collapse())
        self.assertEqual((2, {_CLIENT}), (self.swept, self.blocklist))

    def test_controller_that_was_overtaken_meanwhile_does_not_fence(self) -> None:
        self.meanwhile[1] = self.change
        self.assertRaises(errors.RecordChanged, self.collapse)
        self.fence.close.assert_not_called()

    def test_overlay_that_is_written_meanwhile_is_not_promoted(self) -> None:
        self.meanwhile[2] = lambda: self.written.configure_mock(return_value=True)
        self.assertRaises(errors.BackupError, self.collapse)
        self.assertEqual(states.COLLAPSING, self.state)

    def test_client_that_has_come_meanwhile_is_fenced_and_swept_behind(self) -> None:
        self.meanwhile[2] = lambda: self.visible.add(_NEWCOMER)
        self.assertEqual(states.PROMOTED, self.collapse())
        self.assertEqual((3, {_CLIENT, _NEWCOMER}), (self.swept, self.blocklist))

    def test_client_of_a_ledger_whose_fence_is_lifted_meanwhile_prevents_the_promotion(
            self) -> None:
        self.entries[_CLIENT] = ledgers.Entry(ledgers.PRIMARY, self.record.id)
        self.meanwhile[2] = self.blocklist.clear
        self.assertRaises(errors.ClusterError, self.collapse)
        self.assertEqual(states.COLLAPSING, self.state)

    def test_primary_that_an_interrupted_decision_has_fenced_meanwhile_is_late_dirty(self) -> None:
        for blocklist, outcome in ((set[str](), states.DIRTY), ({_CLIENT}, states.LATE_DIRTY)):
            self.begin(states.COLLAPSING, fenced=(_CLIENT,))
            self.swept, self.reports = 0, [_DIRTY, _DIRTY]
            self.blocklist.clear()
            self.blocklist.update(blocklist)
            self.assertEqual(outcome, self.step.resume(self.record))

    def test_superposition_that_is_promoted_meanwhile_is_not_aborted(self) -> None:
        read = self.record
        self.store.change(self.record, state=states.PROMOTED, outcome=states.PROMOTED)
        self.assertRaises(errors.Conflict, self.step.abort, read)
        self.assertEqual(states.PROMOTED, self.state)


@ddt.ddt
class AnsweredTest(CollapseTestCase):
    """Two volumes, of which the first one was handed over, and is sealed."""

    def begin(self, state: str, **values: Any) -> None:
        super().begin(state, volumes=(fakes.volume(handed=7), fakes.volume(image='vol-2')),
                      **values)

    @ddt.data(errors.ClusterTimeout, errors.VolumeGone)
    def test_primary_goes_on_if_ceph_does_not_help_between_seal_and_fence(
            self, error: type[errors.SuperError]) -> None:
        self.patch(collapse, '_shut_rest', mock.Mock(side_effect=error('no answer')))
        self.assertEqual(states.UNPROVEN, self.collapse())
        self.assertEqual(states.ABORTING, self.state)
        self.assertEqual(2, self.step.latch.open.call_count)
        self.fence.close.assert_not_called()

    def test_primary_that_may_be_fenced_waits_for_the_decision(self) -> None:
        self.fence.close.side_effect = errors.ClusterTimeout('no monitor answered')
        self.assertRaises(errors.ClusterTimeout, self.collapse)
        self.assertEqual(states.COLLAPSING, self.state)
        self.step.latch.open.assert_not_called()

    def test_primary_goes_on_if_its_fence_is_refused(self) -> None:
        self.fence.close.side_effect = errors.NotAllowed('client.cinder lacks capabilities')
        report = self.step.collapse(self.record)
        self.assertEqual((states.UNPROVEN, 'client.cinder lacks capabilities'),
                         (report.outcome, report.sweep1.first))
        self.assertEqual(2, self.step.latch.open.call_count)

    def test_primary_that_is_dead_as_a_fact_stays_shut_out_if_its_fence_is_refused(self) -> None:
        self.begin(states.SUPERPOSED, fenced=(_CLIENT,))
        self.fence.close.side_effect = errors.NotAllowed('client.cinder lacks capabilities')
        self.assertRaises(errors.NotAllowed, self.collapse)
        self.step.latch.open.assert_not_called()

    def begin_in_two_pools(self, state: str, **more: Any) -> dict[int, Any]:
        """Let a volume be in a pool with another name but the same id; return the pools."""
        self.record = fakes.superposition(state=state, volumes=(
            fakes.volume(), fakes.volume(image='vol-2', pool='hdd', pool_id=9)), **more)
        self.step.store = self.store = fakes.Store(self.record)
        pools = {fakes.POOL_ID: fakes.pool(), 9: fakes.pool(id=9, name='renamed')}
        self.step.cluster.pools = lambda: pools
        return pools

    def test_decision_is_for_the_primary_if_the_pool_of_one_volume_was_removed(self) -> None:
        pools = self.begin_in_two_pools(states.COLLAPSING, fenced=(_CLIENT,))
        self.step.latch.unowned = _gone
        self.assertRaises(errors.PoolGone, self.step.resume, self.record)
        end.clean.assert_not_called()  # type: ignore[attr-defined]
        del pools[9]
        self.assertEqual(states.UNPROVEN, self.step.resume(self.record))
        self.assertEqual(states.ABORTING, self.store.stored[self.record.id].state)

    def test_abort_ends_although_the_pool_of_one_volume_was_removed(self) -> None:
        pools = self.begin_in_two_pools(states.SUPERPOSED)
        self.step.latch.open = _gone
        self.assertRaises(errors.PoolGone, self.step.abort, self.record)
        end.clean.assert_not_called()  # type: ignore[attr-defined]
        del pools[9]
        self.step.abort(self.record)
        cleaned = end.clean.call_args.args[1]  # type: ignore[attr-defined]
        self.assertEqual([self.record.volumes[0]], list(cleaned.volumes))

    def test_fence_is_lifted_before_the_latch_opens(self) -> None:
        self.begin(states.COLLAPSING, fenced=(_CLIENT,))
        order = mock.Mock()
        self.patch(end, '_unfence', order.unfence)
        self.step.latch.open = order.open
        self.step.abort(self.record)
        self.assertEqual(['unfence', 'open', 'open'], [call[0] for call in order.mock_calls])

    def test_primary_that_is_dead_as_a_fact_stays_shut_out(self) -> None:
        self.begin(states.SUPERPOSED, fenced=(_CLIENT,))
        self.patch(collapse, '_shut_rest', mock.Mock(
            side_effect=errors.ClusterTimeout('no answer')))
        self.assertRaises(errors.ClusterTimeout, self.collapse)
        self.assertEqual(states.COLLAPSING, self.state)

    def test_decision_that_is_continued_is_not_given_up(self) -> None:
        self.begin(states.COLLAPSING, fenced=(_CLIENT,))
        self.fence.close.side_effect = errors.ClusterTimeout('no monitor answered')
        self.assertRaises(errors.ClusterTimeout, self.step.resume, self.record)

    def test_decision_against_a_silent_primary_is_continued(self) -> None:
        self.record = fakes.superposition()
        self.step.store = self.store = fakes.Store(self.record)
        self.step.latch.unowned.return_value = 0
        self.patch(handover, 'request', lambda *_arguments, **_options: None)
        self.fence.close.side_effect = errors.ClusterTimeout('no monitor answered')
        self.assertRaises(errors.ClusterTimeout, self.collapse)
        self.assertEqual(states.COLLAPSING, self.state)

    def test_latch_is_opened_before_the_fence_is_taken_back(self) -> None:
        self.reports = [_DIRTY]
        order = mock.Mock()
        order.attach_mock(self.step.latch.open, 'open')
        order.attach_mock(end._unfence, 'unfence')  # type: ignore[arg-type]
        self.collapse()
        self.assertEqual(['open', 'open', 'unfence'], [call[0] for call in order.mock_calls])


class ObserveTest(testtools.TestCase):
    """A look at the clients of a superposition."""

    def test_clients_that_were_seen_of_one_that_ended_meanwhile_are_not_entered(self) -> None:
        record = fakes.superposition()
        step: Any = steps.Protocol(mock.Mock())
        step.store = store = fakes.Store(record)
        step.ledger = mock.Mock(**{'read.return_value': {}})

        def look(*_arguments: object) -> tuple[frozenset[str], frozenset[str]]:
            store.change(record, state=states.ABORTING, outcome=states.ABORTED)
            return frozenset({_CLIENT}), frozenset()
        self.patch(volumes, 'watchers_and_owners', look)
        self.patch(volumes, 'watchers', mock.Mock(return_value=frozenset({_BACKUP})))
        self.assertRaises(errors.RecordChanged, step.observe, record)
        step.ledger.enter.assert_not_called()

# SPDX-License-Identifier: Apache-2.0
"""A decision that sweeps for longer than stale_after is renewed, and is never made twice."""

from collections.abc import Callable
import time
from typing import Any
from unittest import mock

import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import settings
from specreds_cinder.superposition.evidence import sweep
from specreds_cinder.superposition.exclusion import handover
from specreds_cinder.superposition.steps import base
from specreds_cinder.superposition.steps import collapse
from specreds_cinder.superposition.steps import end
from specreds_cinder.superposition.steps import renewal
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.unit import fakes

_STALE_S = 60
_CLIENT = '192.0.2.1:0/17'


class RenewalTestCase(testtools.TestCase):
    """A collapsing superposition, and a clock that only the test moves."""

    def setUp(self) -> None:
        super().setUp()
        self.now = 0.0
        self.patch(time, 'monotonic', lambda: self.now)
        self.record = fakes.superposition(state=states.COLLAPSING, fenced=(_CLIENT,))
        self.store: Any = fakes.Store(self.record)

    @property
    def stored(self) -> records.Record:
        """The record as it is stored."""
        record: records.Record = self.store.read(self.record.id, self.record.home)
        return record


class RenewalTest(RenewalTestCase):

    def begin(self) -> renewal.Renewal:
        """Begin to renew the record as it is stored."""
        return renewal.Renewal(self.store, self.stored, _STALE_S)

    def test_record_is_renewed_every_twelfth_of_the_time(self) -> None:
        renewed = self.begin()
        versions = []
        for self.now in (0.0, 4.9, 5.0, 6.0, 9.9, 10.0):
            renewed.renew()
            versions.append(self.stored.version)
        self.assertEqual([0, 0, 1, 1, 1, 2], versions)
        self.assertEqual(self.stored, renewed.record)
        self.assertGreater(self.stored.updated_at, self.record.updated_at)

    def test_second_controller_gives_up_while_the_first_one_is_there(self) -> None:
        first = self.begin()
        self.now = 3.0
        second = self.begin()
        self.now = 5.0
        first.renew()
        self.now = 8.0
        self.assertRaises(errors.RecordChanged, second.renew)
        self.now = 10.0
        first.renew()

    def test_first_controller_gives_up_if_the_second_one_has_gone_on(self) -> None:
        first = self.begin()
        self.now = 61.0
        second = self.begin()
        self.now = 66.0
        second.renew()
        self.assertRaises(errors.RecordChanged, first.renew)
        self.now = 71.0
        second.renew()


class SlowSweepTest(RenewalTestCase):
    """A collapse each sweep of which has three batches of objects, of 25 s each."""

    def setUp(self) -> None:
        super().setUp()
        self.batches = 0
        self.unchanged: list[float] = []
        self.meanwhile: dict[int, Callable[[], object]] = {}
        self.patch(sweep, 'Sweeper', mock.Mock(side_effect=self.sweeper))
        self.step: Any = base.Site(mock.Mock(), settings.Settings(stale_after_s=_STALE_S))
        self.step.store, self.step.fence = self.store, mock.Mock()
        # The owner of the lock does not answer.
        self.step.latch = mock.Mock(**{'unowned.return_value': 0})
        self.patch(handover, 'request', lambda *_, **__: None)
        self.latch, self.assert_fenced = mock.Mock(), mock.Mock()
        self.patch(collapse, '_latch', self.latch)
        self.patch(collapse, '_assert_durable', mock.Mock())
        self.patch(collapse, '_assert_fenced', self.assert_fenced)
        self.unfenced = mock.Mock()
        self.patch(end, 'unfence_lost', self.unfenced)
        self.patch(collapse, '_primary', lambda *_, **__: frozenset({_CLIENT}))

    def sweeper(self, _cluster: object, _record: object, *, renew: Callable[[], None],
                **_options: object) -> mock.Mock:
        """Return a sweep that finds the volumes clean, after 75 s."""
        def run() -> sweep.SweepReport:
            changed_at = self.now
            for _ in range(3):
                self.now += 25
                self.batches += 1
                self.unchanged.append(self.now - changed_at)
                self.meanwhile.get(self.batches, lambda: None)()
                version = self.stored.version
                renew()
                if self.stored.version != version:
                    changed_at = self.now
            return sweep.SweepReport(False, None, 3, 75.0)
        return mock.Mock(run=run)

    def collapse(self) -> str:
        """Collapse, and return the outcome."""
        outcome: str = collapse.decide(self.step, self.record, None).outcome
        return outcome

    def overtake(self) -> None:
        """Change the record, as another controller does that decides."""
        self.store.change(self.record, updated_at=records.now())

    def test_record_is_never_older_than_a_step_that_was_interrupted(self) -> None:
        self.assertEqual(states.PROMOTED, self.collapse())
        self.assertEqual(6, self.batches)
        self.assertLess(max(self.unchanged), _STALE_S)

    def test_second_controller_does_not_overtake_the_first_one_at_its_fence(self) -> None:
        second: list[renewal.Renewal] = []

        def begin() -> None:
            # Shortly after the last renewal before the fence.
            self.now += 1
            second.append(renewal.Renewal(self.store, self.stored, _STALE_S))

        def close(_clients: object) -> None:
            begin()
            # Ceph takes its time.
            self.now += 4.5
        self.step.fence.close.side_effect = close
        self.latch.side_effect = lambda *_: self.assertRaises(
            errors.RecordChanged, self.renew_late, second[0])
        self.assertEqual(states.PROMOTED, self.collapse())

    def renew_late(self, second: renewal.Renewal) -> None:
        """Renew when another controller that began during the fence is due."""
        self.now += 0.5
        second.renew()

    def test_overtaken_controller_does_not_fence(self) -> None:
        self.meanwhile[2] = self.overtake
        self.assertRaises(errors.RecordChanged, self.collapse)
        self.assertEqual((2, []), (self.batches, self.step.fence.mock_calls))
        self.assertEqual(states.COLLAPSING, self.stored.state)

    def test_controller_that_was_overtaken_behind_its_fence_does_not_commit(self) -> None:
        self.meanwhile[5] = self.overtake
        self.assertRaises(errors.RecordChanged, self.collapse)
        self.assertEqual(5, self.batches)
        self.assertEqual(states.COLLAPSING, self.stored.state)
        # The other controller may have decided for the primary.
        self.unfenced.assert_called_once()

    def test_controller_that_was_overtaken_right_after_its_sweep_does_not_commit(self) -> None:
        self.assert_fenced.side_effect = lambda *_: self.overtake()
        self.assertRaises(errors.RecordChanged, self.collapse)
        self.assertEqual(states.COLLAPSING, self.stored.state)

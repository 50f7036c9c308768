# SPDX-License-Identifier: Apache-2.0
"""The leases of engines: when an engine takes over the recoveries of another one."""

from collections.abc import Callable, Collection, Mapping
import itertools
from typing import Any
from unittest import mock

import testtools

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.suspicion import votes
from specreds_nova.tests.unit.engine import clock as clocks
from specreds_nova.tests.unit.engine.suspicion import test_votes

_STEP = 0.01
# An outage, and the time after which a request that began before its end is given up.
_OUTAGE, _TIMEOUT = 60.0, 2.0


class _Engine:
    """An engine that beats.

    :ivar away: whether the database is away for it
    """

    def __init__(self, name: str, clock: clocks.Clock, database: Any) -> None:
        heard = mock.Mock(vote=self._vote)
        self._clock = clock
        self._database = database
        self.votes = votes.Votes(name, heard, database, clock)
        self.alive, self.away = True, False
        self.due = clock.time

    @staticmethod
    def _vote(engine: str, contested: Collection[str]) -> model.Vote:
        del contested
        return model.Vote(engine)

    def look(self) -> None:
        """Beat if that is due."""
        if self.alive and self._clock.time >= self.due:
            self._database.away = self.away
            self.votes.beat()
            self.due = self._clock.time + (_TIMEOUT if self.away else self.votes.delay())


class LeasesTest(testtools.TestCase):
    """Two engines on one database."""

    def setUp(self) -> None:
        super().setUp()
        self.begin()

    def begin(self) -> None:
        """Let both engines begin."""
        self.clock = clocks.Clock()
        self.database: Any = test_votes.Database()
        self.first, self.second = (
            _Engine(name, self.clock, self.database) for name in ('e1', 'e2'))
        # By engine: the times at which the lease of the other one was over.
        self.over: Mapping[str, list[float]] = {'e1': [], 'e2': []}
        self.run_for(3.0)

    def run_for(self, seconds: float) -> None:
        """Let time pass, and note whose lease is over for whom."""
        for _ in range(round(seconds / _STEP)):
            self.clock.time += _STEP
            for name, engine in (('e1', self.first), ('e2', self.second)):
                engine.look()
                if engine.alive and engine.votes.ended({'e1', 'e2'}):
                    self.over[name].append(self.clock.time)

    def wait_until_over(self) -> float:
        """Return the seconds until the first engine finds the lease of the second one over."""
        began = self.clock.time
        self.run_for(10.0)
        self.assertEqual({'e2'}, self.first.votes.ended())
        return self.over['e1'][0] - began

    def test_leases_of_living_engines_are_never_over(self) -> None:
        self.run_for(30.0)
        self.assertEqual({'e1': [], 'e2': []}, self.over)

    def test_lease_is_over_within_a_second_after_the_death_of_its_engine(self) -> None:
        for rest in range(25):
            self.begin()
            self.run_for(rest * _STEP)
            self.second.alive = False
            self.assertTrue(0.55 <= self.wait_until_over() <= 0.95)

    def test_engine_that_starts_waits_for_the_leases_of_others(self) -> None:
        self.second.alive = False
        self.run_for(1.0)
        late = votes.Votes('e3', mock.Mock(vote=_Engine._vote), self.database, self.clock)
        late.beat()
        self.assertEqual(frozenset(), late.ended())

    def test_engine_that_was_frozen_waits_for_the_leases_of_others(self) -> None:
        self.first.due = self.second.due = self.clock.time + 20.0
        self.run_for(20.5)
        self.assertEqual({'e1': [], 'e2': []}, self.over)

    def test_row_that_is_missing_ends_no_lease_of_a_living_engine(self) -> None:
        rows = self.database.votes
        for missing in (0.05, 0.3, 0.7):
            with mock.patch.object(self.database, 'votes', lambda: [
                    vote for vote in rows() if vote.engine != 'e2']):
                self.run_for(missing)
            self.run_for(1.0)
        self.assertEqual({'e1': [], 'e2': []}, self.over)

    def test_lease_of_an_engine_without_a_row_is_over_after_a_lease(self) -> None:
        late = votes.Votes('e3', mock.Mock(vote=_Engine._vote), self.database, self.clock)
        late.beat()
        for _ in range(7):
            self.assertEqual(frozenset(), late.ended({'gone', 'e1', 'e3'}))
            self.run_for(0.1)
            late.beat()
        self.run_for(0.2)
        late.beat()
        self.assertEqual({'gone'}, late.ended({'gone', 'e1', 'e3'}))

    def alternate(self) -> Callable[[], list[model.Vote]]:
        """Return reads of two nodes in turn, of which one is behind by a second."""
        rows, known = self.database.votes, list[tuple[float, list[model.Vote]]]()
        turns = itertools.cycle((True, False))

        def read() -> list[model.Vote]:
            known.append((self.clock.time, rows()))
            if next(turns):
                return known[-1][1]
            return next((some for at, some in reversed(known) if at <= self.clock.time - 1.0),
                        known[0][1])
        return read

    def test_old_rows_between_others_end_no_lease(self) -> None:
        with mock.patch.object(self.database, 'votes', self.alternate()):
            self.run_for(10.0)
        self.assertEqual({'e1': [], 'e2': []}, self.over)

    def test_old_rows_between_others_keep_no_lease(self) -> None:
        with mock.patch.object(self.database, 'votes', self.alternate()):
            self.run_for(3.0)
            self.second.alive = False
            self.assertTrue(0.55 <= self.wait_until_over() <= 0.95)

    def test_table_that_was_emptied_stops_no_engine(self) -> None:
        self.database.rows.clear()
        self.run_for(5.0)
        self.assertEqual({'e1': [], 'e2': []}, self.over)
        self.assertEqual({'e1', 'e2'}, {*self.database.rows})

    def test_engine_that_is_late_waits_for_others_which_may_be_as_late(self) -> None:
        for _ in range(20):
            self.first.due, self.second.due = self.clock.time + 0.7, self.clock.time + 0.99
            self.run_for(1.0)
        self.assertEqual({'e1': [], 'e2': []}, self.over)

    def test_engine_that_is_late_notices_a_death(self) -> None:
        for _ in range(10):
            self.first.due, self.second.due = self.clock.time + 0.7, self.clock.time + 0.99
            self.run_for(1.0)
        self.second.alive = False
        for _ in range(10):
            self.first.due = self.clock.time + 0.7
            self.run_for(1.0)
        self.assertNotEqual([], self.over['e1'])

    def test_engine_that_does_not_read_knows_of_no_end(self) -> None:
        self.second.alive = False
        self.wait_until_over()
        self.first.due = self.clock.time + 10.0
        self.run_for(1.0)
        self.assertEqual(frozenset(), self.first.votes.ended())

    def test_outage_ends_no_lease_of_a_living_engine(self) -> None:
        # The other engine notices the end of the outage as late as it can.
        for rest in (0.0, 0.5, 1.0, 1.5, 1.9):
            self.first.away = self.second.away = True
            self.run_for(_OUTAGE + rest)
            self.first.away = False
            self.first.due = self.clock.time
            self.second.due = self.clock.time + _TIMEOUT
            self.run_for(_TIMEOUT - _STEP)
            self.second.away = False
            self.run_for(5.0)
        self.assertEqual({'e1': [], 'e2': []}, self.over)

    def read_again_and_again(self, seconds: float) -> None:
        """Let the first engine read as it does while a host is held back, and time pass."""
        for _ in range(round(seconds / 0.25)):
            self.first.votes.read()
            self.run_for(0.25)

    def test_writes_that_hang_end_no_lease_of_a_living_engine(self) -> None:
        for hung, late in ((1.0, 0.0), (1.5, 0.25), (1.9, 0.5)):
            self.first.due = self.clock.time + hung
            self.second.due = self.first.due + late
            self.read_again_and_again(hung + late)
            self.run_for(3.0)
        self.assertEqual({'e1': [], 'e2': []}, self.over)

    def test_engine_that_reads_old_rows_waits_for_others(self) -> None:
        replica = test_votes.Database()
        replica.rows = dict(self.database.rows)
        with mock.patch.object(self.database, 'votes', replica.votes):
            self.first.due, self.second.alive = self.clock.time, False
            self.run_for(10.0)
        self.assertEqual([], self.over['e1'])
        self.second.alive = True
        self.run_for(3.0)
        self.assertEqual([], self.over['e1'])

    def test_vote_counts_although_the_database_is_slow(self) -> None:
        # Each vote, and the look after it, takes 2.8 s. The engines are out of step.
        for count in range(20):
            for engine, rest in ((self.first, 1.3), (self.second, 1.5)):
                engine.due = self.clock.time
                self.run_for(0.01)
                engine.due = self.clock.time + 5.0
                for _ in range(round(rest / 0.1)):
                    self.run_for(0.1)
                    if count > 2:
                        self.assertEqual(('e2',), self.first.votes.hearing('cn1'))
        self.second.alive = False
        self.run_for(12.0)
        self.assertEqual((), self.first.votes.hearing('cn1'))

    def test_old_rows_are_no_answer(self) -> None:
        with mock.patch.object(self.database, 'vote'):
            self.read_again_and_again(votes.STALE - 0.25)
            self.clock.time += 0.5
            self.assertRaises(exception.Unreachable, self.first.votes.read)
        self.run_for(0.5)
        self.first.votes.read()

    def test_lease_of_an_engine_that_died_in_an_outage_is_over(self) -> None:
        self.first.away = self.second.away = True
        self.run_for(_OUTAGE)
        self.second.alive = self.first.away = False
        self.first.due = self.clock.time
        self.assertAlmostEqual(2.8, self.wait_until_over(), delta=0.05)

    def test_lease_of_an_engine_without_the_database_is_over_until_it_writes_again(self) -> None:
        self.second.away = True
        self.wait_until_over()
        self.second.away = False
        self.run_for(3.0)
        self.assertEqual(frozenset(), self.first.votes.ended())

    def test_engine_that_starts_again_without_its_row_has_a_lease(self) -> None:
        self.second.alive = False
        self.wait_until_over()
        # As another engine does that has known of the end for an hour.
        del self.database.rows['e2']
        self.second = _Engine('e2', self.clock, self.database)
        self.run_for(1.0)
        self.assertEqual(frozenset(), self.first.votes.ended({'e2'}))

    def test_long_outage_removes_no_row_of_a_living_engine(self) -> None:
        self.first.away = self.second.away = True
        self.run_for(2 * _TIMEOUT)
        self.clock.time += 4000.0
        self.first.away, self.second.due = False, self.clock.time + 1.0
        self.run_for(0.9)
        self.assertIn('e2', self.database.rows)

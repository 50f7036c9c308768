# SPDX-License-Identifier: Apache-2.0
"""The order in which waiting recoveries get slots."""

import collections
from typing import Any

import hypothesis
from hypothesis import strategies
import testtools

from specreds_nova.engine.recovery import fairness
from specreds_nova.engine.recovery import order
from specreds_nova.engine.recovery import policies

_MAX = 100
_SHORT, _LONG = 5.0, 300.0
_WAITING = strategies.lists(strategies.builds(
    policies.Waiting, id=strategies.uuids().map(str), project=strategies.sampled_from('pq'),
    host=strategies.sampled_from(['h1', 'h2', 'h3']),
    priority=strategies.sampled_from([-7, 0, 50, 500, 900]),
    expected=strategies.sampled_from([None, 0.5, _SHORT, 20.0, _LONG]),
    since=strategies.sampled_from([0.0, 1.0, 900.0])), max_size=30,
    unique_by=lambda recovery: recovery.id)


def _waiting(name: str, expected: float | None = None, **values: Any) -> policies.Waiting:
    return policies.Waiting(**{
        'id': name, 'project': 'p', 'host': 'h1', 'priority': 0, 'expected': expected,
        'since': 0.0, 'name': name, **values})


def _many(name: str, count: int, expected: float | None, **values: Any
          ) -> list[policies.Waiting]:
    return [_waiting(f'{name}{number:03d}', expected, **values) for number in range(count)]


def _begun(waiting: list[policies.Waiting], slots: int, now: float = 0.0) -> list[str]:
    """Return the ids of the recoveries that begin at once in an idle engine."""
    running: set[str] = set()
    for recovery in order.Order(slots, _MAX).begin(waiting, running.copy, now):
        running.add(recovery.id)
    return [recovery.id for recovery in waiting if recovery.id in running]


class OrderTest(testtools.TestCase):
    """The promises of the order."""

    def _ordered(self, *waiting: policies.Waiting, now: float = 0.0) -> list[str]:
        return [recovery.id for recovery in policies.ordered(waiting, _MAX, now)]

    def test_shortest_comes_first(self) -> None:
        self.assertEqual(['d', 'b', 'c', 'a'], self._ordered(
            _waiting('a', None, since=9.0), _waiting('b', 20.0),
            _waiting('c', 100.0, since=2.0), _waiting('d', 5.0, since=1.0)))

    def test_projects_take_turns_before_the_shortest(self) -> None:
        waiting = [_waiting('a1', 1.0), _waiting('a2', 1.0), _waiting('b1', 300.0, project='q')]
        self.assertEqual(['a1', 'b1', 'a2'], self._ordered(*waiting))

    def test_projects_take_turns_among_aged_recoveries(self) -> None:
        waiting = [_waiting('a1', 1.0), _waiting('a2', 1.0, since=1.0),
                   _waiting('b1', 1.0, project='q', since=2.0)]
        self.assertEqual(['a1', 'b1', 'a2'], self._ordered(*waiting, now=100.0))

    def test_priority_of_an_operator_orders_all(self) -> None:
        self.assertEqual(['c', 'a', 'b'], self._ordered(
            _waiting('a', 1.0), _waiting('b', 1.0, priority=-1),
            _waiting('c', None, priority=200, since=5.0)))

    def test_no_slot_is_left_free_after_short_recoveries_have_theirs(self) -> None:
        self.assertEqual(10, len(_begun([*_many('a', 6, None), *_many('b', 6, 1.0)], 10)))

    def test_recoveries_fewer_than_slots_all_begin(self) -> None:
        waiting = [*_many('a', 3, None), *_many('b', 3, 5.0), *_many('c', 3, 60.0)]
        self.assertEqual(9, len(_begun(waiting, 100)))

    def test_long_recoveries_leave_slots_to_recent_short_ones(self) -> None:
        arranged = order.Order(10, _MAX)
        arranged.note(_many('short', 60, 5.0), 0.0)
        waiting = _many('long', 20, 100.0)
        running: set[str] = set()
        for now, begun in ((60.0, 8), (order.RECENT + 61.0, 8), (261.0, 10)):
            for recovery in arranged.begin(waiting, running.copy, now):
                running.add(recovery.id)
            self.assertEqual(begun, len(running))
            waiting = [recovery for recovery in waiting if recovery.id not in running]

    def test_short_recoveries_count_for_twice_the_longest_work(self) -> None:
        arranged = order.Order(10, _MAX)
        for now in range(0, 400, 4):
            arranged.note(_many(f'short{now}-', 6, 1.0), float(now))
        running: set[str] = set()
        for recovery in arranged.begin(_many('long', 9, 500.0, since=400.0), running.copy, 400.0):
            running.add(recovery.id)
        # Short work is 600 s of 5,100 s, so that two slots in ten are kept. By the last two
        # minutes alone it is 180 s of 4,680 s: one slot.
        self.assertEqual(8, len(running))

    def test_rare_long_recovery_is_remembered_after_two_minutes(self) -> None:
        arranged = order.Order(10, _MAX)
        arranged.note([_waiting('long', 500.0), *_many('short', 500, 1.0)], 0.0)
        for now, size in ((999.0, 2), (1001.0, 0)):
            list(arranged.begin([], list, now))
            self.assertEqual(size, len({recovery.size for _, recovery in
                                        arranged._known.values()}))

    def test_first_recovery_of_a_size_changes_the_shares_at_once(self) -> None:
        arranged = order.Order(4, _MAX)
        arranged.note(_many('short', 200, 5.0), 0.0)
        self.assertTrue(arranged.admits(_waiting('short000', 5.0), [], 0.0))
        self.assertTrue(arranged.admits(_waiting('long', 100.0), [], 0.0))
        self.assertFalse(arranged.admits(_waiting('more', 100.0), ['long'], 0.0))

    def test_new_long_recovery_takes_no_slot_of_short_ones(self) -> None:
        arranged = order.Order(2, _MAX)
        arranged.note([_waiting('short', 5.0)], 0.0)
        self.assertTrue(arranged.admits(_waiting('long', 100.0), [], 0.0))
        self.assertFalse(arranged.admits(_waiting('more', 100.0), ['long'], 0.0))
        self.assertTrue(arranged.admits(_waiting('short', 5.0), ['long'], 0.0))
        self.assertFalse(arranged.admits(_waiting('again', 5.0), ['long', 'short'], 0.0))

    def test_recoveries_that_run_are_not_looked_at_while_enough_slots_are_free(self) -> None:
        reserve = policies.reserve([*_many('short', 9, 5.0), *_many('long', 1, 100.0)], 1000)
        self.assertTrue(reserve.admits(_waiting('new', 100.0).size, 500, self.fail))

    def test_one_slot_serves_all_sizes(self) -> None:
        self.assertEqual(['a000'], _begun(_many('a', 2, None), 1))

    def test_aged_recovery_precedes_short_ones(self) -> None:
        waiting = [_waiting('long', 100.0), _waiting('short', 5.0, since=99.0)]
        self.assertEqual(['short', 'long'], self._ordered(*waiting, now=99.0))
        self.assertEqual(['long', 'short'], self._ordered(*waiting, now=100.0))

    def test_lower_priority_waits_for_the_higher_one(self) -> None:
        # A slot is kept for short recoveries of the higher priority.
        waiting = [*_many('long', 3, 100.0, priority=500), _waiting('other', 1.0)]
        arranged = order.Order(3, _MAX)
        arranged.note([_waiting('gone', 5.0, priority=500)], 0.0)
        running: set[str] = set()
        for recovery in arranged.begin(waiting, running.copy, 1.0):
            running.add(recovery.id)
        self.assertEqual({'long000', 'long001'}, running)


class PropertiesTest(testtools.TestCase):
    """Properties for any load."""

    @hypothesis.given(_WAITING, strategies.randoms(use_true_random=False))
    def test_order_does_not_depend_on_the_input_order(
            self, waiting: list[policies.Waiting], shuffle: Any) -> None:
        other = list(waiting)
        shuffle.shuffle(other)
        of = policies.ordered
        self.assertEqual(of(waiting, _MAX, 1000.0), of(other, _MAX, 1000.0))
        self.assertEqual(collections.Counter(waiting), collections.Counter(of(other, _MAX, 1e3)))

    @hypothesis.given(_WAITING, strategies.integers(1, 12))
    def test_priority_precedes_size(self, waiting: list[policies.Waiting], slots: int) -> None:
        begun = set(_begun(waiting, slots, 1000.0))
        self.assertLessEqual(len(begun), slots)
        levels = {started: [fairness.level(recovery.priority, _MAX) for recovery in waiting
                            if (recovery.id in begun) == started] for started in (True, False)}
        if levels[True] and levels[False]:
            self.assertGreaterEqual(min(levels[True]), max(levels[False]))
        self.assertEqual(bool(waiting), bool(begun))

    @hypothesis.given(strategies.integers(1, 30), strategies.integers(0, 40),
                      strategies.integers(1, 40))
    def test_no_slot_is_free_while_the_shortest_wait(self, slots: int, longs: int,
                                                     shorts: int) -> None:
        waiting = [*_many('long', longs, _LONG), *_many('short', shorts, _SHORT)]
        begun = _begun(waiting, slots)
        short = sum(name.startswith('short') for name in begun)
        self.assertEqual(min(slots, shorts), short)

    @hypothesis.given(strategies.integers(1, 8), strategies.integers(1, 6))
    def test_no_recovery_starves(self, slots: int, longs: int) -> None:
        """A long recovery begins although short ones arrive without end."""
        arranged, running = order.Order(slots, _MAX), dict[str, float]()
        waiting = _many('long', longs, 30.0)
        for moment in range(0, 300, 5):
            now = float(moment)
            running = {name: until for name, until in running.items() if until > now}
            waiting += _many(f'short{moment:04d}-', 2 * slots, _SHORT, since=now)
            for recovery in arranged.begin(waiting, running.keys, now):
                running[recovery.id] = now + (recovery.expected or 0.0)
            waiting = [recovery for recovery in waiting if recovery.id not in running]
            if not any(recovery.id.startswith('long') for recovery in waiting):
                break
        # Each waits until it is aged, and then at worst for all before it, one after the other.
        bound = policies.PATIENCE + 30.0 * (longs + 1) + 2 * _SHORT
        self.assertLessEqual(now, bound)

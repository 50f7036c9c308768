# SPDX-License-Identifier: Apache-2.0
"""The order in which waiting recoveries get slots."""

import collections
import dataclasses
from typing import Any

import ddt
import hypothesis
from hypothesis import strategies
import testtools

from specreds_nova import protected
from specreds_nova.engine import model
from specreds_nova.engine.placing import order
from specreds_nova.tests.unit.engine.recovery import base

_MAX = 100
_SHORT, _LONG = 5.0, 300.0


def _waiting(name: str, expected: float | None = None, **values: Any) -> model.Recovery:
    return model.Recovery(**{
        'id': name, 'server': name, 'server_name': name, 'project': name[0], 'host': 'h1',
        'suspected': 0.0, 'expected': expected, **values})


def _many(name: str, count: int, expected: float | None, **values: Any
          ) -> list[model.Recovery]:
    return [_waiting(f'{name}{number:03d}', expected, **values) for number in range(count)]


_WAITING = strategies.lists(strategies.builds(
    _waiting, name=strategies.uuids().map(str), project=strategies.sampled_from('pq'),
    priority=strategies.sampled_from([-7, 0, 50, 500, 900]),
    expected=strategies.sampled_from([None, 0.5, _SHORT, 20.0, _LONG]),
    created=strategies.sampled_from([0.0, 1.0, 900.0])), max_size=30,
    unique_by=lambda recovery: recovery.id)


def _server(priority: int | str, spec: int | str | None) -> model.Server:
    specs = {} if spec is None else {'extra_specs': {protected.PRIORITY: str(spec)}}
    return base.make_server('a', flavor={'vcpus': 1, **specs},
                            metadata={protected.PRIORITY: str(priority)})


@ddt.ddt
class PriorityTest(testtools.TestCase):
    """Tenants can set priorities of their servers within limits."""

    @ddt.data((0, None, 0), (7, None, 7), (5000, None, _MAX), (-7, None, -7),
              (-5000, None, -1000), (7, 900, 900), (7, -3, -3), (7, 5000, 1000),
              ('very', 'most', 0))
    @ddt.unpack
    def test_priority_is_limited(self, priority: int | str, spec: int | str | None,
                                 expected: int) -> None:
        self.assertEqual(expected, order.priority(_server(priority, spec), _MAX))

    def test_operators_give_priorities_to_hosts_as_well(self) -> None:
        gold, silver = ({'name': name, 'metadata': {protected.PRIORITY: value}}
                        for name, value in (('gold', '900'), ('silver', '500')))
        for aggregates, spec, expected in (((gold,), None, 900), ((gold, silver), None, 500),
                                           ((gold,), 3, 3)):
            server = dataclasses.replace(_server(7, spec), aggregates=aggregates)
            self.assertEqual(expected, order.priority(server, _MAX))


class OrderTest(testtools.TestCase):
    """The promises of the order. A recovery is of the project with which its name begins."""

    def _ordered(self, *waiting: model.Recovery, now: float = 0.0) -> list[str]:
        return [recovery.id for recovery in order.ordered(waiting, _MAX, now)]

    def test_shortest_comes_first(self) -> None:
        self.assertEqual(['pd', 'pb', 'pc', 'pa'], self._ordered(
            _waiting('pa', None, created=9.0), _waiting('pb', 20.0),
            _waiting('pc', 100.0, created=2.0), _waiting('pd', 5.0, created=1.0)))

    def test_projects_take_turns(self) -> None:
        self.assertEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3'], self._ordered(*map(
            _waiting, ('a1', 'a2', 'a3', 'b1', 'b2', 'c1'))))

    def test_projects_take_turns_before_the_shortest(self) -> None:
        waiting = [_waiting('a1', 1.0), _waiting('a2', 1.0), _waiting('b1', 300.0)]
        self.assertEqual(['a1', 'b1', 'a2'], self._ordered(*waiting))

    def test_projects_take_turns_among_aged_recoveries(self) -> None:
        waiting = [_waiting('a1', 1.0), _waiting('a2', 1.0, created=1.0),
                   _waiting('b1', 1.0, created=2.0)]
        self.assertEqual(['a1', 'b1', 'a2'], self._ordered(*waiting, now=100.0))

    def test_priority_of_a_tenant_orders_its_own_servers(self) -> None:
        self.assertEqual(['a3', 'b1', 'a2', 'b2', 'a1'], self._ordered(
            _waiting('a1'), _waiting('a2', priority=50), _waiting('a3', priority=100),
            _waiting('b1'), _waiting('b2')))

    def test_priority_of_an_operator_orders_all_servers(self) -> None:
        self.assertEqual(['b2', 'b1', 'a1', 'a2'], self._ordered(
            _waiting('a1', priority=100), _waiting('a2', priority=100),
            _waiting('b1', priority=200), _waiting('b2', priority=300)))

    def test_negative_priority_comes_last(self) -> None:
        self.assertEqual(['a2', 'b1', 'a1'], self._ordered(
            _waiting('a1', priority=-5), _waiting('a2'), _waiting('b1')))

    def test_aged_recovery_precedes_short_ones(self) -> None:
        waiting = [_waiting('long', 100.0), _waiting('less', 5.0, created=99.0)]
        self.assertEqual(['less', 'long'], self._ordered(*waiting, now=99.0))
        self.assertEqual(['long', 'less'], self._ordered(*waiting, now=100.0))


class PropertiesTest(testtools.TestCase):
    """Properties for any load."""

    @hypothesis.given(_WAITING, strategies.randoms(use_true_random=False))
    def test_order_does_not_depend_on_the_input_order(
            self, waiting: list[model.Recovery], shuffle: Any) -> None:
        other = list(waiting)
        shuffle.shuffle(other)
        first, second = (order.ordered(some, _MAX, 1000.0) for some in (waiting, other))
        self.assertEqual(first, second)
        self.assertEqual(collections.Counter(recovery.id for recovery in waiting),
                         collections.Counter(recovery.id for recovery in second))

    @hypothesis.given(_WAITING)
    def test_priority_of_an_operator_precedes_all_else(self, waiting: list[model.Recovery]
                                                       ) -> None:
        priorities = [recovery.priority for recovery in order.ordered(waiting, _MAX, 1000.0)]
        levels = [priority if priority > _MAX else min(priority, 0) for priority in priorities]
        self.assertEqual(sorted(levels, reverse=True), levels)

    @hypothesis.given(strategies.integers(1, 8), strategies.integers(1, 6))
    def test_no_recovery_starves(self, slots: int, longs: int) -> None:
        """A long recovery begins although short ones arrive without end."""
        running = dict[str, float]()
        waiting = _many('plong', longs, 30.0)
        for moment in range(0, 300, 5):
            now = float(moment)
            running = {name: until for name, until in running.items() if until > now}
            waiting += _many(f'pshort{moment:04d}-', 2 * slots, _SHORT, created=now)
            for recovery in order.ordered(waiting, _MAX, now)[:slots - len(running)]:
                running[recovery.id] = now + (recovery.expected or 0.0)
            waiting = [recovery for recovery in waiting if recovery.id not in running]
            if not any(recovery.id.startswith('plong') for recovery in waiting):
                break
        # Each waits until it is aged, and then at worst for all before it, one after the other.
        bound = order.PATIENCE + 30.0 * (longs + 1) + 2 * _SHORT
        self.assertLessEqual(now, bound)

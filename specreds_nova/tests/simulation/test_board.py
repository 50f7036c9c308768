# SPDX-License-Identifier: Apache-2.0
"""What engines need of the board of jobs, of the real one and of that of the simulation.

The real one is :class:`specreds_nova.engine.jobs.Board` on the etcd of the unit tests.
"""

from collections.abc import Callable
import importlib.util
import pathlib
import types
from typing import Any
import uuid

import ddt
import testtools

from specreds_nova.engine import jobs
from specreds_nova.engine import model
from testing.simulation import board as boards
from testing.simulation import wire as wires

_LEASE = 4
_ETCD = pathlib.Path(__file__).parents[1] / 'unit' / 'engine' / 'etcd.py'


def _unit_etcd() -> Any:
    """Return the etcd of the unit tests, without their package, which patches all threads."""
    spec = importlib.util.spec_from_file_location('unit_etcd', _ETCD)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Etcd()


class _Real:
    """Boards of engines on one etcd."""

    def __init__(self) -> None:
        self._etcd: Any = _unit_etcd()
        self.expire: Callable[[], object] = self._etcd.expire

    def board(self, engine: str) -> Any:
        """Return the board as an engine uses it."""
        return jobs.Board(self._etcd, engine, _LEASE)


class _Simulated:
    """The same in the simulation."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._etcd = wires.Etcd()

    def board(self, engine: str) -> Any:
        """Return the board as an engine uses it."""
        hub: Any = types.SimpleNamespace(now=lambda: self._now)
        wire: Any = types.SimpleNamespace(call=lambda service, name, act, *seconds: act())
        return boards.Board(hub, self._etcd, wire, engine, f'{engine}#1', _LEASE)

    def expire(self) -> None:
        """Let all leases end."""
        self._now += 2.0 * _LEASE


_BOTH = ddt.data(_Real, _Simulated)


def _recovery(**values: Any) -> model.Recovery:
    return model.Recovery(id=str(uuid.uuid4()), server='s', server_name='vm', project='p',
                          host='h1', suspected=1.0, **values)


@ddt.ddt
class BoardTest(testtools.TestCase):
    """Both boards treat jobs and claims alike."""

    def _boards(self, kind: type, count: int) -> tuple[Any, Any, Any]:
        """Return all boards and those of two engines, the first of which has posted jobs."""
        every = kind()
        e1, e2 = every.board('one'), every.board('two')
        for _ in range(count):
            e1.post(_recovery())
        return every, e1, e2

    @_BOTH
    def test_jobs_are_listed_in_the_order_of_posting(self, kind: type) -> None:
        _, e1, e2 = self._boards(kind, 0)
        wanted = [_recovery(priority=1), _recovery(priority=9, expected=2.0), _recovery()]
        for recovery in wanted:
            e1.post(recovery)
        listed = e2.unclaimed()
        self.assertEqual([(each.id, each.priority, each.expected) for each in wanted],
                         [(each.recovery, each.priority, each.expected) for each in listed])
        self.assertEqual({each.id for each in wanted}, e2.known())

    @_BOTH
    def test_only_one_engine_claims_a_job(self, kind: type) -> None:
        _, e1, e2 = self._boards(kind, 1)
        [posted] = e2.unclaimed()
        self.assertTrue(e1.claim(posted))
        self.assertFalse(e2.claim(posted))
        self.assertEqual([], e2.unclaimed())
        self.assertEqual({posted.recovery}, e2.known())

    @_BOTH
    def test_job_that_is_posted_as_ours_is_claimed(self, kind: type) -> None:
        _, e1, e2 = self._boards(kind, 0)
        posted = e1.post(_recovery(), ours=True)
        self.assertEqual([], e2.unclaimed())
        self.assertFalse(e2.claim(posted))

    @_BOTH
    def test_other_jobs_of_a_recovery_are_not_free_while_one_is_claimed(self, kind: type) -> None:
        _, e1, e2 = self._boards(kind, 0)
        recovery = _recovery()
        for board in (e1, e2, e1):
            board.post(recovery)
        first, *_ = e1.unclaimed()
        e1.claim(first)
        self.assertEqual([], e2.unclaimed(['two']))
        self.assertEqual(3, len(e2.unclaimed(['one'])))
        e1.consume(first)
        self.assertEqual(2, len(e2.unclaimed()))

    @_BOTH
    def test_jobs_of_a_dead_engine_are_free(self, kind: type) -> None:
        every, e1, e2 = self._boards(kind, 2)
        self.assertEqual(2, len(e1.claim_all(e1.unclaimed())))
        every.expire()
        self.assertEqual(2, len(e2.claim_all(e2.unclaimed())))
        self.assertEqual([], e1.unclaimed())

    @_BOTH
    def test_claims_that_are_kept_hold(self, kind: type) -> None:
        _, e1, e2 = self._boards(kind, 1)
        e1.claim_all(e1.unclaimed())
        e1.keep()
        self.assertEqual([], e2.unclaimed())

    @_BOTH
    def test_job_of_a_silent_engine_is_taken_once(self, kind: type) -> None:
        every, e1, e2 = self._boards(kind, 1)
        e3 = every.board('three')
        [posted] = e1.unclaimed()
        e1.claim(posted)
        self.assertEqual([], e2.unclaimed(['three']))
        [taken], [also_seen] = e2.unclaimed(['one']), e3.unclaimed(['one'])
        self.assertEqual('one', taken.owner)
        self.assertTrue(e2.claim(taken))
        self.assertFalse(e3.claim(also_seen))
        # The engine that was silent releases and removes nothing of the other one.
        e1.close()
        e1.consume(posted)
        self.assertEqual([], e1.unclaimed())
        self.assertEqual({posted.recovery}, e1.known())
        e2.consume(taken)
        self.assertEqual(set(), e2.known())

    @_BOTH
    def test_jobs_that_another_engine_has_claimed_meanwhile_are_left(self, kind: type) -> None:
        _, e1, e2 = self._boards(kind, 3)
        first, second, third = e2.unclaimed()
        e1.claim(second)
        self.assertEqual([first, third], e2.claim_all([first, second, third]))

    @_BOTH
    def test_job_that_is_abandoned_is_free_and_one_that_is_done_is_not(self, kind: type) -> None:
        _, e1, e2 = self._boards(kind, 2)
        first, second = e1.claim_all(e1.unclaimed())
        e1.abandon(first)
        e1.consume(second)
        self.assertEqual([first.recovery], [posted.recovery for posted in e2.unclaimed()])
        self.assertFalse(e2.claim(second))

    @_BOTH
    def test_closed_board_releases_its_jobs(self, kind: type) -> None:
        _, e1, e2 = self._boards(kind, 1)
        e1.claim_all(e1.unclaimed())
        e1.close()
        self.assertEqual(1, len(e2.claim_all(e2.unclaimed())))

# SPDX-License-Identifier: Apache-2.0
"""The board of jobs."""

import time
from typing import Any, cast
from unittest import mock
import uuid

import testtools

from specreds_nova.engine import exception
from specreds_nova.engine import jobs
from specreds_nova.engine import model
from specreds_nova.tests.unit.engine import etcd as etcds


def _recovery(**values: Any) -> model.Recovery:
    return model.Recovery(**{
        'id': str(uuid.uuid4()), 'server': 's', 'server_name': 'vm', 'project': 'p', 'host': 'h1',
        'suspected': 1.0, **values})


class BoardTest(testtools.TestCase):
    """Two engines share a board."""

    def setUp(self) -> None:
        super().setUp()
        self.etcd = etcds.Etcd()
        client: Any = self.etcd
        self.one = jobs.Board(client, 'one', 4)
        self.two = jobs.Board(client, 'two', 4)

    def _posted(self, **values: Any) -> jobs.Posted:
        self.one.post(_recovery(**values))
        [posted] = self.two.unclaimed()
        return posted

    def test_jobs_are_listed_in_the_order_of_posting(self) -> None:
        wanted = [_recovery(priority=1), _recovery(priority=9, expected=2.0), _recovery()]
        for recovery in wanted:
            self.one.post(recovery)
        self.assertEqual([recovery.id for recovery in wanted],
                         [posted.recovery for posted in self.two.unclaimed()])

    def test_job_has_what_the_order_of_recoveries_needs(self) -> None:
        waiting = self._posted(priority=3, expected=2.5, host='h7').waiting
        self.assertEqual(('p', 'h7', 3, 2.5), (
            waiting.project, waiting.host, waiting.priority, waiting.expected))
        self.assertAlmostEqual(time.time(), waiting.since, delta=3600.0)

    def test_only_one_engine_claims_a_job(self) -> None:
        posted = self._posted()
        self.assertTrue(self.one.claim(posted))
        self.assertFalse(self.two.claim(posted))
        self.assertEqual([], self.two.unclaimed())
        self.assertEqual({posted.recovery}, self.two.known())

    def test_other_jobs_of_a_recovery_are_not_free_while_one_is_claimed(self) -> None:
        recovery = _recovery()
        for board in (self.one, self.two, self.one):
            board.post(recovery)
        first, *_ = self.one.unclaimed()
        self.one.claim(first)
        self.assertEqual([], self.two.unclaimed(['two']))
        # Its own engine finds all of them, and so do the others when that engine is silent.
        self.assertEqual(3, len(self.one.unclaimed(['one'])))
        self.assertEqual(3, len(self.two.unclaimed(['one'])))
        self.one.consume(first)
        self.assertEqual(2, len(self.two.unclaimed()))

    def test_jobs_that_an_engine_works_on_are_left_out(self) -> None:
        for _ in range(3):
            self.one.post(_recovery(), ours=True)
        mine, *others = self.one.unclaimed(['one'])
        self.assertEqual(others, self.one.unclaimed(['one'], {('one', mine.recovery)}))
        # The claim is not that of this engine.
        self.assertEqual(3, len(self.one.unclaimed(['one'], {('two', mine.recovery)})))

    def test_jobs_of_a_dead_engine_are_free(self) -> None:
        for _ in range(3):
            self.one.post(_recovery())
        for posted in self.one.unclaimed():
            self.one.claim(posted)
        self.etcd.expire()
        free = self.two.unclaimed()
        self.assertEqual(3, len(free))
        self.assertTrue(all(self.two.claim(posted) for posted in free))

    def test_jobs_of_a_silent_engine_are_taken_before_its_lease_ends(self) -> None:
        posted = self._posted()
        self.one.claim(posted)
        self.assertEqual([], self.two.unclaimed(['three']))
        [taken] = self.two.unclaimed(['one'])
        self.assertTrue(self.two.claim(taken))
        # The claim is that of the living engine from now on.
        self.one.close()
        self.assertEqual([], self.one.unclaimed())
        self.one.consume(posted)
        self.two.consume(taken)
        self.assertEqual(set(), self.two.known())

    def test_only_one_engine_takes_the_job_of_a_silent_one(self) -> None:
        self.one.claim(self._posted())
        three = jobs.Board(cast(Any, self.etcd), 'three', 4)
        [seen], [also_seen] = self.two.unclaimed(['one']), three.unclaimed(['one'])
        self.assertTrue(self.two.claim(seen))
        self.assertFalse(three.claim(also_seen))

    def test_many_jobs_are_claimed_by_few_requests(self) -> None:
        for _ in range(150):
            self.one.post(_recovery())
        posted = self.two.unclaimed()
        before = self.etcd.requests
        self.assertEqual(posted, self.two.claim_all(posted))
        # One of them is that of the lease.
        self.assertEqual(4, self.etcd.requests - before)
        self.assertEqual([], self.one.unclaimed())

    def test_jobs_that_another_engine_has_claimed_meanwhile_are_left(self) -> None:
        for _ in range(3):
            self.one.post(_recovery())
        first, second, third = self.two.unclaimed()
        self.one.claim(second)
        self.assertEqual([first, third], self.two.claim_all([first, second, third]))

    def test_closed_board_releases_its_jobs(self) -> None:
        posted = self._posted()
        self.one.claim(posted)
        self.one.close()
        self.assertTrue(self.two.claim(posted))

    def test_expired_lease_is_replaced(self) -> None:
        self.one.claim(self._posted())
        self.etcd.expire()
        self.one.keep()
        [posted] = self.one.unclaimed()
        self.assertTrue(self.one.claim(posted))
        self.one.keep()
        self.assertEqual([], self.two.unclaimed())

    def test_own_job_is_posted_and_claimed_at_once(self) -> None:
        recovery = _recovery()
        posted = self.one.post(recovery, ours=True)
        self.assertEqual([], self.two.unclaimed())
        self.assertFalse(self.two.claim(posted))
        self.one.consume(posted)
        self.assertEqual(set(), self.two.known())

    def test_consumed_job_is_removed(self) -> None:
        posted = self._posted()
        self.one.claim(posted)
        self.one.consume(posted)
        self.assertEqual(set(), self.two.known())
        self.assertFalse(self.two.claim(posted))

    def test_only_the_owner_consumes_a_job(self) -> None:
        posted = self._posted()
        self.one.claim(posted)
        self.two.consume(posted)
        self.two.abandon(posted)
        self.assertEqual({posted.recovery}, self.two.known())
        self.assertEqual([], self.two.unclaimed())

    def test_job_that_was_read_before_is_not_parsed_again(self) -> None:
        posted = [self._posted(), *(self.one.post(_recovery(), ours=True) for _ in range(2))]
        first = self.two.unclaimed({'one'})
        with mock.patch('oslo_serialization.jsonutils.loads') as parse:
            self.assertEqual(first, self.two.unclaimed({'one'}))
        parse.assert_not_called()
        self.one.consume(posted[1])
        self.assertEqual({posted[0].recovery, posted[2].recovery}, self.two.known())

    def test_claimed_job_is_consumed_by_one_request(self) -> None:
        posted = self._posted()
        self.one.claim(posted)
        before = self.etcd.requests
        self.one.consume(posted)
        self.assertEqual(1, self.etcd.requests - before)
        self.assertEqual(set(), self.two.known())

    def test_job_that_an_earlier_lease_has_claimed_is_consumed(self) -> None:
        posted = self._posted()
        claim = self.one.claim(posted)
        self.one._board._lease = self.etcd.lease(4)
        self.one.consume(posted)
        self.assertEqual((True, set()), (claim, self.two.known()))

    def test_job_that_another_engine_has_consumed_is_not_missed(self) -> None:
        posted = self._posted()
        self.one.claim(posted)
        self.one.consume(posted)
        self.one.consume(posted)
        self.assertEqual(set(), self.two.known())

    def test_abandoned_job_is_free(self) -> None:
        posted = self._posted()
        self.one.claim(posted)
        self.one.abandon(posted)
        self.assertTrue(self.two.claim(posted))

    def test_many_jobs_are_listed_by_one_request(self) -> None:
        for _ in range(30):
            self.one.post(_recovery())
        before = self.etcd.requests
        self.assertEqual(30, len(self.two.unclaimed()))
        self.assertEqual(1, self.etcd.requests - before)

    def test_unreachable_etcd_raises(self) -> None:
        posted = self._posted()
        self.etcd.away = True
        for call in (self.one.unclaimed, self.one.known, self.one.keep,
                    lambda: self.one.claim(posted), lambda: self.one.consume(posted),
                    lambda: self.one.post(_recovery())):
            self.assertRaises(exception.Unreachable, call)

# SPDX-License-Identifier: Apache-2.0
"""The board of jobs."""

import time
from typing import Any
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
    """Two engines share the work."""

    def setUp(self) -> None:
        super().setUp()
        self.etcd = etcds.Etcd()
        client: Any = self.etcd
        self.one = jobs.Board(client, 'one', 4)
        self.two = jobs.Board(client, 'two', 4)

    def _posted(self, **values: Any) -> jobs.Posted:
        self.one.post(_recovery(**values))
        [found] = self.two.unclaimed()
        return found

    def test_jobs_come_in_the_order_in_which_they_were_posted(self) -> None:
        wanted = [_recovery(priority=1), _recovery(priority=9, expected=2.0), _recovery()]
        for recovery in wanted:
            self.one.post(recovery)
        self.assertEqual([one.id for one in wanted],
                         [posted.recovery for posted in self.two.unclaimed()])

    def test_a_turn_depends_on_what_was_posted(self) -> None:
        waiting = self._posted(priority=3, expected=2.5, host='h7').waiting
        self.assertEqual(('p', 'h7', 3, 2.5), (
            waiting.project, waiting.host, waiting.priority, waiting.expected))
        self.assertAlmostEqual(time.time(), waiting.since, delta=3600.0)

    def test_one_engine_gets_a_job(self) -> None:
        posted = self._posted()
        self.assertTrue(self.one.claim(posted))
        self.assertFalse(self.two.claim(posted))
        self.assertEqual([], self.two.unclaimed())
        self.assertEqual({posted.recovery}, self.two.known())

    def test_all_jobs_of_an_engine_are_free_when_it_has_died(self) -> None:
        for _ in range(3):
            self.one.post(_recovery())
        for posted in self.one.unclaimed():
            self.one.claim(posted)
        self.etcd.expire()
        found = self.two.unclaimed()
        self.assertEqual(3, len(found))
        self.assertTrue(all(self.two.claim(posted) for posted in found))

    def test_an_engine_that_ends_lets_its_jobs_go(self) -> None:
        posted = self._posted()
        self.one.claim(posted)
        self.one.close()
        self.assertTrue(self.two.claim(posted))

    def test_a_lease_that_ran_out_is_replaced(self) -> None:
        self.one.claim(self._posted())
        self.etcd.expire()
        self.one.keep()
        [posted] = self.one.unclaimed()
        self.assertTrue(self.one.claim(posted))
        self.one.keep()
        self.assertEqual([], self.two.unclaimed())

    def test_what_is_posted_as_ours_is_claimed(self) -> None:
        recovery = _recovery()
        posted = self.one.post(recovery, ours=True)
        self.assertEqual([], self.two.unclaimed())
        self.assertFalse(self.two.claim(posted))
        self.one.consume(posted)
        self.assertEqual(set(), self.two.known())

    def test_a_job_that_is_done_is_gone(self) -> None:
        posted = self._posted()
        self.one.claim(posted)
        self.one.consume(posted)
        self.assertEqual(set(), self.two.known())
        self.assertFalse(self.two.claim(posted))

    def test_only_its_owner_is_done_with_a_job(self) -> None:
        posted = self._posted()
        self.one.claim(posted)
        self.two.consume(posted)
        self.two.abandon(posted)
        self.assertEqual({posted.recovery}, self.two.known())
        self.assertEqual([], self.two.unclaimed())

    def test_a_job_that_is_left_is_free(self) -> None:
        posted = self._posted()
        self.one.claim(posted)
        self.one.abandon(posted)
        self.assertTrue(self.two.claim(posted))

    def test_many_jobs_are_one_request(self) -> None:
        for _ in range(30):
            self.one.post(_recovery())
        before = self.etcd.asked
        self.assertEqual(30, len(self.two.unclaimed()))
        self.assertEqual(1, self.etcd.asked - before)

    def test_an_etcd_that_is_away(self) -> None:
        posted = self._posted()
        self.etcd.away = True
        for ask in (self.one.unclaimed, self.one.known, self.one.keep,
                    lambda: self.one.claim(posted), lambda: self.one.consume(posted),
                    lambda: self.one.post(_recovery())):
            self.assertRaises(exception.Unreachable, ask)

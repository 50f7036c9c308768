# SPDX-License-Identifier: Apache-2.0
"""Reads that several threads share: never one that began before a thread asked."""

from concurrent import futures
import threading
from typing import Any

import testtools

from specreds_nova.engine import exception
from specreds_nova.engine.store import shared

_LONGEST = 60.0


class SharedReadsTest(testtools.TestCase):
    """Threads that ask while a read is under way."""

    def setUp(self) -> None:
        super().setUp()
        self.value = 0
        self.count = 0
        self.began, self.may_end = threading.Semaphore(0), threading.Semaphore(0)
        self.trouble: Exception | None = None
        self.reads = shared.SharedReads(self.read)
        self.threads = futures.ThreadPoolExecutor(8)
        self.addCleanup(self.threads.shutdown)

    def read(self, key: str) -> tuple[str, int]:
        """Read the value, and wait."""
        self.count += 1
        value, trouble = self.value, self.trouble
        self.began.release()
        assert self.may_end.acquire(timeout=_LONGEST)
        if trouble is not None:
            raise trouble
        return key, value

    def ask(self, count: int) -> list[futures.Future[tuple[str, int]]]:
        """Let threads ask while a read is under way, until all of them wait."""
        results, entered = [], threading.Semaphore(0)

        def get() -> tuple[str, int]:
            entered.release()
            return self.reads.get('a')
        for _ in range(count):
            results.append(self.threads.submit(get))
            assert entered.acquire(timeout=_LONGEST)
        # The lock is free again after the last thread has taken its place.
        while not self._waited(count):
            threading.Event().wait(0.001)
        return results

    def _waited(self, count: int) -> bool:
        following: Any = self.reads._next.get('a')
        # The first one waits for the read that is under way, the others for its own.
        return following is not None and len(following._condition._waiters) == count - 1

    def test_reads_one_after_the_other_are_not_shared(self) -> None:
        for value in (1, 2):
            self.value = value
            self.may_end.release()
            self.assertEqual(('a', value), self.reads.get('a'))
        self.assertEqual(({}, {}), (self.reads._under_way, self.reads._next))

    def test_threads_that_ask_during_a_read_share_the_next_one(self) -> None:
        first = self.threads.submit(self.reads.get, 'a')
        assert self.began.acquire(timeout=_LONGEST)
        self.value = 1
        others = self.ask(4)
        self.may_end.release()
        self.assertEqual(('a', 0), first.result(_LONGEST))
        self.may_end.release()
        self.assertEqual([('a', 1)] * 4, [other.result(_LONGEST) for other in others])
        self.assertEqual(2, self.count)
        self.assertEqual(({}, {}), (self.reads._under_way, self.reads._next))

    def test_read_that_fails_does_not_fail_the_next_one(self) -> None:
        self.trouble = exception.Unreachable('no')
        first = self.threads.submit(self.reads.get, 'a')
        assert self.began.acquire(timeout=_LONGEST)
        self.trouble = None
        others = self.ask(2)
        for _ in range(2):
            self.may_end.release()
        self.assertIsInstance(first.exception(_LONGEST), exception.Unreachable)
        self.assertEqual([('a', 0)] * 2, [other.result(_LONGEST) for other in others])

    def test_other_keys_are_read_at_the_same_time(self) -> None:
        results = [self.threads.submit(self.reads.get, key) for key in 'ab']
        for _ in results:
            assert self.began.acquire(timeout=_LONGEST)
        self.may_end.release(2)
        self.assertEqual([('a', 0), ('b', 0)], [read.result(_LONGEST) for read in results])

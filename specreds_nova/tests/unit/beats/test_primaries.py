# SPDX-License-Identifier: Apache-2.0
"""Questions to the sentinels of other hosts."""

import errno
import json
import threading
from typing import Any
from unittest import mock

import fixtures
import rados
import testtools

from specreds_nova.beats import primaries
from specreds_nova.beats import probes


class PrimariesTest(testtools.TestCase):
    """A host that has backups of servers of other hosts."""

    def setUp(self) -> None:
        super().setUp()
        self.now = 1000.0
        self.users: tuple[str, ...] = ('cinder',)
        self.answers: dict[tuple[str, str], frozenset[str]] = {}
        self.questions: list[tuple[str, str]] = []
        # Pools that do not answer, and the questions that wait for them.
        self.stuck: set[str] = set()
        # Hosts that watch, and do not answer.
        self.watching: set[str] = set()
        self.waiting: list[tuple[str, Any]] = []
        self.useFixture(fixtures.MockPatchObject(
            probes.Storage, 'users', side_effect=lambda conf: self.users))
        self.cluster = self.useFixture(fixtures.MockPatch(
            'specreds_nova.beats.primaries.ceph.Cluster')).mock.return_value
        self.cluster.rados.list_pools.return_value = ['images', 'volumes']
        self.cluster.rados.open_ioctx.side_effect = lambda pool: mock.Mock(
            aio_notify=lambda name, done, *_: self.ask(pool, name.rpartition('.')[2], done))
        self.primaries = self.make()

    def make(self) -> primaries.Primaries:
        made = primaries.Primaries(mock.Mock())
        made._time = mock.Mock(monotonic=lambda: self.now)
        return made

    def ask(self, pool: str, host: str, done: Any) -> None:
        """Notify the object of a host."""
        self.questions.append((pool, host))
        if pool in self.stuck:
            self.waiting.append((pool, done))
        elif host in self.watching:
            done(None, -errno.ETIMEDOUT, None, None)
        elif (pool, host) in self.answers:
            running = json.dumps({'running': sorted(self.answers[pool, host])})
            done(None, 0, [(1, 2, running.encode())], [])
        else:
            done(None, -errno.ENOENT, None, None)

    def test_answer_in_any_pool_counts(self) -> None:
        self.assertIsNone(self.primaries.runs('h1', 's1'))
        self.answers['volumes', 'h1'] = frozenset({'s1'})
        self.primaries.beat()
        self.assertEqual((True, False), (self.primaries.runs('h1', 's1'),
                                         self.primaries.runs('h1', 's2')))
        self.assertIsNone(self.primaries.runs('h2', 's1'))

    def test_pool_that_never_answers_does_not_silence_the_others(self) -> None:
        self.answers |= {('images', 'h1'): frozenset({'s1'}), ('volumes', 'h1'): frozenset({'s1'})}
        self.stuck = {'images'}
        self.primaries.runs('h1', 's1')
        for _ in range(20):
            self.primaries.beat()
            self.assertTrue(self.primaries.runs('h1', 's1'))
            self.now += 1.0
        # It is not asked again meanwhile.
        self.assertEqual((1, 20), (self.questions.count(('images', 'h1')),
                                   self.questions.count(('volumes', 'h1'))))
        # Its answer is as old as its question, however late it comes.
        del self.answers['volumes', 'h1']
        self.now += 3.0
        [(_, done)] = self.waiting
        self.stuck.clear()
        done(None, 0, [(1, 2, b'{"running": ["s1"]}')], [])
        self.assertIsNone(self.primaries.runs('h1', 's1'))
        self.primaries.beat()
        self.assertTrue(self.primaries.runs('h1', 's1'))
        self.assertEqual(2, self.questions.count(('images', 'h1')))

    def test_end_does_not_wait_for_a_pool_that_does_not_answer(self) -> None:
        self.stuck = {'images'}
        self.primaries.runs('h1', 's1')
        self.primaries.beat()
        self.primaries.end()
        # librados still uses the connection.
        self.cluster.close.assert_not_called()
        [(_, done)] = self.waiting
        done(None, -errno.ETIMEDOUT, None, None)
        self.primaries.end()
        self.cluster.close.assert_called_once_with()

    def test_old_answer_does_not_count(self) -> None:
        self.answers['volumes', 'h1'] = frozenset({'s1'})
        self.primaries.runs('h1', 's1')
        self.primaries.beat()
        del self.answers['volumes', 'h1']
        self.now += 2.0
        self.primaries.beat()
        self.assertTrue(self.primaries.runs('h1', 's1'))
        self.now += 1.5
        self.primaries.beat()
        self.assertIsNone(self.primaries.runs('h1', 's1'))

    def test_sentinel_that_watches_and_does_not_answer_is_silent(self) -> None:
        self.primaries.expect('h1')
        self.watching = {'h1'}
        self.primaries.beat()
        self.assertEqual((True, None), (self.primaries.silent('h1'),
                                        self.primaries.runs('h1', 's1')))
        # Ceph forgets the watch of a host that is dead.
        self.watching.clear()
        self.now += 20.0
        self.primaries.beat()
        self.assertEqual((True, False), (self.primaries.silent('h1'),
                                         self.primaries.silent('h2')))
        self.answers['volumes', 'h1'] = frozenset({'s1'})
        self.primaries.beat()
        self.assertFalse(self.primaries.silent('h1'))
        # Another backup starts.
        self.answers.clear()
        self.watching = {'h1'}
        self.now += 1.0
        self.primaries.beat()
        self.assertTrue(self.primaries.silent('h1'))
        self.now += 1.0
        self.primaries.expect('h1')
        self.assertFalse(self.primaries.silent('h1'))

    def test_sentinel_that_could_not_be_asked_is_not_silent(self) -> None:
        self.primaries.expect('h1')
        for code, acks in ((-errno.EPERM, None), (-errno.ENOENT, None), (0, [])):
            self.cluster.rados.open_ioctx.side_effect = lambda _pool, code=code, acks=acks: (
                mock.Mock(aio_notify=lambda name, done, *_: done(None, code, acks, [])))
            self.primaries.beat()
            self.assertFalse(self.primaries.silent('h1'))
        self.cluster.rados.list_pools.side_effect = rados.TimedOut('no answer')
        self.primaries.beat()
        self.assertFalse(self.primaries.silent('h1'))

    def test_nobody_is_asked_without_interest(self) -> None:
        self.primaries.beat()
        self.primaries.runs('h1', 's1')
        self.now += 6.0
        self.primaries.beat()
        self.assertEqual([], self.questions)

    def test_start_of_a_backup_has_the_first_status_answered(self) -> None:
        self.answers['volumes', 'h1'] = frozenset({'s1'})
        self.primaries.expect('h1')
        # The start takes longer than a status is interesting for.
        self.now += 30.0
        self.primaries.beat()
        self.assertTrue(self.primaries.runs('h1', 's1'))

    def test_answer_from_before_the_start_of_a_backup_does_not_count(self) -> None:
        self.answers['volumes', 'h1'] = frozenset({'s1'})
        self.primaries.expect('h1')
        self.primaries.beat()
        self.now += 1.0
        # The host dies, and another one of its servers gets a backup.
        del self.answers['volumes', 'h1']
        self.primaries.expect('h1')
        self.primaries.beat()
        self.assertIsNone(self.primaries.runs('h1', 's1'))

    def test_status_does_not_shorten_the_interest_of_a_start(self) -> None:
        self.primaries.expect('h1')
        self.primaries.runs('h1', 's1')
        self.now += 30.0
        self.primaries.beat()
        self.assertEqual({'h1'}, {host for _, host in self.questions})

    def test_nobody_is_asked_long_after_a_start(self) -> None:
        self.primaries.expect('h1')
        self.now += 121.0
        self.primaries.beat()
        self.assertEqual([], self.questions)

    def test_silent_storage_has_no_opinion(self) -> None:
        self.primaries.runs('h1', 's1')
        self.cluster.rados.open_ioctx.side_effect = rados.TimedOut('no answer')
        self.primaries.beat()
        self.assertIsNone(self.primaries.runs('h1', 's1'))

    def test_nobody_is_asked_without_ceph(self) -> None:
        self.users = ()
        made = self.make()
        made.start()
        made.stop(1.0)
        made.expect('h1')
        self.assertIsNone(made.runs('h1', 's1'))
        self.assertFalse(made.asks)
        made.beat()
        self.assertEqual([], self.questions)

    def test_thread_asks_until_it_is_stopped(self) -> None:
        called = threading.Event()
        self.cluster.rados.open_ioctx.side_effect = lambda _pool: mock.Mock(
            aio_notify=lambda *_: called.set())
        made = primaries.Primaries(mock.Mock())
        made.runs('h1', 's1')
        made.start()
        self.assertTrue(called.wait(60.0))
        made.stop(60.0)

# SPDX-License-Identifier: Apache-2.0
"""Questions to the sentinels of other hosts."""

import threading
from typing import Any
from unittest import mock

import fixtures
import testtools

from specreds_cinder.superposition import errors
from specreds_nova import witness
from specreds_nova.virt.liveness import primaries
from specreds_nova.virt.liveness import probes


class PrimariesTest(testtools.TestCase):
    """A host that has backups of servers of other hosts."""

    def setUp(self) -> None:
        super().setUp()
        self.now = 1000.0
        self.users: tuple[str, ...] = ('cinder',)
        self.answers: dict[tuple[str, str], frozenset[str]] = {}
        self.questions: list[tuple[str, str]] = []
        self.useFixture(fixtures.MockPatchObject(
            probes.Storage, 'users', side_effect=lambda conf: self.users))
        self.useFixture(fixtures.MockPatchObject(witness, 'ask', side_effect=self.ask))
        cluster = self.useFixture(fixtures.MockPatch(
            'specreds_nova.virt.liveness.primaries.ceph.Cluster')).mock
        cluster.return_value.rados.list_pools.return_value = ['images', 'volumes']
        self.primaries = self.make()

    def make(self) -> primaries.Primaries:
        made = primaries.Primaries(mock.Mock())
        made._time = mock.Mock(monotonic=lambda: self.now)
        return made

    def ask(self, _cluster: Any, pool: str, host: str, _timeout: float) -> frozenset[str] | None:
        self.questions.append((pool, host))
        return self.answers.get((pool, host))

    def test_answer_in_any_pool_counts(self) -> None:
        self.assertIsNone(self.primaries.runs('h1', 's1'))
        self.answers['volumes', 'h1'] = frozenset({'s1'})
        self.primaries.beat()
        self.assertEqual((True, False), (self.primaries.runs('h1', 's1'),
                                         self.primaries.runs('h1', 's2')))
        self.assertIsNone(self.primaries.runs('h2', 's1'))

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
        with mock.patch.object(witness, 'ask', side_effect=errors.ClusterTimeout('no answer')):
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
        with mock.patch.object(witness, 'ask', side_effect=lambda *_: called.set()):
            made = primaries.Primaries(mock.Mock())
            made.runs('h1', 's1')
            made.start()
            self.assertTrue(called.wait(60.0))
            made.stop(60.0)

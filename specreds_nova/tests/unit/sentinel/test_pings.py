# SPDX-License-Identifier: Apache-2.0
"""Which answers of Ceph renew the lease, and when its connection is made again."""

from collections.abc import Callable
import errno
import itertools
from typing import Any
from unittest import mock

import fixtures
import rados
import testtools

from specreds_nova import storage_ping
from specreds_nova.sentinel import pings

_ABSENT = rados.ObjectNotFound('played')
_REFUSED = rados.PermissionError('played', errno.EPERM)
_LATE = rados.TimedOut('played', errno.ETIMEDOUT)


class PoolTest(testtools.TestCase):
    """The questions to one pool."""

    def setUp(self) -> None:
        super().setUp()
        self.io = mock.Mock()
        self.pool = storage_ping.Pool(mock.Mock(open_ioctx=lambda _name: self.io), 'volumes')

    def asked(self, *ends: Exception | None) -> bool:
        """Ask, with these ends of the questions."""
        self.io.stat.side_effect = ends
        return self.pool.ask(30.0)

    def test_objects_are_others_each_time(self) -> None:
        for _ in range(2):
            self.pool.begin(lambda code: None)
        self.pool.close()
        names = {call.args[0] for call in self.io.stat.call_args_list}
        self.assertEqual(6, len(names))
        self.io.close.assert_called_once_with()

    def test_one_answer_is_enough(self) -> None:
        self.assertTrue(self.asked(_LATE, _LATE, _ABSENT))
        self.assertTrue(self.asked(None, None, None))

    def test_refusal_is_an_answer_of_a_pool_that_may_not_be_read(self) -> None:
        self.assertFalse(self.asked(_REFUSED, _REFUSED, _REFUSED))

    def test_pool_without_an_answer_raises(self) -> None:
        self.assertRaises(rados.Error, self.asked, _LATE, _LATE, _LATE)


class Pool:
    """A pool whose questions end when the test says so."""

    opened: 'list[Pool]'
    error: Exception | None

    def __init__(self, _handle: Any, name: str) -> None:
        if Pool.error is not None:
            raise Pool.error
        self.name = name
        self.closed = False
        self.done: list[Callable[[int], None]] = []
        Pool.opened.append(self)

    def begin(self, done: Callable[[int], None]) -> None:
        """Note a question."""
        self.done.append(done)

    def close(self) -> None:
        """Note the end."""
        self.closed = True


class PingsTest(testtools.TestCase):
    """The questions of one user."""

    def setUp(self) -> None:
        super().setUp()
        self.now = 100.0
        self.useFixture(fixtures.MonkeyPatch('specreds_nova.beats.renewals.now',
                                             lambda: self.now))
        Pool.opened, Pool.error = [], None
        self.useFixture(fixtures.MonkeyPatch('specreds_nova.storage_ping.Pool', Pool))
        self.cluster = mock.Mock()
        self.heard: list[tuple[str, float]] = []
        self.user = pings._User('cinder', self.cluster,
                                lambda user, at: self.heard.append((user, at)))

    def test_answer_counts_from_when_it_was_asked_for(self) -> None:
        self.user.ask(['volumes'])
        self.now = 103.0
        for code in (errno.ETIMEDOUT, 0, errno.EPERM):
            Pool.opened[0].done[0](code)
        self.assertEqual([('cinder', 100.0)] * 2, self.heard)

    def test_question_does_not_wait_for_the_one_before(self) -> None:
        for now in (100.0, 100.5, 101.0):
            self.now = now
            self.user.ask(['volumes', 'images'])
        self.assertEqual([('volumes', 3), ('images', 3)],
                         [(pool.name, len(pool.done)) for pool in Pool.opened])

    def test_time_out_does_not_close_the_connection(self) -> None:
        self.user.ask(['volumes'])
        Pool.opened[0].done[0](errno.ETIMEDOUT)
        self.user.ask(['volumes'])
        self.cluster.close.assert_not_called()
        self.assertEqual([], self.heard)

    def test_connection_that_was_shut_out_is_made_again(self) -> None:
        self.user.ask(['volumes'])
        Pool.opened[0].done[0](errno.ESHUTDOWN)
        self.user.ask(['volumes'])
        self.cluster.close.assert_called_once_with()
        self.assertTrue(Pool.opened[0].closed)
        self.user.ask(['volumes'])
        self.cluster.close.assert_called_once_with()
        self.assertEqual(2, len(Pool.opened))

    def test_cluster_that_cannot_be_reached_is_tried_again(self) -> None:
        Pool.error = _LATE
        self.user.ask(['volumes'])
        self.cluster.close.assert_called_once_with()
        Pool.error = None
        self.user.ask(['volumes'])
        Pool.opened[0].done[0](0)
        self.assertEqual([('cinder', 100.0)], self.heard)

    def test_each_user_of_local_disks_is_asked_for(self) -> None:
        opened: list[str] = []
        places = itertools.chain(
            [{('cinder', 'volumes')}], itertools.repeat({('cinder', 'volumes'), ('nova', 'vms')}))

        def apart(user: str) -> Any:
            opened.append(user)
            return mock.Mock()
        threads = self.useFixture(fixtures.MockPatch('threading.Thread')).mock
        all_users = pings.Pings(apart, lambda: next(places), mock.Mock())
        for _ in range(3):
            all_users.look()
        self.assertEqual((['cinder', 'nova'], 2), (opened, threads.call_count))

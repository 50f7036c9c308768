# SPDX-License-Identifier: Apache-2.0
"""The request for a lock: what the answers of its owner mean."""

import struct
from typing import Any
from unittest import mock

import ddt
import fixtures
import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.exclusion import handover
from specreds_cinder.tests.unit import fakes


def _result(code: int) -> bytes:
    return struct.pack('<BBIi', 1, 1, 4, code)


@ddt.ddt
class RequestTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        for name in ('_RELEASE_S', '_POLL_S'):
            self.useFixture(fixtures.MockPatchObject(handover, name, 0.01))
        self.cluster: Any = mock.Mock(
            timeout=5.0, **{'rados.get_instance_id.return_value': 7})
        self.latch: Any = mock.Mock()

    def request(self, answers: list[bytes], *versions: int) -> int | None:
        """Ask for a lock.

        :param answers: of the clients of the volume
        :param versions: of its header without an owner, at each look; the last one lasts
        """
        looks = [*versions]
        self.latch.unowned.side_effect = lambda *_arguments: (
            looks.pop(0) if len(looks) > 1 else looks[0])
        self.cluster.notify.return_value = answers
        return handover.request(self.cluster, self.latch, fakes.volume(), 'id')

    def test_lock_without_an_owner_is_not_asked_for(self) -> None:
        self.assertEqual(7, self.request([], 7))
        self.cluster.notify.assert_not_called()

    def test_owner_that_lets_go(self) -> None:
        self.assertEqual(9, self.request([b'', _result(0)], 0, 0, 9))

    @ddt.data(0, -95)
    def test_owner_that_keeps_its_lock(self, code: int) -> None:
        self.assertEqual(0, self.request([_result(code)], 0))

    def test_request_that_waits_for_its_turn_is_sent_if_the_caller_insists(self) -> None:
        self.latch.unowned.side_effect = [0, 9]
        self.cluster.notify.side_effect = [None, None, [_result(0)]]
        self.assertEqual(9, handover.request(self.cluster, self.latch, fakes.volume(), 'id',
                                             insist=True))
        self.latch.unowned.side_effect = [0, 0]
        self.cluster.notify.side_effect = [None]
        self.assertIsNone(handover.request(self.cluster, self.latch, fakes.volume()))

    def test_request_that_is_never_sent_is_an_error(self) -> None:
        self.cluster.timeout = 0.0
        self.latch.unowned.return_value = 0
        self.cluster.notify.return_value = None
        self.assertRaises(errors.ClusterTimeout, handover.request, self.cluster, self.latch,
                          fakes.volume(), 'id', insist=True)

    @ddt.data([], [b''])
    def test_owner_that_is_silent(self, answers: list[bytes]) -> None:
        self.assertIsNone(self.request(answers, 0))

    def test_owner_that_is_not_heard_because_another_client_hangs(self) -> None:
        self.assertEqual(9, self.request([], 0, 9))

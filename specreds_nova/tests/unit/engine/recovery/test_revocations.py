# SPDX-License-Identifier: Apache-2.0
"""Recoveries that race share the look for what others have changed."""

from unittest import mock

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.tests.unit.engine.recovery import base


class RevocationsTest(base.RecoveryTest):

    def setUp(self) -> None:
        super().setUp()
        self.recoveries = [self.taken_over(
            self.make_recovery(name, state=model.RACING), 'e1') for name in 'abc']

    def concerned(self) -> list[bool]:
        """Return which of the recoveries others have changed."""
        return [self.context.revocations.concern(recovery) for recovery in self.recoveries]

    def test_all_recoveries_share_a_reading(self) -> None:
        with mock.patch.object(self.store, 'revoked', wraps=self.store.revoked) as read:
            self.assertEqual([False] * 3, self.concerned())
            self.store.request_abort(self.recoveries[0].id, 'user u1')
            self.taken_over(self.recoveries[1], 'e2')
            self.assertEqual([False] * 3, self.concerned())
            self.clock.time += 1.0
            self.assertEqual([True, True, False], self.concerned())
        self.assertEqual([mock.call('e1')] * 2, read.mock_calls)

    def test_reading_that_fails_is_repeated_at_once(self) -> None:
        with mock.patch.object(self.store, 'revoked', side_effect=exception.Unreachable('no')):
            self.assertRaises(exception.Unreachable, self.concerned)
        self.store.request_abort(self.recoveries[0].id, 'user u1')
        self.assertEqual([True, False, False], self.concerned())

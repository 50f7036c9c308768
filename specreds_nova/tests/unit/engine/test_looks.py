# SPDX-License-Identifier: Apache-2.0
"""Recoveries that an engine reserves for itself while it looks for jobs."""

from typing import Any
from unittest import mock

from specreds_nova.engine import conductor as conductors
from specreds_nova.engine import fibers
from specreds_nova.engine import jobs
from specreds_nova.tests.unit.engine import etcd as etcds
from specreds_nova.tests.unit.engine.recovery import base


class LookTest(base.RecoveryTest):
    """The conductor reads the board while the dispatcher reserves a slot."""

    def test_recovery_reserved_during_a_look_does_not_wait(self) -> None:
        client: Any = etcds.Etcd()
        board = jobs.Board(client, 'e1', 4)
        conductor = conductors.Conductor(
            self.context, board, fibers.Fibers(4), 'e1', 10, 4.0, 0.02, mock.Mock())
        recovery = self.make_recovery('a', epoch=1, engine='e1')
        unclaimed = board.unclaimed

        def reserve_first(*arguments: Any) -> list[jobs.Posted]:
            self.assertTrue(conductor.reserve(recovery))
            board.post(recovery, ours=True)
            return unclaimed(*arguments)
        with mock.patch.object(board, 'unclaimed', reserve_first), \
                mock.patch.object(conductor._order, 'begin', return_value=[]) as begin:
            conductor._take()
        self.assertEqual([], begin.call_args.args[0])
        # No job is a reason to look again.
        conductor.release(recovery.id)
        self.assertFalse(conductor._wake.is_set())

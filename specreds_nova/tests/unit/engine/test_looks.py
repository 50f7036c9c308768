# SPDX-License-Identifier: Apache-2.0
"""Recoveries that an engine reserves for itself while it looks for others."""

from collections.abc import Collection
from unittest import mock

from specreds_nova.engine import fibers
from specreds_nova.engine import model
from specreds_nova.engine.placing import conductor as conductors
from specreds_nova.tests.unit.engine.recovery import base


class LookTest(base.RecoveryTest):
    """The conductor looks while the dispatcher reserves a slot."""

    def test_recovery_reserved_during_a_look_does_not_wait(self) -> None:
        conductor = conductors.Conductor(
            self.context, fibers.Fibers(4), 'e1', 10, frozenset, mock.Mock())
        free, reserved = self.store.free, []

        def reserve_first(ended: Collection[str]) -> list[model.Recovery]:
            reserved.append(self.make_recovery('a', epoch=1, engine='e1'))
            self.assertTrue(conductor.reserve(reserved[0]))
            return free(ended)
        with mock.patch.object(self.store, 'free', reserve_first), \
                mock.patch.object(conductor._fibers, 'spawn') as spawn:
            conductor._take()
        spawn.assert_not_called()
        # It is no reason to look again.
        conductor.release(reserved[0].id)
        self.assertFalse(conductor._wake.is_set())

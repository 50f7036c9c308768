# SPDX-License-Identifier: Apache-2.0
"""Rows of a database that was restored from an old backup decide nothing by themselves."""

import contextlib
from typing import Any

import ddt

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import worker as workers
from specreds_nova.tests.unit.engine.recovery import base

# Calls after which a primary has lost something.
_HARMFUL = {'collapse', 'fence', 'promote', 'evacuate', 'force_down'}
_ROWS: dict[str, dict[str, Any]] = {
    model.QUEUED: {},
    model.RACING: {'destination': 'h2', 'superposition': 's1'},
}


@ddt.ddt
class RestoredTest(base.RecoveryTest):
    """The recovery was under way yesterday, and has ended since."""

    def setUp(self) -> None:
        super().setUp()
        # Yesterday's row has h1 as suspected; it has been well for long.
        self.suspect()
        self.clock.sleep(86400.0)
        self.suspects.suspected.return_value = False
        self.suspects.is_well.return_value = self.suspects.well_to_all.return_value = True
        self.volumes.state.return_value = None

    def harmful(self, row: str, server: model.Server | None) -> set[str]:
        """Go on with a row; return the harmful calls."""
        self.compute.server.return_value = server
        recovery = self.make_recovery(
            'a', suspected=self.clock.now() - 86400.0, created=self.clock.wall() - 86400.0)
        if row != model.QUEUED:
            recovery = self.store.change(recovery, state=row, **_ROWS[row])
        with contextlib.suppress(exception.Interrupted):
            workers.attempt(runs.Run(self.context, recovery))
        ended = self.store.history[recovery.id]
        self.assertEqual(model.ENDED, ended.state)
        self.assertIn(ended.outcome, (model.PRIMARY, model.ABORTED))
        return {call[0] for each in (self.volumes, self.backups, self.compute)
                for call in each.method_calls} & _HARMFUL

    @ddt.data(*_ROWS)
    def test_server_that_runs_on_its_host_keeps_it(self, row: str) -> None:
        self.assertEqual(set(), self.harmful(row, base.make_server('a')))

    @ddt.data(*_ROWS)
    def test_server_that_has_moved_since_stays_there(self, row: str) -> None:
        self.assertEqual(set(), self.harmful(row, base.make_server('a', host='h2')))

    @ddt.data(*_ROWS)
    def test_server_that_was_deleted_since_is_left_alone(self, row: str) -> None:
        self.assertEqual(set(), self.harmful(row, None))

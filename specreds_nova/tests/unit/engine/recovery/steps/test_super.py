# SPDX-License-Identifier: Apache-2.0
"""What a recovery does about a backup that an earlier one has promoted, and that is not merged."""

from typing import Any

import ddt

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.recovery.steps import super as super_step
from specreds_nova.tests.unit.engine.recovery import base


@ddt.ddt
class MergingTest(base.RecoveryTest):
    """A recovery has promoted a backup on h2, and now the host that Nova has it on fails."""

    def setUp(self) -> None:
        super().setUp()
        self.first = self.make_recovery(
            'a', state=model.COMMITTED, destination='h2', superposition='s1')
        self.store.change(self.first, state=model.ENDED, outcome=model.FAILED)

    def superpose(self, host: str, promoted_by: str | None, server: str = 'a') -> dict[str, Any]:
        """Take the step in a recovery of a host; return what the recovery has taken over.

        :param promoted_by: the recovery of the promoted backup, as Cinder says
        """
        self.volumes.superpose.side_effect = exception.Merging('s1 is not merged', promoted_by)
        self.compute.server.return_value = base.make_server(server, host=host)
        run = runs.Run(self.context, self.make_recovery(server, host=host))
        self.assertEqual((verdicts.MERGING, 's1 is not merged'), super_step.superpose(run))
        self.volumes.superpose.assert_called_once()
        return dict(runs.inherited(run.recovery))

    def test_backup_that_may_serve_elsewhere_is_taken_over(self) -> None:
        taken = self.superpose('h1', self.first.id)
        self.assertEqual(('h2', 's1', self.first.id),
                         (taken['backup_host'], taken['promoted'], taken['backup_id']))

    def test_backup_of_the_failed_host_is_not_taken_over(self) -> None:
        self.assertEqual({}, self.superpose('h2', self.first.id))

    @ddt.data(None, 'unknown')
    def test_backup_of_no_known_recovery_is_not_taken_over(self, recovery: str | None) -> None:
        self.assertEqual({}, self.superpose('h1', recovery))

    def test_backup_of_another_server_is_not_taken_over(self) -> None:
        self.assertEqual({}, self.superpose('h1', self.first.id, 'b'))

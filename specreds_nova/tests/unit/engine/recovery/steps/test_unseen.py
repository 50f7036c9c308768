# SPDX-License-Identifier: Apache-2.0
"""No backup is promoted while tenants may see its primary."""

from unittest import mock

from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict
from specreds_nova.engine.recovery.steps import decide
from specreds_nova.engine.recovery.steps import super as super_step
from specreds_nova.tests.unit.engine.recovery import base


class UnseenTest(base.RecoveryTest):
    """A recovery whose backup is ready, on a host that is silent."""

    def setUp(self) -> None:
        super().setUp()
        self.suspects.suspected.return_value = True
        self.suspects.is_well.return_value = False
        self.suspects.running.return_value = True
        self.suspect()
        self.run_ = runs.Run(self.context, self.make_recovery(state=model.RACING))

    def waited(self) -> float:
        """Return the seconds for which it waits."""
        began = self.run_.now
        self.verdict = decide.wait_unseen(self.run_)
        return self.run_.now - began

    def test_waits_for_the_lease_once(self) -> None:
        self.assertAlmostEqual(5.5, self.waited(), 3)
        self.assertIsNone(self.verdict)
        self.assertEqual(['unseen'], [step.name for step in self.run_.recovery.steps])
        self.assertEqual(0.0, self.waited())

    def test_host_without_a_sentinel_is_waited_for_as_long_as_for_an_evacuation(self) -> None:
        self.store.report('h1', 'sentinel', model.SILENT)
        self.assertAlmostEqual(self.context.options.evacuate_after, self.waited(), delta=1.0)
        [step] = self.run_.recovery.steps
        self.assertIn('tenants may see the server beside its backup', step.detail['why'])
        # What a later decision has to know stays in the record, without another wait.
        self.assertEqual(0.0, self.waited())

    def test_dead_host_without_a_sentinel_is_not_waited_for_longer(self) -> None:
        self.store.report('h1', 'sentinel', model.SILENT)
        with mock.patch.object(super_step, 'proof_of_death', return_value='it burns'):
            self.assertAlmostEqual(5.5, self.waited(), 3)

    def test_host_that_is_well_again_is_spared(self) -> None:
        self.suspects.is_well.side_effect = [False, False, True, True]
        self.waited()
        assert self.verdict is not None
        self.assertEqual(verdict.PRIMARY, self.verdict.kind)

    def test_host_that_says_that_the_server_does_not_run_is_not_waited_for(self) -> None:
        self.suspects.is_well.return_value = True
        self.suspects.running.return_value = False
        self.assertEqual(0.0, self.waited())

    def test_trusted_host_is_not_waited_for(self) -> None:
        self.suspect(state=model.TRUSTED)
        self.assertEqual(0.0, self.waited())

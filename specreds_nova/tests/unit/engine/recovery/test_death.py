# SPDX-License-Identifier: Apache-2.0
"""A primary is dead as a fact if its host has booted, or somebody has said so; never if silent."""

from typing import Any

from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery.steps import super as super_step
from specreds_nova.engine.suspicion import evidence
from specreds_nova.tests.unit.engine.recovery import base

_BOOTED = evidence.of(evidence.BOOT, 'h1', 0.0).told()
_DRILL = evidence.of(evidence.DRILL, 'u1', 0.0).told()


class DeathTest(base.RecoveryTest):
    """Server a of host h1, which is suspected, and which no engine hears."""

    def setUp(self) -> None:
        super().setUp()
        self.suspect()
        self.heard = self.clock.now() - 60.0
        self.suspects.last_heard.side_effect = lambda _host, _since: self.heard
        self.compute.server.return_value = base.make_server('a')
        self.volumes.superpose.return_value = 's1'

    def say(self, dead_at: float | None) -> None:
        """Let somebody say at a time that the host is dead."""
        self.store.change_host(self.store.host('h1'), dead_at=dead_at)

    def shut_out(self, **values: Any) -> str | None:
        """Take the step; return the host that Cinder shuts out first, with the reason."""
        run = runs.Run(self.context, self.make_recovery(**values))
        super_step.superpose(run)
        _server, _recovery, reason, host = self.volumes.superpose.call_args.args
        if host is not None:
            self.assertEqual(super_step.proof_of_death(run), reason)
        return None if host is None else str(host)

    def test_silence_is_no_fact(self) -> None:
        self.assertIsNone(self.shut_out())

    def test_host_that_somebody_knows_to_be_dead_is_shut_out_first(self) -> None:
        self.say(self.clock.wall() - 1.0)
        self.assertEqual('h1', self.shut_out())

    def test_word_is_void_once_an_engine_has_heard_the_host(self) -> None:
        self.say(self.clock.wall() - 61.0)
        self.assertIsNone(self.shut_out())

    def test_word_is_void_while_the_host_is_well(self) -> None:
        self.say(self.clock.wall() - 1.0)
        self.suspects.is_well.return_value = True
        self.suspects.suspected.return_value = False
        self.assertIsNone(super_step.proof_of_death(runs.Run(self.context, self.make_recovery())))

    def test_engine_that_has_not_voted_since_may_have_heard_the_host(self) -> None:
        self.say(self.clock.wall() - 1.0)
        self.suspects.last_heard.side_effect = lambda _host, _since: None
        self.assertIsNone(self.shut_out())

    def test_host_that_has_booted_without_the_server_is_shut_out_first(self) -> None:
        self.suspects.is_well.return_value = True
        for runs_there, host in ((False, 'h1'), (True, None), (None, None)):
            self.suspects.running.return_value = runs_there
            run = runs.Run(self.context, self.make_recovery(why=(_BOOTED,)))
            self.assertEqual(host is not None, super_step.proof_of_death(run) is not None)
            self.store.change(run.recovery, state=model.ENDED, outcome=model.FAILED)

    def test_server_that_nova_has_elsewhere_is_not_shut_out_first(self) -> None:
        self.say(self.clock.wall() - 1.0)
        self.compute.server.return_value = base.make_server('a', host='h2')
        self.assertIsNone(self.shut_out())

    def test_primary_of_a_drill_is_not_shut_out(self) -> None:
        self.say(self.clock.wall() - 1.0)
        self.store.change_host(self.store.host('h1'), state=model.TRUSTED)
        self.suspects.suspected.return_value = False
        self.assertIsNone(self.shut_out(why=(_DRILL,)))

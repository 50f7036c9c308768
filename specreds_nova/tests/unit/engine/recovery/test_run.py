# SPDX-License-Identifier: Apache-2.0
"""Whether a host that is back speaks for the primary: only with the server's domain."""

from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict
from specreds_nova.tests.unit.engine.recovery import base


class BackTest(base.RecoveryTest):
    """A host that is heard again while its server is being recovered."""

    def setUp(self) -> None:
        super().setUp()
        self.suspects.suspected.return_value = False
        self.suspects.is_well.return_value = True
        self.server: model.Server = base.make_server('a')
        self.compute.server.side_effect = lambda name: self.server
        self.run_ = runs.Run(self.context, self.make_recovery(state=model.RACING))

    def spared(self) -> str | None:
        """Return which verdict there is right before the decision, if any."""
        found = self.run_.spared()
        return None if found is None else found.kind

    def test_server_runs(self) -> None:
        found = self.run_.over()
        assert found is not None
        self.assertEqual(verdict.PRIMARY, found.kind)
        self.assertEqual(verdict.PRIMARY, self.spared())

    def test_server_does_not_run(self) -> None:
        self.suspects.running.return_value = False
        self.assertIsNone(self.run_.over())
        self.assertIsNone(self.spared())

    def test_what_runs_is_waited_for(self) -> None:
        self.suspects.running.return_value = None
        self.assertIsNone(self.run_.over())
        self.suspects.running.side_effect = [None, None, True]
        self.assertEqual(verdict.PRIMARY, self.spared())

    def test_what_runs_is_never_said(self) -> None:
        self.suspects.running.return_value = None
        self.assertIsNone(self.spared())

    def test_server_that_nova_has_stopped(self) -> None:
        self.suspects.running.return_value = False
        self.server = base.make_server('a', status='SHUTOFF')
        self.compute.stopped_by_itself.return_value = True
        self.assertIsNone(self.spared())

    def test_server_that_somebody_has_stopped(self) -> None:
        self.suspects.running.return_value = False
        self.server = base.make_server('a', status='SHUTOFF')
        self.compute.stopped_by_itself.return_value = False
        self.assertEqual(verdict.PRIMARY, self.spared())

    def test_server_that_is_being_rebooted(self) -> None:
        self.suspects.running.side_effect = [False, False, True]
        self.server = base.make_server('a', task='reboot_started_hard')
        self.assertEqual(verdict.PRIMARY, self.spared())

    def test_server_that_is_elsewhere(self) -> None:
        self.suspects.running.return_value = False
        self.server = base.make_server('a', host='h9')
        self.assertEqual(verdict.ABORTED, self.spared())

# SPDX-License-Identifier: Apache-2.0
"""Destinations of servers whose group has other members that are being recovered."""

from collections.abc import Collection, Mapping
from typing import Any

import ddt

from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import timeline
from specreds_nova.engine.recovery import verdict
from specreds_nova.engine.recovery.steps import destination
from specreds_nova.engine.recovery.steps import start
from specreds_nova.tests.unit.engine.recovery import base

_STARTED = verdict.StepVerdict(verdict.STARTED)


@ddt.ddt
class GroupTest(base.RecoveryTest):
    """Two members of a group, a and b, on the host that is suspected."""

    def setUp(self) -> None:
        super().setUp()
        self.suspect()
        self.suspects.suspected.side_effect = lambda host: host == 'h1'
        self.policy = 'affinity'
        self.compute.server.side_effect = self.server
        self.compute.candidates.side_effect = self.candidates
        self.compute.suits_group.side_effect = lambda server, host, placed: (
            host not in placed.values())

    def server(self, name: str) -> model.Server:
        """Return a member of the group."""
        return base.make_server(name, group={
            'id': 'g', 'policy': self.policy, 'members': ['a', 'b']})

    def candidates(self, server: model.Server, placed: Mapping[str, str],
                   avoid: Collection[str] = ()) -> list[str]:
        """Return what Placement and the policy have."""
        del server, avoid
        if self.policy == 'affinity':
            return list(placed.values()) or ['h2', 'h3']
        return [host for host in ('h2', 'h3') if host not in placed.values()]

    def run_of(self, name: str, **values: Any) -> runs.Run:
        """Return the run of a member's recovery."""
        return runs.Run(self.context, self.make_recovery(name, **values))

    def note(self, run: runs.Run, host: str) -> None:
        """Choose a destination and record it."""
        with run.step(timeline.DESTINATION) as detail:
            detail['host'] = host
        run.change(destination=host, state=model.RACING, superposition='sp')

    @ddt.data(('affinity', 'h2'), ('anti-affinity', 'h3'))
    @ddt.unpack
    def test_members_heed_each_other(self, policy: str, second: str) -> None:
        self.policy = policy
        self.assertEqual('h2', destination.choose(self.run_of('a')).why)
        self.assertEqual(second, destination.choose(self.run_of('b')).why)

    @ddt.data(('affinity', 'h3', 'h2'), ('anti-affinity', 'h2', 'h3'))
    @ddt.unpack
    def test_engines_that_choose_at_once_agree(self, policy: str, chosen: str, settled: str
                                               ) -> None:
        self.policy = policy
        self.note(self.run_of('a'), 'h2')
        run = self.run_of('b')
        self.note(run, chosen)
        self.assertEqual(_STARTED, start.start(run, _STARTED, _STARTED))
        self.assertEqual(settled, self.backups.start.call_args.args[0])

    def test_younger_recovery_stays_if_the_older_one_gives_way(self) -> None:
        self.policy = 'anti-affinity'
        older, run = self.run_of('a'), self.run_of('b')
        self.note(older, 'h2')
        self.note(run, 'h2')
        sleep = self.clock.sleep

        def giving_way(seconds: float) -> None:
            sleep(seconds)
            older.change(destination='h3')
        self.clock.sleep = giving_way  # type: ignore[method-assign]
        self.assertEqual(_STARTED, start.start(run, _STARTED, _STARTED))
        self.assertEqual('h2', self.backups.start.call_args.args[0])

    def test_backup_that_was_begun_stays(self) -> None:
        # Another one would have the same disks open.
        self.policy = 'anti-affinity'
        self.note(self.run_of('a'), 'h2')
        run = self.run_of('b')
        self.note(run, 'h2')
        with run.step(timeline.START):
            pass
        self.assertTrue(destination.settle(run))

# SPDX-License-Identifier: Apache-2.0
"""Destinations of servers, and what is recorded while they are chosen."""

from collections.abc import Collection, Mapping
from typing import Any
from unittest import mock

import ddt

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict
from specreds_nova.engine.recovery.steps import destination
from specreds_nova.engine.recovery.steps import start
from specreds_nova.engine.recovery.steps import super as super_step
from specreds_nova.engine.suspicion import servers
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
            'id': 'g', 'policy': self.policy, 'members': ['a', 'b', 'c']})

    def candidates(self, server: model.Server, placed: Mapping[str, str],
                   avoid: Collection[str] = ()) -> list[str]:
        """Return what Placement and the policy have."""
        del server, avoid
        if self.policy == 'affinity':
            return list(placed.values()) or ['h2', 'h3']
        return [host for host in ('h2', 'h3') if host not in placed.values()]

    def test_server_whose_deletion_was_requested_gets_none(self) -> None:
        self.compute.server.side_effect = lambda name: base.make_server(name, task='deleting')
        chosen = destination.destination(self.run_of('a'))
        self.assertEqual(verdict.EVACUATE, chosen.kind)
        self.compute.candidates.assert_not_called()

    def run_of(self, name: str, **values: Any) -> runs.Run:
        """Return the run of a member's recovery."""
        return runs.Run(self.context, self.make_recovery(name, **values))

    def note(self, run: runs.Run, host: str) -> None:
        """Choose a destination and record it."""
        with run.step(runs.DESTINATION) as detail:
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

    def test_choice_is_recorded_before_those_that_others_record_meanwhile_are_read(self) -> None:
        self.policy = 'anti-affinity'
        run = self.run_of('a')
        run.plan(destination='h2', state=model.RACING)
        recorded = []
        backups = self.store.backups

        def read(*arguments: Any) -> Any:
            recorded.append(self.store.history[run.id].destination)
            return backups(*arguments)
        with run.step(runs.DESTINATION, reads=True) as detail:
            detail['host'] = 'h2'
        with mock.patch.object(self.store, 'backups', read):
            self.assertTrue(destination.settle(run))
        self.assertEqual({'h2'}, set(recorded))

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

    def test_older_recovery_on_another_host_is_not_waited_for(self) -> None:
        self.policy = 'anti-affinity'
        for name, host in (('a', 'h3'), ('b', 'h2'), ('c', 'h2')):
            self.note(run := self.run_of(name), host)
            if name == 'b':
                older = run
        began = self.clock.now()
        self.assertFalse(destination.settle(older))
        self.assertEqual(began, self.clock.now())

    def test_backup_that_was_begun_stays(self) -> None:
        # Another one would have the same disks open.
        self.policy = 'anti-affinity'
        self.note(self.run_of('a'), 'h2')
        run = self.run_of('b')
        self.note(run, 'h2')
        with run.step(runs.START):
            pass
        self.assertTrue(destination.settle(run))


class WaitTest(base.RecoveryTest):
    """A choice that has to wait, and what is recorded meanwhile."""

    def setUp(self) -> None:
        super().setUp()
        self.suspect()
        self.compute.server.side_effect = lambda name: base.make_server(
            name, group={'id': 'g', 'policy': 'soft-affinity', 'members': ['a', 'b']})
        self.compute.candidates.return_value = ['h2']
        self.recovery = self.taken_over(self.make_recovery('a'), 'e1')
        self.run_ = runs.Run(self.context, self.recovery)

    def steps(self) -> list[tuple[str, bool]]:
        """Return the recorded steps, and whether each has ended."""
        return [(step.name, step.ended is not None)
                for step in self.store.history[self.recovery.id].steps]

    def seen_by(self, owner: Any, name: str) -> list[list[tuple[str, bool]]]:
        """Return the steps that are recorded at each call of a function."""
        seen: list[list[tuple[str, bool]]] = []
        function = getattr(owner, name)

        def see(*arguments: Any) -> Any:
            seen.append(self.steps())
            return function(*arguments)
        patch = mock.patch.object(owner, name, side_effect=see)
        patch.start()
        self.addCleanup(patch.stop)
        return seen

    def test_choice_without_a_wait_is_recorded_later(self) -> None:
        self.assertEqual('h2', destination.choose(self.run_).why)
        self.assertEqual([], self.steps())
        self.run_.flush()
        self.assertEqual([('destination', True)], self.steps())

    def test_wait_for_nova_is_recorded(self) -> None:
        self.compute.candidates.side_effect = [exception.Unreachable('no'), ['h2']]
        seen = self.seen_by(self.clock, 'sleep')
        self.assertEqual('h2', destination.choose(self.run_).why)
        self.assertEqual([[('destination', False)]], seen)

    def test_wait_for_a_host_is_recorded(self) -> None:
        self.context = self.make_context(servers.Limits(0, 1))
        self.make_recovery('c', state=model.RACING, destination='h2')
        self.run_ = runs.Run(self.context, self.recovery)
        seen = self.seen_by(self.clock, 'sleep')
        self.compute.candidates.side_effect = lambda *_: (
            ['h2', 'h3'] if len(seen) > 1 else ['h2'])
        self.assertEqual('h3', destination.choose(self.run_).why)
        self.assertEqual([[('destination', False)]] * 2, seen)

    def test_wait_for_the_turn_of_the_group_is_recorded(self) -> None:
        turns = self.context.group_turns
        with turns.of('g', 'another'):
            take = self.seen_by(turns._queues['g'][0], 'take')
            destination.choose(self.run_)
        self.assertEqual([[('destination', False)]], take)

    def test_choice_that_fails_is_recorded(self) -> None:
        self.compute.candidates.side_effect = ValueError('no')
        self.assertRaises(ValueError, destination.choose, self.run_)
        self.run_.flush()
        [step] = self.store.history[self.recovery.id].steps
        self.assertEqual({'error': 'no'}, step.detail)


class SuperpositionTest(base.RecoveryTest):
    """The superposition, which another engine needs if this one is killed."""

    def setUp(self) -> None:
        super().setUp()
        self.suspect()
        self.compute.server.side_effect = lambda name: base.make_server(name)
        self.volumes.superpose.return_value = 'sp'
        self.recovery = self.taken_over(self.make_recovery('a'), 'e1')
        self.run_ = runs.Run(self.context, self.recovery)

    def found(self) -> str | None:
        """Return the superposition that an engine finds which takes over."""
        return runs.Run(self.context, self.store.history[self.recovery.id]).superposition()

    def test_superposition_is_recorded_while_a_host_is_chosen(self) -> None:
        def candidates(*arguments: Any) -> list[str]:
            del arguments
            super_step.superpose(self.run_)
            self.assertEqual('sp', self.found())
            return ['h2']
        self.compute.candidates.side_effect = candidates
        self.assertEqual('h2', destination.destination(self.run_).why)

    def test_superposition_is_recorded_later_if_a_host_is_chosen(self) -> None:
        self.compute.candidates.return_value = ['h2']
        destination.destination(self.run_)
        with mock.patch.object(self.store, 'change', wraps=self.store.change) as change:
            super_step.superpose(self.run_)
            self.assertIsNone(self.found())
            with self.run_.step(runs.START):
                pass
        self.assertEqual(2, change.call_count)
        self.assertEqual(['destination', 'super', 'start'], [
            step.name for step in self.store.history[self.recovery.id].steps])

# SPDX-License-Identifier: Apache-2.0
"""No primary is fenced that Nova would not evacuate."""

import itertools
from typing import Any

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import fibers
from specreds_nova.engine import model
from specreds_nova.engine.recovery import left
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.recovery import worker as workers
from specreds_nova.engine.recovery.steps import fence
from specreds_nova.tests.unit.engine.recovery import base

_SHARES = 'Nova evacuates no server with mounted shares'
_DECIDED = verdicts.StepVerdict(verdicts.EVACUATE, 'it has shares mounted')


class FenceTest(base.RecoveryTest):
    """A server whose volumes cannot be superposed, on a host that is silent."""

    def setUp(self) -> None:
        super().setUp()
        self.suspect()
        self.recovery = self.make_recovery()
        self.compute.server.return_value = base.make_server('a')
        self.compute.stopped_by_itself.return_value = False
        self.compute.candidates.return_value = ['h2']
        self.volumes.superpose.side_effect = exception.Refused('no RBD')
        self.volumes.fence.return_value = 2

    def fence(self, *immovable: str | None) -> verdicts.StepVerdict:
        """Take the step.

        :param immovable: answers of the hosts, of which the last one is repeated
        """
        answers = list(immovable)

        def check(host: str, server_id: str) -> dict[str, Any]:
            del host, server_id
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            return {'eligible': False, 'reasons': ['shares'], 'immovable': answer}
        self.backups.check.side_effect = check
        return fence.fence(runs.Run(self.context, self.recovery), _DECIDED)

    def test_server_that_nova_would_evacuate_is_fenced(self) -> None:
        self.assertEqual(verdicts.PROMOTED, self.fence(None).kind)
        self.volumes.fence.assert_called_once()

    def test_server_that_nova_would_refuse_is_not_fenced(self) -> None:
        self.assertEqual(verdicts.failed(
            _SHARES, 'nothing but its host brings it back: start h1'), self.fence(_SHARES))
        self.volumes.fence.assert_not_called()
        self.assertEqual(model.SUSPECTED, self.store.host('h1').state)
        self.assertIsNone(runs.Run(self.context, self.recovery).standing())

    def test_server_in_error_whose_guest_runs_elsewhere_is_not_fenced(self) -> None:
        server = base.make_server('b', status='ERROR')
        self.recovery = self.make_recovery('b', why=(left.fact(server, ['it is ERROR'], 0.0),))
        self.compute.server.return_value = server
        self.suspects.healthy.return_value = frozenset({'h2', 'h3'})
        self.suspects.running.side_effect = lambda host, _server: host == 'h3'
        verdict = self.fence(None)
        self.assertEqual(verdicts.FAILED, verdict.kind)
        self.assertIn('it is ERROR, and its guest runs on h3; look there', verdict.why)
        self.volumes.fence.assert_not_called()

    def test_server_that_was_moved_is_asked_for_after_a_failed_evacuation(self) -> None:
        server = base.make_server('b', status='MIGRATING', task='migrating')
        self.recovery = self.make_recovery('b', why=(left.fact(server, ['it moves'], 0.0),))
        self.compute.server.return_value = base.make_server('b')
        self.compute.move.return_value = model.Move('h3', begun=True)
        self.suspects.is_well.side_effect = lambda host: host == 'h3'
        self.suspects.running.side_effect = lambda host, _server: None if host == 'h3' else False
        verdict = self.fence(None)
        self.assertEqual(verdicts.FAILED, verdict.kind)
        self.assertIn('it may run on h3', verdict.why)
        self.volumes.fence.assert_not_called()
        # Nova has ended the move by itself.
        self.compute.move.return_value = None
        self.assertEqual(verdicts.PROMOTED, self.fence(None).kind)

    def test_guest_that_has_begun_to_run_elsewhere_meanwhile_is_not_fenced(self) -> None:
        self.test_server_in_error_whose_guest_runs_elsewhere_is_not_fenced()
        self.suspects.running.side_effect = lambda _host, _server: False

        def room(_server: model.Server) -> tuple[str, ...]:
            self.suspects.running.side_effect = lambda host, _server: host == 'h3'
            return ('h2',)
        self.compute.candidates.side_effect = room
        self.recovery = self.make_recovery('c', why=self.recovery.why)
        self.assertEqual(verdicts.FAILED, self.fence(None).kind)
        self.volumes.fence.assert_not_called()

    def test_server_that_a_user_has_deleted_needs_no_other_host(self) -> None:
        self.compute.server.return_value = base.make_server('a', task='deleting')
        self.compute.immovable.return_value = _SHARES
        self.assertEqual(verdicts.PROMOTED, self.fence(_SHARES).kind)
        self.compute.candidates.assert_not_called()

    def test_server_is_fenced_once_its_shares_are_unmounted(self) -> None:
        self.assertEqual(verdicts.PROMOTED, self.fence(_SHARES, _SHARES, None).kind)
        self.volumes.fence.assert_called_once()

    def test_server_is_fenced_once_nova_can_attach_its_volumes_elsewhere(self) -> None:
        busy = {'v': model.Eligibility(('it is backing-up',), movable=False)}
        self.volumes.eligibility.side_effect = [busy, busy, {'v': model.Eligibility()}]
        self.assertEqual(verdicts.PROMOTED, self.fence(None).kind)
        self.assertEqual(3, self.volumes.eligibility.call_count)
        self.volumes.eligibility.side_effect = None
        self.volumes.eligibility.return_value = busy
        self.volumes.fence.reset_mock()
        self.recovery = self.make_recovery('b')
        verdict = self.fence(None)
        self.assertEqual(verdicts.FAILED, verdict.kind)
        self.assertIn('it is backing-up', verdict.why)
        self.volumes.fence.assert_not_called()

    def test_cinder_that_does_not_know_is_asked_to_fence(self) -> None:
        self.volumes.eligibility.side_effect = exception.Refused('no such request')
        self.assertEqual(verdicts.PROMOTED, self.fence(None).kind)

    def test_server_is_not_fenced_while_no_host_answers(self) -> None:
        self.backups.check.side_effect = exception.Unreachable('late')
        verdict = fence.fence(runs.Run(self.context, self.recovery), _DECIDED)
        self.assertEqual(verdicts.FAILED, verdict.kind)
        self.assertIn('late', verdict.why)
        self.volumes.fence.assert_not_called()

    def test_hosts_without_the_plug_in_do_not_keep_the_server_from_its_fence(self) -> None:
        self.backups.check.side_effect = backup_errors.ServerNotEligible(reason='no plug-in')
        self.assertEqual(verdicts.PROMOTED,
                         fence.fence(runs.Run(self.context, self.recovery), _DECIDED).kind)

    def test_decision_alone_has_the_first_rank(self) -> None:
        # Many servers may wait for hours until they can be evacuated.
        def check(host: str, server_id: str) -> dict[str, Any]:
            del host, server_id
            return {'eligible': True, 'reasons': [],
                    'immovable': _SHARES if self.clock.now() < later else None}

        def evacuate(server_id: str, host: str | None, force: bool) -> None:
            del host, force
            self.compute.server.return_value = base.make_server(server_id, host='h2')
        later = self.clock.now() + 30.0
        self.backups.check.side_effect = check
        self.compute.evacuate.side_effect = evacuate
        self.compute.server.side_effect = lambda _: self.compute.server.return_value
        ranks = self.note_ranks(
            check=self.backups.check, fence=self.volumes.fence, evacuate=self.compute.evacuate)
        self.assertEqual(model.EVACUATED,
                         workers.attempt(runs.Run(self.context, self.recovery)))
        self.assertEqual({'check': {fibers.SECOND}, 'fence': {fibers.FIRST},
                          'evacuate': {fibers.SECOND}}, ranks)

    def test_hosts_that_are_heard_are_asked_first(self) -> None:
        self.compute.candidates.return_value = ['h7', 'h3']
        self.fence(None)
        self.backups.check.assert_called_once_with('h3', 'a')


class UnprovenTest(base.RecoveryTest):
    """No race has proven whether the primary of a silent host has written."""

    def setUp(self) -> None:
        super().setUp()
        self.suspect()
        self.run_ = runs.Run(self.context, self.make_recovery())
        self.compute.server.return_value = base.make_server('a')
        self.compute.candidates.return_value = ['h2']
        self.backups.check.return_value = {'eligible': True, 'reasons': [], 'immovable': None}
        self.volumes.superpose.side_effect = (f'sp-{number}' for number in itertools.count(1))
        self.volumes.state.return_value = None
        self.volumes.collapse.return_value = 'promoted'
        for _ in range(2):
            with self.run_.step(runs.COLLAPSE) as detail:
                detail.update(superposition='sp', outcome='unproven')

    def fence(self) -> verdicts.StepVerdict:
        """Take the step."""
        return fence.fence(self.run_, verdicts.StepVerdict(verdicts.EVACUATE, 'unproven'))

    def test_primary_that_writes_is_not_evacuated(self) -> None:
        self.volumes.dirty.side_effect = [False, exception.Unreachable('late'), True]
        self.assertEqual(verdicts.StepVerdict(verdicts.PRIMARY, 'it has written'), self.fence())
        self.volumes.collapse.assert_not_called()
        self.volumes.fence.assert_not_called()

    def test_primary_whose_host_is_well_again_is_not_evacuated(self) -> None:
        def heard(_superposition: str) -> bool:
            self.suspects.is_well.return_value = True
            return False
        self.volumes.dirty.side_effect = heard
        self.assertEqual(verdicts.PRIMARY, self.fence().kind)
        self.volumes.collapse.assert_not_called()

    def test_primary_without_a_sign_of_life_is_decided_on_with_a_new_cut(self) -> None:
        began = self.clock.now()
        self.assertEqual(verdicts.PROMOTED, self.fence().kind)
        self.assertGreaterEqual(self.clock.now() - began, 30.0)
        self.volumes.collapse.assert_called_once_with('sp-2')

    def test_decision_is_repeated_until_it_proves_something(self) -> None:
        self.volumes.collapse.side_effect = ['unproven', 'unproven', 'dirty']
        self.assertEqual(verdicts.PRIMARY, self.fence().kind)
        self.assertEqual(['sp-2', 'sp-3', 'sp-4'],
                         [call.args[0] for call in self.volumes.collapse.call_args_list])
        self.volumes.fence.assert_not_called()


class PredecessorTest(base.RecoveryTest):
    """A recovery whose server has a backup that an earlier recovery has promoted."""

    def setUp(self) -> None:
        super().setUp()
        self.suspect()
        self.before = self.make_recovery(
            state=model.COMMITTED, destination='h3', superposition='s1')
        for host in ('h2', 'h3'):
            self.before = self.store.history[self.before.id]
            attempt = self.begin_step(self.before, runs.DESTINATION)
            self.end_step(self.before, runs.DESTINATION, attempt, {'host': host})
        self.store.change(self.before, state=model.ENDED, outcome=model.FAILED)
        self.recovery = self.make_recovery()
        self.compute.server.side_effect = lambda name: base.make_server(
            name, host='h3' if self.compute.evacuate.called else 'h1')
        self.compute.candidates.return_value = ['h2']
        self.backups.check.return_value = {'eligible': True, 'reasons': [], 'immovable': None}
        self.volumes.superpose.side_effect = exception.Merging('s1 is promoted', self.before.id)
        self.volumes.written.side_effect = exception.NotFound('s1')
        self.suspects.suspected.side_effect = lambda host: host == 'h1'

    def test_backup_that_serves_is_adopted_where_it_is(self) -> None:
        backup = runs.backup_id(self.store.history[self.before.id])
        self.assertNotEqual(self.before.id, backup)
        run = runs.Run(self.context, self.recovery)
        self.assertEqual(model.RECOVERED, workers.attempt(run))
        self.compute.evacuate.assert_called_once_with('a', 'h3', False)
        self.backups.promote.assert_called_with('h3', backup)
        self.backups.release.assert_called_with('h3', backup)
        self.backups.start.assert_not_called()
        self.backups.abort.assert_not_called()
        self.assertEqual(('h3', 's1'), (run.recovery.destination, run.recovery.superposition))

    def test_engine_that_takes_over_adopts_it_as_well(self) -> None:
        self.compute.evacuate.side_effect = exception.Interrupted
        self.assertRaises(exception.Interrupted, workers.attempt,
                          runs.Run(self.context, self.recovery))
        self.compute.reset_mock(side_effect=False)
        self.compute.evacuate.side_effect = None
        taken_over = self.taken_over(self.recovery, 'e2')
        self.assertEqual(model.RECOVERED,
                         workers.attempt(runs.Run(self.context, taken_over)))
        self.compute.evacuate.assert_called_once_with('a', 'h3', False)

    def test_server_whose_backup_was_lost_is_evacuated_to_any_host(self) -> None:
        self.backups.promote.side_effect = backup_errors.BackupLost('gone')
        self.assertEqual(model.EVACUATED,
                         workers.attempt(runs.Run(self.context, self.recovery)))
        self.compute.evacuate.assert_called_once_with('a', 'h2', False)


class MergingTest(base.RecoveryTest):
    """A server of a silent host whose disks have to be merged; no backup is known elsewhere."""

    def setUp(self) -> None:
        super().setUp()
        self.suspect()
        self.context = self.make_context(adopt_timeout=100.0)
        self.compute.server.return_value = base.make_server('a')
        self.compute.candidates.return_value = ['h2']
        self.backups.check.return_value = {'eligible': True, 'reasons': [], 'immovable': None}
        self.merging = itertools.count()
        self.volumes.superpose.side_effect = self.superpose
        self.volumes.state.return_value = None
        self.volumes.collapse.return_value = 'promoted'
        self.merged_after = 4

    def superpose(self, *_arguments: Any) -> str:
        """Superpose the volumes, once they are merged."""
        if next(self.merging) < self.merged_after:
            raise exception.Merging('s1 is merging')
        return 's2'

    def fence(self) -> verdicts.StepVerdict:
        """Take the step."""
        return fence.fence(runs.Run(self.context, self.make_recovery()),
                           verdicts.StepVerdict(verdicts.MERGING, 's1 is merging'))

    def test_server_is_decided_on_after_the_merge(self) -> None:
        self.assertEqual(verdicts.PROMOTED, self.fence().kind)
        self.volumes.collapse.assert_called_once_with('s2')

    def test_primary_that_has_written_after_the_merge_lives(self) -> None:
        self.volumes.collapse.return_value = 'dirty'
        self.assertEqual(verdicts.PRIMARY, self.fence().kind)

    def test_host_that_is_well_again_keeps_its_server(self) -> None:
        self.merged_after = 1000
        began = self.clock.now()
        self.suspects.is_well.side_effect = lambda _host: self.clock.now() > began + 50.0
        self.assertEqual(verdicts.PRIMARY, self.fence().kind)
        self.volumes.collapse.assert_not_called()

    def test_server_that_is_not_merged_in_time_is_left_alone(self) -> None:
        self.merged_after = 1000
        self.assertEqual(verdicts.failed('s1 is merging', verdicts.AGAIN_LATER), self.fence())
        self.compute.evacuate.assert_not_called()
        self.volumes.fence.assert_not_called()
        self.assertEqual(model.SUSPECTED, self.store.host('h1').state)

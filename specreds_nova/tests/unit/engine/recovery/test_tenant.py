# SPDX-License-Identifier: Apache-2.0
"""Requests of users between the suspicion and the decision."""

from typing import Any

import ddt

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import tenant
from specreds_nova.engine.recovery import verdict
from specreds_nova.engine.recovery.steps import decide
from specreds_nova.tests.unit.engine.recovery import base

_SUPERPOSED = {'superposition': 'sp', 'volumes': ['v'], 'macs': []}
_MAC = '02:00:00:00:00:01'


@ddt.ddt
class TenantTest(base.RecoveryTest):
    """A recovery whose backup is ready."""

    def setUp(self) -> None:
        super().setUp()
        self.suspect()
        recovery = self.make_recovery(state=model.RACING, destination='h2', superposition='sp')
        self.run_ = runs.Run(self.context, recovery)
        self.superpose(_SUPERPOSED)
        self.shows()
        self.volumes.collapse.return_value = 'promoted'
        self.volumes.state.return_value = 'superposed'
        self.backups.harden.return_value = {}

    def superpose(self, detail: dict[str, Any]) -> None:
        """Record a superposition."""
        recovery = self.run_.recovery
        attempt = self.begin_step(recovery, runs.SUPER)
        self.end_step(recovery, runs.SUPER, attempt, detail)
        self.run_ = runs.Run(self.context, self.store.history[recovery.id])

    def shows(self, **values: Any) -> None:
        """Set the server as Nova shows it."""
        self.compute.server.side_effect = lambda name: base.make_server(name, **values)

    def verdict(self) -> verdict.StepVerdict | None:
        """Return whether there is anything against the promotion."""
        self.run_.fresh()
        return tenant.verdict(self.run_)

    def test_nothing_was_asked(self) -> None:
        self.assertIsNone(self.verdict())
        self.compute.stopped_by_itself.assert_not_called()

    @ddt.data({'status': 'SHUTOFF'}, {'task': 'powering-off'}, {'task': 'pausing'},
              {'task': 'resize_prep'}, {'task': 'rebuilding'}, {'task': 'rescuing'},
              {'task': 'shelving'},
              {'status': 'PAUSED'}, {'status': 'SUSPENDED'}, {'status': 'RESCUE'},
              {'status': 'VERIFY_RESIZE'}, {'host': 'h9'})
    def test_what_a_user_asks_for_ends_the_recovery(self, values: dict[str, Any]) -> None:
        self.compute.stopped_by_itself.return_value = False
        self.shows(**values)
        decision = self.verdict()
        assert decision is not None
        self.assertEqual(verdict.ABORTED, decision.kind)
        self.assertNotEqual('', decision.why)

    @ddt.data({'status': 'SHUTOFF'}, {'task': 'powering-off'}, {'task': 'rebooting'},
              {'task': 'reboot_started_hard'}, {'task': 'image_snapshot'}, {'status': 'ERROR'},
              {'task': 'updating_password', 'status': 'PASSWORD'}, {'locked': True},
              {'name': 'other'}, {'metadata': {'specreds:protect': 'false'}})
    def test_what_no_user_asks_for_does_not(self, values: dict[str, Any]) -> None:
        self.compute.stopped_by_itself.return_value = True
        self.shows(**values)
        self.assertIsNone(self.verdict())

    def test_server_whose_deletion_was_requested_needs_no_backup(self) -> None:
        self.shows(task='deleting', volumes=())
        self.assertEqual((verdict.EVACUATE, tenant.DELETED), self.verdict())
        self.volumes.state.side_effect = ['superposed', None]
        decision = decide.decide(self.run_, verdict.StepVerdict(verdict.READY))
        self.assertEqual(verdict.EVACUATE, decision.kind)
        self.volumes.drop.assert_called_with('sp')

    @ddt.data('ACTIVE', 'SHUTOFF', 'ERROR', 'PAUSED', 'SUSPENDED', 'RESCUE', 'SHELVED')
    def test_deletion_does_not_keep_the_primary_from_its_fence(self, status: str) -> None:
        self.shows(task='deleting', status=status)
        self.assertIsNone(tenant.objection(self.run_))
        self.suspects.is_well.return_value = True
        self.assertEqual((verdict.PRIMARY, 'h1 is well'), tenant.objection(self.run_))

    def test_deleted_server(self) -> None:
        self.compute.server.side_effect = lambda name: None
        decision = self.verdict()
        assert decision is not None
        self.assertEqual(verdict.ABORTED, decision.kind)

    @ddt.data((('v', 'w'), 'attached: w'), ((), 'detached: v'))
    @ddt.unpack
    def test_other_volumes_need_another_backup(self, volumes: tuple[str, ...], words: str) -> None:
        self.shows(volumes=volumes)
        decision = self.verdict()
        assert decision is not None
        self.assertEqual(verdict.AGAIN, decision.kind)
        self.assertIn(words, decision.why)

    @ddt.data(([], (_MAC,), f'attached: {_MAC}'), ([_MAC], (), f'detached: {_MAC}'))
    @ddt.unpack
    def test_other_ports_need_another_backup(self, before: list[str], macs: tuple[str, ...],
                                             words: str) -> None:
        self.superpose(_SUPERPOSED | {'macs': before})
        self.shows(macs=macs)
        decision = self.verdict()
        assert decision is not None
        self.assertEqual(verdict.AGAIN, decision.kind)
        self.assertIn(words, decision.why)

    def test_ports_that_an_older_engine_has_not_recorded_are_not_compared(self) -> None:
        self.superpose({'superposition': 'sp', 'volumes': ['v']})
        self.shows(macs=(_MAC,))
        self.assertIsNone(self.verdict())

    def test_nova_that_does_not_answer_does_not_prevent_the_recovery(self) -> None:
        self.compute.server.side_effect = exception.Unreachable('no')
        began = self.clock.now()
        self.assertIsNone(self.verdict())
        self.assertLess(self.clock.now() - began, 20.0)

    def test_stopped_server_is_not_promoted(self) -> None:
        self.compute.stopped_by_itself.return_value = False
        self.shows(task='powering-off')
        self.volumes.state.side_effect = ['superposed', None]
        decision = decide.decide(self.run_, verdict.StepVerdict(verdict.READY))
        self.assertEqual(verdict.ABORTED, decision.kind)
        self.assertIn('user', decision.why)
        self.volumes.collapse.assert_not_called()
        self.volumes.drop.assert_called_with('sp')

    def test_server_is_read_beside_the_hardening(self) -> None:
        calls: list[str] = []
        # The lease on the network is over.
        self.context.options.sentinel_network_lease = 0.0

        def noting(call: str, answer: Any) -> Any:
            def called(*args: Any) -> Any:
                calls.append(call)
                return answer
            return called
        self.compute.server.side_effect = noting('server', base.make_server('a'))
        self.backups.harden.side_effect = noting('harden', {})
        self.volumes.collapse.side_effect = noting('collapse', 'promoted')
        decision = decide.decide(self.run_, verdict.StepVerdict(verdict.READY))
        self.assertEqual(verdict.PROMOTED, decision.kind)
        self.assertEqual(['server', 'harden', 'collapse'], calls)

    def test_second_opinion_is_read_again_after_the_wait_for_the_lease(self) -> None:
        self.suspects.suspected.side_effect = lambda host: host == 'h1'
        self.backups.harden.return_value = {'primary_asked': True, 'primary_runs': None}
        self.backups.status.return_value = {'primary_asked': True, 'primary_runs': True}
        self.volumes.state.side_effect = ['superposed', None]
        decision = decide.decide(self.run_, verdict.StepVerdict(verdict.READY))
        self.assertEqual((verdict.PRIMARY, 'the sentinel of h1 reports that it runs'), decision)
        self.assertIn('unseen', [step.name for step in self.run_.recovery.steps])
        self.volumes.collapse.assert_not_called()

    def test_host_that_has_no_second_opinion_is_promoted(self) -> None:
        self.suspects.suspected.side_effect = lambda host: host == 'h1'
        self.backups.harden.return_value = {'primary_asked': True, 'primary_runs': None}
        self.backups.status.side_effect = exception.Unreachable('no answer')
        decision = decide.decide(self.run_, verdict.StepVerdict(verdict.READY))
        self.assertEqual(verdict.PROMOTED, decision.kind)
        self.backups.status.assert_called_once()

    def test_backup_is_not_read_again_where_no_sentinel_is_asked(self) -> None:
        self.suspects.suspected.side_effect = lambda host: host == 'h1'
        self.backups.harden.return_value = {'primary_asked': False, 'primary_runs': None}
        decision = decide.decide(self.run_, verdict.StepVerdict(verdict.READY))
        self.assertEqual(verdict.PROMOTED, decision.kind)
        self.backups.status.assert_not_called()

    def test_answer_that_has_grown_old_is_asked_for_again(self) -> None:
        def harden(*args: Any) -> dict[str, Any]:
            self.clock.sleep(5.0)
            self.shows(status='PAUSED')
            return {}
        self.backups.harden.side_effect = harden
        self.volumes.state.side_effect = ['superposed', None]
        decision = decide.decide(self.run_, verdict.StepVerdict(verdict.READY))
        self.assertEqual(verdict.ABORTED, decision.kind)

    def test_host_that_returns_while_nova_does_not_answer_spares_its_server(self) -> None:
        def no_answer(server: str) -> None:
            del server
            self.clock.sleep(2.0)
            self.suspects.is_well.return_value = True
            raise exception.Unreachable('no')
        self.compute.server.side_effect = no_answer
        self.context.options.sentinel_network_lease = 0.0
        self.volumes.state.side_effect = ['superposed', None]
        decision = decide.decide(self.run_, verdict.StepVerdict(verdict.READY))
        self.assertEqual((verdict.PRIMARY, 'h1 is well'), decision)
        self.volumes.collapse.assert_not_called()

    def test_error_while_reading_is_no_answer(self) -> None:
        self.compute.server.side_effect = [KeyError('host'), base.make_server('a')]
        reading = tenant.Reading(self.run_)
        self.assertRaises(KeyError, reading.begin)
        self.assertIsNone(reading.verdict())

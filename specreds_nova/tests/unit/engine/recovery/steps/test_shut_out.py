# SPDX-License-Identifier: Apache-2.0
"""A primary whose volumes cannot be superposed is shut out of them."""

import dataclasses
from typing import Any

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.recovery.steps import fence
from specreds_nova.engine.recovery.steps import super as super_step
from specreds_nova.tests.unit.engine.recovery import base

WHY = 'it is encrypted'


class ShutOutTest(base.RecoveryTest):

    def setUp(self) -> None:
        super().setUp()
        self.suspect()
        self.recovery = self.make_recovery()
        self.compute.server.return_value = base.make_server('a')
        self.compute.stopped_by_itself.return_value = False
        self.volumes.fence.return_value = 2

    def run_anew(self, **options: Any) -> runs.Run:
        """Return the work of an engine that takes the recovery over."""
        context = self.make_context(**options) if options else self.context
        return runs.Run(context, self.store.history[self.recovery.id])

    def shut_out(self, run: runs.Run | None = None) -> verdicts.StepVerdict:
        """Take the step."""
        run = run or self.run_anew()
        verdict = fence.shut_out(run, WHY)
        run.flush()
        return verdict

    def outcomes(self) -> list[Any]:
        """Return the outcomes of all requests."""
        return [step.detail.get('outcome') for step in self.store.history[self.recovery.id].steps
                if step.name == runs.SHUT_OUT]

    def test_clients_are_noted_when_the_superposition_is_refused(self) -> None:
        self.volumes.superpose.side_effect = exception.Refused(WHY)
        self.volumes.observe.side_effect = exception.Unreachable('away')
        self.assertEqual(verdicts.StepVerdict(verdicts.EVACUATE, WHY),
                         super_step.superpose(self.run_anew()))
        self.volumes.observe.assert_called_once_with(
            self.compute.server.return_value, 'h1', self.recovery.id)

    def test_fenced_server_can_be_evacuated(self) -> None:
        verdict = self.shut_out()
        self.assertEqual(verdicts.PROMOTED, verdict.kind)
        self.assertIn(WHY, verdict.why)
        self.volumes.fence.assert_called_once_with(
            self.compute.server.return_value, 'h1', self.recovery.id)
        self.assertEqual(model.COMMITTED, self.store.history[self.recovery.id].state)
        self.assertEqual(model.FENCED, self.store.host('h1').state)

    def test_server_without_volumes_is_shut_out_of_its_disks(self) -> None:
        self.compute.server.return_value = base.make_server('a', volumes=(), disks=('disk',))
        self.volumes.superpose.side_effect = exception.Refused(WHY)
        super_step.superpose(self.run_anew())
        self.volumes.observe.assert_called_once()
        self.assertEqual(verdicts.PROMOTED, self.shut_out().kind)
        self.volumes.fence.assert_called_once()
        self.assertEqual(['fenced'], self.outcomes())

    def test_clients_of_disks_are_noted_before_the_server_is_read_for_the_fence(self) -> None:
        server = base.make_server('a', volumes=(), disks=('disk',))
        self.compute.server.return_value = server
        self.volumes.superpose.side_effect = exception.Refused(WHY)
        # Cinder answers at last, when an operator has evacuated the server.
        self.volumes.observe.side_effect = [exception.Unreachable('away')] * 2 + [None]
        run = self.run_anew()
        super_step.superpose(run)
        self.volumes.fence.assert_not_called()

        def moved(*_arguments: Any) -> Any:
            observed = self.volumes.observe.call_count == 3
            return dataclasses.replace(server, host='h2') if observed else server
        self.compute.server.side_effect = moved
        self.assertEqual(verdicts.ABORTED, self.shut_out(run).kind)
        self.assertEqual(3, self.volumes.observe.call_count)
        self.volumes.fence.assert_not_called()

    def test_server_that_nova_evacuates_is_not_fenced_after_an_unknown_decision(self) -> None:
        self.compute.server.return_value = base.make_server(
            'a', volumes=(), disks=('disk',), task='rebuilding')
        run = self.run_anew()
        with run.step(runs.COLLAPSE) as detail:
            detail['outcome'] = 'gone'
        self.assertEqual(verdicts.ABORTED, self.shut_out().kind)
        self.volumes.fence.assert_not_called()

    def test_server_whose_disks_are_not_in_rbd_is_not_evacuated(self) -> None:
        self.compute.server.return_value = base.make_server('a', volumes=(), disks=('disk',))
        self.volumes.fence.side_effect = exception.Refused('there is no RBD image a_disk')
        verdict = self.shut_out()
        self.assertEqual(verdicts.FAILED, verdict.kind)
        self.assertIn('a_disk', verdict.why)

    def test_returned_host_spares_the_server_before_the_fence(self) -> None:
        self.suspects.is_well.return_value = True
        self.assertEqual(verdicts.PRIMARY, self.shut_out().kind)
        self.volumes.fence.assert_not_called()

    def test_host_that_returns_while_nova_answers_spares_the_server(self) -> None:
        server: model.Server = self.compute.server.return_value

        def answer(name: str) -> model.Server:
            del name
            self.suspects.is_well.return_value = True
            return server
        self.compute.server.side_effect = answer
        self.assertEqual(verdicts.PRIMARY, self.shut_out().kind)
        self.volumes.fence.assert_not_called()

    def test_returned_host_does_not_spare_a_server_that_may_be_fenced(self) -> None:
        self.volumes.fence.side_effect = [exception.Interrupted('the engine stops')]
        self.assertRaises(exception.Interrupted, self.shut_out)
        self.suspects.is_well.return_value = True
        self.volumes.fence.side_effect = [exception.Unreachable('away'), 1]
        run = self.run_anew()
        self.assertEqual(verdicts.SHUT_OUT, super_step.superpose(run).kind)
        self.assertEqual(verdicts.PROMOTED, self.shut_out(run).kind)
        self.assertEqual([None, 'fenced'], self.outcomes())

    def test_fence_is_not_repeated_after_it_was_recorded(self) -> None:
        run = self.run_anew()
        with run.step(runs.SHUT_OUT) as detail:
            detail['outcome'] = 'fenced'
        run.flush()
        self.assertEqual(verdicts.PROMOTED, self.shut_out(self.run_anew()).kind)
        self.volumes.fence.assert_not_called()

    def test_refused_fence_fails(self) -> None:
        self.volumes.fence.side_effect = exception.Refused('its driver is LVM')
        verdict = self.shut_out()
        self.assertEqual(verdicts.FAILED, verdict.kind)
        self.assertIn('its driver is LVM', verdict.why)
        # Another engine is free to spare the server.
        self.assertIsNone(self.run_anew().standing())

    def test_refused_fence_is_evacuated_if_the_operator_fences(self) -> None:
        self.volumes.fence.side_effect = exception.Refused('its driver is LVM')
        self.assertEqual(verdicts.PROMOTED,
                         self.shut_out(self.run_anew(evacuate_unfenced=True)).kind)

    def test_refusal_after_an_unknown_outcome_says_so(self) -> None:
        self.volumes.fence.side_effect = [exception.Unreachable('away'),
                                          exception.Refused('it is not attached')]
        verdict = self.shut_out(self.run_anew(evacuate_unfenced=True))
        self.assertEqual(verdicts.FAILED, verdict.kind)
        self.assertIn('may be fenced', verdict.why)
        self.assertEqual(['unknown'], self.outcomes())

    def test_silence_of_cinder_is_not_endless(self) -> None:
        self.volumes.fence.side_effect = exception.Unreachable('away')
        self.assertEqual(verdicts.FAILED, self.shut_out().kind)

    def test_server_without_volumes_needs_no_fence(self) -> None:
        self.compute.server.return_value = base.make_server('a', volumes=())
        self.assertEqual(verdicts.PROMOTED, self.shut_out().kind)
        self.volumes.fence.assert_not_called()

    def test_deleted_server_is_left_alone(self) -> None:
        run = self.run_anew()
        with run.step(runs.SHUT_OUT):
            pass
        self.compute.server.return_value = None
        self.assertEqual(verdicts.ABORTED, self.shut_out(self.run_anew()).kind)

# SPDX-License-Identifier: Apache-2.0
"""An evacuation that Nova is about to end is not requested again."""

import dataclasses

from specreds_nova.engine import model
from specreds_nova.engine.recovery import evacuation
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.tests.unit.engine.recovery import base

_CLAIMED = model.Evacuation('h3', claimed=True)


class FinishingTest(base.CommittedTest):
    """Nova has no task for a server any more that it has evacuated, but its old host."""

    def setUp(self) -> None:
        super().setUp()
        self.context = self.make_context(adopt_timeout=90.0)
        self.compute.evacuation.side_effect = lambda name: (
            _CLAIMED if self.compute.evacuate.called else None)
        self.suspects.suspected.side_effect = lambda host: host == 'h1'

    def note_after(self, seconds: float, status: str = 'ACTIVE') -> None:
        """Let Nova note the new host of the server some seconds after the first request.

        :param status: status of the server until then
        """
        began = self.clock.now()

        def server(name: str) -> model.Server:
            if self.clock.now() >= began + seconds:
                return base.make_server(name, host='h3')
            return base.make_server(name, status=status)
        self.compute.server.side_effect = server

    def lose_destination(self) -> None:
        """Let the destination fall silent as soon as the evacuation is requested."""
        self.suspects.suspected.side_effect = lambda host: (
            host == 'h1' or bool(self.compute.evacuate.called))

    def evacuate(self, let_out: evacuation.LetOut | None = None) -> verdicts.StepVerdict | None:
        """Have Nova move the server."""
        return evacuation.evacuate(runs.Run(self.context, self.recovery), 'h1', {}, let_out)

    def test_host_is_waited_for(self) -> None:
        self.note_after(50.0)
        self.assertIsNone(self.evacuate())
        self.compute.evacuate.assert_called_once()
        self.compute.reset.assert_not_called()

    def test_guest_that_nova_never_notes_is_named(self) -> None:
        self.note_after(100.0)
        failure = self.evacuate()
        self.assertEqual(
            'Nova has not evacuated it in 90 s: it is ACTIVE, and nothing is being done to it; '
            'its guest may run on h3, although Nova has it on h1: look there. To have it '
            'evacuated, end it there: virsh destroy a',
            failure and failure.why)
        self.compute.evacuate.assert_called_once()

    def test_host_is_waited_for_without_a_report_of_the_guest(self) -> None:
        self.suspects.running.return_value = None
        self.note_after(80.0)
        self.assertIsNone(self.evacuate())
        self.compute.evacuate.assert_called_once()

    def test_guest_that_does_not_run_for_long_is_evacuated_again(self) -> None:
        self.suspects.running.return_value = False
        self.note_after(80.0)
        self.assertIsNone(self.evacuate())
        self.assertEqual(2, self.compute.evacuate.call_count)

    def test_backup_that_is_not_noted_for_long_is_adopted_again(self) -> None:
        self.recovery = self.store.change(self.recovery, destination='h3')
        self.note_after(80.0)
        self.assertIsNone(self.evacuate(lambda host: True))
        self.assertEqual(['h3', 'h3'], [
            call.args[1] for call in self.compute.evacuate.mock_calls])

    def test_backup_whose_adoption_has_failed_is_adopted_again_at_once(self) -> None:
        self.recovery = self.store.change(self.recovery, destination='h3')
        self.note_after(10.0, status='ERROR')
        self.assertIsNone(self.evacuate(lambda host: True))
        self.assertGreater(self.compute.evacuate.call_count, 1)

    def test_guest_whose_evacuation_has_failed_late_is_left(self) -> None:
        self.note_after(80.0, status='ERROR')
        self.assertIsNone(self.evacuate())
        self.compute.evacuate.assert_called_once()

    def test_request_that_no_host_has_taken_is_repeated(self) -> None:
        self.compute.evacuation.side_effect = None
        self.compute.evacuation.return_value = model.Evacuation('h3', claimed=False)
        self.note_after(5.0)
        self.assertIsNone(self.evacuate())
        self.assertEqual(2, self.compute.evacuate.call_count)

    def test_record_of_an_earlier_accident_is_ignored(self) -> None:
        self.suspects.suspected.side_effect = None
        self.compute.evacuation.side_effect = None
        for before, requests in ((30.0, 2), (5.0, 0)):
            self.compute.evacuate.reset_mock()
            self.compute.evacuation.return_value = dataclasses.replace(
                _CLAIMED, updated=self.recovery.suspected - before)
            self.note_after(3.0)
            self.assertIsNone(self.evacuate())
            self.assertEqual(requests, self.compute.evacuate.call_count)

    def test_server_whose_evacuation_ends_between_two_looks_is_left(self) -> None:
        self.note_after(50.0)

        def end(name: str) -> None:
            del name
            self.note_after(0.0)
        self.compute.evacuation.side_effect = end
        self.assertIsNone(self.evacuate())
        self.compute.evacuate.assert_called_once()

    def test_evacuation_that_somebody_else_has_requested_is_waited_for(self) -> None:
        self.compute.evacuation.side_effect = None
        self.compute.evacuation.return_value = _CLAIMED
        self.note_after(20.0)
        self.assertIsNone(self.evacuate())
        self.compute.evacuate.assert_not_called()

    def test_adoption_on_a_host_that_is_lost_meanwhile_is_requested_elsewhere(self) -> None:
        self.recovery = self.store.change(self.recovery, destination='h3')
        self.lose_destination()
        self.note_after(50.0)
        self.assertIsNone(self.evacuate(lambda host: True))
        self.assertEqual(['h3', 'h2'], [
            call.args[1] for call in self.compute.evacuate.mock_calls[:2]])

    def test_adoption_on_a_host_whose_sentinel_alone_is_heard_is_requested_elsewhere(
            self) -> None:
        self.recovery = self.store.change(self.recovery, destination='h3')
        self.suspects.speaks.side_effect = lambda host: (
            host == 'h3' and bool(self.compute.evacuate.called))
        self.note_after(80.0)
        self.assertIsNone(self.evacuate(lambda host: True))
        self.assertEqual(['h3', 'h2'], [
            call.args[1] for call in self.compute.evacuate.mock_calls[:2]])

    def test_server_without_a_backup_on_a_host_that_is_lost_meanwhile_is_left(self) -> None:
        self.lose_destination()
        self.note_after(50.0)
        self.assertIsNone(self.evacuate())
        self.compute.evacuate.assert_called_once()

# SPDX-License-Identifier: Apache-2.0
"""Evacuations of servers for which users have asked the failed host for something."""

import dataclasses
from typing import Any

import ddt

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import evacuation
from specreds_nova.engine.recovery import left
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import worker as workers
from specreds_nova.tests.unit.engine.recovery import base


@ddt.ddt
class PendingTest(base.CommittedTest):
    """Requests that Nova has taken for a host that cannot fulfill them."""

    def setUp(self) -> None:
        super().setUp()
        self.compute.evacuation.return_value = None
        self.compute.evacuation_request.return_value = None

    def _evacuate(self, task: str | None, status: str = 'ACTIVE') -> None:
        """Evacuate a server whose task, if it has one, no evacuation has given it."""
        self.compute.reset.reset_mock()
        self.compute.evacuate.reset_mock()
        self.compute.server.side_effect = lambda name: base.make_server(
            name, task=task, status=status)
        evacuation.evacuate(runs.Run(self.context, self.recovery), 'h1', {})

    def test_request_that_the_failed_host_has_not_taken_does_not_keep_the_server_there(
            self) -> None:
        for task in ('reboot_pending_hard', 'rebooting', 'powering-off', 'image_snapshot',
                     'pausing', 'suspending', 'shelving', 'shelving_image_uploading', 'rescuing',
                     'updating_password'):
            self._evacuate(task)
            self.compute.reset.assert_called_with('a')
            self.compute.evacuate.assert_called_with('a', 'h2', False)

    def test_request_that_other_hosts_may_be_doing_is_left(self) -> None:
        # Or that Nova would do to the server on its new host as soon as this one is back.
        for task in ('rebuilding', 'soft-deleting', 'migrating', 'resize_prep', 'spawning',
                     'unrescuing', 'powering-on', 'shelving_offloading', 'unpausing'):
            self._evacuate(task)
            self.compute.reset.assert_not_called()

    def test_request_to_the_new_host_is_left(self) -> None:
        looks = 0

        def server(name: str) -> model.Server:
            nonlocal looks
            looks += 1
            return base.make_server(name, host='h2', task='rebooting' if looks < 20 else None)
        self.compute.server.side_effect = server
        evacuation.evacuate(runs.Run(self.context, self.recovery), 'h1', {})
        self.assertGreaterEqual(looks, 20)
        self.compute.reset.assert_not_called()

    def test_request_to_a_host_that_is_heard_is_left(self) -> None:
        self.suspects.suspected.side_effect = None
        self.suspects.suspected.return_value = False
        self._evacuate('rebooting_hard')
        self.compute.reset.assert_not_called()

    def test_server_that_a_user_has_stopped_on_the_failed_host_is_stopped_on_its_new_one(
            self) -> None:
        for task, status, by_itself, stopped in (
                ('rebooting', 'ACTIVE', False, False), ('powering-off', 'ACTIVE', True, False),
                ('powering-off', 'ACTIVE', False, True), ('shelving', 'SHUTOFF', True, False),
                ('rescuing', 'SHUTOFF', False, True)):
            self.compute.stop.reset_mock()
            self.compute.stopped_by_itself.return_value = by_itself
            server = base.make_server('a', task=task)

            def evacuate(*_: Any, server: model.Server = server) -> None:
                moved = dataclasses.replace(server, host='h2', task=None)
                self.compute.server.side_effect = lambda name: moved
            self.compute.evacuate.side_effect = evacuate
            self._evacuate(task, status)
            self.assertEqual(stopped, self.compute.stop.called)

    @ddt.data(('PAUSED', None, 'pause'), ('PAUSED', 'shelving', 'pause'),
              ('SUSPENDED', None, 'stop'), ('SUSPENDED', 'shelving', 'stop'),
              ('SHELVED', None, 'stop'), ('ERROR', None, None))
    @ddt.unpack
    def test_server_that_nova_does_not_evacuate_as_it_is_does_not_run_afterwards(
            self, status: str, task: str | None, request: str | None) -> None:
        self.compute.stopped_by_itself.return_value = False

        def evacuate(*_: Any) -> None:
            self.compute.reset.assert_called_once_with('a')
            self.compute.server.side_effect = lambda name: base.make_server(name, host='h2')
        self.compute.evacuate.side_effect = evacuate
        self._evacuate(task, status)
        self.assertEqual([request] if request else [], [
            call for call in ('pause', 'stop') if getattr(self.compute, call).called])
        # A user may have it run on its new host.
        self.compute.server.side_effect = lambda name: base.make_server(name, host='h3')
        taken_over = self.taken_over(self.recovery, 'e2')
        evacuation.evacuate(runs.Run(self.context, taken_over), 'h2', {})
        self.assertLessEqual(self.compute.pause.call_count + self.compute.stop.call_count, 1)

    @ddt.data(('PAUSED', 'pause'), ('SHUTOFF', 'stop'), ('RESCUE', 'stop'), ('ERROR', None))
    @ddt.unpack
    def test_server_that_an_earlier_evacuation_has_made_active_does_not_run_afterwards(
            self, status: str, request: str | None) -> None:
        self.compute.stopped_by_itself.return_value = False
        fact = left.fact(base.make_server('a', status=status), [f'it is {status}'], 0.0)
        self.recovery = dataclasses.replace(self.recovery, why=(fact,))

        def evacuate(*_: Any) -> None:
            self.compute.server.side_effect = lambda name: base.make_server(name, host='h2')
        self.compute.evacuate.side_effect = evacuate
        for shown in ('ACTIVE', 'ERROR'):
            self.compute.pause.reset_mock()
            self.compute.stop.reset_mock()
            self._evacuate(None, shown)
            self.assertEqual([request] if request else [], [
                call for call in ('pause', 'stop') if getattr(self.compute, call).called])
            self.recovery = dataclasses.replace(self.recovery, steps=())

    def test_paused_server_that_a_user_stops_is_stopped(self) -> None:
        self.compute.stopped_by_itself.return_value = False
        # Its first evacuation fails, and a user stops it before the second one.
        shown = [base.make_server('a', task='powering-off'), base.make_server('a', host='h2')]

        def evacuate(*_: Any) -> None:
            server = shown.pop(0)
            self.compute.server.side_effect = lambda name: server
        self.compute.evacuate.side_effect = evacuate
        self._evacuate(None, 'PAUSED')
        self.compute.stop.assert_called_once_with('a')
        self.compute.pause.assert_not_called()

    def test_stop_is_not_forgotten_if_the_engine_dies_after_the_reset(self) -> None:
        self.compute.stopped_by_itself.return_value = False
        self.compute.server.side_effect = lambda name: base.make_server(name, task='powering-off')

        def die(*_: Any) -> None:
            raise exception.Interrupted
        self.compute.evacuate.side_effect = die
        run = runs.Run(self.context, self.recovery)
        self.assertRaises(exception.Interrupted, evacuation.evacuate, run, 'h1', {})
        self.compute.reset.assert_called_once_with('a')
        # Nova has evacuated the server, which the reset has made active.
        self.compute.server.side_effect = lambda name: base.make_server(name, host='h2')
        taken_over = self.taken_over(self.recovery, 'e2')
        evacuation.evacuate(runs.Run(self.context, taken_over), 'h1', {})
        self.compute.stop.assert_called_once_with('a')
        # A user has started it since, and its new host fails as well.
        self.compute.server.side_effect = lambda name: base.make_server(name, host='h3')
        taken_over = self.taken_over(self.recovery, 'e3')
        evacuation.evacuate(runs.Run(self.context, taken_over), 'h2', {})
        self.compute.stop.assert_called_once_with('a')


class DeletionTest(base.CommittedTest):
    """A user has deleted the server, and Nova did not have its host down yet."""

    def setUp(self) -> None:
        super().setUp()
        self.server: model.Server | None = base.make_server('a', task='deleting')
        self.compute.server.side_effect = lambda name: self.server
        self.compute.delete.side_effect = self.delete

    def delete(self, *_: Any) -> None:
        """Delete the server."""
        self.server = None

    def evacuate(self) -> dict[str, Any]:
        """Take over the recovery, move the server away from its host, and return the details."""
        detail: dict[str, Any] = {}
        self.recovery = self.taken_over(self.recovery, 'e1')
        evacuation.evacuate(runs.Run(self.context, self.recovery), 'h1', detail)
        return detail

    def end(self) -> tuple[str | None, str | None]:
        """Bring the recovery to its end, and return its outcome and its error."""
        self.recovery = self.taken_over(self.recovery, 'e1')
        workers.attempt(runs.Run(self.context, self.recovery))
        ended = self.store.history[self.recovery.id]
        return ended.outcome, ended.error

    def test_deletion_is_repeated_once_the_host_is_down_for_nova(self) -> None:
        order: list[str] = []

        def force_down(host: str, down: bool) -> bool:
            order.append(f'{host} {down}')
            return True
        self.compute.force_down.side_effect = force_down

        def delete(*arguments: Any) -> None:
            order.append('delete')
            self.delete(*arguments)
        self.compute.delete.side_effect = delete
        self.assertTrue(self.evacuate()['deleted'])
        self.assertEqual(['h1 True', 'delete'], order)
        self.compute.delete.assert_called_once_with('a')
        self.compute.reset.assert_not_called()
        self.compute.evacuate.assert_not_called()

    def test_deletion_is_left_to_a_host_that_is_heard(self) -> None:
        self.suspects.suspected.side_effect = None
        self.suspects.suspected.return_value = False
        self.evacuate()
        self.compute.force_down.assert_not_called()
        self.compute.delete.assert_not_called()

    def test_deletion_is_left_to_the_host_that_the_server_has_come_to(self) -> None:
        self.server = base.make_server('a', task='deleting', host='h2')
        self.evacuate()
        self.compute.force_down.assert_not_called()
        self.compute.delete.assert_not_called()

    def test_server_is_not_deleted_if_its_deletion_was_taken_back(self) -> None:
        def force_down(host: str, down: bool) -> bool:
            # An operator resets the state of the server.
            self.server = base.make_server('a')
            return True
        self.compute.force_down.side_effect = force_down
        self.evacuate()
        self.compute.delete.assert_not_called()
        self.compute.evacuate.assert_called_with('a', 'h2', False)

    def test_deletion_is_repeated_until_it_succeeds(self) -> None:
        self.compute.force_down.side_effect = [False, True, True, True]

        def delete(*_: Any) -> None:
            if self.compute.delete.call_count == 3:
                self.server = None
            else:
                raise [exception.Refused('no'), exception.Unreachable('no')][
                    self.compute.delete.call_count - 1]
        self.compute.delete.side_effect = delete
        self.assertTrue(self.evacuate()['deleted'])

    def test_deletion_that_nova_may_still_begin_is_not_requested_again(self) -> None:
        self.context = self.make_context(adopt_timeout=60.0)
        times: list[float] = []

        def delete(*_: Any) -> None:
            times.append(self.clock.now())
            if len(times) == 3:
                self.server = None
            else:
                raise (exception.Unanswered if len(times) == 1 else exception.Unreachable)('no')
        self.compute.delete.side_effect = delete
        self.assertTrue(self.evacuate()['deleted'])
        self.assertGreaterEqual(times[1] - times[0], 30.0)
        self.assertLess(times[2] - times[1], 10.0)

    def test_recovery_of_a_deleted_server_says_so(self) -> None:
        self.assertEqual((model.EVACUATED, 'the server is deleted'), self.end())

    def test_recovery_ends_although_the_engine_dies_after_the_deletion(self) -> None:
        def delete(*_: Any) -> None:
            self.delete()
            raise exception.Interrupted
        self.compute.delete.side_effect = delete
        self.assertRaises(exception.Interrupted, self.evacuate)
        self.assertEqual((model.EVACUATED, 'the server is deleted'), self.end())

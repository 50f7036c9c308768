# SPDX-License-Identifier: Apache-2.0
"""What becomes of a server right before the engine has Nova delete, evacuate or reset it."""

from collections.abc import Callable
import contextlib
import functools
import itertools
from typing import Any
from unittest import mock

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import evacuation
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.tests.unit.engine.recovery import base


class MeanwhileTestCase(base.CommittedTest):
    """A server that something happens to while its host is forced down.

    :ivar server: the server as Nova shows it
    :ivar seconds: for which Nova forces the host down
    """

    def setUp(self) -> None:
        super().setUp()
        self.server = base.make_server('a')
        self.seconds = 5.0
        self.then: Callable[[], object] = lambda: None
        self.compute.server.side_effect = lambda _name: self.server
        self.compute.permits.return_value = True
        self.compute.evacuation_request.return_value = model.PENDING
        self.compute.force_down.side_effect = self.force_down
        self.suspects.running.return_value = False

    def force_down(self, _host: str, _down: bool) -> bool:
        """Force the host down, and let something happen."""
        self.clock.sleep(self.seconds)
        self.then()
        return True

    def become(self, **values: Any) -> None:
        """Let Nova show the server with these values."""
        self.server = base.make_server('a', **values)

    def evacuate(self, seconds: float = 30.0, let_out: evacuation.LetOut | None = None
                 ) -> verdicts.StepVerdict | None:
        """Run the evacuation for some seconds."""
        with contextlib.suppress(exception.Interrupted):
            return evacuation.evacuate(
                runs.Run(self.stopped_after(seconds), self.recovery), 'h1', {}, let_out)
        return None

    def times(self, call: mock.Mock, error: Exception | None = None) -> list[float]:
        """Return the list of times at which a call is made, each of which fails with an error."""
        times: list[float] = []

        def called(*_arguments: object) -> None:
            times.append(self.clock.now())
            if error is not None:
                raise error
        call.side_effect = called
        return times


class DeletionTest(MeanwhileTestCase):
    """A user has deleted the server of a failed host."""

    def setUp(self) -> None:
        super().setUp()
        self.become(task='deleting')

    def test_server_that_a_user_has_deleted_is_deleted(self) -> None:
        self.evacuate()
        self.compute.delete.assert_called_with('a')

    def test_server_that_has_moved_meanwhile_is_not_deleted(self) -> None:
        self.then = lambda: self.become(task='deleting', host='h3')
        self.evacuate()
        self.compute.delete.assert_not_called()

    def test_server_whose_deletion_was_dropped_meanwhile_is_not_deleted(self) -> None:
        self.then = self.become
        self.evacuate()
        self.compute.delete.assert_not_called()

    def test_server_whose_host_is_heard_meanwhile_is_left_to_it(self) -> None:
        self.suspects.suspected.side_effect = lambda _host: False
        self.evacuate()
        self.compute.force_down.assert_not_called()
        self.compute.delete.assert_not_called()

    def test_nova_may_carry_a_deletion_out_meanwhile(self) -> None:
        self.seconds = 0.0
        times = self.times(self.compute.delete)
        self.evacuate()
        self.assertGreater(len(times), 2)
        self.assertGreaterEqual(times[1] - times[0], 2.0)
        self.assertGreaterEqual(times[2] - times[1], 4.0)


class RequestTest(MeanwhileTestCase):
    """The server is to be evacuated."""

    def test_nova_may_begin_an_evacuation_that_it_has_refused_meanwhile(self) -> None:
        self.seconds = 0.0
        times = self.times(self.compute.evacuate, exception.Refused('it is busy'))
        self.evacuate(60.0)
        pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
        for least, pause in zip((2.0, 4.0, 8.0), pauses, strict=False):
            self.assertGreaterEqual(pause, least)
        self.assertGreater(len(pauses), 2)

    def test_server_that_changes_meanwhile_is_not_evacuated(self) -> None:
        for host, task in (('h3', None), ('h1', 'powering-off')):
            self.become()
            self.then = functools.partial(self.become, host=host, task=task)
            self.evacuate(8.0)
            self.compute.evacuate.assert_not_called()

    def test_backup_that_is_lost_meanwhile_is_not_the_destination(self) -> None:
        self.recovery = self.store.change(self.recovery, destination='h3')
        self.compute.evacuate.side_effect = exception.Refused('it is busy')
        run = runs.Run(self.stopped_after(30.0), self.recovery)

        def let_out(_host: str) -> bool:
            # As the step that opens the box does if the host has no backup to open it for.
            run.change(destination=None)
            return False
        with contextlib.suppress(exception.Interrupted):
            evacuation.evacuate(run, 'h1', {}, let_out)
        hosts = [call.args[1] for call in self.compute.evacuate.mock_calls]
        self.assertEqual(['h3', 'h2'], hosts[:2])

    def test_server_that_nova_works_on_after_its_move_is_waited_for_meanwhile(self) -> None:
        self.become(host='h3', task='rebuild_spawning')
        detail: dict[str, Any] = {}
        self.compute.evacuation.return_value = None
        with contextlib.suppress(exception.Interrupted):
            evacuation.evacuate(runs.Run(self.stopped_after(5.0), self.recovery), 'h1', detail)
        self.assertNotIn('host', detail)

    def test_server_that_changes_while_its_host_comes_back_is_looked_at_again_meanwhile(
            self) -> None:
        # The server leaves another host than the host of the recovery.
        self.recovery = self.store.change(self.recovery, destination='h2')
        self.suspect('h2', model.TRUSTED)
        self.become(host='h2', task='rebuilding')
        self.compute.evacuation.return_value = model.Evacuation('h3', claimed=True)
        self.suspects.suspected.side_effect = lambda _host: False
        self.suspects.heard_after.return_value = True
        self.suspects.boot.side_effect = ['one', *['two'] * 60]
        looks = 0

        def evacuation_of(_server: str) -> model.Evacuation:
            nonlocal looks
            looks += 1
            if looks == 2:
                # Nova is slow, and the evacuation ends.
                self.clock.sleep(5.0)
                self.become(host='h3')
            return model.Evacuation('h3', claimed=True)
        self.compute.evacuation.side_effect = evacuation_of
        detail: dict[str, Any] = {}
        verdict = evacuation.evacuate(runs.Run(self.context, self.recovery), 'h2', detail)
        self.assertEqual((None, 'h3'), (verdict, detail.get('host')))
        self.compute.reset.assert_not_called()


class SupersededTest(MeanwhileTestCase):
    """Another engine takes over the recovery between two requests to Nova."""

    def superseded(self, *_arguments: object) -> bool:
        """Let another engine take over the recovery."""
        self.store.take_over(self.store.history[self.recovery.id], 'e2')
        return True

    def come_back(self) -> None:
        """Let the host be back that the server leaves, whose evacuation hangs."""
        self.recovery = self.store.change(self.recovery, destination='h2')
        self.suspect('h2', model.TRUSTED)
        self.become(host='h2', task='rebuilding')
        self.compute.evacuation.return_value = model.Evacuation('h3', claimed=True)
        self.suspects.suspected.side_effect = lambda _host: False
        self.suspects.heard_after.return_value = True
        self.suspects.boot.side_effect = ['one', *['two'] * 60]

    def leave(self) -> None:
        """Leave the server on its host until another engine is found to have the recovery."""
        self.assertRaises(exception.Superseded, evacuation.evacuate,
                          runs.Run(self.stopped_after(30.0), self.recovery), 'h2', {})

    def test_server_that_another_engine_takes_meanwhile_is_not_started(self) -> None:
        self.become(host='h3', status='SHUTOFF')
        self.compute.stopped_by_itself.side_effect = self.superseded
        self.assertRaises(exception.Superseded, self.evacuate)
        self.compute.reboot.assert_not_called()

    def test_server_that_a_user_starts_meanwhile_is_not_started(self) -> None:
        self.become(host='h3', status='SHUTOFF')

        def start(*_arguments: object) -> bool:
            self.become(host='h3')
            return True
        self.compute.stopped_by_itself.side_effect = start
        self.evacuate()
        self.compute.reboot.assert_not_called()

    def test_evacuation_that_another_engine_takes_meanwhile_is_not_reset(self) -> None:
        self.come_back()
        # The host reports that the evacuation is not under way any more.
        self.suspects.running.side_effect = lambda *_arguments: not self.superseded()
        self.leave()
        self.compute.reset.assert_not_called()

    def test_guest_that_another_engine_takes_meanwhile_is_not_started(self) -> None:
        self.come_back()
        self.compute.reset.side_effect = self.superseded
        self.leave()
        self.compute.reset.assert_called_once_with('a')
        self.compute.reboot.assert_not_called()


class HangingTest(MeanwhileTestCase):
    """The nova-compute that has claimed the evacuation has ended."""

    def setUp(self) -> None:
        super().setUp()
        self.become(task='rebuilding')
        self.compute.evacuation.return_value = model.Evacuation('h3', claimed=True)
        self.suspects.heard_after.return_value = True
        self.suspects.boot.side_effect = ['one', *['two'] * 60]

    def test_hanging_evacuation_is_requested_again(self) -> None:
        self.evacuate(15.0)
        self.compute.evacuate.assert_called_with('a', 'h2', False)

    def test_evacuation_whose_task_ends_meanwhile_may_have_moved_the_server(self) -> None:
        self.then = self.become
        self.evacuate(15.0)
        self.compute.reset.assert_not_called()
        self.compute.evacuate.assert_not_called()

    def test_host_that_claims_a_lost_request_meanwhile_gets_no_rival(self) -> None:
        # Nova's conductor has given it up, and the host of another request claims it.
        self.compute.evacuation.return_value = model.Evacuation('h3', claimed=False)
        self.compute.evacuation_request.return_value = model.GIVEN_UP

        def claim() -> None:
            self.compute.evacuation.return_value = model.Evacuation('h3', claimed=True)
            self.suspects.running.return_value = True
        self.then = claim
        self.recovery = self.store.history[self.recovery.id]
        self.context = self.make_context(adopt_timeout=200.0)
        self.evacuate(150.0)
        self.compute.reset.assert_not_called()
        self.compute.evacuate.assert_not_called()

    def test_guest_that_runs_on_the_source_meanwhile_is_not_started(self) -> None:
        self.recovery = self.store.change(self.recovery, destination='h2')
        self.suspect('h2', model.TRUSTED)
        self.suspects.suspected.side_effect = lambda _host: False
        self.become(host='h2', task='rebuilding')
        for running in (True, None):
            self.suspects.boot.side_effect = ['one', *['two'] * 60]
            self.suspects.running.side_effect = lambda host, _server, running=running: (
                running if host == 'h2' else False)
            evacuation.evacuate(runs.Run(self.context, self.recovery), 'h2', {})
        self.compute.reset.assert_called_with('a')
        self.compute.reboot.assert_not_called()

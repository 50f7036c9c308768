# SPDX-License-Identifier: Apache-2.0
"""Starts of backups: a few are calls, more are begun and looked at."""

import queue
import threading
from typing import Any
from unittest import mock

import ddt
import testtools

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import fibers as all_fibers
from specreds_nova.engine.clients import starts

_TIMEOUT = 20.0
_WHAT = ('backup', 'server', 'superposition')
_RUNS = {'phase': 'running', 'superposition_id': 'superposition'}


@ddt.ddt
class StartsTest(testtools.TestCase):
    """A host starts a backup, whatever the number of others."""

    def setUp(self) -> None:
        super().setUp()
        self.fibers = all_fibers.Fibers(4)
        self.fibers.start()
        self.addCleanup(self.fibers.close)
        self.hosts = mock.Mock()
        self.hosts.start.return_value = {'phase': 'running'}
        self.times = [0.0]
        self.clock = mock.Mock(stopping=lambda: False, now=lambda: self.times[0],
                               sleep=lambda seconds: self.times.append(
                                   self.times.pop() + seconds))
        self.results: queue.Queue[Any] = queue.Queue()

    def _started(self, calls: int) -> Any:
        """Start a backup in a fiber, and return the status or the error."""
        backups = starts.Backups(self.fibers, self.hosts, self.clock, calls)

        def start() -> None:
            try:
                self.results.put(backups.start('h2', *_WHAT))
            except (backup_errors.BackupError, exception.Interrupted) as exc:
                self.results.put(exc)
        self.fibers.spawn(start)
        return self.results.get(timeout=_TIMEOUT)

    def test_few_starts_are_calls(self) -> None:
        self.assertEqual({'phase': 'running'}, self._started(1))
        self.hosts.begin.assert_not_called()

    def test_call_that_has_ended_makes_room_for_another(self) -> None:
        backups = starts.Backups(self.fibers, self.hosts, self.clock, 1)
        for _ in range(2):
            self.fibers.spawn(lambda: self.results.put(backups.start('h2', *_WHAT)))
            self.results.get(timeout=_TIMEOUT)
        self.hosts.begin.assert_not_called()

    def test_start_among_many_is_begun_and_looked_at(self) -> None:
        self.hosts.status.side_effect = [backup_errors.BackupNotFound(backup_id='backup'),
                                         {'phase': 'starting'}, _RUNS]
        self.assertEqual(_RUNS, self._started(0))
        self.hosts.begin.assert_called_once_with('h2', *_WHAT)
        self.assertEqual(3, self.hosts.status.call_count)
        # The status is that which a call would return.
        self.hosts.start.assert_not_called()

    @ddt.data({'phase': 'failed'}, {'phase': 'running', 'superposition_id': 'another'})
    def test_host_that_runs_no_such_backup_says_why(self, status: dict[str, str]) -> None:
        self.hosts.status.return_value = status
        self.hosts.start.side_effect = backup_errors.BackupConflict(reason='it has failed')
        self.assertIsInstance(self._started(0), backup_errors.BackupConflict)
        self.hosts.start.assert_called_once_with('h2', *_WHAT)

    def test_many_starts_share_the_looks(self) -> None:
        self.hosts.status.side_effect = [{'phase': 'starting'}, _RUNS]
        backups = starts.Backups(self.fibers, self.hosts, self.clock, 0)
        backups._waiting = 1999
        self.fibers.spawn(lambda: self.results.put(backups.start('h2', *_WHAT)))
        self.results.get(timeout=_TIMEOUT)
        self.assertEqual(20.0, self.times[0])

    def test_host_that_does_not_know_the_backup_says_why(self) -> None:
        self.hosts.status.side_effect = backup_errors.BackupNotFound(backup_id='backup')
        self.hosts.start.side_effect = backup_errors.ServerNotEligible(reason='no room')
        self.assertIsInstance(self._started(0), backup_errors.ServerNotEligible)

    def test_engine_that_stops_leaves_a_start_to_the_next_one(self) -> None:
        self.hosts.status.return_value = {'phase': 'starting'}
        self.clock.stopping = lambda: self.times[0] > 3.0
        self.assertIsInstance(self._started(0), exception.Interrupted)
        # The host goes on, and is not waited for by a call.
        self.hosts.start.assert_not_called()

    def test_start_occupies_no_thread_of_other_calls(self) -> None:
        answer = threading.Event()
        self.hosts.start.side_effect = lambda *_: answer.wait(_TIMEOUT)
        backups = starts.Backups(self.fibers, self.hosts, self.clock, 2)
        for _ in range(2):
            self.fibers.spawn(lambda: self.results.put(backups.start('h2', *_WHAT)))
        self.fibers.spawn(lambda: self.results.put(self.fibers.call(lambda: 'other')))
        self.assertEqual('other', self.results.get(timeout=_TIMEOUT))
        answer.set()
        self.assertEqual([True, True], [self.results.get(timeout=_TIMEOUT) for _ in range(2)])

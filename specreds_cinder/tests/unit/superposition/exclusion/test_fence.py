# SPDX-License-Identifier: Apache-2.0
"""The fence, on a stand-in for Ceph's monitor."""

from collections.abc import Mapping
from concurrent import futures
import datetime
import functools
import threading
import time
from typing import Any
from unittest import mock

import rados
import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.exclusion import fence

FIRST, SECOND, OTHER = '10.0.0.1:0/1', '[fd00::1]:0/2', '10.0.0.3:0/3'


class FakeMonitor:
    """A blocklist that keeps the expiry of an existing entry, as Ceph's does.

    :ivar commands: those that changed it
    :ivar lists: number of times that it was listed
    """

    def __init__(self) -> None:
        self.entries: dict[str, datetime.datetime] = {}
        self.commands: list[tuple[str, str]] = []
        self.epoch = 1
        self.lists = 0
        self._lock = threading.Lock()

    def __call__(self, command: Mapping[str, Any]) -> Any:
        if command['prefix'] == 'osd stat':
            return {'epoch': self.epoch}
        if command['prefix'] == 'osd blocklist ls':
            self.lists += 1
            return [{'addr': client, 'until': until.strftime('%Y-%m-%dT%H:%M:%S.%f%z')}
                    for client, until in self.entries.items()]
        with self._lock:
            self.epoch += 1
            operation, client = command['blocklistop'], command['addr']
            self.commands.append((operation, client))
            if operation == 'rm':
                self.entries.pop(client, None)
            else:
                self.entries.setdefault(client, self.after(command['expire']))
        return None

    @staticmethod
    def after(seconds: float) -> datetime.datetime:
        """Return the time in some seconds."""
        return datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)


class FenceTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.monitor = FakeMonitor()
        self.monitor.entries[OTHER] = self.monitor.after(50)
        self.cluster = mock.Mock(mon=self.monitor, timeout=60)
        self.cluster.wait_for_latest_osdmap = functools.partial(
            ceph.Cluster.wait_for_latest_osdmap, self.cluster)
        self.fence = fence.Fence(self.cluster, 1000)

    def left(self, client: str) -> float:
        """Return the seconds that an entry has left."""
        return self.fence.remaining()[client]

    def test_close_adds_and_open_removes_entries(self) -> None:
        self.fence.close([FIRST, SECOND, FIRST])
        self.assertEqual({FIRST, SECOND, OTHER}, set(self.monitor.entries))
        self.assertEqual([('add', FIRST), ('add', SECOND)], sorted(self.monitor.commands))
        self.cluster.aio.wait_for_latest_osdmap.assert_called_once_with()
        self.assertTrue(990 < self.left(FIRST) <= 1000)
        self.fence.open([FIRST, SECOND])
        self.fence.open([FIRST])
        self.assertEqual({OTHER}, set(self.monitor.entries))

    def disallow(self, *refused: tuple[str, str]) -> None:
        """Refuse operations on clients, as the monitors do without capabilities."""
        monitor = self.monitor

        def mon(command: dict[str, Any]) -> Any:
            if (command.get('blocklistop'), command.get('addr')) in refused:
                raise errors.NotAllowed('osd blocklist: client.cinder lacks capabilities')
            return monitor(command)
        self.cluster.mon = mon

    def test_fence_that_is_refused_for_all_clients_cannot_come(self) -> None:
        self.disallow(('add', FIRST), ('add', SECOND))
        self.assertRaises(errors.NotAllowed, self.fence.close, [FIRST, SECOND])
        self.assertRaises(errors.NotAllowed, self.fence.close, [FIRST])

    def test_caller_without_clients_waits_for_the_osdmap_also_beside_a_refused_one(self) -> None:
        self.disallow(('add', FIRST))
        with futures.ThreadPoolExecutor() as pool:
            with self.fence._turn:
                calls = [pool.submit(self.fence.close, clients) for clients in ([FIRST], [])]
                while not all(call.running() for call in calls) or not self.fence._batches:
                    time.sleep(0.001)
                time.sleep(0.05)
            raised = [call.exception() for call in calls]
        self.assertEqual([errors.NotAllowed, type(None)], list(map(type, raised)))
        self.cluster.aio.wait_for_latest_osdmap.assert_called()

    def test_command_that_is_broken_off_is_no_success(self) -> None:
        self.cluster.mon = mock.Mock(side_effect=[[], SystemExit])
        self.assertRaises(SystemExit, self.fence.close, [FIRST])

    def test_fence_that_one_client_has_may_have_an_effect(self) -> None:
        self.disallow(('add', FIRST), ('rm', OTHER))
        for clients in ([FIRST, SECOND], [FIRST, OTHER], [OTHER]):
            error = self.assertRaises(errors.ClusterError, self.fence.close, clients)
            self.assertNotIsInstance(error, errors.NotAllowed)

    def test_refused_removal_matters_only_if_the_entry_exists(self) -> None:
        self.disallow(('rm', FIRST), ('rm', OTHER))
        self.fence.open([FIRST])
        self.assertRaises(errors.NotAllowed, self.fence.open, [FIRST, OTHER])

    def test_entry_that_exists_is_not_made_again(self) -> None:
        self.monitor.entries[FIRST] = self.monitor.after(900)
        self.fence.close([FIRST])
        self.assertEqual([], self.monitor.commands)
        self.cluster.aio.wait_for_latest_osdmap.assert_called_once_with()

    def test_callers_that_come_meanwhile_are_served_together(self) -> None:
        waiting, go = threading.Event(), threading.Event()
        waits = self.cluster.aio.wait_for_latest_osdmap

        def wait() -> None:
            waiting.set()
            go.wait()
        waits.side_effect = wait
        threads = [threading.Thread(target=self.fence.close, args=([client],))
                   for client in (FIRST, SECOND, OTHER)]
        threads[0].start()
        waiting.wait()
        for thread in threads[1:]:
            thread.start()
        while len(self.fence._batches.get(1000, fence._Batch()).clients) < 2:
            time.sleep(0.001)
        lists = self.monitor.lists
        go.set()
        for thread in threads:
            thread.join()
        self.assertEqual((2, 2), (waits.call_count, self.monitor.lists - lists))
        self.assertGreater(min(map(self.left, (FIRST, SECOND, OTHER))), 900)

    def test_error_is_raised_to_every_caller_that_was_served_together(self) -> None:
        failed: list[BaseException] = []
        self.cluster.aio.wait_for_latest_osdmap.side_effect = errors.ClusterTimeout('no answer')
        with self.fence._turn:
            threads = [threading.Thread(target=lambda client=client: failed.append(
                self.assertRaises(errors.ClusterTimeout, self.fence.close, [client])))
                       for client in (FIRST, SECOND)]
            for thread in threads:
                thread.start()
            while len(self.fence._batches.get(1000, fence._Batch()).clients) < 2:
                time.sleep(0.001)
        for thread in threads:
            thread.join()
        self.assertEqual(2, len(failed))

    def refuse(self, *refused: tuple[str, str]) -> None:
        """Have the monitors not answer some commands, and carry them out all the same."""
        def answer(command: Mapping[str, Any]) -> Any:
            answered = self.monitor(command)
            if (command.get('blocklistop'), command.get('addr')) in refused:
                raise errors.ClusterTimeout('no answer')
            return answered
        self.cluster.mon = answer

    def test_error_of_one_client_is_raised_to_its_caller_alone(self) -> None:
        self.refuse(('add', FIRST))
        with futures.ThreadPoolExecutor() as pool:
            with self.fence._turn:
                calls = [pool.submit(self.fence.close, [client]) for client in (FIRST, SECOND)]
                while len(self.fence._batches.get(1000, fence._Batch()).clients) < 2:
                    time.sleep(0.001)
            raised = [call.exception() for call in calls]
        self.assertEqual([errors.ClusterTimeout, type(None)], list(map(type, raised)))
        self.cluster.aio.wait_for_latest_osdmap.assert_called_once_with()
        self.assertGreater(self.left(SECOND), 900)

    def test_entry_whose_removal_is_not_answered_is_made_again(self) -> None:
        self.monitor.entries.update({FIRST: self.monitor.after(100),
                                     SECOND: self.monitor.after(100)})
        self.refuse(('rm', FIRST))
        self.assertRaises(errors.ClusterTimeout, self.fence.close, [FIRST, SECOND])
        self.assertGreater(min(map(self.left, (FIRST, SECOND))), 900)

    def test_no_clients_send_no_command(self) -> None:
        self.fence.close([])
        self.fence.open([])
        self.assertEqual([], self.monitor.commands)

    def test_malformed_client_fences_none(self) -> None:
        for work in (self.fence.close, self.fence.open):
            self.assertRaises(errors.InvalidInput, work, [FIRST, '10.0.0.1:0/0'])
        self.assertEqual([], self.monitor.commands)

    def test_close_prolongs_an_existing_entry(self) -> None:
        self.monitor.entries[FIRST] = self.monitor.after(100)
        self.fence.close([FIRST, SECOND])
        self.assertGreater(self.left(FIRST), 900)
        self.assertGreater(self.left(SECOND), 900)
        self.assertLess(self.left(OTHER), 100)

    def test_backup_is_evicted_for_a_day(self) -> None:
        day, years = 24 * 3600, 5 * 365 * 24 * 3600
        self.fence = fence.Fence(self.cluster, years)
        self.fence.close([SECOND])
        self.fence.evict([FIRST, SECOND, OTHER])
        self.assertTrue(0.9 * day < self.left(FIRST) <= day)
        # One that stays fenced for another reason does so for as long as before.
        self.assertGreater(self.left(SECOND), 0.9 * years)
        self.assertGreater(self.left(OTHER), 0.9 * day)
        # It may become one that has to stay fenced.
        self.fence.close([FIRST])
        self.assertGreater(self.left(FIRST), 0.9 * years)

    def test_close_waits_for_the_osdmap_at_the_end(self) -> None:
        self.monitor.entries[FIRST] = self.monitor.after(100)
        seen: list[list[tuple[str, str]]] = []
        # The client of the sweep, and the client of librbd.
        for client in (self.cluster.aio, self.cluster.rados):
            client.wait_for_latest_osdmap.side_effect = (
                lambda: seen.append(list(self.monitor.commands)))
        self.fence.close([FIRST])
        self.assertEqual([self.monitor.commands] * 2, seen)
        self.assertEqual(('add', FIRST), self.monitor.commands[-1])

    def test_monitors_that_vanish_while_the_osdmap_is_fetched_are_an_error(self) -> None:
        back = threading.Event()
        self.addCleanup(back.set)
        self.cluster.timeout = 0.01
        self.cluster.rados.wait_for_latest_osdmap.side_effect = back.wait
        self.assertRaises(errors.ClusterTimeout, self.fence.close, [FIRST])

    def test_failure_to_fetch_the_osdmap_is_raised(self) -> None:
        self.cluster.rados.wait_for_latest_osdmap.side_effect = rados.Error('shut down')
        self.assertRaises(errors.ClusterError, self.fence.close, [FIRST])

    def test_entry_with_less_than_half_its_time_is_renewed(self) -> None:
        self.monitor.entries[FIRST] = self.monitor.after(600)
        self.monitor.entries[SECOND] = self.monitor.after(400)
        self.assertEqual([SECOND], self.fence.renew([FIRST, SECOND]))
        self.assertGreater(self.left(SECOND), 900)
        self.assertLess(self.left(FIRST), 700)
        self.assertEqual([], self.fence.renew([FIRST, SECOND]))

    def test_lapsed_entry_is_renewed_only_on_request(self) -> None:
        self.assertEqual([], self.fence.renew([FIRST], lapsed=False))
        self.assertNotIn(FIRST, self.monitor.entries)
        self.assertEqual([FIRST], self.fence.renew([FIRST]))
        self.assertGreater(self.left(FIRST), 900)

    def fenced(self, count: int) -> list[str]:
        """Return fenced clients whose entries have long to go."""
        clients = [f'10.1.0.1:0/{number}' for number in range(1, count + 1)]
        self.monitor.entries.update((client, self.monitor.after(900)) for client in clients)
        return clients

    def test_renewal_of_many_fences_lists_the_blocklist_once(self) -> None:
        for client in self.fenced(100):
            self.assertEqual([], self.fence.renew([client]))
        self.assertEqual(1, self.monitor.lists)
        self.monitor.epoch += 1
        self.fence.renew([OTHER], lapsed=False)
        # Once more for the other osdmap, and once to see that the renewed entry is long enough.
        self.assertEqual(4, self.monitor.lists)

    def test_fence_of_nobody_is_renewed_without_a_question(self) -> None:
        self.cluster.mon = mock.Mock()
        self.assertEqual([], self.fence.renew([]))
        self.cluster.mon.assert_not_called()

    def test_copy_is_not_used_if_the_osdmap_has_changed_meanwhile(self) -> None:
        answer = self.monitor
        # After the change, a monitor that lags behind still has the former osdmap, or has not.
        for epochs in ([1, 2, 1, 1, 1], [1, 2, 2, 2, 2]):
            self.fence, self.monitor.lists = fence.Fence(self.cluster, 1000), 0
            self.cluster.mon = lambda command, epochs=epochs: (
                {'epoch': epochs.pop(0)} if command['prefix'] == 'osd stat' else answer(command))
            for lists in (1, 2, 2):
                self.fence.copied()
                self.assertEqual(lists, self.monitor.lists)

    def test_copy_without_an_epoch_is_not_used_again(self) -> None:
        answer = self.monitor
        self.cluster.mon = lambda command: (
            None if command['prefix'] == 'osd stat' else answer(command))
        for lists in (1, 2):
            self.assertEqual({OTHER}, set(self.fence.copied()))
            self.assertEqual(lists, self.monitor.lists)

    def test_copy_grows_old(self) -> None:
        self.fence.copied()
        with mock.patch.object(fence, '_COPY_S', 0.0):
            self.fence.copied()
        self.assertEqual(2, self.monitor.lists)

    def test_decision_reads_the_blocklist_anew(self) -> None:
        [client] = self.fenced(1)
        self.fence.copied()
        # The monitor that says which osdmap there is need not be the one with the entry.
        del self.monitor.entries[client]
        self.assertEqual({client}, self.fence.outside({client}))
        self.assertNotIn(client, self.fence.remaining())

    def test_only_the_wanted_times_are_parsed(self) -> None:
        clients = self.fenced(100)
        with mock.patch.object(fence, '_time', wraps=fence._time) as parsed:
            self.assertEqual({clients[7]}, self.fence.remaining([clients[7], FIRST]).keys())
            self.assertEqual(frozenset({FIRST}), self.fence.outside({clients[7], FIRST}))
        parsed.assert_called_once()

    def test_clients_that_live_are_found_by_the_copy(self) -> None:
        [client] = self.fenced(1)
        for _ in range(100):
            self.assertEqual({FIRST}, self.fence.alive({client, FIRST}))
        self.assertEqual(1, self.monitor.lists)
        self.cluster.aio.wait_for_latest_osdmap.assert_not_called()
        # That all of them are fenced is relied on.
        self.assertEqual(frozenset(), self.fence.alive({client}))
        self.assertEqual(2, self.monitor.lists)
        self.cluster.aio.wait_for_latest_osdmap.assert_called_once_with()
        del self.monitor.entries[client]
        self.assertEqual({client}, self.fence.alive({client}))
        self.assertEqual(frozenset(), self.fence.alive(frozenset()))

    def test_failure_to_close_is_raised(self) -> None:
        self.cluster.mon = mock.Mock(side_effect=errors.ClusterTimeout('osd blocklist'))
        self.assertRaises(errors.ClusterTimeout, self.fence.close, [FIRST, SECOND])
        self.cluster.aio.wait_for_latest_osdmap.assert_not_called()

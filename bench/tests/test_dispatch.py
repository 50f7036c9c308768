# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the order of recoveries."""

import testtools

from bench import contention
from bench import dispatch
from bench import report

_SMALL = {'short': (1.0, 0.9), 'long': (50.0, 0.1)}


class DispatchTest(testtools.TestCase):
    """Recoveries on a simulated clock."""

    def test_recoveries_in_one_slot_wait(self) -> None:
        wanted = [dispatch.Recovery('long', 0.0, 10.0, 'h'),
                  dispatch.Recovery('long', 1.0, 10.0, 'h'),
                  dispatch.Recovery('short', 2.0, 1.0, 'h')]
        waits = {policy: [recovery.wait for recovery in dispatch.play(policy, wanted, 1)]
                 for policy in ('cfcfs', 'own')}
        self.assertEqual({'cfcfs': [0.0, 9.0, 18.0], 'own': [0.0, 10.0, 8.0]}, waits)
        slowdowns = [recovery.slowdown for recovery in dispatch.play('own', wanted, 1)]
        self.assertEqual([1.0, 2.0, 9.0], slowdowns)

    def test_all_recoveries_are_served_reproducibly(self) -> None:
        wanted = dispatch.arrivals(_SMALL, 200)
        for policy in ('fifo', 'cfcfs', 'own'):
            served = dispatch.play(policy, wanted, 4)
            self.assertEqual(wanted, [entry.recovery for entry in served])
            self.assertEqual(served, dispatch.play(policy, wanted, 4))

    def test_failed_hosts_share_the_slots_of_the_baseline(self) -> None:
        wanted = [dispatch.Recovery('short', 0.0, 5.0, f'h{number // 9}') for number in range(18)]
        for policy, begun in (('fifo', [0, 1, 9, 10]), ('cfcfs', [0, 1, 2, 3])):
            served = dispatch.play(policy, wanted, 4)
            self.assertEqual(begun, [place for place, entry in enumerate(served)
                                     if not entry.wait])

    def test_a_rack_has_four_thousand_servers(self) -> None:
        rack = dispatch.rack()
        self.assertEqual((4000, 800), (
            len(rack), sum(recovery.kind == 'long' for recovery in rack)))

    def test_bars_belong_to_figures(self) -> None:
        names = {bar.key for bar in report.BARS if bar.key.startswith('dispatch.')}
        figures = {f'dispatch.{mix}.{policy}.short.slowdown_p99_9': 1.0
                   for mix in dispatch.MIXES for policy in ('fifo', 'cfcfs', 'own')}
        figures |= {f'dispatch.rack.{policy}.{what}': 1.0
                    for policy in ('fifo', 'cfcfs', 'own')
                    for what in ('short.wait_s_p99', 'makespan_s')}
        self.assertEqual(names, dispatch._compared(figures).keys())


class ContentionTest(testtools.TestCase):
    """Members of a few groups that choose hosts at the same time."""

    def setUp(self) -> None:
        super().setUp()
        self.log = contention.log_of(60, 3)

    def test_only_members_that_do_not_wait_for_each_other_begin_anew(self) -> None:
        optimistic, locked, declared = (contention.place(self.log, way) for way in (
            contention.OPTIMISTIC, contention.LOCKED, contention.DECLARED))
        self.assertEqual((0, 0), (locked.aborted, declared.aborted))
        self.assertGreater(optimistic.aborted, 60)

    def test_no_host_has_two_members_of_a_group(self) -> None:
        for way in (contention.OPTIMISTIC, contention.LOCKED, contention.DECLARED):
            hosts = contention.place(self.log, way).hosts
            self.assertEqual(60, len({(server.partition('.')[0], host)
                                      for server, host in hosts.items()}))

    def test_engines_that_read_one_log_decide_the_same(self) -> None:
        first, second = (contention.place(self.log, contention.DECLARED, threads, threads)
                      for threads in (32, 2))
        self.assertNotEqual(first.seconds, second.seconds)
        self.assertEqual(0, first.differs(second))

    def test_engines_without_a_log_decide_differently(self) -> None:
        first, second = (contention.place(self.log, contention.OPTIMISTIC, 32, seed)
                      for seed in (1, 2))
        self.assertGreater(first.differs(second), 0)

    def test_decisions_are_the_same_only_by_what_is_declared(self) -> None:
        for shared, same in (((), False), (('hosts',), True)):
            log = contention.log_of(60, 0, shared)
            first, second = (contention.place(log, contention.DECLARED, 32, seed)
                          for seed in (1, 2))
            self.assertEqual(same, first.differs(second) == 0)

    def test_replay_names_each_recovery_that_was_waited_for(self) -> None:
        outcome = contention.place(self.log, contention.DECLARED)
        last = self.log[-1].server.id
        group = last.partition('.')[0]
        before = [entry.server.id for entry in self.log
                  if entry.server.id.partition('.')[0] == group][:-1]
        chain = outcome.why(last)
        self.assertEqual([*reversed(before), None], [wait.behind for wait in chain])
        self.assertEqual({f'group {group}', None}, {wait.resource for wait in chain})
        self.assertEqual(0.0, chain[-1].began)

    def test_replay_names_a_thread_where_none_was_free(self) -> None:
        outcome = contention.place(contention.log_of(3, 3), contention.DECLARED, 1)
        self.assertEqual({None, 'thread'}, {wait.resource for wait in outcome.waits.values()})

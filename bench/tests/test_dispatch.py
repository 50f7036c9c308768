# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the order of recoveries."""

import testtools

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

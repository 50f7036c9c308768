# SPDX-License-Identifier: Apache-2.0
"""The rate of a live merge."""

import sys

import testtools

from specreds_cinder.superposition import merge_rate


class ApproachTest(testtools.TestCase):
    """A merge's limit is raised only where the guest keeps up with it."""

    MIB = 1 << 20

    def stuck(self, rate: int, lefts: list[int]) -> list[bool]:
        """Return whether the merge is stuck, second by second."""
        approach = merge_rate.Approach(rate)
        return [approach.stuck(left, float(second)) for second, left in enumerate(lefts)]

    def test_long_merge_at_its_limit_is_not_stuck(self) -> None:
        # 100 GiB at 16 MiB/s: two hours, of which none is a standstill.
        lefts = [(100 << 30) - 16 * self.MIB * second for second in range(60)]
        self.assertNotIn(True, self.stuck(16 * self.MIB, lefts))

    def test_unknown_rest_is_not_stuck(self) -> None:
        lefts = [sys.maxsize] * 4 + [(1 << 30) - 16 * self.MIB * second for second in range(20)]
        self.assertNotIn(True, self.stuck(16 * self.MIB, lefts))

    def test_merge_is_stuck_when_the_guest_writes_as_fast(self) -> None:
        self.assertEqual([False] * 11 + [True], self.stuck(16 * self.MIB, [200 * self.MIB] * 12))

    def test_merge_is_stuck_when_the_guest_writes_faster(self) -> None:
        lefts = [(200 + second) * self.MIB for second in range(12)]
        self.assertTrue(self.stuck(16 * self.MIB, lefts)[-1])

    def test_bursts_of_the_guest_are_not_stuck(self) -> None:
        # 24 MiB every 5 s, and 2 MiB/s besides, of which 8 MiB/s leave 1.2.
        lefts = [(100 - 6 * second + 24 * (second // 5)) * self.MIB for second in range(60)]
        self.assertNotIn(True, self.stuck(8 * self.MIB, lefts))

    def test_unlimited_merge_is_stuck_when_it_hardly_moves(self) -> None:
        lefts = [1000 * self.MIB - second * self.MIB for second in range(12)]
        self.assertTrue(self.stuck(0, lefts)[-1])
        lefts = [1000 * self.MIB // 2 ** second for second in range(12)]
        self.assertNotIn(True, self.stuck(0, lefts))

    def rates(self, rate: int, written: int) -> list[int]:
        """Return the limits in MiB/s until the merge ends or has no limit.

        :param written: MiB that the guest writes per second
        """
        approach = merge_rate.Approach(rate * self.MIB)
        left, rates = 500 * self.MIB, [rate]
        for second in range(1000):
            if approach.stuck(left, float(second)):
                approach.hurry(left, float(second))
                rates.append(approach.rate // self.MIB)
            if left <= 0 or not approach.rate:
                return rates
            left += written * self.MIB - approach.rate
        raise AssertionError(f'stuck at {rates[-1]} MiB/s')

    def test_rate_is_raised_no_more_than_needed(self) -> None:
        self.assertEqual([8], self.rates(8, 4))
        self.assertEqual([8, 12], self.rates(8, 8))
        self.assertEqual([8, 12, 18], self.rates(8, 12))

    def test_rate_is_raised_at_once_to_the_guests(self) -> None:
        self.assertEqual([8, 100, 150], self.rates(8, 100))

    def test_rate_is_printed_in_mib(self) -> None:
        texts = [str(merge_rate.Approach(rate)) for rate in (12 * self.MIB, self.MIB // 2, 0)]
        self.assertEqual(['12.0 MiB/s', '0.5 MiB/s', 'none'], texts)

    def test_limit_is_dropped_at_last(self) -> None:
        self.assertEqual([8, 2000, 0], self.rates(8, 2000))

    def test_limit_follows_the_share_until_it_is_raised(self) -> None:
        approach = merge_rate.Approach(8 * self.MIB)
        self.assertFalse(approach.follow(8 * self.MIB))
        self.assertTrue(approach.follow(2 * self.MIB))
        self.assertEqual([False] * 11 + [True],
                         [approach.stuck(200 * self.MIB, float(second)) for second in range(12)])
        approach.hurry(200 * self.MIB, 12.0)
        self.assertEqual(3 * self.MIB, approach.rate)
        self.assertFalse(approach.follow(2 * self.MIB))
        self.assertTrue(approach.follow(8 * self.MIB))
        self.assertTrue(approach.follow(0))
        self.assertFalse(approach.follow(8 * self.MIB))

    def test_guest_as_fast_as_the_copy_is_noticed_although_merges_begin_all_the_time(self) -> None:
        approach = merge_rate.Approach(8 * self.MIB)
        stuck = []
        for second in range(12):
            stuck.append(approach.stuck(200 * self.MIB, float(second)))
            approach.follow((64 << 20) // (9 + second))
        self.assertEqual([False] * 11 + [True], stuck)

    def test_progress_counts_anew_at_a_higher_limit(self) -> None:
        approach = merge_rate.Approach(self.MIB)
        for second in range(10):
            self.assertFalse(approach.stuck(200 * self.MIB, float(second)))
        approach.follow(8 * self.MIB)
        self.assertFalse(approach.stuck(200 * self.MIB, 15.0))

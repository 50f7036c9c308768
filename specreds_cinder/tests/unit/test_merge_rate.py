# SPDX-License-Identifier: Apache-2.0
"""The rate of a live merge."""

import sys

import testtools

from specreds_cinder.superposition import merge_rate


class ApproachTest(testtools.TestCase):
    """A merge's limit is raised only where the guest keeps up with it."""

    MIB = 1 << 20

    def stuck(self, rate: int, lefts: list[int]) -> list[bool]:
        """Tell what it says second by second."""
        approach = merge_rate.Approach(rate)
        return [approach.stuck(left, float(second)) for second, left in enumerate(lefts)]

    def test_much_at_its_limit(self) -> None:
        # 100 GiB at 16 MiB/s: two hours, of which none is a standstill.
        lefts = [(100 << 30) - 16 * self.MIB * second for second in range(60)]
        self.assertNotIn(True, self.stuck(16 * self.MIB, lefts))

    def test_first_there_is_nothing_to_tell(self) -> None:
        lefts = [sys.maxsize] * 4 + [(1 << 30) - 16 * self.MIB * second for second in range(20)]
        self.assertNotIn(True, self.stuck(16 * self.MIB, lefts))

    def test_the_guest_keeps_up(self) -> None:
        self.assertEqual([False] * 11 + [True], self.stuck(16 * self.MIB, [200 * self.MIB] * 12))

    def test_the_guest_is_faster(self) -> None:
        lefts = [(200 + second) * self.MIB for second in range(12)]
        self.assertTrue(self.stuck(16 * self.MIB, lefts)[-1])

    def test_bursts(self) -> None:
        # 24 MiB every 5 s, and 2 MiB/s besides, of which 8 MiB/s leave 1.2.
        lefts = [(100 - 6 * second + 24 * (second // 5)) * self.MIB for second in range(60)]
        self.assertNotIn(True, self.stuck(8 * self.MIB, lefts))

    def test_without_a_limit(self) -> None:
        lefts = [1000 * self.MIB - second * self.MIB for second in range(12)]
        self.assertTrue(self.stuck(0, lefts)[-1])
        lefts = [1000 * self.MIB // 2 ** second for second in range(12)]
        self.assertNotIn(True, self.stuck(0, lefts))

    def rates(self, rate: int, written: int) -> list[int]:
        """Give the limits in MiB/s until it ends, or there is none.

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

    def test_no_more_than_it_takes(self) -> None:
        self.assertEqual([8], self.rates(8, 4))
        self.assertEqual([8, 12], self.rates(8, 8))
        self.assertEqual([8, 12, 18], self.rates(8, 12))

    def test_at_once_what_it_takes_at_least(self) -> None:
        self.assertEqual([8, 100, 150], self.rates(8, 100))

    def test_is_told(self) -> None:
        told = [str(merge_rate.Approach(rate)) for rate in (12 * self.MIB, self.MIB // 2, 0)]
        self.assertEqual(['12.0 MiB/s', '0.5 MiB/s', 'none'], told)

    def test_in_the_end_without_a_limit(self) -> None:
        self.assertEqual([8, 2000, 0], self.rates(8, 2000))

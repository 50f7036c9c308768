# SPDX-License-Identifier: Apache-2.0
"""The rate of a live merge."""

from unittest import mock

import testtools

from specreds_cinder.superposition.overlay import merge_rate

MIB = 1 << 20


class Copy:
    """A copy beside a guest.

    :ivar written: bytes that the guest writes per second
    :ivar fastest: bytes that are copied per second at most
    :ivar disturbed: rate of the copy from which on the guest's requests take a tenth of a second
    """

    def __init__(self, size: int, written: int = 0, fastest: int = 200 * MIB,
                 disturbed: int = 0) -> None:
        self.size, self.done = size, 0
        self.written, self.fastest, self.disturbed = written, fastest, disturbed
        self.clock = self.waited = 0.0
        self.requests = 0
        self.limits: list[int] = []
        self.brakes: list[int] = []

    def approach(self, *, brake: bool = True, most: int = 0) -> int:
        """Let the copy run until it ends, and return the bytes that are left."""
        self.limits = [most]
        with mock.patch.object(merge_rate, 'time', mock.Mock(monotonic=lambda: self.clock)):
            merge_rate.approach('vm', most, MIB, self._look, self.limits.append, self._wait,
                                self.brakes.append if brake else None)
        return self.size - self.done

    def _look(self) -> merge_rate.Look:
        left = self.size - self.done if self.clock else merge_rate.UNKNOWN
        return merge_rate.Look(left, self.done, self.waited, self.requests)

    def _wait(self) -> None:
        rate = min(self.fastest, self.limits[-1] or self.fastest)
        written = min(self.written, self.brakes[-1] if self.brakes else self.written)
        self.clock += 0.1
        self.size += written // 10
        self.done = min(self.size, self.done + rate // 10)
        self.requests += 10
        disturbed = self.disturbed and self.clock > 0.2 and rate > self.disturbed
        self.waited += 10 * (0.1 if disturbed else 0.001)
        assert self.clock < 3600


class ApproachTest(testtools.TestCase):

    def test_little_is_copied_without_a_limit(self) -> None:
        copy = Copy(256 * MIB, disturbed=MIB)
        self.assertLessEqual(copy.approach(), MIB)
        self.assertEqual(([0], []), (copy.limits, copy.brakes))

    def test_much_is_copied_as_fast_as_the_guest_allows(self) -> None:
        calm, disturbed = Copy(8 << 30), Copy(8 << 30, disturbed=40 * MIB)
        for copy in (calm, disturbed):
            copy.approach()
            self.assertEqual(0, copy.limits[-1])
        # Of 200 MiB/s.
        self.assertLess(calm.clock, 60)
        self.assertTrue(160 < disturbed.clock < 400, disturbed.clock)
        self.assertGreaterEqual(min(limit for limit in disturbed.limits if limit), 8 * MIB)

    def test_guest_without_requests_does_not_slow_the_copy_down(self) -> None:
        copy = Copy(8 << 30)
        with mock.patch.object(copy, '_look', lambda: merge_rate.Look(
                copy.size - copy.done, copy.done)):
            copy.approach()
        self.assertLess(copy.clock, 60)

    def test_limit_is_dropped_if_the_guest_writes_as_fast(self) -> None:
        copy = Copy(1 << 30, written=100 * MIB, disturbed=MIB)
        copy.approach()
        self.assertIn(0, copy.limits[1:])
        self.assertEqual([], copy.brakes)
        self.assertLess(copy.clock, 30)

    def test_guest_that_writes_faster_than_any_copy_is_slowed_down(self) -> None:
        copy = Copy(100 * MIB, written=210 * MIB)
        self.assertLessEqual(copy.approach(), MIB)
        self.assertEqual(1, len(copy.brakes))
        self.assertTrue(80 * MIB < copy.brakes[0] < 120 * MIB)
        self.assertLess(copy.clock, 10)

    def test_guest_that_is_still_too_fast_is_slowed_down_more(self) -> None:
        # Each of its writes has more copied than it writes.
        copy = Copy(100 * MIB, written=210 * MIB)
        with mock.patch.object(copy, '_wait', self._amplified(copy)):
            copy.approach()
        self.assertGreater(len(copy.brakes), 1)
        self.assertEqual(sorted(copy.brakes, reverse=True), copy.brakes)

    def _amplified(self, copy: Copy) -> mock.Mock:
        wait = copy._wait

        def amplified() -> None:
            wait()
            copy.size += 15 * min(
                copy.written, copy.brakes[-1] if copy.brakes else copy.written) // 10
        return mock.Mock(side_effect=amplified)

    def test_guest_that_cannot_be_slowed_down_leaves_a_rest(self) -> None:
        copy = Copy(100 * MIB, written=210 * MIB)
        self.assertGreater(copy.approach(brake=False), 50 * MIB)
        self.assertLess(copy.clock, 10)

    def test_storage_that_is_stuck_slows_no_guest_down(self) -> None:
        copy = Copy(100 * MIB, written=MIB, fastest=0)
        wait = copy._wait

        def mended() -> None:
            copy.fastest = 200 * MIB if copy.clock > 60 else 0
            wait()
        with mock.patch.object(copy, '_wait', mended):
            copy.approach()
        self.assertEqual([], copy.brakes)

    def test_highest_limit_is_kept_while_it_suffices(self) -> None:
        copy = Copy(100 * MIB)
        copy.approach(most=4 * MIB)
        self.assertEqual([4 * MIB], copy.limits)

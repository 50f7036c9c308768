# SPDX-License-Identifier: Apache-2.0
"""The bandwidth that the merges of a host share."""

import contextlib

import testtools

from specreds_nova.virt.merge import bandwidth

MIB = 1 << 20


class BandwidthTest(testtools.TestCase):

    def test_few_disks_have_the_rate_of_a_disk(self) -> None:
        shared = bandwidth.Bandwidth(8 * MIB, 64 * MIB)
        with shared.copying(8):
            self.assertEqual(8 * MIB, shared.share())

    def test_many_disks_share_the_rate_of_the_host(self) -> None:
        shared = bandwidth.Bandwidth(8 * MIB, 64 * MIB)
        with shared.copying(8), shared.copying(8):
            self.assertEqual(4 * MIB, shared.share())
        self.assertEqual(8 * MIB, shared.share())

    def test_end_by_an_error_frees_the_share(self) -> None:
        shared = bandwidth.Bandwidth(8 * MIB, 8 * MIB)

        def fail() -> None:
            with shared.copying(2):
                raise ValueError
        self.assertRaises(ValueError, fail)
        with shared.copying(1):
            self.assertEqual(8 * MIB, shared.share())

    def test_each_disk_has_a_little(self) -> None:
        shared = bandwidth.Bandwidth(8 * MIB, MIB)
        with shared.copying(1000):
            self.assertEqual(MIB // 4, shared.share())

    def test_rates_may_have_no_limit(self) -> None:
        self.assertEqual(0, bandwidth.Bandwidth(0, 0).share())
        self.assertEqual(8 * MIB, bandwidth.Bandwidth(8 * MIB, 0).share())
        self.assertEqual(64 * MIB, bandwidth.Bandwidth(0, 64 * MIB).share())

    def test_few_guests_are_suspended_at_a_time(self) -> None:
        shared = bandwidth.Bandwidth(8 * MIB, 64 * MIB)

        def wait(_seconds: float) -> None:
            raise TimeoutError

        def suspend() -> None:
            with shared.turn(wait):
                pass
        with contextlib.ExitStack() as turns:
            for _ in range(3):
                turns.enter_context(shared.turn(wait))
            self.assertRaises(TimeoutError, suspend)
        suspend()

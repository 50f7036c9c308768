# SPDX-License-Identifier: Apache-2.0
"""The merges of a host."""

import contextlib

import testtools

from specreds_nova.host.merge import job


class TurnsTest(testtools.TestCase):

    def test_disks_count_while_they_are_copied(self) -> None:
        shared = job.Turns()

        def fail() -> None:
            with shared.copying(2), shared.copying(3):
                self.assertEqual(5, shared.disks)
                raise ValueError
        self.assertRaises(ValueError, fail)
        self.assertEqual(0, shared.disks)

    def test_few_guests_are_suspended_at_a_time(self) -> None:
        shared = job.Turns()

        def wait(_seconds: float) -> None:
            raise TimeoutError

        def suspend() -> None:
            with shared.turn(wait):
                pass
        with contextlib.ExitStack() as taken:
            for _ in range(3):
                taken.enter_context(shared.turn(wait))
            self.assertRaises(TimeoutError, suspend)
        suspend()

# SPDX-License-Identifier: Apache-2.0
"""Time limits on quiet and on busy machines."""

from unittest import mock

import testtools

from cloud import deadline


class DeadlineTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.now = 100.0
        self.crowding = 0.5
        self.deadline = deadline.Deadline(60, lambda: self.now, lambda: self.crowding)

    def pass_after(self, seconds: float) -> bool:
        self.now += seconds
        return self.deadline.passed

    def test_limit_of_another_program_is_extended_by_the_load(self) -> None:
        for crowding, seconds in ((0.5, 60), (2.0, 120), (50.0, 360)):
            self.assertEqual(seconds, deadline.extended(60, mock.Mock(return_value=crowding)))

    def test_quiet_machine_has_the_limit_itself(self) -> None:
        self.assertFalse(self.pass_after(59))
        self.assertTrue(self.pass_after(1))

    def test_crowded_machine_has_longer(self) -> None:
        self.crowding = 4
        self.assertFalse(self.pass_after(239))
        self.assertTrue(self.pass_after(1))

    def test_each_second_counts_by_its_own_load(self) -> None:
        self.assertFalse(self.pass_after(30))
        self.crowding = 3
        self.assertFalse(self.pass_after(89))
        self.assertTrue(self.pass_after(1))

    def test_limit_is_finite_under_any_load(self) -> None:
        self.crowding = 1000
        self.assertTrue(self.pass_after(6 * 60))

    def test_elapsed_time_is_that_of_the_clock(self) -> None:
        self.crowding = 4
        self.pass_after(70)
        self.assertEqual(70, self.deadline.elapsed)

    def test_this_machine(self) -> None:
        self.assertFalse(deadline.Deadline(60).passed)
        self.assertTrue(deadline.Deadline(0).passed)

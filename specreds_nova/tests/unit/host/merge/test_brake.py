# SPDX-License-Identifier: Apache-2.0
"""A guest that is slowed down for the end of its merge."""

from unittest import mock

import testtools

from specreds_nova.host.merge import brake
from specreds_nova.tests.unit.host.merge import fakes

MIB = 1 << 20


class BrakeTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.domain = fakes.Domain()
        self.disk, self.other = self.domain.disks

    def limits(self) -> dict[str, int]:
        """Return the limits of the first disk in the running domain."""
        return {name: value for name, value in self.disk.tune.items() if value}

    def test_disks_share_the_rate_and_each_write_counts_as_what_is_copied_for_it(self) -> None:
        brake.press(self.domain, 20 * MIB)
        self.assertEqual({'write_bytes_sec': 10 * MIB, 'write_iops_sec': 160}, self.limits())
        self.assertEqual(self.disk.tune, self.other.tune)

    def test_own_limits_that_are_lower_stay(self) -> None:
        for disk in self.domain.disks:
            disk.own.update(total_iops_sec=100, read_bytes_sec=5, write_bytes_sec=7)
            disk.tune = dict(disk.own)
        brake.press(self.domain, 20 * MIB)
        self.assertEqual({'read_bytes_sec': 5, 'write_bytes_sec': 7, 'read_iops_sec': 100,
                          'write_iops_sec': 100}, self.limits())

    def test_own_limits_return_with_those_of_bursts(self) -> None:
        self.disk.own.update(total_iops_sec=900, total_iops_sec_max=2000)
        self.disk.tune = dict(self.disk.own)
        brake.press(self.domain, 20 * MIB)
        self.assertNotIn('total_iops_sec_max', self.limits())
        brake.release(self.domain)
        self.assertEqual(self.disk.own, self.disk.tune)

    def test_release_of_a_guest_that_is_not_slowed_down_changes_nothing(self) -> None:
        brake.release(self.domain)
        self.assertEqual([], self.domain.log)

    def test_disk_without_a_stored_definition_is_left_alone(self) -> None:
        self.patch(self.domain, 'blockIoTune', mock.Mock(side_effect=fakes.Failure()))
        brake.press(self.domain, 20 * MIB)
        brake.release(self.domain)
        self.assertEqual([], self.domain.log)

    def test_any_guest_may_write_a_little(self) -> None:
        brake.press(self.domain, 1)
        self.assertEqual({'write_bytes_sec': MIB, 'write_iops_sec': 16}, self.limits())

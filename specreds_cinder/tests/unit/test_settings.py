# SPDX-License-Identifier: Apache-2.0
"""Tunables: the defaults are valid, and invalid values are refused by name."""

import os
from unittest import mock

import ddt
import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import settings


@ddt.ddt
class SettingsTest(testtools.TestCase):

    def test_defaults_are_valid(self) -> None:
        tunables = settings.Settings()
        # The design's goal: a volume of 100 GiB is swept within a second.
        self.assertGreaterEqual(tunables.watch_objects_per_second, 25_600)
        # A fence must outlive any primary.
        self.assertGreater(tunables.fence_expiry_s, 365 * 24 * 3600)

    @ddt.data(('workers', 0), ('watch_objects_per_second', 0), ('watch_objects_per_second', -1),
              ('fence_expiry_s', 0), ('stale_after_s', 0), ('merge_bytes_per_second', -1),
              ('merge_stall_s', 0), ('sweep_processes', -1), ('sweep_objects_per_process', 0))
    @ddt.unpack
    def test_invalid_value_is_refused_by_name(self, name: str, value: int) -> None:
        error = self.assertRaises(errors.InvalidInput, settings.Settings, **{name: value})
        self.assertIn(name, str(error))

    def test_sweep_has_a_process_for_each_so_many_objects(self) -> None:
        tunables = settings.Settings(sweep_processes=3, sweep_objects_per_process=10)
        self.assertEqual([0, 1, 2, 3, 3], [tunables.sweep_processes_for(objects)
                                           for objects in (9, 19, 20, 30, 1000)])

    @ddt.data((1, 1), (2, 1), (4, 2), (9, 4), (64, 8))
    @ddt.unpack
    def test_0_is_a_process_for_each_two_processors(self, processors: int,
                                                    processes: int) -> None:
        with mock.patch.object(os, 'sched_getaffinity', lambda _pid: set(range(processors))):
            self.assertEqual(processes, settings.Settings(sweep_processes=0).most_sweep_processes)
            self.assertEqual(5, settings.Settings(sweep_processes=5).most_sweep_processes)

    def test_sweep_has_no_processes_by_default(self) -> None:
        self.assertLess(settings.Settings().sweep_processes_for(1 << 40), 2)

    def test_volumes_below_2_tib_need_no_process_by_default(self) -> None:
        self.assertLess(settings.Settings(sweep_processes=64).sweep_processes_for(499_999), 2)

    def test_rate_0_is_valid(self) -> None:
        self.assertEqual(0, settings.Settings(merge_bytes_per_second=0).merge_bytes_per_second)

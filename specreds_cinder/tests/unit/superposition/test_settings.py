# SPDX-License-Identifier: Apache-2.0
"""Tunables: the defaults are valid, and invalid values are refused by name."""

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
              ('fence_expiry_s', 0), ('stale_after_s', 0), ('merge_stall_s', 0))
    @ddt.unpack
    def test_invalid_value_is_refused_by_name(self, name: str, value: int) -> None:
        error = self.assertRaises(errors.InvalidInput, settings.Settings, **{name: value})
        self.assertIn(name, str(error))


# SPDX-License-Identifier: Apache-2.0
"""Values that are valid for a time."""

import testtools

from specreds_nova.engine.clients import expiring


class ExpiringTest(testtools.TestCase):

    def test_value_is_valid_until_its_end(self) -> None:
        values = expiring.Expiring[str, int]()
        values.put('a', 1, 5.0, 0.0)
        self.assertEqual(1, values.get('a', 4.9))
        self.assertIsNone(values.get('a', 5.0))
        self.assertIsNone(values.get('b', 0.0))

    def test_values_are_removed_some_time_after_their_end(self) -> None:
        values = expiring.Expiring[int, int]()
        for number in range(100_000):
            # A hundred of them are valid.
            values.put(number, number, number + 100.0, float(number))
        self.assertLess(len(values), 500)
        self.assertEqual(99_998, values.get(99_998, 99_999.0))

    def test_many_valid_values_are_kept(self) -> None:
        values = expiring.Expiring[int, int]()
        for number in range(10_000):
            values.put(number, number, 1.0, 0.0)
        self.assertEqual(10_000, len(values))

# SPDX-License-Identifier: Apache-2.0
"""How often recoveries look, by how many do."""

import contextlib

import testtools

from specreds_nova.engine.recovery import context as contexts


class CrowdsTest(testtools.TestCase):
    """Many recoveries look as often, together, as some."""

    def test_interval_grows_with_the_crowd(self) -> None:
        waiting = contexts.Crowds()
        with contextlib.ExitStack() as stack:
            for _ in range(4000):
                interval = stack.enter_context(waiting.waiting('merge'))
            self.assertEqual(40.0, interval(3.0, 0))
            self.assertEqual(40.0, interval(3.0, 50))
            self.assertEqual(160.0, interval(3.0, 51))
            with waiting.waiting('evacuation') as other:
                self.assertEqual(1.0, other(1.0, 0))
        with waiting.waiting('merge') as interval:
            self.assertEqual(3.0, interval(3.0, 0))

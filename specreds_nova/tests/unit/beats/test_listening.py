# SPDX-License-Identifier: Apache-2.0
"""The clock that runs only while the engine receives messages."""

import testtools

from specreds_nova.beats import listening


class ListeningTest(testtools.TestCase):
    """An engine that starts at 0 and receives its own echoes."""

    def setUp(self) -> None:
        super().setUp()
        self.settings = listening.Settings(echo=0.1, pause=0.3, outage=1.0, settle=5.0)
        self.clock = listening.Listening(self.settings, 0.0)
        self.now = 0.0

    def hear(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.1)):
            self.now += 0.1
            self.clock.echo(self.now)

    def test_clock_stands_before_the_first_echo(self) -> None:
        self.assertIn('not heard', self.clock.trouble(0.0) or '')

    def test_clock_starts_after_settling(self) -> None:
        self.hear(4.9)
        self.assertIn('waits', self.clock.trouble(self.now) or '')
        self.assertEqual(0.0, self.clock.horizon())
        self.hear(2.1)
        self.assertIsNone(self.clock.trouble(self.now))
        self.assertAlmostEqual(2.0, self.clock.horizon(), delta=0.11)

    def test_silence_is_measured_up_to_the_newest_echo(self) -> None:
        self.hear(10)
        horizon = self.clock.horizon()
        self.assertAlmostEqual(horizon, self.clock.at(self.now))
        # A message that was received later is after the horizon.
        self.assertGreater(self.clock.at(self.now + 0.05), horizon)

    def test_message_before_an_echo_is_not_far_ahead_of_it(self) -> None:
        self.hear(10)
        self.assertTrue(self.clock.runs(self.now + 0.2))
        self.assertFalse(self.clock.runs(self.now + 60.0))
        self.assertAlmostEqual(self.clock.horizon() + self.settings.pause,
                               self.clock.at(self.now + 60.0))

    def test_outage_does_not_count(self) -> None:
        self.hear(10)
        before = self.clock.horizon()
        self.assertIn('for 2.0 s', self.clock.trouble(self.now + 2.0) or '')
        self.now += 60.0
        self.assertAlmostEqual(before, self.clock.echo(self.now) or 0.0)
        self.assertIn('lost the broker', self.clock.trouble(self.now) or '')
        self.hear(4.9)
        self.assertAlmostEqual(before, self.clock.horizon())
        self.hear(1.1)
        self.assertIsNone(self.clock.trouble(self.now))
        self.assertAlmostEqual(before + 1.0, self.clock.horizon(), delta=0.11)

    def test_hiccup_does_not_count_and_needs_no_settling(self) -> None:
        self.hear(10)
        before = self.clock.horizon()
        self.now += 0.5
        self.clock.echo(self.now)
        self.assertAlmostEqual(before, self.clock.horizon())
        self.assertIsNone(self.clock.trouble(self.now))

    def test_late_and_repeated_echoes_are_ignored(self) -> None:
        self.hear(10)
        before = self.clock.horizon()
        self.assertIsNone(self.clock.echo(self.now))
        self.assertIsNone(self.clock.echo(self.now - 1.0))
        self.assertEqual(before, self.clock.horizon())

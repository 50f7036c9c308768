# SPDX-License-Identifier: Apache-2.0
"""Beats that are forged, old, or those of a second host with the same name."""

from typing import Any

from specreds_nova.beats import message
from specreds_nova.beats import rejections
from specreds_nova.tests.unit.engine.suspicion import base


class SendersTest(base.CloudTestCase):
    """A host that lives, and somebody else who sends beats with its name."""

    def setUp(self) -> None:
        """Start the cloud, with hosts that tell what runs on them."""
        super().setUp()
        self.node = self.nodes['cn2']
        self.node.more = {'kernel': 'k1', 'running': 'd1'}
        self.monitor.heard(self.node.beat(domains=('s1',)))
        self.run_for(1)
        self.rejected = self.monitor._rejections
        self.rejected.taken()

    def forge(self, boot: str = 'b1', ahead: int = 0, **more: Any) -> None:
        """Send a beat of another sender.

        :param ahead: how far its number is ahead of the host's next one
        """
        self.monitor.heard(message.Beat('cn2', boot, self.node.number + ahead, base.INTERVAL,
                                        **{**self.node.more, **more}))

    def assert_unchanged(self) -> None:
        """Check that the host counts as before."""
        self.assertEqual([], self.witness.names('suspected'))
        self.assertEqual(('b1', self.node.number - 1),
                         (self.monitor.boot('cn2'), self.monitor.number('cn2')))
        self.assertTrue(self.monitor.runs('cn2', 's1'))
        for name in ('crashed', 'left'):
            self.assertEqual([], self.witness.names(name))
        self.assertEqual(['cn2'], self.witness.names('booted'))

    def test_number_that_is_far_ahead_changes_nothing(self) -> None:
        for ahead in (10 ** 17, 10 ** 6, 301):
            self.forge(ahead=ahead, running='other')
            self.assert_unchanged()
            self.run_for(3)
            self.assert_unchanged()
        self.assertEqual({rejections.JUMP: 3}, self.rejected.taken())

    def test_number_that_is_a_little_ahead_mutes_no_host(self) -> None:
        for ahead in (2, 5, 50, 299):
            self.forge(ahead=ahead)
            self.run_for(3)
            self.assert_unchanged()

    def test_two_numbers_that_are_ahead_mute_no_host(self) -> None:
        for _ in range(3):
            for ahead in (10 ** 6, 10 ** 6 + 1, 10 ** 6 + 2):
                self.forge(ahead=ahead)
            self.run_for(2)
            self.assert_unchanged()

    def test_second_host_of_the_same_name_changes_nothing(self) -> None:
        for number in range(100):
            self.run_for(0.1)
            self.monitor.heard(message.Beat('cn2', 'b2', number, base.INTERVAL, kernel='k2',
                                            running='d2', domains=()))
            self.run_for(0.1)
            self.assertEqual('b1', self.monitor.boot('cn2'))
        self.assert_unchanged()
        self.assertEqual({rejections.SENDER: 100}, self.rejected.taken())

    def test_single_beat_of_another_boot_changes_nothing(self) -> None:
        self.forge('b2', leaving=True, goodbye=message.SERVICE, kernel='k2', storage_age=99.0)
        self.run_for(3)
        self.assert_unchanged()

    def test_other_interval_changes_nothing(self) -> None:
        for interval in (0.001, 3599.0):
            self.monitor.heard(message.Beat('cn2', 'b1', self.node.number, interval,
                                            **self.node.more))
            self.run_for(1)
            self.assert_unchanged()
        self.node.alive = False
        self.run_for(1)
        self.assertEqual({'cn2'}, self.suspected())

    def test_beat_of_another_boot_in_a_pause_mutes_no_host(self) -> None:
        for _ in range(2):
            self.node.alive = False
            self.run_for(0.5)
            self.forge('b9')
            self.node.alive = True
            self.run_for(5)
            self.assertEqual(('b1', self.node.number - 1),
                             (self.monitor.boot('cn2'), self.monitor.number('cn2')))
        self.assertEqual([], self.witness.names('suspected'))
        self.assertEqual([], self.witness.names('crashed'))

    def test_first_beat_that_is_forged_mutes_no_host(self) -> None:
        late = self.nodes['cn9'] = base.Node('cn9', 0.05)
        self.monitor.heard(message.Beat('cn9', 'b1', 10 ** 17, base.INTERVAL))
        self.run_for(5)
        self.assertEqual(late.number - 1, self.monitor.number('cn9'))
        self.assertEqual([], self.witness.names('suspected'))

    def test_restart_counts_at_once(self) -> None:
        self.node.alive = False
        self.run_for(2)
        self.assertEqual({'cn2'}, self.suspected())
        self.node.alive, self.node.boot, self.node.number = True, 'b2', 0
        self.monitor.heard(self.node.beat())
        self.assertEqual('b2', self.monitor.boot('cn2'))
        self.run_for(1)
        self.assertEqual(set(), self.suspected())

    def test_restart_after_a_goodbye_counts_at_once(self) -> None:
        self.monitor.heard(self.node.beat(leaving=True, goodbye=message.SERVICE))
        self.node.boot, self.node.number = 'b2', 0
        self.monitor.heard(self.node.beat())
        self.assertEqual('b2', self.monitor.boot('cn2'))
        self.assertEqual({}, self.rejected.taken())

    def test_restart_without_a_pause_counts_before_a_suspicion(self) -> None:
        self.node.boot, self.node.number = 'b2', 0
        self.run_for(0.7)
        self.assertEqual('b2', self.monitor.boot('cn2'))
        self.assertEqual([], self.witness.names('suspected'))

    def test_late_beats_of_the_former_boot_do_not_count(self) -> None:
        old = [self.node.beat() for _ in range(5)]
        self.node.alive = False
        self.run_for(2)
        self.node.boot, self.node.number, self.node.alive = 'b2', 0, True
        self.run_for(2)
        self.node.alive = False
        self.run_for(2)
        self.assertEqual({'cn2'}, self.suspected())
        for beat in old:
            self.monitor.heard(beat)
        self.assertEqual('b2', self.monitor.boot('cn2'))
        self.run_for(1)
        self.assertEqual({'cn2'}, self.suspected())

    def test_beats_after_a_forged_goodbye_cancel_it(self) -> None:
        for ahead in (0, 1, 10, 200):
            self.forge(ahead=ahead, leaving=True, goodbye=message.SERVICE)
            self.run_for(2)
            self.assertIn('cn2', self.monitor.healthy())
        self.node.alive = False
        self.run_for(1)
        self.assertEqual({'cn2'}, self.suspected())

    def test_echo_from_the_future_does_not_count(self) -> None:
        for later in (86400.0, float('nan'), float('inf')):
            self.monitor.echo(self.clock.now() + later)
        self.run_for(1)
        self.assertIsNone(self.monitor.trouble())
        self.node.alive = False
        self.run_for(1)
        self.assertEqual({'cn2'}, self.suspected())
        self.assertEqual({rejections.ECHO: 3}, self.rejected.taken())

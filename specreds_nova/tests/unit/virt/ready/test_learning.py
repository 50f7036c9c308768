# SPDX-License-Identifier: Apache-2.0
"""The marker that a console teaches."""

import ddt
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies
import testtools

from specreds_nova import markers
from specreds_nova.virt.ready import learning

_TAIL = 32 * 1024
# As guest G1 of the test cloud leaves it.
_G1 = (b'\nSYSLINUX 6.04 20250413 Copyright (C) 1994-2015 H. Peter Anvin et al\n'
       b'NETWORK 10.77.0.236\n'
       b'G1-READY boot=993041f5-4cfd-4f06-8971-04887b0872c7 uptime=14.15 heartbeat=0.5 count=0\n'
       b'\n\nBusyBox v1.37.0 (Debian 1:1.37.0-6+b9) built-in shell (ash)\n'
       b"Enter 'help' for a list of built-in commands.\n\n~ # \x1b[6n")


@ddt.ddt
class LearningTest(testtools.TestCase):
    """The last line with a text that is the same after each boot."""

    @ddt.data(
        (b'web server is up\n', 'web server is up'),
        (_G1, "Enter 'help' for a list of built-in commands."),
        (b'first line\nweb server is up\n', 'web server is up'),
        (b'web server is up', 'web server is up'),
        # What varies is left out, and the longest rest is taken.
        (b'Wed Nov 25 03:01:48 UTC 2026 nginx serves at 10.0.0.5:80, process 711\n',
         'nginx serves at'),
        (b'READY boot=6f0a-11 uptime=5.25 heartbeat=0 count=0\n', 'READY boot='),
        (b'G1-READY boot=6f0a-11 uptime=5.25 heartbeat=0 count=0\n/ # \x1b[6n', 'heartbeat='),
        (b'\x1b[0;32mweb server\x1b[0m is up', 'web server'),
        # The kernel writes whenever it likes; a prompt is too short.
        (b'web server is up\n[   12.3456] random: crng init done\n\n# ', 'web server is up'),
        (b'the end of ' + b'a very ' * 9 + b'long line',
         'very a very a very a very a very a very a very a very long line'))
    @ddt.unpack
    def test_end_of_a_boot_is_learned(self, console: bytes, marker: str) -> None:
        self.assertEqual(marker, learning.marker(console, b''))
        self.assertTrue(markers.valid(marker))
        self.assertIn(marker.encode(), console)

    @ddt.data(
        b'', b'\n\n', b'# ', b'ready\n', b'----------------\n', b'12:00:01 10.0.0.5 0x3f5a77\n',
        'größte ähnliche Überschüsse'.encode('latin-1'), b'\xff' * 100,
        b'line ' * 200,
        # Shown twice.
        b'waiting for network\nwaiting for network\n',
        b'retry: waiting for network\nwaiting for network\n',
        b'the password of root is hunter\n', b'Session TOKEN: abcdefghijk\n',
        # Too far from the end.
        b'web server is up\n' + b'.\n' * 20)
    def test_other_text_is_no_marker(self, console: bytes) -> None:
        self.assertIsNone(learning.marker(console, b''))

    def test_text_that_was_shown_earlier_is_no_marker(self) -> None:
        self.assertIsNone(learning.marker(b'web server is up\n', b'web server is up\n'))
        self.assertEqual('web server is up',
                         learning.marker(b'web server is up\n', b'web server starts\n'))

    @given(strategies.binary(max_size=2000) | strategies.text(
        alphabet='ab 7\n\x1b[;m=', max_size=2000).map(str.encode), strategies.binary())
    @settings(max_examples=300, derandomize=True)
    def test_marker_of_any_console_is_valid_and_was_shown_once(
            self, console: bytes, earlier: bytes) -> None:
        marker = learning.marker(console, earlier)
        if marker is not None:
            self.assertTrue(markers.valid(marker))
            self.assertEqual(1, console.count(marker.encode()))
            self.assertNotIn(marker.encode(), earlier)

    @ddt.data(b'a', b'\x1b[', b'\x1b[1', b'1', b' ', b'[', b'[ 1.', b'\n', b'a\n', b'a7=',
              b'\xc3')
    def test_console_full_of_one_text_has_no_marker(self, text: bytes) -> None:
        for console in (text * (_TAIL // len(text)), (text * 500)[:500] + b'\n' + b'x' * _TAIL):
            self.assertIsNone(learning.marker(console, b''))

# SPDX-License-Identifier: Apache-2.0
"""What is a marker, of all texts that guests, hosts and engines may send."""

import ddt
import testtools

from specreds_nova import markers


@ddt.ddt
class MarkersTest(testtools.TestCase):

    @ddt.data('web server is up', 'heartbeat=', '(?i)[a-z]+ .*up', 'x' * 8, 'x' * 64)
    def test_short_literal_text_is_a_marker(self, text: str) -> None:
        self.assertTrue(markers.valid(text))

    @ddt.data(None, 7, b'web server is up', ['web server is up'], '', 'x' * 7, 'x' * 65,
              ' web server is up', 'web server is up ', 'web server\nis up', 'web server is up\n',
              'web\x00server is up', '\x1b[2Jweb server is up', 'größer als sonst',
              'up after five 5 s', '------------', '=== abc ===')
    def test_anything_else_is_none(self, text: object) -> None:
        self.assertFalse(markers.valid(text))

# SPDX-License-Identifier: Apache-2.0
"""How values are shown."""

import ddt
import testtools

from specreds_cinder.osc import shown


@ddt.ddt
class SizeTest(testtools.TestCase):

    @ddt.data((None, 'unknown'), (0, '0 B'), (1023, '1023 B'), (1024, '1 KiB'),
              (10 * 2**30, '10 GiB'), (2**40 - 1, '1024 GiB'), (2**51, '2048 TiB'))
    @ddt.unpack
    def test_size_is_readable(self, value: int | None, words: str) -> None:
        self.assertEqual(words, shown.size(value))

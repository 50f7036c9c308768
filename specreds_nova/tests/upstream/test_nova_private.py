# SPDX-License-Identifier: Apache-2.0
"""The guard of what is private of Nova, with each release that is supported."""

import testtools

from specreds_nova.host import nova_private


class NovaPrivateTest(testtools.TestCase):
    """The Nova of this environment."""

    def test_plug_in_fits(self) -> None:
        self.assertEqual([], nova_private.faults())

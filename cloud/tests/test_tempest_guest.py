# SPDX-License-Identifier: Apache-2.0
"""Guest G1 as Tempest's tests use it over HTTP."""

from collections.abc import Sequence
import json
from urllib import parse

import testtools

from cloud import tempest_guest


class _G1:
    """Answers as the guest does; a heartbeat is written whenever somebody looks.

    :ivar interval: as it was asked for last
    """

    def __init__(self, count: int = 7) -> None:
        self.interval = '0'
        self._count = count

    def run(self, argv: Sequence[str], /) -> str:
        url = parse.urlsplit(argv[-1])
        if url.path == '/who':
            return 'a-boot\n'
        if url.query:
            self.interval = url.query
        elif self.interval != '0':
            self._count += 1
        return json.dumps({'count': self._count, 'interval': self.interval})


class GuestTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.g1 = _G1()
        self.guest = tempest_guest.Guest(self.g1, '10.0.0.7')

    def test_identity_is_that_of_the_boot(self) -> None:
        self.assertEqual('a-boot', self.guest.identity())

    def test_written_value_can_be_read(self) -> None:
        before = self.guest.read()
        written = self.guest.write()
        self.assertNotEqual(before, written)
        self.assertEqual((written, '0'), (self.guest.read(), self.g1.interval))

    def test_guest_is_busy_until_it_is_quieted(self) -> None:
        self.guest.busy()
        self.assertNotEqual('0', self.g1.interval)
        self.assertNotEqual(self.guest.read(), self.guest.read())
        self.guest.quiet()
        self.assertEqual(self.guest.read(), self.guest.read())

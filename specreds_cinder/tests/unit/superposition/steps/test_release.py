# SPDX-License-Identifier: Apache-2.0
"""The release of fenced clients that boots of their hosts have ended."""

from collections.abc import Collection
import datetime
from typing import Any
from unittest import mock

import fixtures
import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import steps
from specreds_cinder.superposition.exclusion import fenced as fences
from specreds_cinder.superposition.truth import record as records

_HOME = records.Home('volumes')
_FENCED = '2026-01-01T00:00:00.000+00:00'
_BOOTS = {'192.0.2.1': datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)}
_CLIENT = '192.0.2.1:0/1'


class ReleaseBootedTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.release = steps.Protocol(mock.Mock())
        self.opened: list[str] = []

    def released(self, **fenced_at: str) -> list[str]:
        """Release, and return the clients whose blocklist entries are removed.

        :param fenced_at: the times at which the listed clients were fenced
        """
        clients: Any = mock.Mock()
        clients.read.return_value = fences.Listing({
            client: fences.Entry('superposition', None, moment)
            for client, moment in fenced_at.items()}, 1)
        fence: Any = mock.Mock()
        fence.remaining.return_value = dict.fromkeys(fenced_at, 1e6)
        fence.open.side_effect = self.open
        self.release.fenced_clients, self.release.fence = clients, fence
        self.assertEqual(self.release.release_booted(_HOME, _BOOTS), self.opened)
        clients.remove.assert_called_once()
        return self.opened

    def open(self, clients: Collection[str]) -> None:
        """Remove blocklist entries."""
        self.opened += clients

    def test_client_that_was_fenced_a_minute_before_the_boot_is_released(self) -> None:
        self.assertEqual([_CLIENT], self.released(**{
            _CLIENT: '2026-01-01T23:58:59+00:00', '192.0.2.1:0/2': '2026-01-01T23:59:01+00:00',
            '192.0.2.2:0/1': _FENCED}))

    def test_malformed_entry_is_named_and_does_not_keep_others_fenced(self) -> None:
        malformed = {'compute-1:0/7': _FENCED, '192.0.2.1': _FENCED, '192.0.2.1:0/0': _FENCED,
                     '192.0.2.1:0/8': 'yesterday', '192.0.2.1:0/9': '2026-01-01T00:00:00'}
        self.assertEqual([_CLIENT], self.released(**malformed, **{_CLIENT: _FENCED}))
        for client in malformed:
            self.assertIn(f'fenced client {client} stays fenced', self.log.output)

    def test_malformed_boot_is_refused(self) -> None:
        for boots in ({'compute-1': _BOOTS['192.0.2.1']},
                      {'192.0.2.1': datetime.datetime(2026, 1, 2)}):
            self.assertRaises(errors.InvalidInput, self.release.release_booted, _HOME, boots)

# SPDX-License-Identifier: Apache-2.0
"""What the sentinels of a cloud cost its monitors."""

from collections.abc import Mapping
from typing import Any
from unittest import mock

import testtools

from specreds_nova.sentinel import evidence

_CLIENT = '198.51.100.7:0/11'


class BlocklistTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.epoch = 1
        self.commands: list[str] = []
        self.storage = evidence.Storage(mock.Mock(mon=self.answer))

    def answer(self, command: Mapping[str, Any]) -> Any:
        """Answer as the monitors do."""
        self.commands.append(command['prefix'])
        if command['prefix'] == 'osd stat':
            return {'epoch': self.epoch}
        return [{'addr': _CLIENT, 'until': '2999-01-01T00:00:00.000000+0000'},
                {'addr': '198.51.100.8:0/12', 'until': '2000-01-01T00:00:00.000000+0000'}]

    def test_blocklist_is_listed_once_per_osdmap(self) -> None:
        for _ in range(100):
            self.assertEqual({_CLIENT}, self.storage.suspected(60))
        self.assertEqual(1, self.commands.count('osd blocklist ls'))
        self.epoch += 1
        self.storage.suspected(60)
        self.assertEqual(2, self.commands.count('osd blocklist ls'))

    def test_judgement_lists_the_blocklist_each_time(self) -> None:
        for _ in range(3):
            self.assertEqual({_CLIENT}, self.storage.blocklisted(60))
        self.assertEqual(['osd blocklist ls'] * 3, self.commands)

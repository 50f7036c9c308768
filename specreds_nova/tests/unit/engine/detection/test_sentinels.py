# SPDX-License-Identifier: Apache-2.0
"""What is recorded of the sentinels of hosts."""

from unittest import mock

import testtools

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.detection import sentinels


class SentinelsTest(testtools.TestCase):
    """An engine that hears two hosts."""

    def setUp(self) -> None:
        super().setUp()
        self.reported = {'cn1': model.LIVE, 'cn2': model.SILENT}
        self.database = mock.Mock()
        self.sentinels = sentinels.Sentinels(lambda: self.reported, self.database)

    def looked(self) -> list[tuple[str, str]]:
        """Return what one look records."""
        self.database.report_sentinel.reset_mock()
        self.sentinels.look()
        return [call.args for call in self.database.report_sentinel.call_args_list]

    def test_changes_are_recorded_once(self) -> None:
        self.assertEqual([('cn1', model.LIVE), ('cn2', model.SILENT)], self.looked())
        self.assertEqual([], self.looked())
        self.reported['cn2'] = model.LIVE
        self.assertEqual([('cn2', model.LIVE)], self.looked())

    def test_what_is_recorded_is_not_recorded_again(self) -> None:
        self.sentinels.know([model.Host('cn1', sentinel=model.LIVE), model.Host('cn2')])
        self.assertEqual([('cn2', model.SILENT)], self.looked())

    def test_database_that_is_away_gets_it_later(self) -> None:
        self.database.report_sentinel.side_effect = exception.Unreachable('away')
        self.assertEqual(1, len(self.looked()))
        self.database.report_sentinel.side_effect = None
        self.assertEqual(2, len(self.looked()))

    def test_thousands_of_changes_take_several_looks(self) -> None:
        self.reported = {f'cn{number}': model.LIVE for number in range(150)}
        self.assertEqual([100, 50, 0], [len(self.looked()) for _ in range(3)])

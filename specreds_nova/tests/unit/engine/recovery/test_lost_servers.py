# SPDX-License-Identifier: Apache-2.0
"""Servers that ended with their host before an engine had heard a list of them."""

from unittest import mock

import testtools

from specreds_nova.engine import model
from specreds_nova.engine.recovery import lost_servers
from specreds_nova.tests.unit.engine.recovery import base

_WHY = ({'kind': 'crash', 'words': 'the domain of server * has crashed', 'at': 1000.0},)


class LostServersTest(testtools.TestCase):
    """The crash of any server of a host becomes the crashes of those that do not run."""

    def setUp(self) -> None:
        super().setUp()
        self.act = mock.Mock(return_value=None)
        self.compute, self.suspects = mock.Mock(), mock.Mock()
        self.compute.servers.return_value = [base.make_server('a'), base.make_server('b')]
        self.runs: dict[str, bool | None] = {'a': True, 'b': False}
        self.suspects.running.side_effect = lambda host, server: self.runs[server]
        self.lost = lost_servers.LostServers(self.act, self.compute, self.suspects)

    def test_crash_of_one_server_is_passed_on(self) -> None:
        self.act.return_value = 'h1 is suspected'
        self.assertEqual('h1 is suspected', self.lost.crashed('h1', 'a', _WHY))
        self.act.assert_called_once_with('h1', 'a', _WHY)

    def test_servers_that_do_not_run_count_as_crashed(self) -> None:
        self.assertIsNone(self.lost.crashed('h1', model.ANY_SERVER, _WHY))
        [(host, server, [fact])] = [call.args for call in self.act.call_args_list]
        self.assertEqual(('h1', 'b'), (host, server))
        self.assertEqual(('crash', 'the domain of server b has crashed', 1000.0),
                         (fact['kind'], fact['words'], fact['at']))

    def test_one_server_that_has_to_wait_is_tried_again(self) -> None:
        self.runs['a'] = False
        self.act.side_effect = ['another recovery of it is under way', None]
        self.assertEqual('another recovery of it is under way',
                         self.lost.crashed('h1', model.ANY_SERVER, _WHY))
        self.assertEqual(2, self.act.call_count)

    def test_host_that_is_not_well_or_lists_nothing_has_to_wait(self) -> None:
        self.runs = {'a': None, 'b': None}
        self.assertIn('not listed', self.lost.crashed('h1', model.ANY_SERVER, _WHY) or '')
        self.suspects.is_well.return_value = False
        self.assertIn('not known to be well',
                      self.lost.crashed('h1', model.ANY_SERVER, _WHY) or '')
        self.act.assert_not_called()

# SPDX-License-Identifier: Apache-2.0
"""Servers that ended with their host, named by Nova."""

from unittest import mock

import testtools

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import crashes
from specreds_nova.tests.unit.engine.recovery import base

_WHY = ({'kind': 'crash', 'words': 'the domain of server * has crashed', 'at': 1000.0},)


class LostServersTest(testtools.TestCase):
    """The crash of any server of a host becomes the crashes of those that do not run."""

    def setUp(self) -> None:
        super().setUp()
        self.act, self.tell = mock.Mock(return_value=None), mock.Mock()
        self.compute, self.suspects = mock.Mock(), mock.Mock()
        self.compute.servers.return_value = [base.make_server('a'), base.make_server('b')]
        self.runs: dict[str, bool | None] = {'a': True, 'b': False}
        self.suspects.running.side_effect = lambda host, server: self.runs[server]
        self.compute.stopped_by_itself.return_value = False
        self.hosts = mock.Mock(**{'boot.return_value': {'uptime': 40.0}})
        self.lost = crashes.LostServers(
            self.act, self.tell, self.compute, self.suspects, self.hosts,
            mock.Mock(**{'wall.return_value': 1000.0}))

    def test_crash_of_one_server_is_passed_on(self) -> None:
        self.act.return_value = 'h1 is suspected'
        self.assertEqual('h1 is suspected', self.lost.crashed('h1', 'a', _WHY))
        self.act.assert_called_once_with('h1', 'a', _WHY)
        self.tell.assert_not_called()

    def test_servers_that_do_not_run_count_as_crashed(self) -> None:
        self.assertIsNone(self.lost.crashed('h1', model.ANY_SERVER, _WHY))
        self.act.assert_not_called()
        [(host, server, [fact])] = [call.args for call in self.tell.call_args_list]
        self.assertEqual(('h1', 'b'), (host, server))
        self.assertEqual(('crash', 'the domain of server b has crashed', 1000.0),
                         (fact['kind'], fact['words'], fact['at']))

    def test_boot_that_has_ended_servers_is_evidence_of_each(self) -> None:
        boot = {'kind': 'boot', 'words': 'h1 has booted', 'at': 1000.0}
        self.assertIsNone(self.lost.crashed('h1', model.ANY_SERVER, (*_WHY, boot)))
        [(_host, _server, why)] = [call.args for call in self.tell.call_args_list]
        self.assertEqual(['crash', 'boot'], [fact['kind'] for fact in why])

    def test_server_that_was_shut_down_before_is_left_alone(self) -> None:
        self.compute.servers.return_value = [base.make_server('b', status='SHUTOFF')]
        self.assertIsNone(self.lost.crashed('h1', model.ANY_SERVER, _WHY))
        self.tell.assert_not_called()

    def test_server_that_nova_has_stopped_since_the_boot_counts_as_crashed(self) -> None:
        self.runs |= {'c': False}
        self.compute.servers.return_value = [
            base.make_server('a'), *(base.make_server(name, status='SHUTOFF') for name in 'bc')]
        self.compute.stopped_by_itself.side_effect = lambda server, since: server == 'c'
        self.assertIsNone(self.lost.crashed('h1', model.ANY_SERVER, _WHY))
        self.assertEqual([('h1', 'c')], [call.args[:2] for call in self.tell.call_args_list])
        self.assertEqual({960.0}, {call.args[1] for call in
                                   self.compute.stopped_by_itself.call_args_list})

    def test_host_is_not_asked_for_its_boot_without_a_stopped_server(self) -> None:
        self.runs |= {'c': True}
        self.compute.servers.return_value += [base.make_server('c', status='SHUTOFF')]
        self.assertIsNone(self.lost.crashed('h1', model.ANY_SERVER, _WHY))
        self.hosts.boot.assert_not_called()
        self.assertEqual(1, self.tell.call_count)

    def test_no_server_is_named_twice_if_the_host_does_not_answer(self) -> None:
        self.compute.servers.return_value = [
            base.make_server('a'), base.make_server('b', status='SHUTOFF')]
        self.runs['a'] = False
        self.hosts.boot.side_effect = exception.Unreachable('h1 does not answer')
        self.assertRaises(exception.Unreachable, self.lost.crashed, 'h1', model.ANY_SERVER, _WHY)
        self.tell.assert_not_called()

    def test_host_that_does_not_report_its_boot_leaves_stopped_servers_alone(self) -> None:
        self.compute.servers.return_value = [
            base.make_server('a'), base.make_server('b', status='SHUTOFF')]
        self.runs['a'] = False
        self.compute.stopped_by_itself.return_value = True
        self.hosts.boot.side_effect = backup_errors.BackupError(reason='no plug-in')
        self.assertIsNone(self.lost.crashed('h1', model.ANY_SERVER, _WHY))
        self.assertEqual([('h1', 'a')], [call.args[:2] for call in self.tell.call_args_list])

    def test_host_that_lists_nothing_has_to_wait(self) -> None:
        self.runs = {'a': None, 'b': False}
        self.assertIn('not listed', self.lost.crashed('h1', model.ANY_SERVER, _WHY) or '')
        self.tell.assert_not_called()

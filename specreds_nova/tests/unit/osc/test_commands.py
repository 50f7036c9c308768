# SPDX-License-Identifier: Apache-2.0
"""``openstack speculative …`` against the real API."""

import re
import time

import ddt
import fixtures
import requests

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.tests.unit.engine.api import base
from specreds_nova.tests.unit.engine.store import base as db_base
from specreds_nova.tests.unit.osc import cloud


class RecoveryListTest(cloud.CommandTest):

    def setUp(self) -> None:
        super().setUp()
        self.ids: list[str] = []
        for number in range(3):
            self.clock.time += 1
            self.ids.insert(0, self.created(
                server=base.SERVER if number == 1 else f'{number}', host=f'node{number}',
                server_name=f'vm{number}', project=f'p{number}').id)

    def listed(self, *words: str) -> list[str]:
        """Return the ids of the listed recoveries."""
        return [row['ID'] for row in self.run_json('recovery', 'list', *words)]

    def test_list_has_newest_first(self) -> None:
        (row, *_others) = self.run_json('recovery', 'list')
        self.assertEqual(
            {'ID': self.ids[0], 'Server Name': 'vm2', 'Host': 'node2', 'Destination': None,
             'State': 'queued', 'Outcome': None, 'Suspected At': '1970-01-01T00:16:39.500000Z'},
            row)
        self.assertEqual(self.ids, self.listed('--long'))

    def test_each_filter_selects_the_recovery(self) -> None:
        self.end(self.taken_over(self.store.get(self.ids[1]), 'engine1'), model.PRIMARY)
        self.cloud.servers = {base.SERVER: 'vm1'}
        for words in (('--server', 'vm1'), ('--server', base.SERVER), ('--host', 'node1'),
                      ('--project', 'p1'), ('--state', 'ended'), ('--outcome', 'primary')):
            self.assertEqual([self.ids[1]], self.listed(*words))

    def test_list_longer_than_a_page_is_complete(self) -> None:
        self.app._services.__dict__['max_limit'] = 1
        self.assertEqual(self.ids, self.listed())
        self.assertEqual(self.ids[:2], self.listed('--limit', '2'))
        self.assertEqual([], self.listed('--limit', '0'))
        self.assertEqual(self.ids[2:], self.listed('--marker', self.ids[1]))

    def test_project_sees_no_hosts(self) -> None:
        self.cloud.roles = base.READER
        (row,) = self.run_json('recovery', 'list')
        self.assertEqual((self.ids[1], None), (row['ID'], row['Host']))

    def test_unknown_server_is_an_error(self) -> None:
        self.assertIn('there is no server "vm9" in your project',
                      self.fails('recovery', 'list', '--server', 'vm9'))

    def test_name_of_a_server_needs_the_compute_service(self) -> None:
        del self.cloud.catalogue['compute']
        self.assertIn('specify the ID of the server',
                      self.fails('recovery', 'list', '--server', 'vm1'))


class RecoveryTest(cloud.CommandTest):

    def test_show_as_json(self) -> None:
        self.create_racing()
        recovery = self.run_json('recovery', 'show', base.ID)
        self.assertEqual(('racing', 'node2', 'engine1'),
                         (recovery['state'], recovery['destination'], recovery['engine']))
        self.assertEqual(['super', 'start'], [step['name'] for step in recovery['steps']])

    def test_show_as_a_table_draws_the_steps(self) -> None:
        recovery = self.taken_over(self.create_racing(), 'engine2')
        self.begin_step(recovery, 'start')
        printed = self.run_command('recovery', 'show', base.ID, '-c', 'why', '-c', 'steps')
        lines = [re.sub(r'^\| \w* +\| (.*?) *\|$', r'\1', line)
                 for line in printed.splitlines() if '---' not in line]
        self.assertEqual([
            'no heartbeat for 0.9 s',
            'offset s  step       duration ms                                      detail',
            '0.750  super              125  |' + ' ' * 27 + '█████|  volumes=2',
            '0.875  start                …  |' + ' ' * 31 + '…|',
            '0.875  start (2)            …  |' + ' ' * 31 + '…|',
        ], [line.strip() for line in lines[1:]])

    def test_show_for_a_project_has_no_host(self) -> None:
        self.create_racing()
        self.cloud.roles = base.READER
        recovery = self.run_json('recovery', 'show', base.ID)
        self.assertNotIn('host', recovery)
        self.assertIn('super', self.run_command('recovery', 'show', base.ID))

    def test_show_of_an_unknown_recovery_fails(self) -> None:
        self.assertIn('there is no recovery x?y', self.fails('recovery', 'show', 'x?y'))
        self.assertIn('must not be empty', self.fails('recovery', 'show', ''))

    def test_abort_is_requested(self) -> None:
        self.create_racing()
        self.run_command('recovery', 'abort', base.ID)
        self.assertTrue(self.store.active()[0].abort)

    def test_refused_abort_does_not_prevent_the_others(self) -> None:
        self.store.change(self.create_racing(), state=model.COMMITTED)
        other = self.created()
        words = self.fails('recovery', 'abort', base.ID, other.id)
        self.assertIn('the backup has become the server', words)
        self.assertIn('1 of 2 could not be aborted', words)
        aborted = self.store.get(other.id)
        assert aborted is not None
        self.assertTrue(aborted.abort)


class HostTest(cloud.CommandTest):

    def setUp(self) -> None:
        super().setUp()
        self.store.see('node1')
        self.store.see('node2')

    def test_list_has_states_and_reasons(self) -> None:
        self.store.change_host(self.store.host('node1'), state=model.SUSPECTED, why=base.WHY)
        rows = self.run_json('host', 'list')
        self.assertEqual([('node1', 'suspected'), ('node2', 'trusted')],
                         [(row['Name'], row['State']) for row in rows])
        self.assertIn('no heartbeat for 0.9 s', self.run_command('host', 'list'))
        self.assertEqual(['node2'], [row['Name'] for row in self.run_json(
            'host', 'list', '--state', 'trusted')])

    def test_show_names_the_recoveries(self) -> None:
        self.create_racing()
        self.assertIn(f'{base.ID} (vm1, racing)', self.run_command('host', 'show', 'node1'))

    def test_suspect_and_clear(self) -> None:
        host = self.run_json('host', 'suspect', 'node1', '--reason', 'it smokes')
        self.assertEqual(('suspect', 'it smokes (user u1)'), (host['word'], host['word_reason']))
        self.assertEqual('suspect', self.store.host('node1').word)
        self.assertEqual('clear', self.run_json('host', 'clear', 'node1')['word'])
        self.assertEqual('an operator said so (user u1)', self.store.host('node1').word_reason)

    def test_clear_of_a_fenced_host_is_refused(self) -> None:
        self.store.change_host(self.store.host('node1'), state=model.FENCED)
        self.assertIn('is fenced', self.fails('host', 'clear', 'node1'))

    def test_unknown_host_is_an_error(self) -> None:
        self.assertIn('no engine has heard of a host node9',
                      self.fails('host', 'suspect', 'node9'))

    def test_dead_host(self) -> None:
        self.assertIsNone(self.run_json('host', 'suspect', 'node1')['dead_at'])
        self.assertIsNotNone(self.run_json('host', 'suspect', 'node1', '--dead')['dead_at'])

    def test_project_may_not_suspect_a_host(self) -> None:
        self.cloud.roles = base.READER
        self.assertIn('your roles do not allow host:suspect',
                      self.fails('host', 'suspect', 'node1'))
        self.assertIsNone(self.store.host('node1').word)


class DrillTest(cloud.CommandTest):
    """A drill that an engine holds while the command waits."""

    def setUp(self) -> None:
        super().setUp()
        self.protection.recovery = 'speculative', []
        self.looks = 0
        self.useFixture(fixtures.MonkeyPatch('time.sleep', self.look))
        self.outcome: str | None = model.PRIMARY

    def look(self, seconds: float) -> None:
        """Let the engine hold the drill."""
        self.looks += 1
        [drill] = self.store.active()
        if self.outcome is None:
            self.clock.time += seconds
        elif self.looks == 2:
            self.end(self.taken_over(drill, 'engine1'), self.outcome)

    def test_command_waits_for_the_end(self) -> None:
        shown = self.run_json('drill', base.SERVER)
        self.assertEqual(('ended', 'primary', 2),
                         (shown['state'], shown['outcome'], self.looks))

    def test_backup_that_does_not_become_ready_shows_in_the_exit_status(self) -> None:
        self.outcome = model.FAILED
        self.assertEqual('failed', self.run_json('drill', base.SERVER, status=3)['outcome'])

    def test_drill_that_no_engine_begins_is_aborted(self) -> None:
        self.outcome = None
        self.useFixture(fixtures.MonkeyPatch('time.monotonic', lambda: self.clock.time))
        self.assertIn('no engine has begun', self.fails('drill', base.SERVER))
        self.assertTrue(self.store.active()[0].abort)

    def test_reason_against_a_drill_is_shown(self) -> None:
        self.protection.recovery = 'failed', ['no other host has room for it']
        self.assertIn('no other host has room', self.fails('drill', base.SERVER))


class ObserveReportTest(cloud.CommandTest):
    """Hosts that were silent while engines observed, as the report counts them."""

    def setUp(self) -> None:
        super().setUp()
        self.clock.time = time.time()

    def observe(self, host: str, ago: float, away: float | None, servers: int = 1, *,
                kinds: tuple[str, ...] = ('silence',), error: str | None = None) -> None:
        """Record that a host was silent some time ago, until it was back.

        :param away: seconds until it was back; None if it is not back
        """
        at = time.time() - ago
        self.store.see(host)
        self.store.observe(self.store.host(host), [db_base.make_recovery(
            host=host, suspected=at, created=at, state=model.ENDED, outcome=model.OBSERVED,
            ended=None if away is None else at + away, error=error,
            why=tuple({'kind': kind, 'words': 'x', 'at': at} for kind in kinds))
            for _ in range(servers)])

    def report(self, *words: str) -> dict[str, tuple[int, ...]]:
        """Return the counts of each row."""
        return {row.pop('Policy'): tuple(row.values())
                for row in self.run_json('observe', 'report', *words)}

    def test_silences_are_judged_by_the_length_of_each(self) -> None:
        self.observe('node1', 9000.0, 3.0, 5)
        self.observe('node1', 8000.0, 45.0, 2)
        self.observe('node2', 7000.0, 100.0, 1)
        self.observe('node2', 6000.0, 1000.0, 10)
        self.observe('node3', 5000.0, None, 4, error='no host has room for its backup')
        self.assertEqual({
            'speculative': (5, 1, 4, 3, 1, 17, 4, None),
            'timeout 60 s': (5, 2, 3, 2, 1, 15, 4, 15 * 50),
            'timeout 180 s': (5, 3, 2, 1, 1, 14, 4, 14 * 170),
            'restart': (None, None, None, None, None, 0, None, None)}, self.report())

    def test_host_that_is_back_without_its_servers_was_replaced_rightly(self) -> None:
        self.observe('node1', 5000.0, 90.0, 3)
        self.observe('node1', 4905.0, 0.0, 3, kinds=('crash', 'boot'))
        report = self.report()
        self.assertEqual((1, 0, 1, 0, 0, 3, 0, None), report['speculative'])
        self.assertEqual((1, 0, 1, 0, 0, 3, 0, 510), report['timeout 180 s'])
        self.assertEqual(3, report['restart'][5])

    def test_report_begins_when_it_is_told_to(self) -> None:
        self.observe('node1', 40 * 86400.0, 1.0)
        self.observe('node2', 7200.0, 1.0)
        self.assertEqual(1, self.report()['speculative'][0])
        self.assertEqual(0, self.report('--since', '1h')['speculative'][0])
        self.assertEqual(2, self.report('--since', '60d')['speculative'][0])


class ModeTest(cloud.CommandTest):

    def test_mode_is_set_listed_and_removed(self) -> None:
        self.store.see('node1')
        mode = self.run_json('mode', 'set', 'act', '--reason', 'observed for a month')
        self.assertEqual(('cloud', 'act', 'u1', None),
                         tuple(mode[field] for field in ('scope', 'mode', 'user_id', 'until')))
        mode = self.run_json('mode', 'set', 'pause', '--host', 'node1', '--for', '2h',
                             '--reason', 'a new disk')
        self.assertEqual(('host', 'node1', 'pause'),
                         (mode['scope'], mode['name'], mode['mode']))
        self.run_command('mode', 'set', 'observe', '--az', 'z1', '--reason', 'new hosts')
        self.run_command('mode', 'set', 'observe', '--aggregate', 'db', '--reason', 'no trust')
        rows = self.run_json('mode', 'list')
        self.assertEqual([('aggregate', 'db', 'observe'), ('cloud', '', 'act'),
                          ('host', 'node1', 'pause'), ('zone', 'z1', 'observe')],
                         [(row['Scope'], row['Name'], row['Mode']) for row in rows])
        brief = next(mode for mode in self.store.modes() if mode.scope == model.HOST)
        self.assertEqual(7200.0, (brief.until or 0.0) - brief.since)
        self.run_command('mode', 'unset', '--host', 'node1')
        self.assertEqual(3, len(self.store.modes()))
        self.assertIn('there is no mode', self.fails('mode', 'unset', '--host', 'node1'))

    def test_time_without_a_unit_is_refused(self) -> None:
        self.assertRaises(SystemExit, self.run_command, 'mode', 'set', 'pause', '--for', '90',
                          '--reason', 'x')
        self.assertEqual([], self.store.modes())


class CoverageTest(cloud.CommandTest):

    def setUp(self) -> None:
        super().setUp()
        self.store.see('node1')
        self.cloud_now.free['node2'] = 2

    def test_sums_are_of_all_servers_and_by_a_group(self) -> None:
        rows = self.run_json('coverage', '--by', 'flavor')
        self.assertEqual(['(all)', 'm1'], [row['Flavor'] for row in rows])
        self.assertEqual((3, 0, 1), tuple(rows[1][name] for name in (
            'Speculative', 'None', 'Without Room')))
        self.assertEqual('p1', self.run_json('coverage')[1]['Project'])

    def test_servers_have_reasons(self) -> None:
        self.cloud_now.servers[0]['metadata'] = {'HA_Enabled': 'false'}
        rows = self.run_json('coverage', '--servers')
        self.assertEqual(('none', ['it is not protected: HA_Enabled=false'], []),
                         tuple(rows[0][name] for name in (
                             'Recovery', 'Reasons', 'Without Room If')))

    def test_hosts_have_reasons(self) -> None:
        rows = self.run_json('coverage', '--hosts')
        self.assertEqual(['node1', 'node2', 'node3'], [row['Host'] for row in rows])
        self.assertIn('no engine has ever heard node2', rows[1]['Reasons'])

    def test_simulation_lists_servers_in_order(self) -> None:
        self.store.learn('a', 3.0)
        rows = self.run_json('simulate', '--host', 'node1', status=3)
        self.assertEqual([('a', 'node2', 3.0), ('b', 'node2', None), ('c', None, None)], [
            (row['Server Name'], row['Destination'], row['Seconds']) for row in rows])
        self.assertEqual(['no host has room for it'], rows[2]['Reasons'])
        self.run_command('simulate', '--host', 'node2', '--host', 'node3')
        self.assertIn('hdd', self.fails('simulate', '--aggregate', 'hdd'))


class ServerTest(cloud.CommandTest):

    def test_check_by_name_and_by_id(self) -> None:
        self.cloud.servers = {base.SERVER: 'vm1'}
        for name in ('vm1', base.SERVER):
            checked = self.run_json('server', 'check', name, status=3)
            self.assertEqual((base.SERVER, False, ['the server is locked'], ['node2', 'node3']),
                             tuple(checked[field] for field in (
                                 'server_id', 'protected', 'reasons', 'destinations')))

    def test_check_as_a_table_names_each_reason(self) -> None:
        printed = self.run_command('server', 'check', base.SERVER, status=3)
        self.assertIn(f'{base.VOLUME}: the volume is mirrored', printed)

    def test_unknown_server_is_an_error(self) -> None:
        self.assertIn(f'there is no server {base.VOLUME}',
                      self.fails('server', 'check', base.VOLUME))


@ddt.ddt
class TroubleTest(cloud.CommandTest):

    def test_missing_service_is_named(self) -> None:
        del self.cloud.catalogue['speculative-recovery']
        self.assertIn('this cloud has no speculative recovery', self.fails('host', 'list'))

    def test_endpoint_may_contain_the_version(self) -> None:
        self.cloud.catalogue['speculative-recovery'] = f'{cloud.API}/v1'
        self.assertEqual([], self.run_json('host', 'list'))

    def test_error_names_the_id_of_the_request(self) -> None:
        self.run_command('host', 'list')
        self.cloud.broken = (503, b'{"error": {"code": 503, "title": "x", "message": "no"}}')
        self.assertIn('no (HTTP 503, request req-7)', self.fails('host', 'list'))
        self.cloud.broken = (502, b'<html>')
        self.assertIn('HTTP 502', self.fails('host', 'list'))

    @ddt.data(requests.ConnectionError('no'), requests.Timeout('no'))
    def test_connection_error_has_no_traceback(self, error: Exception) -> None:
        self.cloud.broken = error
        self.assertNotIn('Traceback', self.fails('host', 'list'))

    def test_check_while_nova_does_not_answer_says_when_to_ask_again(self) -> None:
        self.protection.error = exception.Unreachable('no')
        self.assertIn('try again later',
                      self.fails('server', 'check', base.SERVER))

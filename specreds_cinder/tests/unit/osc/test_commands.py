# SPDX-License-Identifier: Apache-2.0
"""``openstack volume super …``: requests to the API, and output of its answers."""

import itertools
import json
import re
import uuid

import ddt

from specreds_cinder.tests.unit.osc import cloud

_BASE = '/os-superpositions'
_OWN = f'{_BASE}/{cloud.ID}'


class CreateTest(cloud.CommandTest):

    def setUp(self) -> None:
        super().setUp()
        self.cloud.answer('POST', _BASE, {'superposition': cloud.SUPERPOSITION}, status=201)

    def test_names_of_volumes_are_resolved(self) -> None:
        self.volume()
        seen = self.run_json('create', 'data', cloud.VOLUME, '--reason', 'host gone')
        (request,) = self.cloud.to(_BASE)
        self.assertEqual({'superposition': {'volume_ids': [cloud.VOLUME], 'reason': 'host gone'}},
                         request.body)
        self.assertEqual('superposition 1.0', request.headers['OpenStack-API-Version'])
        self.assertEqual(cloud.ID, seen['id'])
        self.assertEqual('superposed', seen['state'])
        self.assertNotIn('hosts', seen)

    def test_name_of_a_server_is_resolved(self) -> None:
        server = {'id': cloud.SERVER, 'name': 'vm1'}
        self.cloud.fault('GET', '/v2.1/servers/vm1', 404, 'no such server', 'itemNotFound')
        self.cloud.answer('GET', '/v2.1/servers/detail', {'servers': [server]})
        self.run_super('create', '--server', 'vm1')
        self.assertEqual({'superposition': {'server_id': cloud.SERVER}},
                         self.cloud.to(_BASE)[0].body)

    def test_id_of_a_server_is_not_looked_up(self) -> None:
        self.run_super('create', '--server', cloud.SERVER)
        self.assertEqual([_BASE], [request.path for request in self.cloud.requests])

    def test_name_of_a_server_needs_a_compute_service(self) -> None:
        del self.cloud.endpoints['compute']
        self.run_super('create', '--server', 'vm1', status=1)
        self.assertIn('no compute service to look up server "vm1": specify its ID',
                      self.stderr.getvalue())

    def test_create_needs_a_volume_or_a_server(self) -> None:
        self.run_super('create', status=1)
        self.assertIn('name at least one VOLUME, or a --server', self.stderr.getvalue())
        self.assertEqual([], self.cloud.requests)

    def test_unknown_volume_creates_nothing(self) -> None:
        self.cloud.fault('GET', '/volumes/no', 404, 'no such volume', 'itemNotFound')
        self.cloud.answer('GET', '/volumes/detail', {'volumes': []})
        self.run_super('create', 'no', status=1)
        self.assertIn('No Volume found for no', self.stderr.getvalue())
        self.assertEqual([], self.cloud.to(_BASE))


@ddt.ddt
class ListTest(cloud.CommandTest):

    def test_list_has_five_columns(self) -> None:
        self.superposition()
        self.assertEqual(
            [{'ID': cloud.ID, 'State': 'superposed', 'Volumes': [cloud.VOLUME],
              'Server': cloud.SERVER, 'Created At': '2026-01-02T03:04:05Z'}],
            self.run_json('list'))
        self.assertEqual({}, self.cloud.to(_BASE)[0].query)

    def test_long_list_adds_columns(self) -> None:
        self.superposition()
        (seen,) = self.run_json('list', '--long')
        self.assertEqual('host gone', seen['Reason'])
        self.assertEqual(2_621_440, seen['Overlay Bytes'])
        self.assertEqual([], self.cloud.to(_BASE))

    def test_filters_become_the_query(self) -> None:
        self.superposition()
        self.run_super('list', '--all-projects', '--state', 'promoted', '--server', cloud.SERVER,
                       '--limit', '5', '--marker', cloud.SECOND)
        self.assertEqual({'all_tenants': ['1'], 'state': ['promoted'],
                          'server_id': [cloud.SERVER], 'limit': ['5'],
                          'marker': [cloud.SECOND]}, self.cloud.to(_BASE)[0].query)

    def test_silent_back_end_is_reported(self) -> None:
        self.cloud.answer('GET', _BASE, {'superpositions': [], 'unreachable_hosts': ['h@rbd']})
        self.assertEqual([], self.run_json('list'))
        self.assertIn('no answer from h@rbd', self.stderr.getvalue())

    def _pages(self) -> list[str]:
        ids = [str(uuid.UUID(int=number)) for number in range(5)]
        for first, more in ((0, True), (2, True), (4, False)):
            page = {'superpositions': [{**cloud.SUPERPOSITION, 'id': each}
                                       for each in ids[first:first + 2]]}
            if more:
                page['superpositions_links'] = [{'rel': 'next', 'href': 'http://elsewhere/'}]
            self.cloud.answer('GET', _BASE, page)
        return ids

    def test_list_reads_all_pages(self) -> None:
        ids = self._pages()
        self.assertEqual('\n'.join(ids) + '\n', self.run_super('list', '-f', 'value', '-c', 'ID'))
        self.assertEqual([None, ids[1], ids[3]],
                         [request.query.get('marker', [None])[0]
                          for request in self.cloud.requests])

    @ddt.data((3, ['3', '1']), (2, ['2']), (0, []))
    @ddt.unpack
    def test_limit_counts_over_pages(self, limit: int, limits: list[str]) -> None:
        ids = self._pages()
        seen = self.run_json('list', '--limit', str(limit))
        self.assertEqual(ids[:limit], [each['ID'] for each in seen])
        self.assertEqual(limits, [request.query['limit'][0] for request in self.cloud.requests])

    def test_negative_limit_is_a_usage_error(self) -> None:
        self.assertEqual(2, self.assertRaises(SystemExit, self.run_super, 'list', '--limit',
                                              '-1').code)


class ShowTest(cloud.CommandTest):

    def test_show_by_id(self) -> None:
        self.superposition()
        seen = self.run_json('show', cloud.ID)
        self.assertEqual(cloud.SUPERPOSITION['volumes'], seen['volumes'])
        self.assertEqual(61.5, seen['age_seconds'])
        self.assertEqual([_OWN], [request.path for request in self.cloud.requests])

    def test_show_by_name_of_a_volume(self) -> None:
        self.superposition()
        self.volume()
        self.assertEqual(cloud.ID, self.run_json('show', 'data')['id'])
        self.assertEqual({'volume_id': [cloud.VOLUME], 'sizes': ['1']},
                         self.cloud.to(f'{_BASE}/detail')[0].query)

    def test_show_by_id_of_a_volume_of_another_project(self) -> None:
        self.superposition()
        self.volume(project='other')
        self.cloud.fault('GET', f'{_BASE}/{cloud.VOLUME}', 404, 'no', 'itemNotFound')
        self.assertEqual(cloud.ID, self.run_json('show', cloud.VOLUME)['id'])
        self.assertEqual({'volume_id': [cloud.VOLUME], 'all_tenants': ['1'], 'sizes': ['1']},
                         self.cloud.to(f'{_BASE}/detail')[0].query)

    def test_table_has_readable_sizes(self) -> None:
        self.superposition(hosts=['node@rbd'])
        seen = self.run_super('show', cloud.ID)
        self.assertIn(f'{cloud.VOLUME} (1 GiB, overlay 2.5 MiB)', seen)
        self.assertIn('node@rbd', seen)

    def test_table_names_unknown_sizes(self) -> None:
        unknown = {'id': cloud.VOLUME, 'size_bytes': None, 'overlay_bytes': None}
        self.superposition(state='unknown', volumes=[unknown], overlay_bytes=None,
                           hosts=['node@rbd'], unreachable_hosts=['node@rbd'])
        seen = self.run_super('show', cloud.ID)
        self.assertIn(f'{cloud.VOLUME} (unknown, overlay unknown)', seen)
        self.assertIn('unreachable_hosts', seen)

    def test_volume_in_no_superposition_is_an_error(self) -> None:
        self.volume()
        self.cloud.answer('GET', f'{_BASE}/detail', {'superpositions': []})
        self.run_super('show', 'data', status=1)
        self.assertIn('volume data is in no superposition', self.stderr.getvalue())

    def test_id_of_nothing_is_an_error(self) -> None:
        self.gone()
        self.cloud.fault('GET', f'/volumes/{cloud.ID}', 404, 'no such volume', 'itemNotFound')
        self.cloud.answer('GET', '/volumes/detail', {'volumes': []})
        self.run_super('show', cloud.ID, status=1)
        self.assertIn(f'there is no volume "{cloud.ID}", and no superposition with that id',
                      self.stderr.getvalue())


@ddt.ddt
class CheckTest(cloud.CommandTest):

    @ddt.data((False, None, 0), (True, 'rbd_data.1', 3))
    @ddt.unpack
    def test_exit_status_says_whether_the_primary_wrote(self, dirty: bool, first: str | None,
                                                        status: int) -> None:
        self.superposition()
        report = {'dirty': dirty, 'unproven': False, 'first': first, 'objects': 7, 'seconds': 0.1}
        self.cloud.answer('POST', f'{_OWN}/check', {'check': report})
        self.assertEqual({'id': cloud.ID, **report},
                         self.run_json('check', cloud.ID, status=status))


    def test_exit_status_says_whether_that_is_proven(self) -> None:
        self.superposition()
        report = {'dirty': False, 'unproven': True, 'first': 'merged', 'objects': 7,
                  'seconds': 0.1}
        self.cloud.answer('POST', f'{_OWN}/check', {'check': report})
        self.assertEqual({'id': cloud.ID, **report}, self.run_json('check', cloud.ID, status=3))


class EligibilityTest(cloud.CommandTest):

    def test_reasons_are_shown(self) -> None:
        self.volume()
        self.cloud.answer('GET', f'{_BASE}/eligibility', {'eligibility': [
            {'volume_id': cloud.VOLUME, 'eligible': False, 'reasons': ['encrypted']}]})
        self.assertEqual([{'Volume': cloud.VOLUME, 'Eligible': False, 'Reasons': ['encrypted']}],
                         self.run_json('eligibility', 'data'))
        self.assertEqual({'volume_id': [cloud.VOLUME]}, self.cloud.requests[-1].query)

    def test_many_volumes_are_queried_50_at_a_time(self) -> None:
        ids = [str(uuid.UUID(int=number)) for number in range(60)]
        self.cloud.answer('GET', f'{_BASE}/eligibility', {'eligibility': []})
        self.run_super('eligibility', *ids)
        queries = [each.query['volume_id'] for each in self.cloud.to(f'{_BASE}/eligibility')]
        self.assertEqual([50, 10], [len(ids) for ids in queries])
        self.assertEqual(ids, list(itertools.chain(*queries)))


@ddt.ddt
class CollapseTest(cloud.CommandTest):

    def setUp(self) -> None:
        super().setUp()
        self.superposition()

    def _decided(self, outcome: str | None, status: int = 200) -> None:
        self.cloud.answer('POST', f'{_OWN}/collapse', {'collapse': {
            'outcome': outcome, 'state': 'collapsing', 'durations': {'sweep1': 0.5}}},
            status=status)

    @ddt.data(('promoted', 0), ('dirty', 3), ('late-dirty', 3), ('unproven', 3))
    @ddt.unpack
    def test_exit_status_of_promote_says_the_outcome(self, outcome: str, status: int) -> None:
        self._decided(outcome)
        self.assertEqual(
            {'id': cloud.ID, 'outcome': outcome, 'merged': False, 'durations': {'sweep1': 0.5}},
            self.run_json('collapse', '--promote', cloud.ID, status=status))
        self.assertEqual({'collapse': {'decision': 'promote', 'backup_durable': False}},
                         self.cloud.to(f'{_OWN}/collapse')[0].body)

    def test_decision_waits_for_no_sizes(self) -> None:
        self._decided('promoted')
        self.run_super('collapse', '--promote', cloud.ID)
        self.assertEqual({'sizes': ['0']}, self.cloud.to(_OWN)[0].query)

    def test_table_has_durations(self) -> None:
        self._decided('promoted')
        self.assertIn('sweep1: 0.500 s', self.run_super('collapse', '--promote', cloud.ID))

    def test_backup_durable_is_passed_on(self) -> None:
        self._decided('promoted')
        self.run_super('collapse', '--promote', '--backup-durable', cloud.ID)
        self.assertTrue(
            self.cloud.to(f'{_OWN}/collapse')[0].body['collapse']['backup_durable'])

    def test_abort_is_requested(self) -> None:
        self._decided('aborted')
        self.assertEqual('aborted',
                         self.run_json('collapse', '--abort', cloud.ID)['outcome'])
        self.assertEqual('abort',
                         self.cloud.to(f'{_OWN}/collapse')[0].body['collapse']['decision'])

    @ddt.data([], ['--promote', '--abort'])
    def test_collapse_needs_exactly_one_decision(self, options: list[str]) -> None:
        self.assertEqual(2, self.assertRaises(SystemExit, self.run_super, 'collapse', cloud.ID,
                                              *options).code)

    def test_pending_decision_has_no_outcome(self) -> None:
        self._decided(None, status=202)
        self.assertIsNone(self.run_json('collapse', '--promote', cloud.ID)['outcome'])

    def test_wait_ends_after_the_merge(self) -> None:
        self._decided('promoted')
        self.superposition(state='promoted', outcome='promoted')
        self.superposition(state='merging', outcome='promoted', overlay_bytes=7)
        self.gone()
        seen = self.run_json('collapse', '--promote', '--wait', cloud.ID)
        self.assertEqual(('promoted', True), (seen['outcome'], seen['merged']))

    def test_wait_returns_the_outcome_of_a_pending_decision(self) -> None:
        self._decided(None, status=202)
        self.superposition(state='collapsing')
        self.superposition(state='aborting', outcome='dirty')
        self.gone()
        seen = self.run_json('collapse', '--promote', '--wait', cloud.ID, status=3)
        self.assertEqual(('dirty', False), (seen['outcome'], seen['merged']))

    def test_wait_continues_after_503(self) -> None:
        self._decided('promoted')
        self.cloud.fault('GET', _OWN, 503, 'no answer')
        self.gone()
        self.run_super('collapse', '--promote', '--wait', cloud.ID)

    def test_wait_stops_after_401(self) -> None:
        self._decided('promoted')
        self.cloud.fault('GET', _OWN, 401, 'who are you?')
        self.run_super('collapse', '--promote', '--wait', cloud.ID, status=1)
        self.assertIn('who are you?', self.stderr.getvalue())

    def test_wait_that_misses_the_end_fails(self) -> None:
        self._decided(None, status=202)
        self.gone()
        self.run_super('collapse', '--promote', '--wait', cloud.ID, status=1)
        self.assertIn('has ended with an unknown outcome', self.stderr.getvalue())

    def test_wait_for_an_abort_may_miss_the_end(self) -> None:
        self._decided(None, status=202)
        self.gone()
        self.assertEqual('aborted', self.run_json('collapse', '--abort', '--wait',
                                                  cloud.ID)['outcome'])


class DeleteTest(cloud.CommandTest):

    def test_superposition_named_twice_is_deleted_once(self) -> None:
        self.superposition()
        self.volume()
        self.cloud.answer('DELETE', _OWN, None, status=204)
        self.assertEqual('', self.run_super('delete', 'data', cloud.ID))
        self.assertEqual(['DELETE'], [request.method for request in self.cloud.to(_OWN)
                                      if request.method != 'GET'])

    def test_others_are_deleted_after_a_failure(self) -> None:
        self.volume()
        self.cloud.answer('GET', f'{_BASE}/detail', {'superpositions': []})
        self.cloud.answer('GET', _OWN, {'superposition': cloud.SUPERPOSITION})
        self.cloud.answer('DELETE', _OWN, None, status=204)
        self.run_super('delete', 'data', cloud.ID, status=1)
        self.assertIn('data: volume data is in no superposition', self.stderr.getvalue())
        self.assertIn('1 of 2 could not be deleted', self.stderr.getvalue())
        self.assertEqual('DELETE', self.cloud.requests[-1].method)

    def test_wait_ends_when_the_superposition_is_gone(self) -> None:
        self.superposition()
        self.superposition(state='aborting')
        self.gone()
        self.cloud.answer('DELETE', _OWN, None, status=204)
        self.run_super('delete', '--wait', cloud.ID)
        self.assertEqual(['GET', 'DELETE', 'GET', 'GET'],
                         [request.method for request in self.cloud.requests])


@ddt.ddt
class ErrorTest(cloud.CommandTest):

    @ddt.data((409, 'conflictingRequest'), (403, 'forbidden'), (400, 'badRequest'))
    @ddt.unpack
    def test_client_error_prints_the_message_alone(self, status: int, kind: str) -> None:
        self.cloud.fault('POST', _BASE, status, 'volume v is promoted: merge it', kind)
        self.run_super('create', '--server', cloud.SERVER, status=1)
        self.assertEqual('volume v is promoted: merge it\n', self.stderr.getvalue())

    def test_server_error_prints_status_and_request(self) -> None:
        self.cloud.fault('POST', _BASE, 503, 'volume service h@rbd does not answer')
        self.run_super('create', '--server', cloud.SERVER, status=1)
        self.assertEqual('volume service h@rbd does not answer (HTTP 503, request req-7)\n',
                         self.stderr.getvalue())

    @ddt.data(['list'], ['show', cloud.ID], ['create', '--server', cloud.SERVER],
              ['eligibility', cloud.VOLUME], ['delete', cloud.ID])
    def test_missing_extension_is_reported(self, words: list[str]) -> None:
        self.volume()
        self.run_super(*words, status=1)
        self.assertIn('this cloud does not have the superposition extension: '
                      f'{cloud.CINDER} has no /os-superpositions', self.stderr.getvalue())


class HelpTest(cloud.CommandTest):

    def test_description_has_five_lines(self) -> None:
        alone = self.run_super()
        lines = alone.split('\n\n')[1].splitlines()
        self.assertEqual(5, len(lines))
        self.assertTrue(all(len(line) < 80 for line in lines))
        for name in ('check', 'collapse', 'create', 'delete', 'eligibility', 'list', 'show'):
            self.assertIn(f'  volume super {name} ', alone)

    def test_commands_and_options_are_completed(self) -> None:
        shell = self.shell()
        self.assertEqual(0, shell.run(['complete']))
        words = {name: set(names.split()) for name, names in
                 re.findall(r"cmds_volume_super(\w*)='([^']*)'", self.stdout.getvalue())}
        self.assertLessEqual({'create', 'collapse', 'eligibility', 'show'}, words[''])
        self.assertLessEqual({'--promote', '--abort', '--wait'}, words['_collapse'])

    def test_help_equals_the_command_without_arguments(self) -> None:
        alone = self.run_super()
        self.stdout.truncate(0)
        self.stdout.seek(0)
        self.assertEqual(alone.split('\n\n')[1:], self.run_super('--help').split('\n\n')[1:])

    def test_output_formats(self) -> None:
        self.superposition()
        self.assertEqual(f'{cloud.ID}\nsuperposed\n', self.run_super(
            'show', cloud.ID, '-f', 'value', '-c', 'id', '-c', 'state'))
        self.stdout.truncate(0)
        self.stdout.seek(0)
        self.assertIn(f'- id: {cloud.VOLUME}', self.run_super('show', cloud.ID, '-f', 'yaml'))
        self.assertRaises(ValueError, json.loads, self.stdout.getvalue())

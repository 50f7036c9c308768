# SPDX-License-Identifier: Apache-2.0
"""The client of Nova and Placement."""

import dataclasses
import threading
from typing import Any
from unittest import mock

import ddt

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.clients import compute
from specreds_nova.engine.clients import placement
from specreds_nova.tests.unit.engine.clients import base

# Seconds after which an awaited event counts as missing.
_PATIENCE = 60.0
_FLAVOR: dict[str, Any] = {'vcpus': 1, 'ram': 64, 'disk': 1, 'extra_specs': {}}


def _shown(name: str, host: str = 'h1', **values: Any) -> dict[str, Any]:
    return {'id': name, 'name': name, 'tenant_id': 'p', 'OS-EXT-SRV-ATTR:host': host,
            'status': 'ACTIVE', 'OS-EXT-STS:task_state': None, 'locked': False, 'image': '',
            'OS-EXT-AZ:availability_zone': 'nova', 'flavor': _FLAVOR, 'metadata': {},
            'os-extended-volumes:volumes_attached': [{'id': 'v1'}, {'id': 'v2'}], **values}


def _service(host: str, **values: Any) -> dict[str, Any]:
    return {'id': f'service-{host}', 'host': host, 'state': 'up', 'status': 'enabled',
            'zone': 'nova', 'forced_down': False, 'updated_at': '2026-01-02T03:04:05.000000',
            **values}


# What Nova shows of a service in a cell whose database does not answer.
_UNKNOWN = {'binary': 'nova-compute', 'host': 'away', 'status': 'UNKNOWN'}


@ddt.ddt
class ComputeTest(base.ServiceTest):
    """The calls that a recovery makes."""

    def setUp(self) -> None:
        super().setUp()
        self.groups: list[dict[str, Any]] = []
        self.aggregates: list[dict[str, Any]] = []
        self.services = [_service(host) for host in ('h1', 'h2', 'h3', 'h4')]
        self.used = {'h1': 0, 'h2': 50, 'h3': 10, 'h4': 30}
        self.compute = compute.Compute(self.session)
        self._answers()

    def _answers(self) -> None:
        answer = self.session.answer
        answer('GET', '/os-server-groups', {'server_groups': self.groups})
        answer('GET', '/os-aggregates', {'aggregates': self.aggregates})
        answer('GET', '/os-services', {'services': self.services})
        answer('GET', '/os-hypervisors/detail', {'hypervisors': [
            {'id': f'provider-{host}', 'service': {'host': host}} for host in self.used]})
        answer('GET', '/allocation_candidates', {
            'allocation_requests': [{'allocations': {f'provider-{host}': {}}}
                                    for host in self.used],
            'provider_summaries': {f'provider-{host}': {
                'root_provider_uuid': f'provider-{host}',
                'resources': {'MEMORY_MB': {'capacity': 100, 'used': used}}}
                for host, used in self.used.items()}})

    def _server(self, **values: Any) -> model.Server:
        self.session.answer('GET', '/servers/a', {'server': _shown('a', **values)})
        server = self.compute.server('a')
        assert server is not None
        return server

    def _hosts(self, **values: Any) -> list[str]:
        self._answers()
        return self.compute.candidates(self._server(**values))

    def test_servers_of_a_host_are_read_page_by_page(self) -> None:
        self.session.answer(
            'GET', '/servers/detail',
            {'servers': [_shown('a')], 'servers_links': [{'rel': 'next'}]},
            {'servers': [_shown('b', status='SHUTOFF', image={'id': 'i'}, locked=True)]})
        first, second = self.compute.servers('h1')
        self.assertEqual(('a', ('v1', 'v2'), True), (first.id, first.volumes,
                                                     first.boots_from_volume))
        self.assertEqual(('SHUTOFF', False, True), (second.status, second.boots_from_volume,
                                                    second.locked))
        self.assertEqual(['a'], [request['params']['marker'] for request in self.session.requests
                                 if 'marker' in request['params']])

    def test_macs_are_those_of_ports_with_addresses(self) -> None:
        fixed = {'addr': '192.0.2.1', 'OS-EXT-IPS-MAC:mac_addr': '02:00:00:00:00:02'}
        floating = fixed | {'addr': '198.51.100.1'}
        second = {'addr': '192.0.2.9', 'OS-EXT-IPS-MAC:mac_addr': '02:00:00:00:00:01'}
        addresses = {'private': [fixed, floating], 'other': [second]}
        self.assertEqual(('02:00:00:00:00:01', '02:00:00:00:00:02'),
                         self._server(addresses=addresses).macs)

    def test_disks_in_rbd_follow_from_image_and_flavor(self) -> None:
        flavor = {'vcpus': 1, 'ram': 1, 'disk': 1, 'ephemeral': 1, 'swap': 512,
                  'extra_specs': {}}
        shown = {'image': {'id': 'i'}, 'flavor': flavor}
        self.assertEqual((), self._server(**shown).disks)
        in_rbd = mock.Mock(return_value=True)
        self.compute = compute.Compute(self.session, disks_in_rbd=in_rbd)
        self.assertEqual((), self._server(flavor={**flavor, 'ephemeral': 0, 'swap': 0}).disks)
        in_rbd.assert_not_called()
        self.assertEqual(('disk', 'disk.eph0', 'disk.swap'), self._server(**shown).disks)
        self._server(**shown)
        in_rbd.assert_called_once_with()

    def test_disks_are_not_guessed_while_cinder_is_silent(self) -> None:
        in_rbd = mock.Mock(side_effect=exception.Unreachable('no answer'))
        self.compute = compute.Compute(self.session, disks_in_rbd=in_rbd)
        self.assertEqual((), self._server().disks)
        self.assertRaises(exception.Unreachable, self._server, image={'id': 'i'})

    def test_hosts_beyond_the_first_page_are_candidates(self) -> None:
        hypervisors = [{'id': f'provider-{host}', 'service': {'host': host}}
                       for host in self.used]
        server = self._server()
        self.session.answer(
            'GET', '/os-hypervisors/detail',
            {'hypervisors': hypervisors[:2], 'hypervisors_links': [{'rel': 'next'}]},
            {'hypervisors': hypervisors[2:]})
        self.assertEqual(['h3', 'h4', 'h2'], self.compute.candidates(server))
        markers = [request['params']['marker'] for request in self.session.requests
                   if 'marker' in request['params']]
        self.assertEqual(['provider-h2'], markers)

    def test_server_and_server_groups_are_read_at_the_same_time(self) -> None:
        self.session.answer('GET', '/servers/a', {'server': _shown('a')})
        # Aggregates seldom change: they are known.
        self.compute.aggregates('h1')
        both = threading.Barrier(2, timeout=_PATIENCE)
        request = self.session.request

        def meet(*arguments: Any, **more: Any) -> Any:
            both.wait()
            return request(*arguments, **more)
        with mock.patch.object(self.session, 'request', meet):
            self.assertIsNotNone(self.compute.server('a'))

    def test_server_groups_beyond_the_first_page_are_read(self) -> None:
        pages = [{'server_groups': [{'id': group, 'policy': 'affinity', 'members': [member]}]}
                 for group, member in (('f', 'z'), ('g', 'a'))]
        self.session.answer('GET', '/os-server-groups', *pages, {'server_groups': []})
        server = self._server()
        assert server.group is not None
        self.assertEqual('g', server.group['id'])
        offsets = [request['params'].get('offset') for request in self.session.requests
                   if 'all_projects' in request['params']]
        self.assertEqual([None, '1', '2'], offsets)

    def test_deleted_server_is_none(self) -> None:
        self.session.fail('GET', '/servers/a', 404)
        self.assertIsNone(self.compute.server('a'))
        self.session.answer('GET', '/servers/a', {'server': _shown('a', status='SOFT_DELETED')})
        self.assertIsNone(self.compute.server('a'))

    def test_host_with_the_most_free_memory_comes_first(self) -> None:
        self.assertEqual(['h3', 'h4', 'h2'], self._hosts())

    @ddt.data({'state': 'down'}, {'status': 'disabled'}, {'forced_down': True}, {'zone': 'other'})
    def test_host_that_is_down_or_disabled_is_no_candidate(self, values: dict[str, Any]) -> None:
        self.services[2].update(values)
        self.assertEqual(['h4', 'h2'], self._hosts())

    def test_host_of_other_tenants_is_no_candidate(self) -> None:
        self.aggregates.append({'hosts': ['h3'], 'metadata': {'filter_tenant_id': 'q, r'}})
        self.assertEqual(['h4', 'h2'], self._hosts())

    def test_host_of_this_tenant_and_others_is_a_candidate(self) -> None:
        self.aggregates.append({'hosts': ['h3'], 'metadata': {'filter_tenant_id_2': 'q, p'}})
        self.assertEqual(['h3', 'h4', 'h2'], self._hosts())

    def test_candidates_have_the_aggregate_of_the_flavor(self) -> None:
        self.aggregates.append({'hosts': ['h2', 'h4'], 'metadata': {'ssd': 'true'}})
        specs = {'aggregate_instance_extra_specs:ssd': 'true'}
        self.assertEqual(['h4', 'h2'], self._hosts(flavor={**_FLAVOR, 'extra_specs': specs}))

    def _group(self, policy: str, **rules: int) -> None:
        self.groups.append({'id': 'g', 'policy': policy, 'rules': rules,
                            'members': ['a', 'b', 'c']})
        self._places(b='h3', c='h3')

    def _places(self, **hosts: str) -> None:
        """Place the other members of the group; what Nova has answered before is forgotten."""
        self.session.answer('GET', '/servers/detail', {'servers': [
            _shown(name, host) for name, host in {'a': 'h1', **hosts}.items()]})
        self.compute = compute.Compute(self.session)

    def test_anti_affinity_excludes_the_hosts_of_the_group(self) -> None:
        self._group('anti-affinity')
        self.assertEqual(['h4', 'h2'], self._hosts())

    def test_anti_affinity_allows_max_server_per_host(self) -> None:
        self._group('anti-affinity', max_server_per_host=3)
        self.assertEqual(['h3', 'h4', 'h2'], self._hosts())

    def test_soft_anti_affinity_moves_hosts_of_the_group_to_the_end(self) -> None:
        self._group('soft-anti-affinity')
        self.assertEqual(['h4', 'h2', 'h3'], self._hosts())

    def test_affinity_allows_only_the_host_of_the_group(self) -> None:
        self._group('affinity')
        self.assertEqual(['h3'], self._hosts())

    def test_affinity_of_a_group_on_the_failed_host_chooses_one_host(self) -> None:
        self._group('affinity')
        self._places(b='h1', c='h1')
        hosts = self._hosts()
        self.assertEqual({'h2', 'h3', 'h4'}, set(hosts))
        # All engines have the same order, however full the hosts are.
        self.used = {'h1': 0, 'h2': 1, 'h3': 2, 'h4': 3}
        self.assertEqual(hosts, self._hosts())

    @ddt.data(('affinity', ['h2']), ('anti-affinity', ['h3', 'h4']),
              ('soft-affinity', ['h2', 'h3', 'h4']), ('soft-anti-affinity', ['h3', 'h4', 'h2']))
    @ddt.unpack
    def test_destinations_of_other_recoveries_count(self, policy: str, hosts: list[str]) -> None:
        self._group(policy)
        self._places(b='h1', c='h1')
        self._answers()
        self.assertEqual(hosts, self.compute.candidates(self._server(), {'b': 'h2'}))

    def test_anti_affinity_counts_servers_and_recoveries(self) -> None:
        self._group('anti-affinity', max_server_per_host=2)
        self._places(b='h3', c='h1')
        self._answers()
        self.assertEqual(['h4', 'h2'], self.compute.candidates(self._server(), {'c': 'h3'}))

    def test_first_of_an_affinity_group_needs_a_backup(self) -> None:
        self._group('affinity')
        self._answers()
        self.assertIsNone(self.compute.immovable(self._server()))
        self._places(b='h1', c='h1')
        self.assertIn('affinity group', str(self.compute.immovable(self._server())))
        self._places(b='h1', c='h2')
        self.assertIsNone(self.compute.immovable(self._server()))

    def test_server_with_a_virtual_tpm_is_immovable(self) -> None:
        server = self._server()
        flavor = {**server.flavor, 'extra_specs': {'hw:tpm_version': '2.0'}}
        self.assertIn('virtual TPM', str(self.compute.immovable(
            dataclasses.replace(server, flavor=flavor))))

    def test_members_of_a_group_are_listed_by_one_request(self) -> None:
        self._group('anti-affinity')
        for _ in range(3):
            self._hosts()
        paths = [path for _, path, _ in self.session.calls]
        self.assertEqual(1, paths.count('/servers/detail'))
        self.assertNotIn('/servers/b', paths)

    def test_candidates_are_queried_once_for_many_servers(self) -> None:
        server = self._server()
        for _ in range(5):
            self.compute.candidates(server)
        paths = [path for _, path, _ in self.session.calls]
        self.assertEqual(1, paths.count('/allocation_candidates'))

    def test_other_candidates_are_asked_for_if_the_first_are_not_allowed(self) -> None:
        self.services[:] = [_service(host, zone='other') for host in self.used]
        with mock.patch.object(placement, '_LIMIT', len(self.used)):
            self.assertEqual([], self._hosts())
        limits = [request['params'].get('limit') for request, (_, path, _) in zip(
            self.session.requests, self.session.calls, strict=True)
            if path == '/allocation_candidates']
        self.assertEqual([str(len(self.used)), None], limits)

    @ddt.data((True, ['PCPU']), (False, ['PCPU', 'VCPU']))
    @ddt.unpack
    def test_pinned_server_may_be_on_hosts_without_dedicated_cpus(
            self, with_pcpu: bool, wanted: list[str]) -> None:
        server = self._server(flavor={**_FLAVOR, 'extra_specs': {'hw:cpu_policy': 'dedicated'}})
        if not with_pcpu:
            [(_, full)] = self.session._answers['GET', '/allocation_candidates']
            self.session.answer('GET', '/allocation_candidates', {
                'allocation_requests': [], 'provider_summaries': {}}, full)
        self.assertEqual(['h3', 'h4', 'h2'], self.compute.candidates(server))
        self.assertEqual(wanted, [
            request['params']['resources'].partition(':')[0] for request, (_, path, _) in zip(
                self.session.requests, self.session.calls, strict=True)
            if path == '/allocation_candidates'])

    def test_many_servers_of_one_host_read_the_services_once(self) -> None:
        self.session.answer('PUT', '/os-services/service-h2', None)
        for _ in range(3):
            self.assertTrue(self.compute.force_down('h2', True))
            self.assertNotIn('h2', self.compute.candidates(self._server()))
        self.assertEqual(1, [path for _, path, _ in self.session.calls].count('/os-services'))
        self.assertEqual(1, [method for method, _, _ in self.session.calls].count('PUT'))

    def test_host_is_forced_down_again_after_that_was_taken_back(self) -> None:
        self.session.answer('PUT', '/os-services/service-h2', None)
        for down in (True, False, True):
            self.assertTrue(self.compute.force_down('h2', down))
        self.assertEqual(3, [method for method, _, _ in self.session.calls].count('PUT'))

    def test_force_down_reports_whether_nova_did_it(self) -> None:
        self.session.answer('PUT', '/os-services/service-h1', None)
        self.assertTrue(self.compute.force_down('h1', True))
        self.assertEqual(('PUT', '/os-services/service-h1', {'forced_down': True}),
                         self.session.calls[-1])
        self.session.fail('PUT', '/os-services/service-h1', 409)
        self.assertFalse(self.compute.force_down('h1', False))
        self.assertFalse(self.compute.force_down('unknown', True))

    def test_cell_without_a_database_takes_no_host_of_other_cells(self) -> None:
        before = self._hosts()
        self.services.append(_UNKNOWN)
        self.compute = compute.Compute(self.session)
        self.assertEqual(before, self._hosts())
        self.assertEqual((), self.compute.places('away'))

    def test_host_of_a_cell_without_a_database_is_unreachable(self) -> None:
        self.session.answer('GET', '/os-services', {'services': [_UNKNOWN]})
        self.session.answer('GET', '/servers/detail', {'servers': []})
        for call in (self.compute.service, self.compute.servers,
                     lambda host: self.compute.force_down(host, False)):
            self.assertIn('cell', self.raised(exception.Unreachable, call, 'away'))

    def test_server_of_a_cell_without_a_database_is_unreachable(self) -> None:
        self.session.answer('GET', '/servers/a', {'server': {
            'id': 'a', 'status': 'UNKNOWN', 'tenant_id': 'p', 'flavor': _FLAVOR, 'image': ''}})
        self.assertIn('cell', self.raised(exception.Unreachable, self.compute.server, 'a'))

    @ddt.data(False, True)
    def test_service_of_a_moved_host_is_that_of_its_new_cell(self, first: bool) -> None:
        old = _service('h1', id='old', state='down', updated_at='2026-01-01T00:00:00.000000')
        services = [_service('h1'), old]
        self.session.answer('GET', '/os-services', {
            'services': services[::-1] if first else services})
        self.session.answer('PUT', '/os-services/service-h1', None)
        self.assertTrue(self.compute.service('h1')['up'])
        self.assertTrue(self.compute.force_down('h1', True))

    def test_former_service_says_nothing_about_a_host_whose_new_cell_is_away(self) -> None:
        self.session.answer('GET', '/os-services', {
            'services': [_service('away', state='down'), _UNKNOWN]})
        self.raised(exception.Unreachable, self.compute.service, 'away')

    def test_service_has_state_and_time(self) -> None:
        self.session.answer('GET', '/os-services', {'services': [
            _service('h1', state='down', forced_down=True)]})
        self.assertEqual({'up': False, 'enabled': True, 'forced_down': True,
                          'updated': 1767323045.0}, self.compute.service('h1'))
        self.session.answer('GET', '/os-services', {'services': []})
        self.assertEqual({}, self.compute.service('h1'))

    @ddt.data((None, False), ('a new disk', False), ('AUTO: Connection to libvirt lost', True))
    @ddt.unpack
    def test_service_disabled_by_nova_counts_as_enabled(
            self, reason: str | None, enabled: bool) -> None:
        self.session.answer('GET', '/os-services', {'services': [
            _service('h1', status='disabled', disabled_reason=reason)]})
        self.assertEqual(enabled, self.compute.service('h1')['enabled'])

    @ddt.data((None, False, {}), ('h2', False, {'host': 'h2'}),
              ('h2', True, {'host': 'h2', 'force': True}))
    @ddt.unpack
    def test_evacuate_sends_host_and_force(
            self, host: str | None, force: bool, body: dict[str, Any]) -> None:
        self.session.answer('POST', '/servers/a/action', None)
        self.compute.evacuate('a', host, force)
        self.assertEqual(('POST', '/servers/a/action', {'evacuate': body}),
                         self.session.calls[-1])
        self.assertEqual(force, self.session.requests[-1]['version'] == 'compute 2.67')

    def test_refused_evacuation_raises(self) -> None:
        for status in (400, 404, 409):
            self.session.fail('POST', '/servers/a/action', status)
            self.raised(exception.Refused, self.compute.evacuate, 'a', 'h2')

    def test_diagnostics_say_whether_a_server_runs(self) -> None:
        self.session.answer('GET', '/servers/a/diagnostics', {'state': 'running'})
        self.assertTrue(self.compute.runs('a'))
        self.session.fail('GET', '/servers/a/diagnostics', 409)
        self.assertFalse(self.compute.runs('a'))

    @ddt.data((400, exception.Refused), (403, exception.Refused), (404, exception.NotFound),
              (500, exception.Unreachable), (501, exception.Unreachable))
    @ddt.unpack
    def test_missing_diagnostics_raise(self, status: int, kind: type[Exception]) -> None:
        self.session.fail('GET', '/servers/a/diagnostics', status)
        self.raised(kind, self.compute.runs, 'a')

    @ddt.data(([], False), ([{'action': 'stop', 'user_id': None}], True),
              ([{'action': 'stop', 'user_id': 'u'}], False),
              ([{'action': 'reboot', 'user_id': None}], False),
              ([{'action': 'detach_volume', 'user_id': 'u'},
                {'action': 'stop', 'user_id': None}], True),
              ([{'action': 'start', 'user_id': 'u'}, {'action': 'stop', 'user_id': None}], False))
    @ddt.unpack
    def test_last_action_says_whether_the_owner_stopped_the_server(
            self, actions: list[dict[str, Any]], itself: bool) -> None:
        self.session.answer('GET', '/servers/a/os-instance-actions',
                            {'instanceActions': actions})
        self.assertEqual(itself, self.compute.stopped_by_itself('a'))

    @ddt.data(
        ([('stop', None, 30)], True), ([('stop', None, 10)], False), ([('stop', 'u', 30)], False),
        ([('stop', None, 30), ('create', 'u', 10)], True),
        ([('detach_volume', 'u', 40), ('stop', None, 30), ('create', 'u', 10)], True),
        # A user has started it after the boot, and has shut it down from within.
        ([('stop', None, 30), ('start', 'u', 25), ('create', 'u', 10)], False),
        ([('start', 'u', 40), ('stop', None, 30)], False), ([], False))
    @ddt.unpack
    def test_stop_by_nova_since_the_boot_is_the_only_change_of_power(
            self, actions: list[tuple[str, str | None, int]], itself: bool) -> None:
        self.session.answer('GET', '/servers/a/os-instance-actions', {'instanceActions': [
            {'action': action, 'user_id': user, 'start_time': f'1970-01-01T00:00:{at}.000000'}
            for action, user, at in actions]})
        self.assertEqual(itself, self.compute.stopped_by_itself('a', 20.0))

    def test_server_that_is_gone_was_stopped_by_its_owner(self) -> None:
        self.session.fail('GET', '/servers/a/os-instance-actions', 404)
        self.assertFalse(self.compute.stopped_by_itself('a'))

    def test_reset_and_reboot_are_requested(self) -> None:
        self.session.answer('POST', '/servers/a/action', None)
        self.compute.reset('a')
        self.compute.reboot('a')
        self.compute.stop('a')
        self.compute.pause('a')
        self.assertEqual([{'os-resetState': {'state': 'active'}}, {'reboot': {'type': 'HARD'}},
                          {'os-stop': None}, {'pause': None}],
                         [body for _, _, body in self.session.calls])

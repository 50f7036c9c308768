# SPDX-License-Identifier: Apache-2.0
"""``specreds-preflight`` on a cloud whose APIs answer from dictionaries."""

import contextlib
import io
import json
import pathlib
from typing import Any
from unittest import mock

import ddt
from keystoneauth1 import exceptions as auth_exceptions
from openstack import exceptions as sdk_exceptions
import testtools

import specreds_nova
from specreds_nova.cli import preflight
from specreds_nova.engine.suspicion import servers
from specreds_nova.preflight import judging
from specreds_nova.preflight import reading
from specreds_nova.preflight import report
from specreds_nova.tests.unit.preflight import cloud as clouds

_INSTALL = pathlib.Path(specreds_nova.__file__).parents[1] / 'doc' / 'source' / 'install.rst'


@ddt.ddt
class PreflightTest(testtools.TestCase):
    """A cloud with two hosts, of which one has a server."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud = clouds.Cloud(h1='a', h2='')
        self.cloud.free['h2'] = 9

    def run_command(self, *words: str) -> str:
        """Run the command, and return its output."""
        output, reader = io.StringIO(), self.cloud.reader()
        with mock.patch('openstack.connect'), \
                mock.patch.object(reading, 'Reader', return_value=reader), \
                contextlib.redirect_stdout(output):
            self.assertEqual(0, preflight.main(words))
        return output.getvalue()

    def data(self, *words: str) -> Any:
        """Return the report as data."""
        return json.loads(self.run_command('--json', *words))

    def judged(self) -> tuple[str, list[str]]:
        """Return what the only server would get, and why."""
        [server] = self.data()['servers']
        return server['recovery'], server['reasons']

    def test_server_on_ceph_would_have_a_backup(self) -> None:
        self.assertEqual(('speculative', []), self.judged())

    @ddt.data(
        ({'metadata': {'HA_Enabled': 'false'}}, {}, {}, 'none', 'not protected'),
        ({'status': 'SHUTOFF'}, {}, {}, 'evacuated', 'SHUTOFF'),
        ({'status': 'BUILD'}, {}, {}, 'none', 'BUILD'),
        ({'OS-EXT-SRV-ATTR:host': None}, {}, {}, 'none', 'on no host'),
        ({'image': {'id': 'i1'}}, {}, {}, 'none', 'does not boot from a volume'),
        ({'flavor': {**clouds.FLAVOR, 'swap': 512}}, {}, {}, 'evacuated', 'swap'),
        ({'flavor': {**clouds.FLAVOR, 'extra_specs': {'pci_passthrough:alias': 'gpu:1'}}}, {}, {},
         'evacuated', 'pci_passthrough'),
        ({'flavor': {**clouds.FLAVOR, 'extra_specs': {'hw:cpu_realtime': 'no'}}}, {}, {},
         'speculative', None),
        ({'flavor': {**clouds.FLAVOR, 'extra_specs': {'hw:tpm_version': '2.0'}}}, {}, {}, 'failed',
         'TPM'),
        ({}, {'multiattach': True}, {}, 'evacuated', 'multi-attach'),
        ({}, {'replication_status': 'enabled'}, {}, 'evacuated', 'mirrored'),
        ({}, {'os-vol-host-attr:host': 'c1@lvm#lvm'}, {}, 'failed', 'iSCSI'),
        ({}, {'id': 'another'}, {}, 'failed', 'does not list'),
        ({}, {}, {'binding:vnic_type': 'direct', 'binding:vif_type': 'hw_veb'}, 'evacuated',
         'direct'),
        ({}, {}, {'binding:vnic_type': 'normal', 'binding:vif_type': 'ovs'}, 'speculative', None))
    @ddt.unpack
    def test_server_is_judged_by_what_the_apis_show(
            self, server: dict[str, Any], volume: dict[str, Any], port: dict[str, Any],
            recovery: str, reason: str | None) -> None:
        self.cloud.servers = [clouds.server('a', **server)]
        self.cloud.volumes = [clouds.volume('a', **volume)]
        self.cloud.ports = [{'id': 'p', 'device_id': 'a', **port}] if port else []
        outcome, reasons = self.judged()
        self.assertEqual(recovery, outcome)
        self.assertEqual(reason is None, not reasons)
        self.assertIn(reason or '', ' '.join(reasons))

    def test_sums_are_by_project_flavor_image_and_aggregate(self) -> None:
        self.cloud = clouds.Cloud(h1='ab', h2='c')
        self.cloud.servers[1] |= {'tenant_id': 'p2', 'status': 'BUILD'}
        self.cloud.free = {'h1': 9, 'h2': 9}
        sums = self.data()['sums']
        counts = {'speculative': 1, 'evacuated': 0, 'failed': 0, 'none': 1, 'without_room': 0,
                  'without_room_of_two': 1}
        of_both = {**counts, 'speculative': 2, 'without_room_of_two': 2}
        self.assertEqual(of_both, sums['all'])
        self.assertEqual({'p1', 'p2'}, set(sums['project']))
        self.assertEqual({'m1': of_both}, sums['flavor'])
        self.assertEqual({'debian': of_both}, sums['image'])
        self.assertEqual({'ssd': counts, '': {**counts, 'none': 0}}, sums['aggregate'])
        text = self.run_command()
        self.assertIn('3 servers', text)
        self.assertIn('1 none: it is BUILD', text)

    def test_servers_are_protected_only_if_their_metadata_say_so(self) -> None:
        self.cloud = clouds.Cloud(h1='ab')
        self.cloud.servers[1]['metadata'] = {'specreds:protect': 'true'}
        self.assertEqual(['none', 'speculative'], [
            server['recovery'] for server in self.data('--opt-in')['servers']])

    def test_hosts_that_need_work_have_the_lines_of_the_install_page(self) -> None:
        self.cloud.hypervisors[1]['hypervisor_type'] = 'VMware vCenter Server'
        self.cloud.services[0]['forced_down'] = True
        hosts = self.data()['hosts']
        self.assertEqual(['h1', 'h2', 'a client of Ceph', 'cinder-api and cinder-volume',
                          'cinder-volume of c1@rbd'], list(hosts))
        setting = 'rbd config pool set volumes rbd_cache_policy writethrough'
        self.assertEqual(setting, hosts['a client of Ceph'][-1])
        self.assertIn('# nova-compute is disabled or forced down', hosts['h1'][0])
        self.assertIn('VMware', hosts['h2'][0])
        page = _INSTALL.read_text()
        for line in (setting, *report.COMPUTE, *report.SENTINEL, *report.CINDER, report.DRIVER):
            self.assertIn(line, page)
        self.cloud.extensions = [{'alias': 'os-superpositions'}]
        self.assertEqual(['h1', 'h2'], list(self.data()['hosts']))

    def test_hosts_with_the_same_lines_are_named_together(self) -> None:
        self.assertEqual(1, self.run_command().count(report.COMPUTE[1]))
        self.assertIn('h1, h2:', self.run_command())

    def without_room(self) -> dict[str, list[str]]:
        """Return the servers without room, with the hosts that fail."""
        return {server['name']: server['without_room'] for server in self.data()['servers']
                if server['without_room']}

    def test_room_is_for_the_servers_of_any_one_or_two_hosts(self) -> None:
        self.cloud = clouds.Cloud(h1='abc', h2='de', h3='')
        self.cloud.free = {'h1': 9, 'h2': 9, 'h3': 9}
        self.assertEqual({}, self.without_room())
        # One host has room for the servers of another one, but not of two.
        self.cloud.free = {'h1': 1, 'h2': 1, 'h3': 2}
        self.assertEqual(['h1', 'h2'], self.without_room()['e'])
        self.cloud.free = {'h1': 1, 'h2': 1, 'h3': 1}
        self.assertEqual(['h1'], self.without_room()['c'])
        self.cloud.free = {'h1': 0, 'h2': 0, 'h3': 0}
        self.assertEqual({'a': ['h1'], 'b': ['h1'], 'c': ['h1'], 'd': ['h2'], 'e': ['h2']},
                         self.without_room())
        text = self.run_command()
        self.assertIn('5 if one host fails', text)
        self.assertIn('3 h1', text)
        self.assertEqual(5, self.data()['sums']['project']['p1']['without_room'])

    def test_servers_with_priority_find_room_first(self) -> None:
        self.cloud = clouds.Cloud(h1='ab', h2='')
        self.cloud.servers[1]['metadata'] = {'specreds:priority': '5'}
        self.cloud.free['h2'] = 1
        self.assertEqual({'a': ['h1']}, self.without_room())

    @ddt.data(({'state': 'down'}, None), ({'status': 'disabled'}, None),
              ({'forced_down': True}, None), ({'zone': 'z2'}, 'nova'))
    @ddt.unpack
    def test_host_that_may_not_get_a_server_has_no_room(
            self, service: dict[str, Any], zone: str | None) -> None:
        self.cloud.servers[0]['OS-EXT-AZ:availability_zone'] = zone
        self.assertEqual({}, self.without_room())
        self.cloud.services[1] |= service
        self.assertEqual({'a': ['h1']}, self.without_room())

    def test_aggregate_of_other_projects_has_no_room(self) -> None:
        self.cloud.aggregates = [{'name': 'theirs', 'hosts': ['h2'],
                            'metadata': {'filter_tenant_id': 'p2, p3'}}]
        self.assertEqual({'a': ['h1']}, self.without_room())
        self.cloud.servers[0]['tenant_id'] = 'p3'
        self.assertEqual({}, self.without_room())

    def test_server_that_is_not_moved_needs_no_room(self) -> None:
        self.cloud.servers = [clouds.server('a', metadata={'HA_Enabled': 'false'})]
        self.cloud.free = {'h1': 0, 'h2': 0}
        self.assertEqual({}, self.without_room())

    def test_placement_is_asked_once_for_each_flavor(self) -> None:
        self.cloud.servers = [clouds.server(name) for name in 'abcd']
        self.cloud.volumes = [clouds.volume(name) for name in 'abcd']
        reader = self.cloud.reader()
        cloud = reader.read()
        candidates = mock.Mock(wraps=reader.candidates)
        judging.Judge(cloud, servers.gates(by_default=True)).look_at_all(candidates, pairs=True)
        candidates.assert_called_once()

    def test_no_more_than_20_requests_are_sent_in_a_second(self) -> None:
        self.cloud.servers = [clouds.server(f's{number}') for number in range(99)]
        self.assertEqual(99, len(self.cloud.reader().read().servers))
        self.assertGreater(len(self.cloud.requests), 50)
        for first, last in zip(self.cloud.requests, self.cloud.requests[20:], strict=False):
            self.assertGreaterEqual(last - first, 1.0 - 1e-6)

    @ddt.data(sdk_exceptions.ForbiddenException, auth_exceptions.Unauthorized)
    def test_service_that_refuses_is_named(self, refusal: type[Exception]) -> None:
        error = io.StringIO()
        with mock.patch('openstack.connect', side_effect=refusal('you are no administrator')), \
                contextlib.redirect_stderr(error):
            self.assertEqual(1, preflight.main([]))
        self.assertIn('you are no administrator', error.getvalue())

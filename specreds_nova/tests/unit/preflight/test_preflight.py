# SPDX-License-Identifier: Apache-2.0
"""``specreds-preflight`` on a cloud whose APIs answer from dictionaries."""

import contextlib
import io
import json
import pathlib
from typing import Any
from unittest import mock

import ddt
from openstack import exceptions as sdk_exceptions
import testtools

import specreds_nova
from specreds_nova.cli import preflight
from specreds_nova.preflight import reading
from specreds_nova.preflight import report

_INSTALL = pathlib.Path(specreds_nova.__file__).parents[1] / 'doc' / 'source' / 'install.rst'
_FLAVOR = {'original_name': 'm1', 'ephemeral': 0, 'swap': 0, 'extra_specs': {}}


def _server(name: str, **values: Any) -> dict[str, Any]:
    return {
        'id': name, 'name': name, 'tenant_id': 'p1', 'status': 'ACTIVE', 'image': '',
        'OS-EXT-SRV-ATTR:host': 'h1', 'OS-EXT-STS:task_state': None, 'flavor': _FLAVOR,
        'metadata': {}, 'os-extended-volumes:volumes_attached': [{'id': f'v-{name}'}], **values}


def _volume(name: str, **values: Any) -> dict[str, Any]:
    return {'id': f'v-{name}', 'os-vol-host-attr:host': 'c1@rbd#rbd', 'multiattach': False,
            'volume_image_metadata': {'image_name': 'debian'}, **values}


class _Service:
    """A proxy of openstacksdk: only reads, and pages of two."""

    def __init__(self, answers: dict[str, Any], cloud: 'PreflightTest') -> None:
        self._answers = answers
        self._cloud = cloud

    def get(self, path: str, params: dict[str, Any], microversion: str | None) -> Any:
        """Answer a request."""
        del microversion
        self._cloud.requests.append(self._cloud.now)
        if isinstance(answer := self._answers[path], Exception):
            raise answer
        [(name, items)] = answer.items()
        if 'limit' in params:
            ids = [item['id'] for item in items]
            first = ids.index(params['marker']) + 1 if 'marker' in params else 0
            items = items[first:first + 2]
        return mock.Mock(status_code=200, json=lambda: {name: items})


@ddt.ddt
class PreflightTest(testtools.TestCase):
    """A cloud with two hosts, and two back ends."""

    def setUp(self) -> None:
        super().setUp()
        self.now = 0.0
        self.requests: list[float] = []
        self.servers = [_server('a')]
        self.volumes = [_volume('a')]
        self.ports: list[dict[str, Any]] = []
        self.extensions: list[dict[str, str]] = []
        self.hypervisors: list[dict[str, Any]] = [
            {'id': number, 'hypervisor_type': 'QEMU', 'service': {'host': host}}
            for number, host in ((1, 'h1'), (2, 'h2'))]
        self.services: list[dict[str, Any]] = [
            {'host': 'h1', 'status': 'enabled'}, {'host': 'h2', 'status': 'enabled'}]

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def read(self) -> reading.Cloud:
        """Read the cloud."""
        connection = mock.Mock(
            compute=_Service({
                '/servers/detail': {'servers': self.servers},
                '/os-services': {'services': self.services},
                '/os-hypervisors/detail': {'hypervisors': self.hypervisors},
                '/os-aggregates': {'aggregates': [{'name': 'ssd', 'hosts': ['h1']}]}}, self),
            block_storage=_Service({
                '/volumes/detail': {'volumes': self.volumes},
                '/extensions': {'extensions': self.extensions},
                '/scheduler-stats/get_pools': {'pools': [
                    {'name': 'c1@rbd#rbd', 'capabilities': {'storage_protocol': 'ceph'}},
                    {'name': 'c1@lvm#lvm', 'capabilities': {'storage_protocol': 'iSCSI'}}]}},
                self),
            network=_Service({'/ports': {'ports': self.ports}}, self))
        return reading.Reader(connection, lambda what, count: None, lambda: self.now,
                              self._sleep).read()

    def run_command(self, *words: str) -> str:
        """Run the command, and return its output."""
        output, cloud = io.StringIO(), self.read()
        with mock.patch('openstack.connect'), \
                mock.patch.object(reading.Reader, 'read', lambda _: cloud), \
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
        ({'status': 'SHUTOFF'}, {}, {}, 'none', 'SHUTOFF'),
        ({'image': {'id': 'i1'}}, {}, {}, 'none', 'does not boot from a volume'),
        ({'flavor': {**_FLAVOR, 'swap': 512}}, {}, {}, 'evacuated', 'swap'),
        ({'flavor': {**_FLAVOR, 'extra_specs': {'pci_passthrough:alias': 'gpu:1'}}}, {}, {},
         'evacuated', 'pci_passthrough'),
        ({'flavor': {**_FLAVOR, 'extra_specs': {'hw:cpu_realtime': 'no'}}}, {}, {},
         'speculative', None),
        ({'flavor': {**_FLAVOR, 'extra_specs': {'hw:tpm_version': '2.0'}}}, {}, {}, 'failed',
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
        self.servers = [_server('a', **server)]
        self.volumes = [_volume('a', **volume)]
        self.ports = [{'id': 'p', 'device_id': 'a', **port}] if port else []
        outcome, reasons = self.judged()
        self.assertEqual(recovery, outcome)
        self.assertEqual(reason is None, not reasons)
        self.assertIn(reason or '', ' '.join(reasons))

    def test_sums_are_by_project_flavor_image_and_aggregate(self) -> None:
        self.servers = [_server('a'), _server('b', tenant_id='p2', status='ERROR'),
                        _server('c', **{'OS-EXT-SRV-ATTR:host': 'h2'})]
        self.volumes = [_volume(name) for name in 'abc']
        sums = self.data()['sums']
        counts = {'speculative': 1, 'evacuated': 0, 'failed': 0, 'none': 1}
        self.assertEqual({**counts, 'speculative': 2}, sums['all'])
        self.assertEqual({'p1', 'p2'}, set(sums['project']))
        self.assertEqual({'m1': {**counts, 'speculative': 2}}, sums['flavor'])
        self.assertEqual({'debian': {**counts, 'speculative': 2}}, sums['image'])
        self.assertEqual({'ssd': counts, '': {**counts, 'none': 0}}, sums['aggregate'])
        text = self.run_command()
        self.assertIn('3 servers', text)
        self.assertIn('1 none: it is ERROR', text)

    def test_servers_are_protected_only_if_their_metadata_say_so(self) -> None:
        self.servers = [_server('a'), _server('b', metadata={'specreds:protect': 'true'})]
        self.volumes = [_volume('a'), _volume('b')]
        self.assertEqual(['none', 'speculative'], [
            server['recovery'] for server in self.data('--opt-in')['servers']])

    def test_hosts_that_need_work_have_the_lines_of_the_install_page(self) -> None:
        self.hypervisors[1]['hypervisor_type'] = 'VMware vCenter Server'
        self.services[0]['forced_down'] = True
        hosts = self.data()['hosts']
        self.assertEqual(['h1', 'h2', 'cinder-api and cinder-volume', 'cinder-volume of c1@rbd'],
                         list(hosts))
        self.assertIn('# nova-compute is disabled or forced down', hosts['h1'][0])
        self.assertIn('VMware', hosts['h2'][0])
        page = _INSTALL.read_text()
        for line in (*report.COMPUTE, *report.SENTINEL, *report.CINDER, report.DRIVER):
            self.assertIn(line, page)
        self.extensions = [{'alias': 'os-superpositions'}]
        self.assertEqual(['h1', 'h2'], list(self.data()['hosts']))

    def test_hosts_with_the_same_lines_are_named_together(self) -> None:
        self.assertEqual(1, self.run_command().count(report.COMPUTE[1]))
        self.assertIn('h1, h2:', self.run_command())

    def test_no_more_than_20_requests_are_sent_in_a_second(self) -> None:
        self.servers = [_server(f's{number}') for number in range(99)]
        self.assertEqual(99, len(self.read().servers))
        self.assertGreater(len(self.requests), 50)
        for first, last in zip(self.requests, self.requests[20:], strict=False):
            self.assertGreaterEqual(last - first, 1.0 - 1e-6)

    def test_service_that_refuses_is_named(self) -> None:
        error = io.StringIO()
        with mock.patch('openstack.connect', side_effect=sdk_exceptions.ForbiddenException(
                'you are no administrator')), contextlib.redirect_stderr(error):
            self.assertEqual(1, preflight.main([]))
        self.assertIn('you are no administrator', error.getvalue())

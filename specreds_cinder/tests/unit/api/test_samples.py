# SPDX-License-Identifier: Apache-2.0
"""The samples of the API reference equal real requests and responses."""

import re
from typing import Any
from unittest import mock

import ddt
import testtools

from specreds_cinder import exception
from specreds_cinder.tests import api_samples
from specreds_cinder.tests.unit.api import base

_REFERENCE = api_samples.DIRECTORY.parent / 'source' / 'api' / 'index.rst'
_DURATIONS = {'sweep1': 0.031, 'durable': 0.004, 'fence': 0.118, 'window': 0.153, 'sweep2': 0.029,
              'commit': 0.003, 'total': 0.188}
_CONNECTION = {
    'volume_id': base.VOLUME,
    'driver_volume_type': 'rbd_super',
    'data': {
        'name': f'volumes/volume-{base.VOLUME}',
        'hosts': ['192.0.2.11'],
        'ports': ['6789'],
        'cluster_name': 'ceph',
        'auth_enabled': True,
        'auth_username': 'cinder',
        'secret_type': 'ceph',
        'secret_uuid': '457eb676-33da-42ec-9a8c-9293d545c337',
        'volume_id': base.VOLUME,
        'discard': True,
        'encrypted': False,
        'access_mode': 'rw',
        'cacheable': False,
        'qos_specs': None,
        'superposition': {
            'id': base.ID,
            'state': 'superposed',
            'speculative': True,
            'overlay': {'name': f'volumes/volume-{base.VOLUME}.super-{base.ID[:13]}',
                        'format': 'qcow2', 'discard': 'unmap', 'l2_cache_entry_size': 4096},
            'backing': {'name': f'volumes/volume-{base.VOLUME}', 'format': 'raw',
                        'size_bytes': base.GIB},
        },
    },
}
# By the name of the samples: method, path, status, and the answers of the volume services.
_CALLS: dict[str, tuple[str, str, int, dict[str, Any]]] = {
    'superposition-create': ('POST', base.BASE, 201, {
        'create': base.view(dirty=False, durations={'storage': 0.037, 'total': 0.041})}),
    'superpositions-versions': ('GET', f'{base.BASE}/versions', 200, {}),
    'superposition-show': ('GET', base.MEMBER, 200, {'get': base.view(dirty=False)}),
    'superpositions-list': ('GET', f'{base.BASE}?limit=1', 200, {'list': [
        base.view(), base.view(base.OTHER_ID, created_at='2026-01-02T03:04:09Z')]}),
    'superpositions-detail': ('GET', f'{base.BASE}/detail?sizes=1', 200, {
        'list': [base.view()], 'get': base.view(dirty=False)}),
    'superposition-eligibility': (
        'GET', f'{base.BASE}/eligibility?volume_id={base.VOLUME}&volume_id={base.SECOND}', 200,
        {'eligibility': [
            {'volume_id': base.VOLUME, 'eligible': True, 'reasons': []},
            {'volume_id': base.SECOND, 'eligible': False, 'reasons': [
                'it can be attached several times: there must be one primary']}]}),
    'superposition-check': ('POST', f'{base.MEMBER}/check', 200, {'check': {
        'dirty': True, 'first': 'rbd_data.5e8c6b8b4567.0000000000000012', 'objects': 256,
        'seconds': 0.029, 'unproven': False}}),
    'superposition-promote': ('POST', f'{base.MEMBER}/collapse', 200, {'promote': {
        'outcome': 'promoted', 'durations': _DURATIONS}}),
    'superposition-pending': ('POST', f'{base.MEMBER}/collapse', 202, {
        'get': base.view(state='collapsing'),
        'promote': exception.SuperpositionPending('goes on')}),
    'superposition-abort': ('POST', f'{base.MEMBER}/collapse', 200, {}),
    'superposition-conflict': ('POST', f'{base.MEMBER}/collapse', 409, {
        'abort': exception.SuperpositionConflict(
            f'superposition {base.ID} is merging: the version of the backup is the real one: it '
            f'can only be merged', state='merging')}),
    'superposition-merge': ('POST', f'{base.MEMBER}/merge', 202, {}),
    'superposition-connection': ('POST', f'{base.MEMBER}/connection', 200, {
        'connection': [_CONNECTION]}),
    'superposition-fence': ('POST', f'{base.BASE}/fence', 200, {'fence_host': [
        {'volume_id': base.VOLUME, 'clients': 2}, {'volume_id': base.SECOND, 'clients': 1}]}),
    'superposition-release': ('POST', f'{base.BASE}/release', 200, {
        'release_booted': ['192.0.2.11:0/3642456179']}),
    'volume-superposed': ('DELETE', f'/volumes/{base.VOLUME}', 409, {}),
}
# Samples whose request is that of another one.
_SAME = {'superposition-pending': 'superposition-promote',
         'superposition-conflict': 'superposition-abort'}

# Seconds that the volume services took, where it is more than some milliseconds.
_TOOK = {'superposition-promote': 0.196}


@ddt.ddt
class TestSamples(base.APITestCase):

    @ddt.data(*_CALLS)
    def test_request_and_response_equal_the_sample(self, name: str) -> None:
        method, path, status, answers = _CALLS[name]
        self.superposed()
        self.volume(base.SECOND)
        self.attach()
        for rpc, answered in answers.items():
            called = getattr(self.rpc, rpc)
            if isinstance(answered, Exception):
                called.side_effect = answered
            else:
                called.return_value = answered
        self.patch('oslo_utils.uuidutils.generate_uuid', return_value=base.ID)
        self.patch('specreds_cinder.api.controller.time',
                   mock.Mock(monotonic=mock.Mock(side_effect=[0.0, _TOOK.get(name, 0.042)])))
        self.flags(public_endpoint='https://volume.example.com')
        request = f'{_SAME.get(name, name)}-request'
        body = (api_samples.load(request)
                if (api_samples.DIRECTORY / f'{request}.json').exists() else None)
        answer = self.ask(method, path, body)
        self.assertEqual(status, answer.status, answer.body)
        response = f'{name}-response'
        if answer.body:
            self.assertEqual(api_samples.load(response), answer.body)
        else:
            self.assertFalse((api_samples.DIRECTORY / f'{response}.json').exists())


class TestReference(testtools.TestCase):

    def test_every_sample_is_shown_and_tested(self) -> None:
        files = {path.name for path in api_samples.DIRECTORY.iterdir()}
        shown = set(re.findall(r'api_samples/([\w-]+\.json)', _REFERENCE.read_text()))
        self.assertEqual(files, shown)
        tested = {f'{name}-{part}.json' for name in _CALLS for part in ('request', 'response')}
        self.assertEqual(set(), files - tested)


class TestRoutes(base.APITestCase):

    def test_every_route_is_documented_and_no_other_one(self) -> None:
        served = {f'{method} /v3/{{project_id}}{path.replace(":(id)", "{superposition_id}")}'
                  for method, path in self.routes('os-superpositions')}
        self.assertEqual(served, set(re.findall(
            r'``([A-Z]+ /v3/{project_id}/os-superpositions[^`?]*)', _REFERENCE.read_text())))


class TestDifferences(testtools.TestCase):

    def test_same_shape_has_no_differences(self) -> None:
        sample = {'a': [{'b': 1, 'c': None}], 'd': True}
        self.assertEqual([], api_samples.differences(sample, {'a': [], 'd': None}))
        self.assertEqual([], api_samples.differences(
            sample, {'a': [{'b': 2.5, 'c': 'x'}, {'b': 0, 'c': 1}], 'd': False}))

    def test_differences_name_the_fields(self) -> None:
        self.assertEqual(
            ['answer.a[1].b: string instead of number', 'answer.d: in no sample',
             'answer.e: missing'],
            api_samples.differences({'a': [{'b': 1}], 'e': ''},
                                    {'a': [{'b': 1}, {'b': 'x'}], 'd': 1}))



# SPDX-License-Identifier: Apache-2.0
"""Operations that would break a superposition are refused while it lasts."""

from typing import Any
import uuid

import ddt

from specreds_cinder.tests.cloud import base

# Name of the operation, method, path below the volume's project, body.
_VOLUME = '{volume}'
_OPERATIONS: tuple[tuple[str, str, str, dict[str, Any] | None], ...] = (
    ('delete', 'DELETE', '/volumes/{volume}', None),
    ('force delete', 'POST', '/volumes/{volume}/action', {'os-force_delete': None}),
    ('extend', 'POST', '/volumes/{volume}/action', {'os-extend': {'new_size': 3}}),
    ('snapshot', 'POST', '/snapshots', {'snapshot': {'volume_id': _VOLUME, 'force': True}}),
    ('clone', 'POST', '/volumes', {'volume': {'source_volid': _VOLUME, 'size': 1}}),
    ('retype', 'POST', '/volumes/{volume}/action',
     {'os-retype': {'new_type': 'rbd2', 'migration_policy': 'on-demand'}}),
    ('migrate', 'POST', '/volumes/{volume}/action',
     {'os-migrate_volume': {'host': 'controller@rbd2#rbd2'}}),
    ('transfer', 'POST', '/volume-transfers', {'transfer': {'volume_id': _VOLUME}}),
    ('unmanage', 'POST', '/volumes/{volume}/action', {'os-unmanage': {}}),
    ('read only', 'POST', '/volumes/{volume}/action',
     {'os-update_readonly_flag': {'readonly': True}}),
    ('revert', 'POST', '/volumes/{volume}/action', {'revert': {'snapshot_id': '{snapshot}'}}),
    ('superpose', 'POST', '/os-superpositions', {'superposition': {'volume_ids': [_VOLUME]}}),
)


@ddt.ddt
class RefusedTest(base.CloudTestCase):

    def fill(self, value: Any, **names: str) -> Any:
        """Put ids into a request."""
        if isinstance(value, str):
            return value.format(**names) if '{' in value else value
        if isinstance(value, dict):
            return {key: self.fill(each, **names) for key, each in value.items()}
        if isinstance(value, list):
            return [self.fill(each, **names) for each in value]
        return value

    def make_snapshot(self, volume_id: str) -> str:
        """Create a snapshot that is removed before its volume."""
        snapshot_id: str = self.request('POST', '/snapshots', {
            'snapshot': {'volume_id': volume_id}}, expect=202)['snapshot']['id']
        self.addCleanup(self.remove_snapshot, snapshot_id)
        self.wait_snapshot(snapshot_id)
        return snapshot_id

    def wait_snapshot(self, snapshot_id: str) -> None:
        """Wait until a snapshot is available."""
        self.wait('snapshot', lambda: self.request(
            'GET', f'/snapshots/{snapshot_id}')['snapshot']['status'] == 'available')

    def remove_snapshot(self, snapshot_id: str) -> None:
        """Remove a snapshot if it exists."""
        path = f'/snapshots/{snapshot_id}'
        self.request('DELETE', path, expect=(202, base.GONE))
        self.wait('end of the snapshot', lambda: self.api().request(
            path, 'GET').status_code == base.GONE)

    @ddt.data(*_OPERATIONS)
    @ddt.unpack
    def test_operation_is_refused_while_superposed(self, name: str, method: str, path: str,
                                                   body: dict[str, Any] | None) -> None:
        volume = self.make_volume()
        names = {'volume': volume['id'], 'snapshot': ''}
        if name == 'revert':
            names['snapshot'] = self.make_snapshot(volume['id'])
        made = self.superpose(volume['id'])
        before = self.volume(volume['id'])['status']
        # Cinder's own controllers turn some refusals into 400.
        message = self.refused(method, self.fill(path, **names), self.fill(body, **names),
                               status=(400, 409))
        self.assertIn(made['id'], message)
        self.assertEqual(before, self.volume(volume['id'])['status'])
        self.assertEqual('superposed', self.superposition(made['id'])['state'])
        self.end(made['id'])
        if name in ('extend', 'snapshot', 'delete'):
            self.request(method, self.fill(path, **names), self.fill(body, **names), expect=202)
            if name == 'snapshot':
                snapshots = self.request(
                    'GET', f'/snapshots?all_tenants=1&volume_id={volume["id"]}')['snapshots']
                for snapshot in snapshots:
                    self.wait_snapshot(snapshot['id'])
                    self.remove_snapshot(snapshot['id'])

    def test_deletion_is_refused_while_promoted(self) -> None:
        volume = self.make_volume()
        made = self.superpose(volume['id'])
        self.collapse(made['id'])
        message = self.refused('DELETE', f'/volumes/{volume["id"]}', status=409)
        self.assertIn(made['id'], message)
        message = self.refused('DELETE', f'/os-superpositions/{made["id"]}', status=409)
        self.assertIn('promoted', message)


class RolesTest(base.CloudTestCase):
    """The roles that may see and decide."""

    def setUp(self) -> None:
        super().setUp()
        self.volume_ = self.make_volume(persona='demo')
        self.made = self.superpose(self.volume_['id'])
        self.path = f'/os-superpositions/{self.made["id"]}'

    def test_reader_sees_superpositions_of_the_project(self) -> None:
        for persona in ('demo', 'reader'):
            superposition = self.request('GET', self.path, persona=persona)['superposition']
            self.assertEqual(self.made['id'], superposition['id'])
            # Hosts are for the administrator only.
            self.assertNotIn('hosts', superposition)
            self.assertIn(self.made['id'], [each['id'] for each in self.request(
                'GET', '/os-superpositions', persona=persona)['superpositions']])

    def test_other_project_sees_nothing(self) -> None:
        self.refused('GET', self.path, persona='other', status=404)
        self.assertEqual([], self.request(
            'GET', '/os-superpositions', persona='other')['superpositions'])
        self.refused('GET', f'/os-superpositions/eligibility?volume_id={self.volume_["id"]}',
                     persona='other', status=404)

    def test_members_and_readers_may_not_decide(self) -> None:
        bodies: dict[str, tuple[str, str, Any]] = {
            'collapse': ('POST', '/collapse', {'collapse': {'decision': 'abort'}}),
            'delete': ('DELETE', '', None),
            'connection': ('POST', '/connection', {'connector': {'host': 'h'}}),
            'merge': ('POST', '/merge', {'merge': {'step': 'begin'}}),
        }
        for persona in ('demo', 'reader'):
            for method, path, body in bodies.values():
                self.refused(method, self.path + path, body, persona=persona, status=403)
            self.refused('POST', '/os-superpositions', {'superposition': {
                'volume_ids': [self.volume_['id']]}}, persona=persona, status=403)
        self.assertEqual('superposed', self.superposition(self.made['id'])['state'])

    def test_role_of_the_engine_decides_and_that_of_services_does_not(self) -> None:
        path, body = f'{self.path}/collapse', {'collapse': {'decision': 'abort'}}
        self.refused('POST', path, body, persona='service', status=403)
        self.request('POST', path, body, persona='operator')
        self.wait_gone(self.made['id'])

    def test_unknown_or_malformed_ids_are_refused(self) -> None:
        nothing = str(uuid.uuid4())
        self.refused('GET', f'/os-superpositions/{nothing}', status=404)
        self.refused('DELETE', f'/os-superpositions/{nothing}', status=404)
        self.refused('POST', '/os-superpositions', {'superposition': {
            'volume_ids': [nothing]}}, status=404)
        self.refused('POST', '/os-superpositions', {'superposition': {
            'volume_ids': ['x']}}, status=400)
        self.refused('POST', '/os-superpositions', {'superposition': {}}, status=400)

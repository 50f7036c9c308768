# SPDX-License-Identifier: Apache-2.0
"""Deletions that the engine requests of Nova and Cinder."""

from specreds_nova.engine import exception
from specreds_nova.engine.clients import compute
from specreds_nova.engine.clients import volumes
from specreds_nova.tests.unit.engine.clients import base

_ACTION = '/servers/a/action'
_VOLUME = '/volumes/v'


class DeletionTest(base.ServiceTest):
    """A server with a volume that is deleted with it, and one that is kept."""

    def setUp(self) -> None:
        super().setUp()
        self.compute = compute.Compute(self.session, self.conf)
        self.volumes = volumes.Volumes(self.session, self.conf)

    def test_volumes_that_nova_deletes_with_a_server(self) -> None:
        self.session.answer('GET', '/os-server-groups', {'server_groups': []})
        self.session.answer('GET', '/servers/a', {'server': {
            'id': 'a', 'name': 'a', 'tenant_id': 'p', 'OS-EXT-SRV-ATTR:host': 'h1',
            'status': 'ACTIVE', 'OS-EXT-STS:task_state': 'deleting', 'image': '', 'flavor': {},
            'os-extended-volumes:volumes_attached': [
                {'id': 'v', 'delete_on_termination': True},
                {'id': 'w', 'delete_on_termination': False}]}})
        server = self.compute.server('a')
        assert server is not None
        self.assertEqual((True, ('v', 'w'), ('v',)),
                         (server.deleting, server.volumes, server.deleted_with))

    def test_server_is_deleted_at_once_where_nova_keeps_deleted_servers_for_a_while(self) -> None:
        self.session.answer('POST', _ACTION, None)
        self.compute.delete('a')
        self.assertEqual([{'forceDelete': None}], [body for _, _, body in self.session.calls])

    def test_deletion_of_a_server_that_is_gone_has_succeeded(self) -> None:
        self.session.fail('POST', _ACTION, 404)
        self.compute.delete('a')
        self.session.fail('POST', _ACTION, 409)
        self.raised(exception.Refused, self.compute.delete, 'a')

    def test_volume_is_gone_once_cinder_does_not_know_it(self) -> None:
        self.session.answer('DELETE', _VOLUME, None, status=202)
        self.assertFalse(self.volumes.delete('v'))
        self.session.fail('DELETE', _VOLUME, 400)
        self.raised(exception.Refused, self.volumes.delete, 'v')
        self.session.fail('DELETE', _VOLUME, 404)
        self.assertTrue(self.volumes.delete('v'))

# SPDX-License-Identifier: Apache-2.0
"""Deletions that the engine requests of Nova."""

from specreds_nova.engine import exception
from specreds_nova.engine.clients import compute
from specreds_nova.tests.unit.engine.clients import base

_ACTION = '/servers/a/action'


class DeletionTest(base.ServiceTest):
    """A server that is to be deleted."""

    def setUp(self) -> None:
        super().setUp()
        self.compute = compute.Compute(self.session)

    def test_server_that_is_to_be_deleted_is_read_as_such(self) -> None:
        self.session.answer('GET', '/os-server-groups', {'server_groups': []})
        self.session.answer('GET', '/os-aggregates', {'aggregates': []})
        self.session.answer('GET', '/servers/a', {'server': {
            'id': 'a', 'name': 'a', 'tenant_id': 'p', 'OS-EXT-SRV-ATTR:host': 'h1',
            'status': 'ACTIVE', 'OS-EXT-STS:task_state': 'deleting', 'image': '', 'flavor': {},
            'os-extended-volumes:volumes_attached': []}})
        server = self.compute.server('a')
        assert server is not None
        self.assertTrue(server.deleting)

    def test_server_is_deleted_at_once_where_nova_keeps_deleted_servers_for_a_while(self) -> None:
        self.session.answer('POST', _ACTION, None)
        self.compute.delete('a')
        self.assertEqual([{'forceDelete': None}], [body for _, _, body in self.session.calls])

    def test_deletion_of_a_server_that_is_gone_has_succeeded(self) -> None:
        self.session.fail('POST', _ACTION, 404)
        self.compute.delete('a')
        self.session.fail('POST', _ACTION, 409)
        self.raised(exception.Refused, self.compute.delete, 'a')

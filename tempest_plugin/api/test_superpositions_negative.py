# SPDX-License-Identifier: Apache-2.0
"""Tests of refused requests for superpositions, and of operations that a superposition blocks."""

import contextlib
from typing import Any

from tempest.lib import decorators
from tempest.lib import exceptions
from tempest.lib.common.utils import data_utils

from tempest_plugin.common import base
from tempest_plugin.common import microversions


class SuperpositionsNegativeTest(base.BaseTest):
    """Refused requests, which change nothing."""

    credentials = ['primary', 'alt', 'admin']

    @decorators.attr(type='negative')
    @decorators.idempotent_id('22ce4847-76f0-46ab-a63a-b0f2417a55ee')
    def test_what_is_not_there(self) -> None:
        """An unknown volume or superposition returns 404."""
        nothing = data_utils.rand_uuid()
        client = self.superpositions
        for request in (client.show_superposition, client.delete_superposition,
                        client.check_superposition, client.show_eligibility):
            self.assertRaises(exceptions.NotFound, request, nothing)
        self.assertRaises(exceptions.NotFound, client.collapse_superposition, nothing, 'abort')
        self.assertRaises(exceptions.NotFound, client.merge_superposition, nothing, 'offline')
        self.assertRaises(exceptions.NotFound, client.show_connection, nothing, {'host': 'h'})
        self.assertRaises(exceptions.NotFound, client.create_superposition,
                          volume_ids=[nothing])

    @decorators.attr(type='negative')
    @decorators.idempotent_id('3eec43c3-1c82-4a39-93ee-fe5ebc049217')
    def test_malformed(self) -> None:
        """A malformed request returns 400."""
        nothing = data_utils.rand_uuid()
        client = self.superpositions
        bodies: tuple[dict[str, Any], ...] = (
            {}, {'volume_ids': []}, {'volume_ids': ['x']}, {'server_id': None},
            {'volume_ids': [nothing], 'colour': 'red'},
            {'volume_ids': [nothing], 'reason': 'x' * 256})
        for body in bodies:
            self.assertRaises(exceptions.BadRequest, client.create_superposition, **body)
        for query in ({'state': 'solid'}, {'limit': '-1'}, {'volume_id': 'x'}):
            self.assertRaises(exceptions.BadRequest, client.list_superpositions, **query)
        self.assertRaises(exceptions.BadRequest, client.collapse_superposition, nothing, 'toss')
        self.assertRaises(exceptions.BadRequest, client.merge_superposition, nothing, 'perhaps')
        self.assertRaises(exceptions.BadRequest, client.show_connection, nothing, {})

    @decorators.attr(type='negative')
    @decorators.idempotent_id('9b375e7c-36dc-47d0-9c89-350dea547683')
    def test_version(self) -> None:
        """An unsupported version returns 406, a malformed one 400."""
        for version, error in ('99.0', exceptions.NotAcceptable), ('solid', exceptions.BadRequest):
            with microversions.MicroversionFixture(superposition=version):
                self.assertRaises(error, self.superpositions.list_superpositions)

    @decorators.attr(type='negative')
    @decorators.idempotent_id('eeaacf12-b3cf-46a4-9a6f-d1d48e33b438')
    def test_volumes_of_a_server_that_has_none(self) -> None:
        """Volumes of a server must be attached to that server."""
        server_id = data_utils.rand_uuid()
        self.assertRaises(exceptions.BadRequest, self.superpositions.create_superposition,
                          server_id=server_id)
        volume_id = self.make_volume()
        self.assertRaises(exceptions.BadRequest, self.superpositions.create_superposition,
                          server_id=server_id, volume_ids=[volume_id])

    @decorators.attr(type='negative')
    @decorators.idempotent_id('26dc8493-bd65-472a-803e-be623545af35')
    def test_volumes_of_several_projects(self) -> None:
        """Volumes of several projects cannot be superposed together."""
        own = self.make_volume()
        self.volumes = self.os_alt.volumes_client_latest
        # Clean-ups run in reverse order: the other project's volume is removed first.
        self.addCleanup(setattr, self, 'volumes', self.owner().volumes_client_latest)
        others = self.make_volume()
        self.assertRaises(exceptions.BadRequest, self.superpositions.create_superposition,
                          volume_ids=[own, others])
        self.assertEqual([], self.superpositions.list_superpositions(
            all_tenants=1, volume_id=own)['superpositions'])

    @decorators.attr(type='negative')
    @decorators.idempotent_id('3937cbfc-a0ef-4ad8-83df-75d20bace249')
    def test_superposed_volumes(self) -> None:
        """Operations on a superposed volume are refused until the superposition has ended."""
        volume_id = self.make_volume()
        made = self.superpose(volume_id)
        size = self.volume(volume_id)['size'] + 1
        snapshots = self.owner().snapshots_client_latest
        self.assertRaises(exceptions.Conflict, self.superpositions.create_superposition,
                          volume_ids=[volume_id])
        # Cinder's own API turns some refusals into 400.
        refused = (exceptions.BadRequest, exceptions.Conflict)
        for request in (lambda: self.volumes.delete_volume(volume_id),
                        lambda: self.volumes.extend_volume(volume_id, new_size=size),
                        lambda: snapshots.create_snapshot(volume_id=volume_id),
                        lambda: self.volumes.create_volume(source_volid=volume_id, size=size)):
            error = self.assertRaises(refused, request)
            self.assertIn(made['id'], str(error))
        self.assertEqual('available', self.volume(volume_id)['status'])
        self.end(made['id'])
        self.volumes.extend_volume(volume_id, new_size=size)
        self.wait_volume(volume_id, 'available')
        self.assertEqual(size, self.volume(volume_id)['size'])

    @decorators.attr(type='negative')
    @decorators.idempotent_id('d877b546-a179-4530-9739-116e732995b2')
    def test_what_is_decided(self) -> None:
        """A promotion cannot be undone: requests are refused, or find no superposition."""
        made = self.superpose(self.make_volume())
        self.superpositions.collapse_superposition(made['id'], 'promote')
        for request in (lambda: self.superpositions.delete_superposition(made['id']),
                        lambda: self.superpositions.collapse_superposition(made['id'], 'abort')):
            self.assertRaises((exceptions.Conflict, exceptions.NotFound), request)
        with contextlib.suppress(exceptions.NotFound):
            shown = self.superpositions.show_superposition(made['id'])['superposition']
            self.assertEqual('promoted', shown['outcome'])
        self.wait_merged(made['id'])

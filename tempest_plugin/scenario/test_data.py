# SPDX-License-Identifier: Apache-2.0
"""Tests of a running server whose volumes are superposed."""

from tempest.common import utils
from tempest.lib import decorators

from tempest_plugin.common import servers


class DataTest(servers.ServersTest):
    """A server on an undisturbed host, without a backup."""

    def setUp(self) -> None:
        super().setUp()
        self.server = self.make_server(volumes=2)

    @decorators.attr(type=['smoke', 'slow'])
    @decorators.idempotent_id('b0f79069-f0bd-4a96-8751-8feff9712adb')
    @utils.services('compute', 'image', 'network', 'volume')
    def test_a_server_that_writes(self) -> None:
        """A write of the server makes the superposition dirty, and is kept."""
        self.need_guests_that_write()
        guest = self.server.guest
        assert guest is not None
        who = self.identity(self.server)
        before = guest.write()
        made = self.superpose(server_id=self.server.id, reason='tempest')
        self.assertEqual(set(self.server.volumes), set(made['volume_ids']))
        self.assertEqual(before, guest.read())
        self.assertFalse(self.superpositions.check_superposition(made['id'])['check']['dirty'])
        written = guest.write()
        check = self.superpositions.check_superposition(made['id'])['check']
        self.assertTrue(check['dirty'])
        decided = self.superpositions.collapse_superposition(made['id'], 'promote')['collapse']
        self.assertEqual('dirty', decided['outcome'])
        self.wait_ended(made['id'])
        self.assertEqual((written, who), (guest.read(), self.identity(self.server)))
        self.assertNotEqual(written, guest.write())

    @decorators.attr(type='slow')
    @decorators.idempotent_id('10f306b3-277e-4de8-bac1-79ae15e59021')
    @utils.services('compute', 'image', 'network', 'volume')
    def test_superposed_and_dropped(self) -> None:
        """The same guest runs before, during and after a superposition that is dropped."""
        who = self.identity(self.server) if self.server.guest else None
        made = self.superpose(server_id=self.server.id)
        self.assertEqual((self.server.id, set(self.server.volumes)),
                         (made['server_id'], set(made['volume_ids'])))
        self.assertEqual('ACTIVE', self.show(self.server.id)['status'])
        for volume_id in self.server.volumes:
            self.assertEqual('in-use', self.volume(volume_id)['status'])
        self.superpositions.delete_superposition(made['id'])
        self.wait_ended(made['id'])
        shown = self.wait_active(self.server.id)
        self.assertEqual(self.server.host, shown['OS-EXT-SRV-ATTR:host'])
        if self.server.guest:
            self.assertEqual(who, self.identity(self.server))

# SPDX-License-Identifier: Apache-2.0
"""The clients that stay fenced are listed, and released once they have ended."""

import datetime
from unittest import mock
import uuid

from specreds_cinder import superposition as sp
from specreds_cinder.superposition.ceph import address
from specreds_cinder.superposition.exclusion import fenced as fences
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.functional import actors
from specreds_cinder.tests.functional import test_cli


class FencedTest(test_cli.CommandTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.make_volume()
        self.home = sp.Home(self.pool)
        self.primary = self.make_primary(self.volume)

    def promote_and_merge(self) -> None:
        """End a superposition of which the primary stays fenced."""
        record = self.protocol.super([self.volume], server_id='vm-1')
        self.addCleanup(self.drop, record)
        self.assertEqual('promoted', self.protocol.collapse(record).outcome)
        self.assertTrue(self.primary.clients.isdisjoint(self.listed()))
        self.protocol.merge(record)

    def listed(self) -> set[str]:
        """Return the clients that are listed."""
        return {listed.client for listed in self.protocol.fenced(self.home)}

    def test_primary_of_a_merged_superposition_is_listed_until_it_is_released(self) -> None:
        self.promote_and_merge()
        client, = self.primary.clients
        shown = {line['client']: line for line in self.json('fenced', '--pool', self.pool)}
        self.assertEqual('vm-1', shown[client]['server'])
        self.primary.kill()
        released = self.json('release', '--pool', self.pool, '--client', client)
        self.assertEqual([{'client': client}], released)
        self.assertNotIn(client, self.fenced() | self.listed())
        self.assertIn(client, self.run_super('release', '--client', client, status=1))

    def test_fenced_watcher_of_another_host_is_not_the_primary(self) -> None:
        # An OSD keeps the watch of a fenced client only if the client died while the watch was
        # being stored: a client that runs stands for it until the collapse.
        listed = actors.Primary(self.cluster, self.volume)
        self.addCleanup(listed.end)
        client, = listed.clients
        self.protocol.fenced_clients.enter(
            self.home, [client], fences.Entry('first', None, records.now()))
        with mock.patch.object(address, 'host', lambda client: client):
            error = self.assertRaises(sp.NotEligible, self.protocol.super, [self.volume])
            self.assertIn(client, str(error))
            with mock.patch.object(self.protocol.fence, 'outside',
                                   lambda clients: frozenset(clients - {client})):
                record = self.superpose(self.volume)
        self.assertEqual(self.primary.clients, record.clients)
        self.assertEqual('first', self.protocol.ledger.read(
            record.volumes[0])[client].superposition)
        self.assertEqual('promoted', self.protocol.collapse(record).outcome)
        self.assertLessEqual(self.primary.clients | {client}, self.fenced())

    def test_boot_of_a_host_releases_what_was_fenced_before(self) -> None:
        self.promote_and_merge()
        client, = self.primary.clients
        self.primary.kill()
        host = address.host(client)
        now = datetime.datetime.now(datetime.UTC)
        for early in (now - datetime.timedelta(hours=1), now):
            released = self.json('release', '--pool', self.pool, '--host', host,
                                 '--booted-at', early.isoformat())
            self.assertNotIn({'client': client}, released)
        self.assertIn(client, self.fenced())
        late = now + datetime.timedelta(hours=1)
        self.assertEqual([], self.protocol.release_booted(self.home, {'192.0.2.77': late}))
        boots = {host: late, '192.0.2.77': now}
        self.assertIn(client, self.protocol.release_booted(self.home, boots))
        self.assertNotIn(client, self.fenced() | self.listed())
        # Another engine may have been faster.
        self.assertEqual([], self.protocol.release_booted(self.home, boots))
        for wrong in ({host: late.replace(tzinfo=None)}, {'compute-1': late}):
            self.assertRaises(sp.InvalidInput, self.protocol.release_booted, self.home, wrong)

    def test_client_of_a_long_merge_counts_as_fenced_since_its_promotion(self) -> None:
        record = self.protocol.super([self.volume])
        self.addCleanup(self.drop, record)
        self.protocol.collapse(record)
        promoted = datetime.datetime.now(datetime.UTC)
        self.protocol.merge(record)
        client, = self.primary.clients
        listed = {listed.client: listed.entry.fenced_at
                  for listed in self.protocol.fenced(self.home)}
        self.assertLessEqual(datetime.datetime.fromisoformat(listed[client]), promoted)
        self.primary.kill()

    def test_primary_that_lives_is_not_listed(self) -> None:
        record = self.superpose(self.volume)
        self.protocol.abort(record)
        self.assertTrue(self.primary.clients.isdisjoint(self.listed()))
        self.assertRaises(sp.InvalidInput, self.protocol.release, self.home, self.primary.clients)

    def test_client_that_another_decision_has_fenced_stays_fenced(self) -> None:
        client, = self.primary.clients
        record = self.superpose(self.volume)
        # As a collapse that was interrupted behind the fence.
        record = self.protocol.store.swap(record, record.moved(
            states.COLLAPSING, fenced=(client,)))
        self.protocol.fence.close([client])
        self.protocol.fenced_clients.enter(self.home, [client], fences.Entry(
            'another superposition', None, '2026-01-01T00:00:00.000+00:00'))
        self.protocol.abort(record)
        self.assertIn(client, self.fenced())
        self.protocol.release(self.home, [client])
        self.primary.kill()

    def test_fenced_backup_is_listed(self) -> None:
        record = self.superpose(self.volume)
        backup = self.make_backup(record)
        self.protocol.abort(record)
        self.assertEqual(1, len([listed for listed in self.protocol.fenced(self.home)
                                 if listed.entry.superposition == record.id]))
        backup.kill()

    def test_client_that_ceph_has_forgotten_leaves_the_list(self) -> None:
        gone = '10.0.0.1:0/1'
        self.protocol.fenced_clients.enter(self.home, [gone], fences.Entry(
            'superposition', None, '2026-01-01T00:00:00.000+00:00'))
        self.assertNotIn(gone, self.listed())
        self.assertNotIn(gone, self.protocol.fenced_clients.read(self.home).entries)

    def test_client_that_a_fence_enters_stays_listed_until_it_is_blocklisted(self) -> None:
        client, = self.primary.clients
        looks: list[bool] = []

        def look() -> None:
            looks.append(client in self.listed())
            self.assertRaises(sp.InvalidInput, self.protocol.release, self.home, [client])
        with sp.trace.observe(self.at('fence.add', 'before', look)):
            self.protocol.shut_out([sp.Target(self.volume)], str(uuid.uuid4()))
        self.assertEqual([False], looks)
        self.assertIn(client, self.listed())
        self.primary.kill()

    def test_client_that_is_entered_while_it_is_removed_stays_listed(self) -> None:
        client, = self.primary.clients
        old = fences.Entry('superposition', None, '2026-01-01T00:00:00.000+00:00')
        self.protocol.fenced_clients.enter(self.home, [client], old)

        def shut_out() -> None:
            self.protocol.shut_out([sp.Target(self.volume)], str(uuid.uuid4()))
        with sp.trace.observe(self.at('fenced.remove', 'before', shut_out)):
            self.assertNotIn(client, self.listed())
        self.assertIn(client, self.listed())
        self.primary.kill()

# SPDX-License-Identifier: Apache-2.0
"""Clients are classified as primary, backup or newcomer, and fenced."""

from collections.abc import Collection
from typing import Any

import hypothesis
from hypothesis import strategies
import testtools

from specreds_cinder.superposition.ceph import address
from specreds_cinder.superposition.exclusion import ledger
from specreds_cinder.superposition.exclusion import roles
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.tests.unit.superposition.truth import test_record

PRIMARY, OVERLAY, BASE = '10.0.0.1:0/1', '10.0.0.2:0/2', '10.0.0.2:0/3'
NEWCOMER, OLD = '10.0.0.3:0/4', '10.0.0.2:0/5'
# A client on the backup's host, or behind the same address.
NEAR = '10.0.0.2:0/8'


class RolesTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.record = test_record.make_record(volumes=(
            test_record.make_volume(clients=(PRIMARY,)),))

    def classify(self, on_image: set[str], on_overlay: set[str], *, attended: bool = True,
                 owners: Collection[str] = (), **known: str) -> roles.Roles:
        """Classify clients.

        :param owners: those that own the lock
        :param known: those in the ledger, by name: role and superposition
        """
        names = {'primary': PRIMARY, 'overlay': OVERLAY, 'base': BASE, 'old': OLD}
        entries = {names[name]: ledger.Entry(role, self.record.id if name != 'old' else 'first')
                   for name, role in known.items()}
        return roles.classify(self.record, [roles.Seen(
            frozenset(on_image), frozenset(on_overlay), entries, frozenset(owners))],
            attended=attended)

    def test_backup_is_each_client_on_the_host_of_the_overlay(self) -> None:
        clients = self.classify({PRIMARY, BASE, NEWCOMER}, {OVERLAY})
        self.assertEqual({OVERLAY, BASE}, clients.backup)
        self.assertEqual({NEWCOMER}, clients.newcomers)
        self.assertEqual({PRIMARY, NEWCOMER}, clients.fenced)

    def test_primary_is_fenced_also_when_it_has_nothing_open(self) -> None:
        self.assertEqual({PRIMARY}, self.classify(set(), set()).fenced)

    def test_client_of_an_earlier_superposition_is_fenced_also_when_silent(self) -> None:
        clients = self.classify({PRIMARY, BASE}, {OVERLAY}, old=ledger.PRIMARY)
        self.assertEqual({OLD}, clients.silent)
        self.assertIn(OLD, clients.fenced)

    def test_host_does_not_make_an_earlier_client_a_backup(self) -> None:
        clients = self.classify({PRIMARY, BASE, OLD}, {OVERLAY}, old=ledger.PRIMARY)
        self.assertNotIn(OLD, clients.backup)
        self.assertIn(OLD, clients.fenced)

    def test_silent_backup_is_spared_while_the_caller_runs_it(self) -> None:
        known: dict[str, Any] = {'overlay': ledger.BACKUP, 'base': ledger.BACKUP}
        self.assertEqual({PRIMARY}, self.classify(set(), set(), **known).fenced)

    def test_silent_backup_is_fenced_while_no_caller_runs_it(self) -> None:
        known: dict[str, Any] = {'overlay': ledger.BACKUP, 'base': ledger.BACKUP}
        self.assertEqual({PRIMARY, OVERLAY, BASE},
                         self.classify(set(), set(), attended=False, **known).fenced)

    def test_merger_is_fenced(self) -> None:
        self.assertIn(BASE, self.classify(set(), set(), base=ledger.MERGER).fenced)

    def test_clients_of_an_earlier_superposition_stay_fenced(self) -> None:
        record = test_record.make_record(
            volumes=self.record.volumes, fenced=(PRIMARY, NEWCOMER, OLD))
        self.assertEqual({PRIMARY, NEWCOMER}, roles.living(record, {
            PRIMARY: ledger.Entry(ledger.PRIMARY, record.id),
            NEWCOMER: ledger.Entry(ledger.PRIMARY, record.id),
            OLD: ledger.Entry(ledger.PRIMARY, 'first')}))

    def test_clients_of_several_volumes_are_counted_by_volume(self) -> None:
        second_overlay, second_base = '10.0.0.2:0/6', '10.0.0.2:0/7'
        clients = roles.classify(self.record, [
            roles.Seen(frozenset({BASE}), frozenset({OVERLAY}), {}),
            roles.Seen(frozenset({second_base, NEAR}), frozenset({second_overlay}), {})],
            attended=True)
        self.assertEqual({OVERLAY, BASE, second_overlay}, clients.backup)
        self.assertEqual({second_base, NEAR}, clients.unclear)

    def test_backup_may_have_several_addresses(self) -> None:
        clients = self.classify({PRIMARY, '[fd00::2]:0/3'}, {OVERLAY})
        self.assertEqual({OVERLAY, '[fd00::2]:0/3'}, clients.backup)
        self.assertEqual({PRIMARY}, clients.fenced)

    def test_owner_of_the_lock_elsewhere_is_a_newcomer(self) -> None:
        clients = self.classify({PRIMARY, NEWCOMER}, {OVERLAY}, owners={NEWCOMER})
        self.assertEqual({PRIMARY, NEWCOMER}, clients.fenced)

    def test_newcomer_behind_the_same_address_is_unclear_at_first(self) -> None:
        clients = self.classify({PRIMARY, BASE, NEAR}, {OVERLAY})
        self.assertEqual({BASE, NEAR}, clients.unclear)
        self.assertEqual({PRIMARY}, clients.fenced)

    def test_newcomer_behind_the_same_address_is_fenced_once_the_backup_is_noted(self) -> None:
        clients = self.classify({PRIMARY, BASE, NEAR}, {OVERLAY}, base=ledger.BACKUP)
        self.assertEqual({OVERLAY, BASE}, clients.backup)
        self.assertEqual({PRIMARY, NEAR}, clients.fenced)

    def test_noted_backup_is_spared_when_its_overlay_cannot_be_seen(self) -> None:
        clients = self.classify({PRIMARY, BASE}, set(), base=ledger.BACKUP)
        self.assertEqual({PRIMARY}, clients.fenced)


def addresses(role: str) -> strategies.SearchStrategy[frozenset[str]]:
    """Return sets of client addresses of a few hosts, whose nonces belong to a role."""
    nonces = {'primary': 1, 'backup': 2, 'newcomer': 3}[role]
    return strategies.frozensets(strategies.builds(
        lambda host, number: f'10.0.0.{host}:0/{nonces}{number}',
        strategies.integers(1, 2), strategies.integers(0, 3)), max_size=3)


@strategies.composite
def looks(draw: strategies.DrawFn) -> tuple[frozenset[str], frozenset[str], roles.Seen]:
    """Return the clients of a backup below its overlay, newcomers, and what is seen of all."""
    below, newcomers = draw(addresses('backup')), draw(addresses('newcomer'))
    overlay = frozenset(f'10.0.0.{draw(strategies.integers(1, 2))}:0/4{number}'
                        for number in range(len(below)))
    primary = draw(addresses('primary'))
    image = primary | below | newcomers
    owners = draw(strategies.sampled_from([frozenset(), *(frozenset({each}) for each in image)]))
    return below, newcomers, roles.Seen(image, overlay, {}, owners)


class AnyClientsTest(testtools.TestCase):
    """Whatever the addresses are, no writer is spared, and no noted backup is fenced."""

    @hypothesis.given(looks(), strategies.booleans())
    def test_each_client_has_one_role(
            self, look: tuple[frozenset[str], frozenset[str], roles.Seen],
            attended: bool) -> None:
        _below, _newcomers, seen = look
        clients = roles.classify(self.record(seen), [seen], attended=attended)
        sets = (clients.primary, clients.backup, clients.newcomers, clients.silent,
                clients.unclear)
        self.assertEqual(sum(map(len, sets)), len(frozenset().union(*sets)))
        self.assertTrue(seen.image | seen.overlay <= frozenset().union(*sets))

    @hypothesis.given(looks())
    def test_newcomer_beside_a_visible_backup_is_not_spared(
            self, look: tuple[frozenset[str], frozenset[str], roles.Seen]) -> None:
        below, newcomers, seen = look
        clients = roles.classify(self.record(seen), [seen], attended=True)
        # The address of a newcomer must not decide alone; see "several addresses".
        if newcomers and self.hosts(below) == self.hosts(seen.overlay):
            self.assertTrue(newcomers <= clients.fenced or clients.unclear)

    @hypothesis.given(looks())
    def test_noted_backup_is_told_from_newcomers_whatever_the_addresses(
            self, look: tuple[frozenset[str], frozenset[str], roles.Seen]) -> None:
        below, newcomers, seen = look
        record = self.record(seen)
        noted = roles.Seen(seen.image, seen.overlay, dict.fromkeys(
            below | seen.overlay, ledger.Entry(ledger.BACKUP, record.id)), seen.owners)
        clients = roles.classify(record, [noted], attended=True)
        self.assertEqual(below | seen.overlay, clients.backup)
        self.assertEqual(record.clients | newcomers, clients.fenced)

    @staticmethod
    def record(seen: roles.Seen) -> records.Record:
        """Return a record whose primary is the clients with its nonces."""
        primary = tuple(sorted(each for each in seen.image if each.split('/')[1][0] == '1'))
        return test_record.make_record(volumes=(test_record.make_volume(clients=primary),))

    @staticmethod
    def hosts(clients: frozenset[str]) -> set[str]:
        """Return the hosts of clients."""
        return {address.host(client) for client in clients}

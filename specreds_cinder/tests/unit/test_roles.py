# SPDX-License-Identifier: Apache-2.0
"""Clients are classified as primary, backup or newcomer, and fenced."""

from typing import Any

import testtools

from specreds_cinder.superposition import ledger
from specreds_cinder.superposition import roles
from specreds_cinder.tests.unit import test_record

PRIMARY, OVERLAY, BASE = '10.0.0.1:0/1', '10.0.0.2:0/2', '10.0.0.2:0/3'
NEWCOMER, OLD = '10.0.0.3:0/4', '10.0.0.2:0/5'


class RolesTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.record = test_record.make_record(volumes=(
            test_record.make_volume(clients=(PRIMARY,)),))

    def classify(self, on_image: set[str], on_overlay: set[str], *, attended: bool = True,
                 **known: str) -> roles.Roles:
        """Classify clients.

        :param known: those in the ledger, by name: role and superposition
        """
        names = {'primary': PRIMARY, 'overlay': OVERLAY, 'base': BASE, 'old': OLD}
        entries = {names[name]: ledger.Entry(role, self.record.id if name != 'old' else 'first')
                   for name, role in known.items()}
        return roles.classify(self.record, roles.Seen(
            frozenset(on_image), frozenset(on_overlay), entries), attended=attended)

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

    def test_clients_of_several_volumes_are_joined(self) -> None:
        entry = ledger.Entry(ledger.PRIMARY, 'first')
        first = roles.Seen(frozenset({PRIMARY}), frozenset(), {OLD: entry})
        second = roles.Seen(frozenset({BASE}), frozenset({OVERLAY}), {})
        self.assertEqual(roles.Seen(frozenset({PRIMARY, BASE}), frozenset({OVERLAY}),
                                    {OLD: entry}), first | second)

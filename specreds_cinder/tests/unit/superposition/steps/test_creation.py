# SPDX-License-Identifier: Apache-2.0
"""super and a host's fence: placement groups that they wait for, and clients that count."""

import dataclasses
from typing import Any
from unittest import mock

import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import steps
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.evidence import cut as cuts
from specreds_cinder.superposition.exclusion import fenced as fences
from specreds_cinder.superposition.exclusion import ledger as ledgers
from specreds_cinder.superposition.exclusion import roles
from specreds_cinder.superposition.steps import base
from specreds_cinder.superposition.steps import create
from specreds_cinder.superposition.steps import host_fence
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.tests.unit import fakes
from specreds_cinder.tests.unit.superposition.ceph import test_volume

_PRIMARY, _ENDED, _BACKUP = '10.0.0.1:0/1', '10.0.0.2:0/2', '10.0.0.2:0/3'


class CutsTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.cluster = mock.Mock(timeout=60)
        self.site = base.Site(self.cluster)
        self.taken = [records.Cut(2, 'null', (number, 7)) for number in (0, 0, 5, 6)]
        self.patch(cuts, 'take', mock.Mock(side_effect=self.taken))
        self.answers = mock.Mock(return_value=True)
        self.patch(cuts, 'any_answers', self.answers)

    def test_cut_is_repeated_until_it_bounds_the_volumes(self) -> None:
        with mock.patch.object(cuts, 'bounded', side_effect=[False, False, False, True]):
            taken = create._cuts(self.site, fakes.superposition())
        self.assertEqual({fakes.POOL_ID: self.taken[3]}, taken)

    def test_no_cut_is_repeated_while_no_silent_group_answers(self) -> None:
        self.answers.side_effect = [False, False, False, True]
        with mock.patch.object(cuts, 'bounded', side_effect=[False, True]):
            taken = create._cuts(self.site, fakes.superposition())
        self.assertEqual({fakes.POOL_ID: self.taken[1]}, taken)
        self.answers.assert_called_with(self.cluster, fakes.POOL_ID, '', self.taken[0])

    def test_group_that_stays_silent_is_an_error_that_names_the_volume(self) -> None:
        self.cluster.timeout = -1
        with mock.patch.object(cuts, 'bounded', return_value=False):
            error = self.assertRaises(errors.ClusterTimeout, create._cuts, self.site,
                                      fakes.superposition())
        self.assertIn('volumes/vol-1', str(error))

    def test_barrier_of_a_fence_waits_for_every_group(self) -> None:
        host_fence._barrier(self.site, [fakes.volume()])
        self.assertEqual(self.taken[3], cuts.take(self.cluster, fakes.POOL_ID, ''))

    def test_barrier_of_a_fence_fails_if_a_group_stays_silent(self) -> None:
        self.cluster.timeout = -1
        error = self.assertRaises(errors.ClusterTimeout, host_fence._barrier, self.site,
                                  [fakes.volume()])
        self.assertIn('pool 2', str(error))


class EndedTestCase(testtools.TestCase):
    """An image with a primary, and a watcher that an earlier superposition has fenced."""

    def setUp(self) -> None:
        super().setUp()
        self.step: Any = steps.Protocol(mock.Mock(**{'pools.return_value': test_volume.POOLS}))
        self.step.store = mock.Mock(**{'create.side_effect': lambda record: record})
        self.step.ledger = mock.Mock()
        self.listed = {_ENDED: 'first'}
        self.blocklist = {_ENDED}
        self.step.fenced_clients = mock.Mock(**{'read.side_effect': self.read})
        self.step.fence = mock.Mock(
            **{'outside.side_effect': lambda clients: clients - self.blocklist})
        self.image = dataclasses.replace(
            test_volume.GOOD, clients=frozenset({_PRIMARY, _ENDED}), owners=frozenset({_PRIMARY}))
        self.patch(volumes, 'inspect', lambda _cluster, _ref: self.image)
        self.patch(create, '_take', lambda _site, record, _owned: record)
        self.patch(self.step, 'find', mock.Mock(side_effect=errors.NotSuperposed('in none')))

    def read(self, home: records.Home) -> fences.Listing:
        """Return the clients that superpositions of a home have fenced for good."""
        self.assertEqual(self.image.ref.home, home)
        return fences.Listing({client: fences.Entry(superposition, None, records.now())
                               for client, superposition in self.listed.items()}, 1)

    def superposed(self) -> records.Record:
        """Put the image into superposition, of which all objections are known beforehand."""
        objections = self.step.objections(self.image.ref)
        try:
            record: records.Record = self.step.super([self.image.ref])
        except errors.NotEligible as exc:
            self.assertEqual(list(exc.reasons), objections)
            raise
        self.assertEqual([], objections)
        return record


class EndedTest(EndedTestCase):
    """A watcher that an earlier superposition has fenced does not make the primary ambiguous."""

    def assert_refused(self) -> None:
        """Assert that the image is refused because of both clients, and changed by nothing."""
        error = self.assertRaises(errors.NotEligible, self.superposed)
        self.assertIn(f'({_PRIMARY}, {_ENDED})', str(error))
        self.step.ledger.enter.assert_not_called()
        self.step.store.create.assert_not_called()

    def test_fenced_watcher_is_not_the_primary(self) -> None:
        self.assertEqual({_PRIMARY}, self.superposed().clients)

    def test_fenced_watcher_is_a_client_of_the_earlier_superposition(self) -> None:
        def take(_site: object, record: records.Record, _owned: object) -> records.Record:
            # The overlay, and with it the backup, comes after the entry.
            self.step.ledger.enter.assert_called_once()
            return record
        self.patch(create, '_take', take)
        self.superposed()
        [entered] = self.step.ledger.enter.mock_calls
        self.assertEqual(([_ENDED], ledgers.Entry(ledgers.PRIMARY, 'first')), entered.args[1:])
        self.assertEqual({'replace': True}, entered.kwargs)

    def test_fenced_watcher_is_neither_the_backup_nor_ever_unfenced(self) -> None:
        record = self.superposed()
        [entered] = self.step.ledger.enter.mock_calls
        entries = {_PRIMARY: ledgers.Entry(ledgers.PRIMARY, record.id),
                   **dict.fromkeys(*entered.args[1:])}
        clients = roles.classify(record, [roles.Seen(
            frozenset({_PRIMARY, _ENDED, _BACKUP}), frozenset({'10.0.0.2:0/4'}), entries)],
            attended=True)
        self.assertEqual({_BACKUP, '10.0.0.2:0/4'}, clients.backup)
        self.assertEqual({_PRIMARY, _ENDED}, clients.fenced)
        fenced = dataclasses.replace(record, fenced=tuple(sorted(clients.fenced)))
        self.assertEqual({_PRIMARY}, roles.living(fenced, entries))

    def test_listed_client_without_a_blocklist_entry_counts(self) -> None:
        self.blocklist.clear()
        self.assert_refused()

    def test_client_that_another_program_has_blocklisted_counts(self) -> None:
        self.listed.clear()
        self.assert_refused()

    def test_fenced_client_that_owns_the_lock_counts(self) -> None:
        self.image = dataclasses.replace(self.image, owners=frozenset({_ENDED}))
        self.assert_refused()

    def test_hosts_of_the_other_clients_still_have_to_be_one(self) -> None:
        other = '10.0.0.3:0/1'
        self.image = dataclasses.replace(self.image, clients=self.image.clients | {other})
        error = self.assertRaises(errors.NotEligible, self.superposed)
        self.assertIn(f'({_PRIMARY}, {other})', str(error))

    def test_clients_of_one_host_need_no_list(self) -> None:
        self.image = dataclasses.replace(self.image, clients=frozenset({_PRIMARY}))
        self.assertEqual({_PRIMARY}, self.superposed().clients)
        self.step.fenced_clients.read.assert_not_called()

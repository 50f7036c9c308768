# SPDX-License-Identifier: Apache-2.0
"""Controllers of a promoted superposition and of one over it that overtake each other."""

from collections.abc import Callable
import contextlib
import threading
from typing import Any
from unittest import mock
import uuid

import nbd

from specreds_cinder import superposition as sp
from specreds_cinder.superposition import ledger as ledgers
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import removal
from specreds_cinder.superposition import states
from specreds_cinder.tests.functional import protocol_base
from specreds_cinder.tests.functional import second_base
from specreds_cinder.worker import operations

# Time in seconds in which librbd breaks the lock of a client that is fenced.
_PATIENCE_S = 5.0


class MergeTest(second_base.SecondTestCase):
    """The merge of the first superposition, and a second one, begin at the same time."""

    def test_merge_that_hangs_before_it_begins_is_overtaken(self) -> None:
        made = []
        with sp.trace.observe(self.at('record.merging', 'before', lambda: made.append(
                self.superpose_again()))):
            self.assertRaises(sp.RecordChanged, self.protocol.merge, self.first,
                              backup=self.server.hook)
        self.assertEqual(self.first.id,
                         self.protocol.latch.superposition(self.first.volumes[0]))
        self.assertRaises(sp.Conflict, self.protocol.begin_merge, self.first)
        self.assertEqual(states.PROMOTED, self.state(self.first))
        self.assertEqual('promoted', self.protocol.collapse(made[0]).outcome)

    def test_super_goes_on_after_a_connection_was_handed_out(self) -> None:
        worker = operations.Operations(self.protocol, self.first.home, watching=False)
        with sp.trace.observe(self.at('record.create', 'after',
                                      lambda: worker.hand_out(self.first.id))):
            record = self.superpose_again()
        first = self.protocol.reload(self.first)
        self.assertEqual(record.id, first.successor)
        self.assertNotEqual(self.first.labels, first.labels)
        late = self.make_backup(self.first, speculative=False)
        self.assertEqual([0x51], self.read(late, second_base.FIRST))
        clients = self.server_clients()
        self.assertEqual('promoted', self.protocol.collapse(record).outcome)
        self.assertTrue(clients <= self.fenced())
        for server in (self.server, late):
            server.kill()

    def test_merge_that_has_begun_is_not_overtaken(self) -> None:
        refused = []

        def superpose() -> None:
            refused.append(self.assertRaises(sp.AlreadySuperposed, self.superpose_again))
        with sp.trace.observe(self.at('latch.open', 'before', superpose)):
            self.protocol.merge(self.first, backup=self.server.hook)
        self.assertEqual(1, len(refused))
        self.server.end()
        self.assertEqual([0x50, 0x51], self.places()[:2])

    def test_super_that_hangs_is_overtaken_by_a_merge(self) -> None:
        with sp.trace.observe(self.at('record.create', 'after', lambda: self.protocol.merge(
                self.first, backup=self.server.hook))):
            self.assertRaises(sp.SuperError, self.superpose_again)
        self.assertEqual(states.GONE, self.state(self.first))
        self.server.end()
        self.assertEqual([0x50, 0x51], self.places()[:2])
        self.assert_nothing_left(self.first)

    def test_late_unlatch_of_the_first_merge_opens_no_latch_of_the_second(self) -> None:
        record = self.promoted_again()
        self.protocol._unlatch(self.first)
        self.assertEqual([record.id] * 2, [self.protocol.latch.superposition(image)
                                           for image in record.volumes[0].parents])

    def test_server_that_was_handed_the_first_overlay_writes_nothing_to_the_merge(self) -> None:
        record = self.promoted_again()
        self.server.kill()
        acknowledged = []

        def start() -> None:
            late = self.make_backup(self.first, speculative=False)

            def write() -> None:
                with contextlib.suppress(nbd.Error):
                    self.write(late, second_base.PRIMARY, 0x99)
                    acknowledged.append(late)
            thread = threading.Thread(target=write, daemon=True)
            thread.start()
            # Without the latch, librbd breaks the lock of a fenced client at once.
            thread.join(_PATIENCE_S)
            clients = self.server_clients()
            late.kill()
            # So that its watch is none of a server that runs.
            self.protocol.fence.close(clients)
        with sp.trace.observe(self.at('merge.commit', 'before', start)):
            self.protocol.merge(record)
        self.assertEqual(([], 0x50), (acknowledged, self.places()[0]))

    def test_second_backup_is_not_promoted_over_an_open_latch(self) -> None:
        record = self.superpose_again()
        self.protocol._unlatch(self.first)
        self.assertRaises(sp.RecordChanged, self.protocol.collapse, record)
        self.assertEqual(states.COLLAPSING, self.state(record))
        self.protocol.abort(record)
        self.assertEqual(states.GONE, self.state(record))


class ReadTest(second_base.SecondTestCase):
    """A controller reads what the succession changes meanwhile."""

    @contextlib.contextmanager
    def meanwhile(self, owner: object, name: str, work: Callable[[], object]) -> Any:
        """Do something right before the first call of a method."""
        method, calls = getattr(owner, name), []

        def call(*args: Any, **options: Any) -> Any:
            calls.append(args)
            if len(calls) == 1:
                work()
            return method(*args, **options)
        with mock.patch.object(owner, name, call):
            yield

    def test_volume_is_found_while_its_claim_is_passed_on(self) -> None:
        record = self.superpose_again()
        other = sp.Protocol(self.cluster, self.settings)
        with self.meanwhile(other.store, 'read',
                            lambda: self.assertEqual(
                                'promoted', self.protocol.collapse(record).outcome)):
            self.assertEqual(record.id, other.find(self.volume).id)

    def test_first_superposition_counts_until_the_second_is_promoted(self) -> None:
        record = self.superpose_again()
        self.assertEqual(self.first.id, self.protocol.find(self.volume).id)
        with sp.trace.observe(self.at('latch.pass', 'before', protocol_base.cut)):
            self.assertRaises(protocol_base.Cut, self.protocol.collapse, record)
        self.assertEqual(states.PROMOTED, self.state(self.first))
        self.assertEqual(record.id, self.protocol.find(self.volume).id)
        self.assertRaises(sp.Conflict, self.protocol.merge, self.first)
        worker = operations.Operations(self.protocol, record.home, watching=False)
        self.assertEqual(record.id, worker.hand_out(self.first.id)['id'])

    def test_connection_is_handed_out_while_the_second_is_promoted(self) -> None:
        record = self.superpose_again()
        worker = operations.Operations(self.protocol, record.home, watching=False)
        with self.meanwhile(self.protocol, 'label', lambda: self.assertEqual(
                'promoted', self.protocol.collapse(record).outcome)):
            self.assertRaises(sp.NotSuperposed, worker.hand_out, self.first.id)

    def test_second_backup_is_not_taken_for_a_client_of_the_first(self) -> None:
        made = []

        def start() -> None:
            record = self.superpose_again()
            made.append((record, self.make_backup(record)))
            self.assertEqual([0x51], self.read(made[0][1], second_base.FIRST))
        other = sp.Protocol(self.cluster, self.settings)
        with self.meanwhile(other, '_look', start):
            other.renew(self.first)
        record, backup = made[0]
        clients = self.open_at(*(image.ref for image in record.volumes[0].parents)) - (
            record.clients | set(record.inherited))
        self.assertEqual(2, len(clients))
        self.assertTrue(clients.isdisjoint(self.protocol.ledger.read(record.volumes[0])))
        self.assertEqual('promoted', self.protocol.collapse(record, backup=backup.hook).outcome)
        self.assertTrue(clients.isdisjoint(self.fenced()))
        self.write(backup, second_base.ALL, 0x52)

    def test_backup_that_was_dropped_during_a_look_is_no_client_of_the_first(self) -> None:
        other = sp.Protocol(self.cluster, self.settings)
        look = other._look

        def slow(volume: records.Volume) -> Any:
            record = self.superpose_again()
            backup = self.make_backup(record)
            self.read(backup, second_base.FIRST)
            looks = look(volume)
            self.protocol.abort(record)
            self.kill(backup, record)
            return looks
        with mock.patch.object(other, '_look', slow):
            self.assertRaises(sp.RecordChanged, other.observe, self.first)


class FenceTest(second_base.SecondTestCase):
    """What becomes of fences when the second superposition ends."""

    def hung_client(self) -> str:
        """Enter a client of the first backup that hangs into the ledger, and return it."""
        # No earlier test has fenced it for good.
        client = f'10.0.0.9:0/{uuid.uuid4().int % 2**31}'
        self.addCleanup(self.protocol.fence.open, [client])
        self.protocol.ledger.enter(self.first.volumes[0], [client],
                                   ledgers.Entry(ledgers.BACKUP, self.first.id))
        return client

    def cut_off(self, record: sp.Record) -> None:
        """Collapse by a controller that ends behind its fence."""
        with sp.trace.observe(self.at('fence', 'after', protocol_base.cut)):
            self.assertRaises(protocol_base.Cut, self.protocol.collapse, record)
        self.assertTrue(self.clients <= self.fenced())

    def setUp(self) -> None:
        super().setUp()
        self.clients = self.server_clients()

    def test_abort_lifts_the_fence_of_the_first_backup_only(self) -> None:
        record = self.superpose_again()
        self.assertEqual(self.clients, record.clients)
        self.cut_off(record)
        self.protocol.abort(record)
        self.assertEqual(set(), self.clients & self.fenced())
        self.assertTrue(self.primary.clients <= self.fenced())

    def test_abort_lifts_the_fence_of_a_silent_first_backup(self) -> None:
        hung = self.hung_client()
        record = self.superpose_again()
        self.assertIn(hung, record.clients)
        self.cut_off(record)
        self.assertIn(hung, self.fenced())
        self.protocol.abort(record)
        self.assertNotIn(hung, self.fenced())

    def test_late_fence_of_the_first_backup_is_lifted(self) -> None:
        record = self.superpose_again()
        with sp.trace.observe(self.at('fence', 'before', protocol_base.cut)):
            self.assertRaises(protocol_base.Cut, self.protocol.collapse, record)
        self.protocol.abort(record)
        # As when the monitors have elected a leader.
        self.protocol.fence.close(self.clients | self.primary.clients)
        self.protocol.tidy(record.home)
        self.assertEqual(set(), self.clients & self.fenced())
        self.assertTrue(self.primary.clients <= self.fenced())

    def test_fence_of_a_later_late_dirty_decision_is_not_taken_for_a_late_one(self) -> None:
        second = self.superpose_again()
        with sp.trace.observe(self.at('fence', 'before', protocol_base.cut)):
            self.assertRaises(protocol_base.Cut, self.protocol.collapse, second)
        self.protocol.abort(second)
        third = self.superpose_again()
        with sp.trace.observe(self.at('fence', 'before', lambda: self.write(
                self.server, second_base.FIRST, 0x61))):
            self.assertEqual('late-dirty', self.protocol.collapse(third).outcome)
        self.protocol.tidy(second.home)
        self.assertTrue(self.clients | self.primary.clients <= self.fenced())
        self.server.kill()

    def test_silent_first_backup_is_fenced(self) -> None:
        hung = self.hung_client()
        record = self.promoted_again()
        self.assertIn(hung, record.fenced)
        self.assertIn(hung, self.fenced())

    def test_server_that_was_started_again_meanwhile_is_spared_by_its_merge(self) -> None:
        record = self.superpose_again()
        self.server.end()
        again = self.make_backup(self.first, speculative=False)
        self.write(again, second_base.ALL, 0x61)
        # A look of the second superposition takes it for the primary's.
        self.protocol.observe(record)
        self.protocol.abort(record)
        self.protocol.merge(self.first, backup=again.hook)
        self.write(again, second_base.SECOND, 0x62)
        again.end()
        self.assertEqual([0x50, 0x51, 0x62, 0x61], self.places())

    def test_server_that_was_started_before_a_super_that_hangs_is_spared_by_its_merge(
            self) -> None:
        rival, observe = sp.Protocol(self.cluster, self.settings), self.protocol.observe
        started = []

        def start_again(record: sp.Record) -> None:
            observe(record)
            self.server.end()
            started.append(self.make_backup(self.first, speculative=False))
            self.write(started[0], second_base.ALL, 0x61)

        def drop() -> None:
            [record] = (other for other in rival.list(self.first.home)
                        if other.id != self.first.id)
            rival.abort(record)
            # Its overlay is created after that.
            self.addCleanup(removal.remove, self.cluster, record.volumes[0], rival.fence,
                            evict=True)
        with mock.patch.object(self.protocol, 'observe', start_again), \
                sp.trace.observe(self.at('ledger.enter', 'before', drop)):
            self.assertRaises(sp.SuperError, self.superpose_again)
        [again] = started
        self.protocol.merge(self.first, backup=again.hook)
        self.write(again, second_base.SECOND, 0x62)
        again.end()
        self.assertEqual([0x50, 0x51, 0x62, 0x61], self.places())

    def test_fences_of_the_first_outlive_the_second(self) -> None:
        record = self.promoted_again()
        self.assertTrue(self.clients | self.primary.clients <= set(record.fenced))
        self.protocol.merge(record)
        listed = {client.client for client in self.protocol.fenced(record.home)}
        self.assertTrue(self.clients | self.primary.clients <= listed & self.fenced())
        self.assertEqual({}, self.protocol.ledger.read(record.volumes[0]))

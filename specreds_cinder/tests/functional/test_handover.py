# SPDX-License-Identifier: Apache-2.0
"""What keeps a decision from sweeping: a lock that was handed over, or a fence before the cut."""

import functools
import signal
import threading
from typing import Any
from unittest import mock

import rbd
import tenacity

from specreds_cinder import superposition as sp
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.exclusion import handover
from specreds_cinder.superposition.exclusion import ledger as ledgers
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.functional import actors
from specreds_cinder.tests.functional import protocol_base

_SECONDS = 60
# A map with one entry, as librbd encodes it.
NOTE = b'\1\0\0\0\4\0\0\0note\1\0\0\0x'


class HandoverTestCase(protocol_base.ProtocolTestCase):

    hands_over = True
    policy = ''

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.make_volume()
        self.primary = self.make_primary(self.volume, policy=self.policy)

    def handed(self, record: sp.Record) -> bool:
        """Return whether the lock of a record's only volume was handed over."""
        return record.volumes[0].handed > 0

    def owners(self) -> frozenset[str]:
        """Return the owners of the volume's lock."""
        return volumes.owners(self.cluster, self.volume)

    def write(self, offset: int) -> None:
        """Let the primary write; it may."""
        self.assertEqual(0, self.primary.write(offset))

    def superposed(self) -> sp.Record:
        """Put the volume into a superposition, for which the primary hands its lock over."""
        record = self.superpose(self.volume)
        self.assertTrue(self.handed(record))
        self.assertEqual(frozenset(), self.owners())
        return record


class AnswerTest(HandoverTestCase):
    """A primary that lives."""

    def test_idle_primary_loses_without_any_sweep(self) -> None:
        record = self.superposed()
        report = self.protocol.check(record)
        self.assertEqual((True, 0), (report.clean, report.objects))
        self.child_io(record, 'write -P 7 1M 64k')
        decided = self.protocol.collapse(record)
        self.assertEqual(states.PROMOTED, decided.outcome)
        assert decided.sweep2 is not None
        self.assertEqual((0, 0), (decided.sweep1.objects, decided.sweep2.objects))
        self.assertTrue(self.primary.clients <= self.fenced())
        self.assertEqual(protocol_base.DEAD, self.primary.write(0))
        self.protocol.merge(record)
        self.assertEqual(b'\x07' * 65536, self.contents(self.volume)[2**20:2**20 + 65536])

    def test_primary_that_writes_wins_and_takes_its_lock_again(self) -> None:
        record = self.superposed()
        self.write(2**22)
        self.assertTrue(self.protocol.check(record).dirty)
        self.assertEqual(states.DIRTY, self.protocol.collapse(record).outcome)
        self.assertEqual(self.primary.clients, self.owners())
        self.assertEqual(set(), self.primary.clients & self.fenced())
        self.write(0)

    def test_primary_that_writes_right_before_the_decision_is_not_late_dirty(self) -> None:
        record = self.superposed()
        with sp.trace.observe(self.at('seal', 'before', lambda: self.write(2**22))):
            self.assertEqual(states.DIRTY, self.protocol.collapse(record).outcome)
        self.assertEqual(set(), self.primary.clients & self.fenced())
        self.write(0)

    def test_discard_is_a_write(self) -> None:
        record = self.superposed()
        self.assertEqual(0, self.primary.ask('discard', offset=0, length=2**22))
        self.assertEqual(states.DIRTY, self.protocol.collapse(record).outcome)

    def test_write_that_waits_for_the_decision_succeeds_if_the_primary_wins(self) -> None:
        record = self.superposed()
        codes: list[int] = []
        writing = threading.Thread(target=lambda: codes.append(self.primary.write(2**22)))

        def end() -> None:
            writing.start()
            writing.join(0.5)
            protocol_base.cut()
        with sp.trace.observe(self.at('fence', 'before', end)):
            self.assertRaises(protocol_base.Cut, self.protocol.collapse, record)
        self.assertEqual([], codes)
        self.protocol.abort(record)
        writing.join(_SECONDS)
        self.assertEqual([0], codes)
        self.assert_nothing_left(record)

    def test_interrupted_decision_sweeps(self) -> None:
        record = self.superposed()
        with sp.trace.observe(self.at('fence', 'before', protocol_base.cut)):
            self.assertRaises(protocol_base.Cut, self.protocol.collapse, record)
        self.assertEqual(states.PROMOTED, self.protocol.resume(record))

    def test_header_that_others_have_changed_proves_nothing(self) -> None:
        record = self.superposed()
        with self.open_pool() as io:
            io.execute(f'rbd_header.{record.volumes[0].image_id}', 'rbd', 'metadata_set', NOTE)
        decided = self.protocol.collapse(record)
        self.assertEqual(states.PROMOTED, decided.outcome)
        assert decided.sweep2 is not None
        self.assertLess(0, min(decided.sweep1.objects, decided.sweep2.objects))

    def test_volume_that_is_resized_before_its_header_is_read_is_swept(self) -> None:
        def resize() -> None:
            with self.open_pool() as io, rbd.Image(io, self.volume.image) as image:
                image.resize(2 * protocol_base.SIZE)
        with sp.trace.observe(self.at('cut', 'after', resize)):
            record = self.superpose(self.volume)
        report = self.protocol.check(record)
        self.assertEqual((False, False, True), (
            self.handed(record), report.dirty, report.unproven))

    def test_snapshot_of_an_operator_is_no_write(self) -> None:
        record = self.superposed()
        with self.open_pool() as io, rbd.Image(io, self.volume.image) as image:
            image.create_snap('nightly')
        report = self.protocol.check(record)
        self.assertFalse(report.dirty, report.first)

    def test_volume_with_an_idle_disk_beside_it(self) -> None:
        other = self.make_volume()
        idle = actors.Primary(self.cluster, other)
        self.addCleanup(idle.end)
        record = self.superpose(self.volume, other)
        self.assertEqual([True, False], [volume.handed > 0 for volume in record.volumes])
        self.assertEqual(0, idle.write(0))
        decided = self.protocol.collapse(record)
        self.assertEqual(states.DIRTY, decided.outcome)
        self.write(0)


class SilenceTest(HandoverTestCase):
    """A primary that hangs, or that is not asked."""

    def assert_owned(self, record: sp.Record) -> None:
        """Assert that the primary has the lock still."""
        self.assertFalse(self.handed(record))
        self.assertEqual(self.primary.clients, self.owners())

    def test_lock_of_a_primary_that_hangs_is_left(self) -> None:
        self.primary.signal(signal.SIGSTOP)
        record = self.superpose(self.volume)
        self.assert_owned(record)
        self.assertEqual(states.PROMOTED, self.protocol.collapse(record).outcome)
        self.primary.signal(signal.SIGCONT)
        self.assertEqual(protocol_base.DEAD, self.primary.write(0))

    def test_primary_that_wakes_after_the_request_is_swept(self) -> None:
        self.primary.signal(signal.SIGSTOP)
        record = self.superpose(self.volume)
        self.primary.signal(signal.SIGCONT)
        self.write(2**22)
        self.assertFalse(self.handed(record))
        self.assertEqual(states.DIRTY, self.protocol.collapse(record).outcome)

    def test_volume_that_another_host_reads_is_not_asked_for(self) -> None:
        record = self.protocol.super([self.volume], read=[self.volume])
        self.addCleanup(self.drop, record)
        self.assert_owned(record)

    def test_volume_with_another_client_is_not_asked_for(self) -> None:
        other = actors.Primary(self.cluster, self.volume)
        self.addCleanup(other.end)
        self.assert_owned(self.superpose(self.volume))

    def test_client_of_an_earlier_superposition_that_may_wake_prevents_it(self) -> None:
        earlier = self.superpose(self.volume)
        self.protocol.abort(earlier)
        self.write(0)
        self.protocol.ledger.enter(earlier.volumes[0], ['127.0.0.9:0/9'], ledgers.Entry(
            ledgers.PRIMARY, earlier.id))
        self.assertFalse(self.handed(self.superpose(self.volume)))


class DecisionTest(HandoverTestCase):
    """A primary that does not hand its lock over at ``super``, and lives at the decision.

    It has a cache that acknowledges a write as soon as the write has the lock.
    """

    policy = 'writearound'

    def setUp(self) -> None:
        super().setUp()
        # The first flush turns the cache on.
        self.assertEqual(0, self.primary.ask('flush'))

    def assert_shut_before_the_fence(self, record: sp.Record) -> None:
        """Decide, and assert that a write right before the fence is not acknowledged."""
        codes: list[int] = []
        writing = threading.Thread(target=lambda: codes.append(self.primary.write(2**22)))

        def write() -> None:
            writing.start()
            writing.join(0.5)
            self.assertEqual([], codes)
        with sp.trace.observe(self.at('fence', 'before', write)):
            self.assertEqual(states.PROMOTED, self.protocol.collapse(record).outcome)
        writing.join(_SECONDS)
        self.assertEqual([protocol_base.DEAD], codes)

    def test_primary_that_woke_hands_its_lock_over_before_the_fence(self) -> None:
        self.primary.signal(signal.SIGSTOP)
        record = self.superpose(self.volume)
        self.assertFalse(self.handed(record))
        self.primary.signal(signal.SIGCONT)
        self.assert_shut_before_the_fence(record)

    def test_primary_that_answers_late_hands_its_lock_over_before_the_fence(self) -> None:
        # So it is not asked yet.
        record = self.protocol.super([self.volume], read=[self.volume])
        self.addCleanup(self.drop, record)
        self.patch(handover, '_PATIENCE_S', 0.0)
        with sp.trace.observe(self.at('sweep', 'after', self.wait_until_unowned)):
            self.assert_shut_before_the_fence(record)

    @tenacity.retry(retry=tenacity.retry_if_exception_type(AssertionError), reraise=True,
                    stop=tenacity.stop_after_delay(_SECONDS), wait=tenacity.wait_fixed(0.05))
    def wait_until_unowned(self) -> None:
        """Return when the primary has handed its lock over."""
        self.assertEqual(frozenset(), self.owners())

    def test_owner_beside_other_clients_hands_its_lock_over_before_the_fence(self) -> None:
        other = actors.Primary(self.cluster, self.volume)
        self.addCleanup(other.end)
        record = self.superpose(self.volume)
        self.assertFalse(self.handed(record))
        self.assert_shut_before_the_fence(record)

    def test_lock_without_an_owner_cannot_be_taken_before_the_fence(self) -> None:
        idle = self.make_volume()
        self.primary = actors.Primary(self.cluster, idle, policy=self.policy)
        self.addCleanup(self.primary.end)
        record = self.superpose(idle)
        self.assertFalse(self.handed(record))
        self.assert_shut_before_the_fence(record)

    def test_header_that_others_have_changed_keeps_no_lock(self) -> None:
        record = self.superposed()
        with self.open_pool() as io:
            io.execute(f'rbd_header.{record.volumes[0].image_id}', 'rbd', 'metadata_set', NOTE)
        self.assert_shut_before_the_fence(record)

    def test_primary_that_keeps_its_lock_wins(self) -> None:
        record = self.protocol.super([self.volume], read=[self.volume])
        self.addCleanup(self.drop, record)
        self.patch(handover, 'request', lambda *_arguments, **_options: 0)
        self.assertEqual(states.DIRTY, self.protocol.collapse(record).outcome)
        self.assertEqual(set(), self.primary.clients & self.fenced())
        self.write(0)

    def test_lock_that_somebody_else_keeps_proves_nothing(self) -> None:
        record = self.protocol.super([self.volume], read=[self.volume])
        self.addCleanup(self.drop, record)
        self.patch(handover, 'request', lambda *_arguments, **_options: 0)
        self.patch(volumes, 'owners', lambda *_arguments: frozenset({'127.0.0.9:0/9'}))
        self.assertEqual(states.UNPROVEN, self.protocol.collapse(record).outcome)


class DeadTest(HandoverTestCase):
    """A primary whose host is dead as a fact: it is fenced first.

    In these tests it lives, so that it can show that it is shut out, and shows no sign of life.
    """

    def setUp(self) -> None:
        super().setUp()
        self.lives = functools.partial(mock.patch.object, handover, 'lives', handover.lives)
        self.patch(handover, 'lives', lambda *_arguments: False)

    def sealed(self) -> sp.Record:
        """Put the volume into superposition, behind the fence of its primary."""
        record = self.protocol.super([self.volume], dead=True)
        self.addCleanup(self.drop, record)
        self.assertTrue(self.handed(record))
        self.assertTrue(self.primary.clients <= self.fenced())
        return record

    def test_dead_primary_is_replaced_without_any_sweep(self) -> None:
        record = self.sealed()
        self.assertEqual(protocol_base.DEAD, self.primary.write(0))
        self.child_io(record, 'write -P 7 1M 64k')
        decided = self.protocol.collapse(record)
        self.assertEqual(states.PROMOTED, decided.outcome)
        assert decided.sweep2 is not None
        self.assertEqual((0, 0), (decided.sweep1.objects, decided.sweep2.objects))
        self.protocol.merge(record)
        self.assertEqual(b'\x07' * 65536, self.contents(self.volume)[2**20:2**20 + 65536])
        self.assert_nothing_left(record)

    def test_every_placement_group_has_the_fence_before_the_cut(self) -> None:
        codes: list[int] = []
        with sp.trace.observe(self.at(
                'cut', 'after', lambda: codes.append(self.primary.write(2**22)))):
            record = self.sealed()
        self.assertEqual([protocol_base.DEAD], codes)
        self.assertEqual(states.PROMOTED, self.protocol.collapse(record).outcome)

    def test_stranger_takes_no_lock(self) -> None:
        record = self.sealed()
        self.assertEqual(record.id, self.protocol.latch.superposition(record.volumes[0]))

    def test_interrupted_decision_is_continued_without_any_sweep(self) -> None:
        record = self.sealed()
        with sp.trace.observe(self.at('fence', 'before', protocol_base.cut)):
            self.assertRaises(protocol_base.Cut, self.protocol.collapse, record)
        swept: list[int] = []
        with sp.trace.observe(lambda event: swept.append(1) if event.kind == 'progress' else None):
            self.assertEqual(states.PROMOTED, self.protocol.resume(record))
        self.assertEqual([], swept)

    def test_header_that_others_have_changed_proves_nothing(self) -> None:
        record = self.sealed()
        with self.open_pool() as io:
            io.execute(f'rbd_header.{record.volumes[0].image_id}', 'rbd', 'metadata_set', NOTE)
        decided = self.protocol.collapse(record)
        self.assertEqual(states.PROMOTED, decided.outcome)
        self.assertLess(0, decided.sweep1.objects)

    def test_lock_of_an_owner_that_nobody_knows_proves_nothing(self) -> None:
        owners = frozenset({'127.0.0.9:0/9'})
        with mock.patch.object(volumes, 'owners', lambda *_arguments: owners):
            record = self.protocol.super([self.volume], dead=True)
        self.addCleanup(self.drop, record)
        self.assertFalse(self.handed(record))

    def test_abort_lets_the_primary_go_on(self) -> None:
        record = self.sealed()
        self.protocol.abort(record)
        self.assertEqual(set(), self.primary.clients & self.fenced())
        self.assert_nothing_left(record)

    def test_creation_that_fails_leaves_no_fence(self) -> None:
        with sp.trace.observe(self.at('cut', 'after', protocol_base.cut)):
            self.assertRaises(protocol_base.Cut, self.protocol.super, [self.volume],
                              dead=True)
        self.assertEqual(set(), self.primary.clients & self.fenced())
        self.assertRaises(sp.NotSuperposed, self.protocol.find, self.volume)

    def assert_spared(self, **options: Any) -> None:
        """Assert that no client is fenced first, and that the primary can win."""
        record = self.protocol.super([self.volume], dead=True, **options)
        self.addCleanup(self.drop, record)
        self.assertEqual(set(), self.primary.clients & self.fenced())
        self.write(0)
        self.assertTrue(self.protocol.check(record).dirty)

    def test_server_that_was_started_again_on_the_host_is_not_fenced(self) -> None:
        with self.lives():
            self.assert_spared()

    def test_one_of_two_clients_may_live(self) -> None:
        other = actors.Primary(self.cluster, self.volume)
        self.addCleanup(other.end)
        self.assert_spared()

    def test_volume_that_another_host_reads_is_not_fenced_first(self) -> None:
        self.assert_spared(read=[self.volume])

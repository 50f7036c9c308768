# SPDX-License-Identifier: Apache-2.0
"""A closed latch keeps every client of librbd from writing to a volume, and none outlives it."""

import struct
import threading

import nbd
import rbd

from specreds_cinder import superposition as sp
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.functional import protocol_base

BLOCK = 4096
_ANSWER_SECONDS = 60
# NOTIFY_OP_REQUEST_LOCK of librbd's watch_notify/Types.h, behind the envelope of the message.
_REQUEST_LOCK = struct.pack('<I', 2)
_ENVELOPE = 6


class Stranger:
    """A client that no ledger knows: it opens a volume and begins to write a block.

    :param requested: set when librbd asks the owner of the lock for the lock, as it does only when
        it could not take the lock
    """

    def __init__(self, case: protocol_base.ProtocolTestCase, volume: records.Volume) -> None:
        self.requested = threading.Event()
        self.ended = threading.Event()
        self.code: int | None = None
        watching = case.connect(case.ceph.conf, 'client.cinder').open_ioctx(volume.pool)
        case.addCleanup(watching.close)
        watch = watching.watch(f'rbd_header.{volume.image_id}', self._notified)
        case.addCleanup(watch.close)
        # The watch would be taken for another stranger.
        self._watch = watch
        client = case.connect(case.ceph.conf, 'client.cinder')
        self.address = str(client.get_addrs()).removeprefix('v1:')
        io = client.open_ioctx(volume.pool)
        case.addCleanup(io.close)
        image = rbd.Image(io, volume.image)
        case.addCleanup(image.close)
        image.aio_write(b'\x66' * BLOCK, 0, self._written)

    def _notified(self, _id: int, _from: int, _watch: int, data: bytes) -> None:
        if data[_ENVELOPE:_ENVELOPE + len(_REQUEST_LOCK)] == _REQUEST_LOCK:
            self.requested.set()

    def _written(self, completion: 'rbd.Completion') -> None:
        self.code = completion.get_return_value()
        self.ended.set()

    def wait_refused(self) -> None:
        """Wait until librbd has been refused the lock, and leave the client waiting for it."""
        if not self.requested.wait(_ANSWER_SECONDS):
            raise AssertionError(f'the stranger did not wait for the lock, but ended with '
                                 f'{self.code}')
        self._watch.close()

    def end(self) -> int:
        """Wait for the end of the write, and return its code."""
        if not self.ended.wait(_ANSWER_SECONDS):
            raise AssertionError('the write of the stranger has not ended')
        assert self.code is not None
        return self.code


class LatchTestCase(protocol_base.ProtocolTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.make_volume()
        self.addCleanup(self.unlock, self.volume)

    def latched(self, record: sp.Record) -> str | None:
        """Return the superposition that has closed the latch of a record's only volume."""
        return self.protocol.latch.superposition(record.volumes[0])

    def attributes(self, record: sp.Record) -> dict[str, bytes]:
        """Return the attributes of the header of a record's only volume."""
        with self.open_pool() as io:
            return dict(io.get_xattrs(f'rbd_header.{record.volumes[0].image_id}'))


class PromotedTest(LatchTestCase):

    def test_stranger_cannot_write_to_a_promoted_volume(self) -> None:
        record = self.superpose(self.volume)
        self.child_io(record, f'write -P 0x42 {BLOCK} {BLOCK}')
        before = self.contents(self.volume)
        self.assertEqual('promoted', self.protocol.collapse(record).outcome)
        self.assertEqual(record.id, self.latched(record))
        stranger = Stranger(self, record.volumes[0])
        stranger.wait_refused()
        self.assertEqual(before, self.contents(self.volume))
        # The merge fences it before the latch opens: it would have the lock first otherwise.
        self.protocol.merge(record)
        self.assertEqual(protocol_base.DEAD, stranger.end())
        self.assertIn(stranger.address, self.fenced())
        self.assertEqual(before[:BLOCK] + b'\x42' * BLOCK, self.contents(self.volume)[:2 * BLOCK])
        self.assert_nothing_left(record)

    def test_fenced_primary_with_a_new_client_cannot_write(self) -> None:
        primary = self.make_primary(self.volume)
        record = self.superpose(self.volume)
        self.assertEqual('promoted', self.protocol.collapse(record).outcome)
        self.protocol.fence.open(primary.clients)
        before = self.contents(self.volume)
        stranger = Stranger(self, record.volumes[0])
        stranger.wait_refused()
        self.assertEqual(before, self.contents(self.volume))
        self.protocol.merge(record)
        self.assertEqual(protocol_base.DEAD, stranger.end())

    def test_online_merge_lets_only_the_server_write(self) -> None:
        record = self.superpose(self.volume)
        backup = self.make_backup(record)
        backup.disks[0].pwrite(b'\x42' * BLOCK, BLOCK)
        self.assertEqual('promoted', self.protocol.collapse(record, backup=backup.hook).outcome)
        stranger = Stranger(self, record.volumes[0])
        stranger.wait_refused()
        self.protocol.merge(record, backup=backup.hook)
        self.assertEqual(protocol_base.DEAD, stranger.end())
        self.assertIsNone(self.latched(record))
        backup.disks[0].pwrite(b'\x43' * BLOCK, 0)
        backup.disks[0].flush()
        self.assertEqual(b'\x43' * BLOCK + b'\x42' * BLOCK,
                         self.contents(self.volume)[:2 * BLOCK])
        backup.end()

    def test_backup_reads_the_volume_behind_the_latch(self) -> None:
        record = self.superpose(self.volume)
        backup = self.make_backup(record)
        self.assertEqual('promoted', self.protocol.collapse(record, backup=backup.hook).outcome)
        backup.end()
        again = self.make_backup(record, speculative=False)
        sparse = nbd.NBD()
        sparse.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
        sparse.set_export_name(again.prefixes[0])
        sparse.connect_unix(again.nbd)
        extents: list[int] = []
        # QEMU asks librbd for the volume's allocation, and librbd tries to take the lock for it.
        sparse.block_status(protocol_base.SIZE, 0,
                            lambda _context, _offset, entries, _error: extents.extend(entries))
        self.assertTrue(extents)
        self.assertEqual(self.contents(self.volume), bytes(
            again.disks[0].pread(protocol_base.SIZE, 0)))
        self.assertEqual(record.id, self.latched(record))
        again.end()
        sparse.shutdown()


class OpenedTest(LatchTestCase):

    def test_aborted_collapse_leaves_the_lock_as_it_was(self) -> None:
        primary = self.make_primary(self.volume)
        record = self.superpose(self.volume)
        locked = self.attributes(record)['lock.rbd_lock']
        with sp.trace.observe(self.at('latch', 'after', protocol_base.cut)):
            self.assertRaises(protocol_base.Cut, self.protocol.collapse, record)
        self.assertEqual(record.id, self.latched(record))
        self.protocol.abort(record)
        self.assertEqual({'lock.rbd_lock': locked}, self.attributes(record))
        self.assertTrue(primary.clients.isdisjoint(self.fenced()))

    def test_overtaken_controller_cannot_close_the_latch(self) -> None:
        record = self.superpose(self.volume)
        before = self.attributes(record)['lock.rbd_lock']
        with sp.trace.observe(self.at('latch', 'before', lambda: sp.Protocol(
                self.cluster, self.settings).abort(record))):
            self.assertRaises(sp.RecordChanged, self.protocol.collapse, record)
        self.assertEqual({'lock.rbd_lock': before}, self.attributes(record))

    def test_controller_overtaken_by_a_merge_cannot_close_the_latch(self) -> None:
        record = self.superpose(self.volume)
        other = sp.Protocol(self.cluster, self.settings)

        def overtake() -> None:
            self.assertEqual(states.PROMOTED, other.resume(record))
            other.begin_merge(record)
        with sp.trace.observe(self.at('latch', 'before', overtake)):
            self.assertRaises(sp.RecordChanged, self.protocol.collapse, record)
        self.assertIsNone(self.latched(record))
        other.merge(record)

    def test_late_dirty_primary_can_be_started_again(self) -> None:
        primary = self.make_primary(self.volume)
        record = self.superpose(self.volume)
        with sp.trace.observe(self.at('fence', 'before', lambda: primary.write(0, 0x51))):
            self.assertEqual('late-dirty', self.protocol.collapse(record).outcome)
        self.assertIsNone(self.latched(record))
        again = self.make_primary(self.volume)
        self.assertEqual(0, again.write(0, 0x52))

    def test_merge_of_an_interrupted_merge_opens_the_latch(self) -> None:
        record = self.superpose(self.volume)
        self.assertEqual('promoted', self.protocol.collapse(record).outcome)
        with sp.trace.observe(self.at('latch.open', 'before', protocol_base.cut)):
            self.assertRaises(protocol_base.Cut, self.protocol.begin_merge, record)
        self.assertEqual(record.id, self.latched(record))
        self.protocol.merge(record)
        self.assertNotIn('specreds.latch', self.attributes(record))

    def test_latch_is_armed_again_after_an_interrupted_creation(self) -> None:
        with sp.trace.observe(self.at('overlay.create', 'before', protocol_base.cut)):
            self.assertRaises(protocol_base.Cut, self.superpose, self.volume)
        record = self.superpose(self.volume)
        self.assertEqual('promoted', self.protocol.collapse(record).outcome)
        self.assertEqual(record.id, self.latched(record))

    def test_superposition_without_the_claim_does_not_arm(self) -> None:
        record = self.superpose(self.volume)
        self.assertRaises(sp.NotSuperposed, self.protocol.latch.arm, record.volumes[0],
                          'another')
        self.assertEqual(record.id.encode(), self.attributes(record)['specreds.latch'])

    def test_latch_of_an_image_that_is_gone_is_open(self) -> None:
        record = self.superpose(self.volume)
        self.protocol.abort(record)
        self.remove_image(self.volume)
        self.protocol.latch.open(record.volumes[0], record.id)
        self.assertIsNone(self.latched(record))
        self.assertRaises(sp.VolumeGone, self.protocol.latch.arm, record.volumes[0], record.id)
        self.assertNotIn(f'rbd_header.{record.volumes[0].image_id}', self.objects(self.pool))

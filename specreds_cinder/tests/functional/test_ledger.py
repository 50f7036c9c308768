# SPDX-License-Identifier: Apache-2.0
"""Clients that hang until Ceph forgets them cannot write when they wake."""

import signal
import subprocess
import threading
from typing import Any
from unittest import mock

import nbd
import rbd
import tenacity

from specreds_cinder import superposition as sp
from specreds_cinder.service.worker import operations
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.exclusion import ledger as ledgers
from specreds_cinder.superposition.overlay import merge
from specreds_cinder.superposition.steps import collapse
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.tests.functional import actors
from specreds_cinder.tests.functional import base
from specreds_cinder.tests.functional import protocol_base

BLOCK = 4096
# Ceph keeps the watch of a client that hangs for half a minute.
_EXPIRY_SECONDS = 120


class LedgerTestCase(protocol_base.ProtocolTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.make_volume()

    def forgotten(self, *refs: sp.VolumeRef) -> None:
        """Wait until images have no watchers."""
        for ref in refs:
            self._forgotten(ref)

    @tenacity.retry(retry=tenacity.retry_if_exception_type(AssertionError), reraise=True,
                    stop=tenacity.stop_after_delay(_EXPIRY_SECONDS), wait=tenacity.wait_fixed(1))
    def _forgotten(self, ref: sp.VolumeRef) -> None:
        with volumes.opened(self.cluster, ref) as image:
            self.assertEqual([], list(image.watchers_list()))

    def entries(self, record: sp.Record) -> ledgers.Entries:
        """Return the ledger of a record's only volume."""
        return self.protocol.ledger.read(record.volumes[0])

    def promoted(self, **options: Any) -> tuple[sp.Record, actors.Backup]:
        """Promote a backup that runs and has written."""
        record = self.superpose(self.volume)
        backup = self.make_backup(record, **options)
        backup.disks[0].pwrite(b'\x42' * BLOCK, 0)
        self.assertEqual('promoted',
                         self.protocol.collapse(record, backup=backup.hook).outcome)
        return self.protocol.reload(record), backup


class HungTest(LedgerTestCase):

    def test_hung_backup_is_fenced_before_its_overlay_is_merged(self) -> None:
        record, backup = self.promoted()
        backup.signal(signal.SIGSTOP)
        self.addCleanup(backup.signal, signal.SIGCONT)
        self.forgotten(record.volumes[0].overlay_ref)
        self.protocol.merge(record)
        merged = self.contents(self.volume)
        self.assertEqual(b'\x42' * BLOCK, merged[:BLOCK])
        backup.signal(signal.SIGCONT)

        def write() -> None:
            backup.disks[0].pwrite(b'\x66' * BLOCK, 0)
            backup.disks[0].flush()
        self.assertRaises(nbd.Error, write)
        self.assertEqual(merged, self.contents(self.volume))
        self.assert_nothing_left(record)
        backup.kill()

    def test_hung_backup_is_fenced_before_its_overlay_is_removed(self) -> None:
        record = self.superpose(self.volume)
        backup = self.make_backup(record)
        backup.disks[0].pwrite(b'\x42' * BLOCK, 0)
        backup.disks[0].flush()
        ref = record.volumes[0].overlay_ref
        owners = volumes.owners(self.cluster, ref)
        self.assertEqual(1, len(owners))
        backup.signal(signal.SIGSTOP)
        self.addCleanup(backup.signal, signal.SIGCONT)
        self.forgotten(ref)
        self.protocol.abort(record)
        self.assertLessEqual(owners, self.fenced())
        self.assertLessEqual(owners, {each.client for each in self.protocol.fenced(ref.home)})
        backup.signal(signal.SIGCONT)

        def write() -> None:
            # Its cache holds back 8 MiB.
            for number in range(24):
                backup.disks[0].pwrite(b'\x66' * base.MIB, number * base.MIB)
        self.assertRaises(nbd.Error, write)
        backup.kill()
        self.assert_nothing_left(record)

    def test_hung_backup_that_is_in_no_ledger_is_fenced_before_its_overlay_is_merged(self) -> None:
        record, backup = self.promoted()
        owners = volumes.owners(self.cluster, record.volumes[0].overlay_ref)
        self.assertEqual(1, len(owners))
        # As if no look had seen it.
        self.protocol.ledger.leave(record.volumes[0], self.entries(record))
        backup.signal(signal.SIGSTOP)
        self.addCleanup(backup.signal, signal.SIGCONT)
        self.forgotten(record.volumes[0].overlay_ref, self.volume)
        self.protocol.merge(record)
        self.assertTrue(owners <= self.fenced())
        backup.signal(signal.SIGCONT)
        backup.kill()

    @tenacity.retry(retry=tenacity.retry_if_result(bool), wait=tenacity.wait_fixed(0.1),
                    stop=tenacity.stop_after_delay(60))
    def wait_for_the_look(self, worker: operations.Operations, record: sp.Record) -> bool:
        """Wait until a worker no longer looks for the clients of a connection."""
        return record.id in worker._hand_outs

    def test_server_that_hangs_as_soon_as_it_is_started_again_is_fenced(self) -> None:
        record, backup = self.promoted()
        backup.end()
        worker = operations.Operations(self.protocol, record.home, watching=False)
        # Before the connection to the cluster is closed.
        self.addCleanup(self.wait_for_the_look, worker, record)
        worker.hand_out(record.id)
        again = self.make_backup(record, speculative=False)
        # QEMU keeps the tables of the overlay, and needs none of the images to write again.
        self.assertEqual(b'\x42' * BLOCK, again.disks[0].pread(BLOCK, 0))
        again.signal(signal.SIGSTOP)
        self.addCleanup(again.signal, signal.SIGCONT)
        self.forgotten(record.volumes[0].overlay_ref, self.volume)
        self.protocol.merge(record)
        merged = self.contents(self.volume)
        again.signal(signal.SIGCONT)

        def write() -> None:
            again.disks[0].pwrite(b'\x66' * BLOCK, 0)
            again.disks[0].flush()
        self.assertRaises(nbd.Error, write)
        self.assertEqual(merged, self.contents(self.volume))
        again.kill()

    def test_hung_primary_is_fenced_by_the_next_superposition(self) -> None:
        primary = self.make_primary(self.volume)
        first = self.superpose(self.volume)
        primary.signal(signal.SIGSTOP)
        self.addCleanup(primary.signal, signal.SIGCONT)
        self.protocol.abort(first)
        self.forgotten(self.volume)
        self.take_lock()
        self.assertEqual(frozenset(), volumes.clients(self.cluster, self.volume))
        second = self.superpose(self.volume)
        self.assertEqual(frozenset(), second.clients)
        self.assertEqual('promoted', self.protocol.collapse(second).outcome)
        before = self.contents(self.volume)
        primary.signal(signal.SIGCONT)
        self.assertEqual(protocol_base.DEAD, primary.write(0, 0x66))
        self.assertEqual(before, self.contents(self.volume))
        self.protocol.merge(second)
        self.assertEqual({}, self.entries(second))

    def take_lock(self) -> None:
        """Write as a client that takes the lock of a vanished one without fencing it."""
        client = self.connect(self.ceph.conf, 'client.cinder',
                              rbd_blocklist_on_break_lock='false')
        with client.open_ioctx(self.pool) as io, rbd.Image(io, self.volume.image) as image:
            image.write(b'\x51' * BLOCK, 0)

    def test_hung_merger_is_fenced_by_the_next_merge(self) -> None:
        record = self.superpose(self.volume)
        self.child_io(record, f'write -P 0x42 0 {BLOCK}')
        self.assertEqual('promoted', self.protocol.collapse(record).outcome)
        merger = HungMerger(self.protocol, record)
        self.addCleanup(merger.wake)
        merger.start()
        mine = {client for client, entry in self.entries(record).items()
                if entry.role == ledgers.MERGER}
        self.assertEqual(2, len(mine))
        self.forgotten(record.volumes[0].overlay_ref)
        sp.Protocol(self.cluster, self.settings).merge(record)
        self.assertTrue(mine <= self.fenced())
        merged = self.contents(self.volume)
        self.assertEqual(b'\x42' * BLOCK, merged[:BLOCK])
        merger.wake()
        self.assertIsInstance(merger.error, sp.SuperError)
        self.assertEqual(merged, self.contents(self.volume))
        self.assert_nothing_left(record)
        self.assertEqual({}, self.entries(record))


class HungMerger:
    """A host that merges offline and hangs when its qemu-img is about to write."""

    def __init__(self, protocol: sp.Protocol, record: sp.Record) -> None:
        self._protocol = protocol
        self._record = record
        self._hung = threading.Event()
        self._awake = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._merge, daemon=True)
        self.error: sp.SuperError | None = None

    def start(self) -> None:
        """Merge until the host hangs."""
        follow, popen = merge._follow, subprocess.Popen

        def begin(command: list[str], **options: Any) -> 'subprocess.Popen[bytes]':
            self._process = popen(command, **options)
            return self._process

        def hang(*args: Any) -> bytes:
            assert self._process is not None
            self._process.send_signal(signal.SIGSTOP)
            self._hung.set()
            self._awake.wait(_EXPIRY_SECONDS)
            return follow(*args)
        with mock.patch.object(merge, '_follow', hang), \
                mock.patch.object(subprocess, 'Popen', begin):
            self._thread.start()
            if not self._hung.wait(_EXPIRY_SECONDS):
                raise AssertionError('no merge has begun')

    def wake(self) -> None:
        """Let the merge continue, and wait for its end."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
        self._awake.set()
        self._thread.join(_EXPIRY_SECONDS)

    def _merge(self) -> None:
        try:
            self._protocol.merge(self._record)
        except sp.SuperError as exc:
            self.error = exc


class EntriesTest(LedgerTestCase):

    def test_primary_is_in_the_ledger_until_the_merge(self) -> None:
        primary = self.make_primary(self.volume)
        record = self.superpose(self.volume)
        self.assertEqual(dict.fromkeys(primary.clients, ledgers.Entry(
            ledgers.PRIMARY, record.id)), self.entries(record))
        self.assertEqual('promoted', self.protocol.collapse(record).outcome)
        self.assertEqual(primary.clients, self.entries(record).keys())
        self.protocol.merge(record)
        self.assertEqual({}, self.entries(record))
        self.assertNotIn(f'specreds.clients.{record.volumes[0].image_id}',
                         self.objects(self.pool))

    def test_living_primary_stays_in_the_ledger(self) -> None:
        primary = self.make_primary(self.volume)
        record = self.superpose(self.volume)
        self.protocol.abort(record)
        self.assertEqual(primary.clients, self.entries(record).keys())

    def test_promoted_backup_is_in_the_ledger(self) -> None:
        record, backup = self.promoted()
        open_now = frozenset().union(*(volumes.clients(self.cluster, ref) for ref in (
            self.volume, record.volumes[0].overlay_ref)))
        self.assertEqual(2, len(open_now))
        self.assertEqual(dict.fromkeys(open_now, ledgers.Entry(ledgers.BACKUP, record.id)),
                         self.entries(record))
        backup.end()

    def test_restarted_server_is_entered_when_the_fence_is_renewed(self) -> None:
        record, backup = self.promoted()
        backup.end()
        before = self.entries(record).keys()
        again = self.make_backup(record, speculative=False)
        self.protocol.renew(record)
        self.assertEqual(2, len(self.entries(record).keys() - before))
        again.end()

    def test_clients_are_entered_concurrently(self) -> None:
        record = self.superpose(self.volume)
        entry = ledgers.Entry(ledgers.PRIMARY, record.id)
        names = [f'10.0.0.1:0/{number}' for number in range(1, 9)]
        threads = [threading.Thread(target=self.protocol.ledger.enter, args=(
            record.volumes[0], [name], entry)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(set(names), self.entries(record).keys())
        self.protocol.ledger.leave(record.volumes[0], names)
        self.assertEqual({}, self.entries(record))

    def test_ledger_can_be_removed_twice(self) -> None:
        record = self.superpose(self.volume)
        volume = record.volumes[0]
        self.protocol.ledger.enter(volume, ['10.0.0.1:0/1'],
                                   ledgers.Entry(ledgers.PRIMARY, record.id))
        for _ in range(2):
            self.protocol.ledger.remove(volume.ref.home, volume.image_id)
        self.assertEqual({}, self.entries(record))

    def test_merge_waits_until_every_client_of_the_ledger_is_fenced(self) -> None:
        record = self.superpose(self.volume)
        self.assertEqual('promoted', self.protocol.collapse(record).outcome)
        came = '10.0.0.1:0/1'
        self.addCleanup(self.protocol.fence.open, [came])
        with sp.trace.observe(self.at('shut out', 'after', lambda: self.protocol.ledger.enter(
                record.volumes[0], [came], ledgers.Entry(ledgers.BACKUP, record.id)))):
            error = self.assertRaises(sp.OverlayBusy, self.protocol.merge, record)
        self.assertIn(came, str(error))
        self.protocol.merge(record)
        self.assertIn(came, self.fenced())

    def test_backup_is_promoted_after_a_stranger_has_closed_its_volume(self) -> None:
        record = self.superpose(self.volume)
        backup = self.make_backup(record)
        stranger = self.connect(self.ceph.conf, 'client.cinder')
        with stranger.open_ioctx(self.pool) as io, rbd.Image(io, self.volume.image):
            self.assertRaises(sp.OverlayBusy, self.protocol.collapse, record,
                              backup=backup.hook)
        self.assertEqual('promoted',
                         self.protocol.collapse(record, backup=backup.hook).outcome)
        backup.disks[0].pwrite(b'\x61' * BLOCK, 0)

    def test_promotion_waits_until_every_client_of_the_ledger_is_fenced(self) -> None:
        record = self.superpose(self.volume)
        came = '10.0.0.1:0/1'
        self.addCleanup(self.protocol.fence.open, [came])

        behind_fence = collapse._behind_fence

        def miss(*args: Any) -> Any:
            swept = behind_fence(*args)
            self.protocol.ledger.enter(record.volumes[0], [came],
                                       ledgers.Entry(ledgers.PRIMARY, 'earlier'))
            return swept
        with mock.patch.object(collapse, '_behind_fence', miss):
            error = self.assertRaises(sp.ClusterError, self.protocol.collapse, record)
        self.assertIn(came, str(error))
        self.assertEqual('collapsing', self.protocol.reload(record).state)
        self.assertEqual('promoted', self.protocol.resume(record))
        self.assertIn(came, self.fenced())

    def test_worker_removes_the_ledger_of_an_image(self) -> None:
        record = self.superpose(self.volume)
        volume = record.volumes[0]
        self.protocol.ledger.enter(volume, ['10.0.0.1:0/1'],
                                   ledgers.Entry(ledgers.PRIMARY, record.id))
        worker = operations.Operations(self.protocol, volume.ref.home, watching=False)
        self.assertEqual(volume.image_id, worker.image_id(volume.image))
        worker.remove_ledger(volume.image_id)
        self.assertEqual({}, self.entries(record))
        self.assertIsNone(worker.image_id('nothing'))

    def test_unreadable_ledger_is_an_error(self) -> None:
        record = self.superpose(self.volume)
        with self.open_pool() as io:
            io.write_full(f'specreds.clients.{record.volumes[0].image_id}', b'{"format":9}')
        self.assertRaises(sp.ClusterError, self.entries, record)
        self.protocol.ledger.remove(records.Home(self.pool), record.volumes[0].image_id)

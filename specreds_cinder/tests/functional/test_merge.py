# SPDX-License-Identifier: Apache-2.0
"""Merges of promoted volumes, also of those that a client is about to open."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import threading

import rbd

from specreds_cinder import superposition as sp
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.overlay import merge
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.functional import actors
from specreds_cinder.tests.functional import base
from specreds_cinder.tests.functional import protocol_base

_SECONDS = 60


class MergeTest(protocol_base.ProtocolTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.ref = self.make_volume()
        self.record = self.superpose(self.ref)
        self.overlay = self.record.volumes[0]
        self.child_io(self.record, 'write -P 7 0 8M')
        self.assertEqual('promoted', self.protocol.collapse(self.record).outcome)

    def while_merging(self) -> 'threading.Event':
        """Run the merge until qemu-img is done, and return the event that lets it continue."""
        done, go = threading.Event(), threading.Event()
        self.addCleanup(go.set)

        def hold(event: sp.trace.Event) -> None:
            if (event.name, event.phase) == ('merge.commit', 'after'):
                done.set()
                go.wait(_SECONDS)
        observing = sp.trace.observe(hold)
        observing.__enter__()
        self.addCleanup(observing.__exit__, None, None, None)
        self.errors: list[BaseException] = []

        def work() -> None:
            try:
                self.protocol.merge(self.record)
            except sp.SuperError as exc:
                self.errors.append(exc)
        self.merging = threading.Thread(target=work)
        self.merging.start()
        self.assertTrue(done.wait(_SECONDS))
        return go

    def assert_merged(self, expected: bytes) -> None:
        self.assertRaises(sp.NotSuperposed, self.protocol.reload, self.record)
        self.assertEqual(expected, self.contents(self.ref)[:len(expected)])
        self.assert_nothing_left(self.record)

    def test_steps_of_a_live_merge_can_be_repeated(self) -> None:
        self.assertRaises(sp.Conflict, self.protocol.end_merge, self.record)
        self.assertEqual(states.MERGING, self.protocol.begin_merge(self.record).state)
        self.assertEqual(states.MERGING, self.protocol.begin_merge(self.record).state)
        actors.child_io(self.cluster, self.overlay, 'flush')
        merge.offline(self.cluster, self.record, self.protocol.fence, self.protocol.ledger,
                      lambda: None, 0, _SECONDS)
        for _ in range(2):
            self.protocol.end_merge(self.record)
        self.assertEqual(states.MERGED, self.protocol.reload(self.record).state)
        self.assertEqual(states.MERGED, self.protocol.begin_merge(self.record).state)
        self.protocol.merge(self.record)
        self.assert_merged(b'\7' * (8 * base.MIB))

    def test_controller_that_is_overtaken_before_it_writes_writes_nothing(self) -> None:
        late = sp.Protocol(self.cluster, self.settings)
        hung, awake = threading.Event(), threading.Event()
        self.addCleanup(awake.set)

        def hang() -> None:
            hung.set()
            awake.wait(_SECONDS)

        def begin() -> None:
            with contextlib.suppress(sp.SuperError):
                late.merge(self.record)
        thread = threading.Thread(target=begin, daemon=True)

        def serve() -> None:
            # The server writes, and closes its volume.
            with self.open_pool() as io, rbd.Image(io, self.ref.image) as image:
                image.write(b'\x77' * 4096, 0)
            awake.set()
            thread.join(_SECONDS)
        with sp.trace.observe(self.at('merge.commit', 'before', hang)):
            thread.start()
            self.assertTrue(hung.wait(_SECONDS))
            with sp.trace.observe(self.at('record.merged', 'after', serve)), \
                    contextlib.suppress(sp.OverlayBusy):
                self.protocol.merge(self.record)
        self.assertEqual(b'\x77' * 4096, self.contents(self.ref)[:4096])
        # The qemu-img of the late controller was killed, and is listed for a while.
        self.bury(self.record)
        with contextlib.suppress(sp.NotSuperposed):
            self.protocol.merge(self.record)
        self.assert_nothing_left(self.record)

    def test_merge_before_promotion_is_a_conflict(self) -> None:
        record = self.superpose(self.make_volume())
        for step in (self.protocol.begin_merge, self.protocol.end_merge):
            self.assertRaises(sp.Conflict, step, record)

    def test_label_replaces_one_value(self) -> None:
        labelled = self.protocol.label(self.record, colour='blue', count=3)
        self.assertLessEqual({'colour': 'blue', 'count': 3}.items(), labelled.labels.items())
        self.protocol.label(self.record, count=4)
        self.assertEqual({**labelled.labels, 'count': 4},
                         self.protocol.reload(self.record).labels)

    def test_superposition_is_created_with_labels(self) -> None:
        superposition = records.new_id()
        record = self.protocol.super([self.make_volume()], superposition=superposition,
                                     labels={'volumes': {'a': 'b'}})
        self.addCleanup(self.drop, record)
        self.assertEqual((superposition, {'volumes': {'a': 'b'}}),
                         (record.id, record.labels))
        self.assertEqual(record, self.protocol.reload(record))

    def test_merge_stops_when_the_overlay_is_handed_out(self) -> None:
        go = self.while_merging()
        self.protocol.label(self.record, handed='now')
        go.set()
        self.merging.join(_SECONDS)
        self.assertEqual([sp.RecordChanged], [type(error) for error in self.errors])
        self.assertEqual(states.MERGING, self.protocol.reload(self.record).state)
        # The client writes, and closes the overlay.
        actors.child_io(self.cluster, self.overlay, 'write -P 9 0 4M')
        self.protocol.merge(self.record)
        self.assert_merged(b'\x09' * (4 * base.MIB) + b'\7' * (4 * base.MIB))

    def test_overlay_opened_during_the_merge_is_kept(self) -> None:
        go = self.while_merging()
        backup = self.make_backup(self.record, speculative=False)
        backup.disks[0].pwrite(b'\x09' * 4096, 0)
        go.set()
        self.merging.join(_SECONDS)
        self.assertEqual([sp.OverlayBusy], [type(error) for error in self.errors])
        self.assertRaises(sp.OverlayBusy, self.protocol.merge, self.record)
        self.assertEqual(b'\x09' * 4096, bytes(backup.disks[0].pread(4096, 0)))
        backup.end()
        self.protocol.merge(self.record)
        self.assert_merged(b'\x09' * 4096 + b'\7' * 4096)

    def test_overlay_of_a_server_that_runs_is_not_merged(self) -> None:
        backup = self.make_backup(self.record, speculative=False)
        self.assertRaises(sp.OverlayBusy, self.protocol.merge, self.record)
        self.assertRaises(sp.OverlayBusy, self.protocol.unused, self.record)
        self.assertEqual(states.PROMOTED, self.protocol.reload(self.record).state)
        backup.end()
        self.protocol.unused(self.record)

    def test_open_overlay_of_a_merged_volume_is_kept(self) -> None:
        backup = self.make_backup(self.record, speculative=False)
        self.protocol.begin_merge(self.record)
        self.protocol.end_merge(self.record)
        before = self.fenced()
        self.assertRaises(sp.OverlayBusy, self.protocol.merge, self.record)
        self.assertEqual(states.MERGED, self.protocol.reload(self.record).state)
        # A server that is about to close its overlay is not fenced.
        self.assertEqual(before, self.fenced())
        self.assertEqual(b'\7' * 4096, bytes(backup.disks[0].pread(4096, 0)))
        backup.end()
        self.protocol.merge(self.record)
        self.assertRaises(sp.NotSuperposed, self.protocol.reload, self.record)
        self.assert_nothing_left(self.record)

    def test_qemu_img_dies_with_its_controller(self) -> None:
        program = (
            'import sys\n'
            'from specreds_cinder import superposition as sp\n'
            'with sp.Cluster(sys.argv[1], "cinder") as cluster:\n'
            '    protocol = sp.Protocol(cluster, sp.Settings())\n'
            '    protocol.merge(protocol.find(sp.VolumeRef.parse(sys.argv[2])), rate=4096)\n')
        controlling = subprocess.Popen(
            [sys.executable, '-c', program, str(self.ceph.conf), str(self.ref)],
            stdin=subprocess.DEVNULL)
        self.addCleanup(controlling.wait)
        self.addCleanup(controlling.kill)
        children: list[int] = []
        # qemu-img has the overlay open.
        while not (volumes.clients(self.cluster, self.overlay.overlay_ref) and children):
            self.assertIsNone(controlling.poll())
            children = [child for child in _children(controlling.pid)
                        if _program(child) == 'qemu-img']
        controlling.send_signal(signal.SIGKILL)
        controlling.wait()
        waiting = threading.Event()
        for _ in range(_SECONDS * 10):
            if not any(_program(child) == 'qemu-img' for child in children):
                break
            waiting.wait(0.1)
        self.assertNotEqual([], children)
        self.assertEqual(set(), {_program(child) for child in children} - {None})
        self.bury(self.record)
        self.protocol.merge(self.record)
        self.assert_merged(b'\7' * (8 * base.MIB))


def _children(pid: int) -> list[int]:
    """Return the children of a process."""
    children = []
    for path in pathlib.Path('/proc').glob('[0-9]*/status'):
        with contextlib.suppress(OSError):
            if f'\nPPid:\t{pid}\n' in path.read_text():
                children.append(int(path.parent.name))
    return children


def _program(pid: int) -> str | None:
    """Return the program that a process runs, None if it has ended."""
    try:
        return os.path.basename(os.readlink(f'/proc/{pid}/exe'))
    except OSError:
        return None

# SPDX-License-Identifier: Apache-2.0
"""The background sweep: it notices a write, keeps its pace, and ends when it is told to."""

import threading
from unittest import mock

from specreds_cinder import superposition as sp
from specreds_cinder.superposition import librados
from specreds_cinder.tests.functional import base
from specreds_cinder.tests.functional import protocol_base

OBJECT = 4 * base.MIB
_SECONDS = 60


def threads() -> list[threading.Thread]:
    """List the threads that watch."""
    return [thread for thread in threading.enumerate() if thread.name.startswith('watch-')]


class Meter:
    """Counts the stats that the sweep does, in how many batches, and can hold it up.

    A batch of one is the look at the object map.
    """

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.depths: set[int] = set()
        self.arrived = threading.Semaphore(0)
        self._stat = librados.IoCtx.stat_versions

    def __call__(self, io: librados.IoCtx, names: list[bytes], depth: int) -> list[int]:
        if len(names) > 1:
            self.batches.append(len(names))
            self.depths.add(depth)
            self.arrived.release()
        return self._stat(io, names, depth)


class WatchTest(protocol_base.ProtocolTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.make_volume(objects=8)
        self.reports: list[sp.SweepReport] = []
        self.told = threading.Event()

    def tell(self, report: sp.SweepReport) -> None:
        """Take note of a report."""
        self.reports.append(report)
        self.told.set()

    def metered(self) -> Meter:
        """Count the sweep's stats from here on."""
        meter = Meter()
        patch = mock.patch.object(librados.IoCtx, 'stat_versions',
                                  lambda io, names, depth: meter(io, names, depth))
        patch.start()
        self.addCleanup(patch.stop)
        return meter

    def test_a_write_is_noticed_in_the_next_pass(self) -> None:
        primary = self.make_primary(self.volume)
        record = self.superpose(self.volume)
        meter = self.metered()
        with self.protocol.watch(record, self.tell) as watch:
            for _ in range(3):
                self.assertTrue(meter.arrived.acquire(timeout=_SECONDS))
            self.assertFalse(self.told.is_set())
            self.assertEqual(0, primary.write(5 * OBJECT))
            passes = watch.passes
            self.assertTrue(self.told.wait(_SECONDS))
            # The pass that was under way may have been past the object; the next one is not.
            self.assertLessEqual(watch.passes, passes + 2)
        self.assertEqual(1, len(self.reports))
        self.assertIn('.0000000000000005 of ', self.reports[0].first or '')
        # Noticing decides nothing.
        self.assertEqual(record, self.protocol.reload(record))

    def test_dirty_from_the_start(self) -> None:
        record = self.superpose(self.volume)
        self.make_primary(self.volume)
        with self.protocol.watch(record, self.tell):
            self.assertTrue(self.told.wait(_SECONDS))
            # It has said what there is to say, and is over.
            for thread in threads():
                thread.join(_SECONDS)
            self.assertEqual([], threads())
        self.assertEqual(1, len(self.reports))
        self.assertTrue(self.reports[0].dirty)

    def test_pace(self) -> None:
        record = self.superpose(self.volume)
        meter = self.metered()
        with self.protocol.watch(record, self.tell, objects_per_s=20):
            for _ in range(4):
                self.assertTrue(meter.arrived.acquire(timeout=_SECONDS))
        # A tenth of a second's worth at a time, and never more in flight than a twentieth's.
        self.assertEqual({2}, set(meter.batches))
        self.assertEqual({1}, meter.depths)

    def test_waits_for_its_pace(self) -> None:
        record = self.superpose(self.volume)
        watch = self.protocol.watch(record, self.tell, objects_per_s=0.01)
        waits: list[float] = []

        def wait(seconds: float) -> bool:
            waits.append(seconds)
            return len(waits) == 8
        watch._sweeper._stop = mock.Mock(wait=wait)
        with watch:
            for thread in threads():
                thread.join(_SECONDS)
        # Nobody really waited, so each object is due a hundred seconds after the one before.
        self.assertEqual([100 * number for number in range(1, 9)],
                         [round(seconds, -2) for seconds in waits])

    def test_ends_in_the_middle_of_a_pass(self) -> None:
        record = self.superpose(self.volume)
        meter = self.metered()
        # One object in a hundred seconds: only being told can end this pass.
        with self.protocol.watch(record, self.tell, objects_per_s=0.01) as watch:
            self.assertEqual(0, watch.passes)
        self.assertEqual([], self.reports)
        swept = len(meter.batches)
        self.assertLessEqual(swept, 1)
        self.assertEqual([], threads())

    def test_does_not_hammer_an_empty_volume(self) -> None:
        record = self.superpose(self.make_volume(objects=0))
        with self.protocol.watch(record, self.tell) as watch:
            while watch.passes < 2:
                self.assertFalse(self.told.wait(0.01))
            self.assertIsNone(watch.error)
        self.assertEqual([], self.reports)

    def test_a_cluster_that_does_not_answer_proves_nothing(self) -> None:
        record = self.superpose(self.volume)
        failing = threading.Event()
        failing.set()
        stat = librados.IoCtx.stat_versions

        def fail(io: librados.IoCtx, names: list[bytes], depth: int) -> list[int]:
            if failing.is_set():
                raise sp.ClusterTimeout('stat: Ceph did not answer in time')
            return stat(io, names, depth)
        with mock.patch.object(librados.IoCtx, 'stat_versions', fail), \
                self.protocol.watch(record, self.tell) as watch:
            while watch.error is None:
                self.assertFalse(self.told.wait(0.01))
            self.assertIsInstance(watch.error, sp.ClusterTimeout)
            self.assertEqual(0, watch.passes)
            failing.clear()
            while not watch.passes:
                self.assertFalse(self.told.wait(0.01))
            self.assertIsNone(watch.error)
        self.assertEqual([], self.reports)

    def test_the_image_is_deleted(self) -> None:
        record = self.superpose(self.volume)
        with self.protocol.watch(record, self.tell):
            self.remove_image(self.volume)
            self.assertTrue(self.told.wait(_SECONDS))
        # Perhaps while it was being deleted, object by object.
        self.assertTrue(self.reports[0].dirty)

    def test_pace_must_be_positive(self) -> None:
        record = self.superpose(self.volume)
        self.assertRaises(sp.InvalidInput, self.protocol.watch, record, self.tell, -1)

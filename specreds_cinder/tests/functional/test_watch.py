# SPDX-License-Identifier: Apache-2.0
"""The background sweep finds a write, keeps its pace, and can be ended."""

import threading
from unittest import mock

from specreds_cinder import superposition as sp
from specreds_cinder.superposition.ceph import librados
from specreds_cinder.tests.functional import base
from specreds_cinder.tests.functional import protocol_base

OBJECT = 4 * base.MIB
_SECONDS = 60


def threads() -> list[threading.Thread]:
    """Return the threads that watch."""
    return [thread for thread in threading.enumerate() if thread.name.startswith('watch-')]


class Meter:
    """Counts the batches of stats of the sweep.

    A batch of one reads the object map.
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
        self.reported = threading.Event()

    def report(self, report: sp.SweepReport) -> None:
        """Keep a report."""
        self.reports.append(report)
        self.reported.set()

    def metered(self) -> Meter:
        """Return a meter of the following sweeps."""
        meter = Meter()
        patch = mock.patch.object(librados.IoCtx, 'stat_versions',
                                  lambda io, names, depth: meter(io, names, depth))
        patch.start()
        self.addCleanup(patch.stop)
        return meter

    def test_write_is_found_in_the_next_pass(self) -> None:
        primary = self.make_primary(self.volume)
        record = self.superpose(self.volume)
        meter = self.metered()
        with self.protocol.watch(record, self.report) as watch:
            for _ in range(3):
                self.assertTrue(meter.arrived.acquire(timeout=_SECONDS))
            self.assertFalse(self.reported.is_set())
            self.assertEqual(0, primary.write(5 * OBJECT))
            passes = watch.passes
            self.assertTrue(self.reported.wait(_SECONDS))
            # The pass that was under way may have been past the object; the next one is not.
            self.assertLessEqual(watch.passes, passes + 2)
        self.assertEqual(1, len(self.reports))
        self.assertIn('.0000000000000005 of ', self.reports[0].first or '')
        # A report decides nothing.
        self.assertEqual(record, self.protocol.reload(record))

    def test_volume_that_is_already_dirty_is_reported_once(self) -> None:
        record = self.superpose(self.volume)
        self.make_primary(self.volume)
        with self.protocol.watch(record, self.report):
            self.assertTrue(self.reported.wait(_SECONDS))
            # After its report, the watch ends.
            for thread in threads():
                thread.join(_SECONDS)
            self.assertEqual([], threads())
        self.assertEqual(1, len(self.reports))
        self.assertTrue(self.reports[0].dirty)

    def test_batches_follow_the_pace(self) -> None:
        record = self.superpose(self.volume)
        meter = self.metered()
        with self.protocol.watch(record, self.report, objects_per_s=20):
            for _ in range(4):
                self.assertTrue(meter.arrived.acquire(timeout=_SECONDS))
        # A batch is a tenth of a second's objects, and a twentieth's may be in flight.
        self.assertEqual({2}, set(meter.batches))
        self.assertEqual({1}, meter.depths)

    def test_each_object_waits_for_its_turn(self) -> None:
        record = self.superpose(self.volume)
        watch = self.protocol.watch(record, self.report, objects_per_s=0.01)
        waits: list[float] = []

        def wait(seconds: float) -> bool:
            waits.append(seconds)
            return len(waits) == 8
        watch._sweeper._stop = mock.Mock(wait=wait)
        with watch:
            for thread in threads():
                thread.join(_SECONDS)
        # The waits are replaced, so each object is due a hundred seconds after the one before.
        self.assertEqual([100 * number for number in range(8)],
                         [round(seconds, -2) for seconds in waits])

    def test_closing_the_watch_ends_a_slow_pass(self) -> None:
        record = self.superpose(self.volume)
        meter = self.metered()
        # One object in a hundred seconds: only closing the watch can end this pass.
        with self.protocol.watch(record, self.report, objects_per_s=0.01) as watch:
            self.assertEqual(0, watch.passes)
        self.assertEqual([], self.reports)
        swept = len(meter.batches)
        self.assertLessEqual(swept, 1)
        self.assertEqual([], threads())

    def test_empty_volume_is_swept_without_errors(self) -> None:
        record = self.superpose(self.make_volume(objects=0))
        with self.protocol.watch(record, self.report) as watch:
            while watch.passes < 2:
                self.assertFalse(self.reported.wait(0.01))
            self.assertIsNone(watch.error)
        self.assertEqual([], self.reports)

    def test_timeout_is_no_report(self) -> None:
        record = self.superpose(self.volume)
        failing = threading.Event()
        failing.set()
        stat = librados.IoCtx.stat_versions

        def fail(io: librados.IoCtx, names: list[bytes], depth: int) -> list[int]:
            if failing.is_set():
                raise sp.ClusterTimeout('stat: Ceph did not answer in time')
            return stat(io, names, depth)
        with mock.patch.object(librados.IoCtx, 'stat_versions', fail), \
                self.protocol.watch(record, self.report) as watch:
            while watch.error is None:
                self.assertFalse(self.reported.wait(0.01))
            self.assertIsInstance(watch.error, sp.ClusterTimeout)
            self.assertEqual(0, watch.passes)
            failing.clear()
            while not watch.passes:
                self.assertFalse(self.reported.wait(0.01))
            self.assertIsNone(watch.error)
        self.assertEqual([], self.reports)

    def test_deleted_image_ends_no_watch_and_proves_nothing(self) -> None:
        record = self.superpose(self.volume)
        with self.protocol.watch(record, self.report):
            self.remove_image(self.volume)
            report = self.protocol.check(record)
        self.assertEqual((False, True), (report.dirty, report.unproven))

    def test_pace_must_be_positive(self) -> None:
        record = self.superpose(self.volume)
        self.assertRaises(sp.InvalidInput, self.protocol.watch, record, self.report, -1)

# SPDX-License-Identifier: Apache-2.0
"""The cut: shared by the calls that wait for its start, and valid only if the groups stay."""

from collections.abc import Callable
import dataclasses
import itertools
import struct
import threading
from typing import Any
from unittest import mock

import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.evidence import cut as cuts
from specreds_cinder.superposition.evidence import objectmap
from specreds_cinder.superposition.evidence import placement_groups
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.tests.unit import fakes

_SECONDS = 60
POOL = ceph.Pool(id=7, name='volumes', pg_num=4, merges='null', erasure=False, cache_tier=False,
                 rbd=True)


class CutterTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.started = itertools.count(1)
        self.entered = threading.Semaphore(0)
        self.proceed = threading.Semaphore(0)
        self.failing = False
        self.cutter = cuts.Cutter(self.run_cut)
        self.results: dict[int, Any] = {}
        self.threads: list[threading.Thread] = []

    def run_cut(self) -> records.Cut:
        number = next(self.started)
        self.entered.release()
        self.assertTrue(self.proceed.acquire(timeout=_SECONDS))
        if self.failing:
            raise errors.ClusterTimeout(f'cut {number}')
        return records.Cut(1, '', (number,))

    def call(self, name: int) -> None:
        """Take a cut in a thread of its own."""
        def take() -> None:
            try:
                self.results[name] = self.cutter.take().versions[0]
            except errors.ClusterTimeout as exc:
                self.results[name] = exc
        self.threads.append(threading.Thread(target=take))
        self.threads[-1].start()

    def wait_for(self, met: Callable[[], bool]) -> None:
        """Wait until a condition is met."""
        for _ in range(_SECONDS * 100):
            if met():
                return
            threading.Event().wait(0.01)
        self.fail('never met')

    def waiting(self, count: int) -> bool:
        """Return whether as many callers wait for the cut of another one."""
        waiters: Any = self.cutter._changed._waiters  # type: ignore[attr-defined]
        return len(waiters) == count

    def join(self) -> None:
        """Wait for all callers."""
        for thread in self.threads:
            thread.join(_SECONDS)
            self.assertFalse(thread.is_alive())

    def test_each_call_takes_a_cut(self) -> None:
        self.proceed.release(2)
        self.assertEqual([1, 2], [self.cutter.take().versions[0] for _ in range(2)])

    def test_waiting_calls_share_the_next_cut(self) -> None:
        self.call(0)
        self.assertTrue(self.entered.acquire(timeout=_SECONDS))
        for name in range(1, 20):
            self.call(name)
        self.wait_for(lambda: self.waiting(19))
        self.proceed.release()
        # The nineteen share one cut, but not the one that had already started.
        self.assertTrue(self.entered.acquire(timeout=_SECONDS))
        self.wait_for(lambda: self.results.get(0) == 1)
        self.proceed.release()
        self.join()
        self.assertEqual({name: 1 if name == 0 else 2 for name in range(20)}, self.results)
        self.assertEqual(3, next(self.started))

    def test_failed_cut_fails_only_its_own_call(self) -> None:
        self.failing = True
        self.call(0)
        self.assertTrue(self.entered.acquire(timeout=_SECONDS))
        for name in range(1, 4):
            self.call(name)
        self.wait_for(lambda: self.waiting(3))
        self.proceed.release()
        self.assertTrue(self.entered.acquire(timeout=_SECONDS))
        self.failing = False
        self.proceed.release()
        self.join()
        self.assertIsInstance(self.results.pop(0), errors.ClusterTimeout)
        self.assertEqual({1: 2, 2: 2, 3: 2}, self.results)

    def test_cut_succeeds_after_failures(self) -> None:
        self.failing = True
        self.proceed.release(3)
        for _ in range(2):
            self.assertRaises(errors.ClusterTimeout, self.cutter.take)
        self.failing = False
        self.assertEqual(3, self.cutter.take().versions[0])


class TakeTest(testtools.TestCase):

    def take(self, *pools: dict[int, ceph.Pool]) -> tuple[Any, mock.Mock]:
        """Take a cut of a cluster with these listings of pools, one after the other."""
        io = mock.Mock(**{'write_answered.side_effect': lambda names, *_: [
            index + 100 for index in range(len(names))]})
        cluster = mock.Mock(**{'pools.side_effect': [*pools, pools[-1]] + [pools[-1]] * 20,
                               'aio.ioctx.return_value': io})
        return cuts.take(cluster, 7, ''), io

    def test_cut_writes_once_to_each_group(self) -> None:
        cut, io = self.take({7: POOL})
        self.assertEqual(records.Cut(4, 'null', (100, 101, 102, 103)), cut)
        io.write_answered.assert_called_once()
        names = io.write_answered.call_args.args[0]
        self.assertEqual(4, len(set(names)))
        self.assertTrue(all(name.startswith(b'specreds.cut.') for name in names))

    def test_group_that_does_not_answer_is_unbounded(self) -> None:
        io = fakes.AioIoctx()
        io.silent = {placement_groups.markers(8, '', cuts.MARKER)[5]}
        cut = cuts.take(fakes.Cluster(aio=io), fakes.POOL_ID, '')  # type: ignore[arg-type]
        self.assertEqual((1, 2, 3, 4, 5, cuts.UNBOUNDED, 7, 8), cut.versions)

    def test_only_silent_groups_are_asked_whether_they_answer(self) -> None:
        io = fakes.AioIoctx()
        cluster: Any = fakes.Cluster(aio=io)
        silent = placement_groups.markers(8, '', cuts.MARKER)[5]
        io.silent = {silent}
        cut = cuts.take(cluster, fakes.POOL_ID, '')
        self.assertFalse(cuts.any_answers(cluster, fakes.POOL_ID, '', cut))
        io.silent = set()
        self.assertTrue(cuts.any_answers(cluster, fakes.POOL_ID, '', cut))
        self.assertEqual(([silent], 1), (io.statted, len(io.written)))

    def test_cut_is_repeated_when_groups_change(self) -> None:
        grown = dataclasses.replace(POOL, pg_num=8)
        cut, io = self.take({7: POOL}, {7: grown})
        self.assertEqual((8, 8), (cut.pg_num, len(cut.versions)))
        self.assertEqual(2, io.write_answered.call_count)

    def test_cut_is_repeated_when_groups_merge_and_split(self) -> None:
        cut, io = self.take({7: POOL}, {7: dataclasses.replace(POOL, merges='{}')})
        self.assertEqual('{}', cut.merges)
        self.assertEqual(2, io.write_answered.call_count)

    def test_groups_that_never_settle_are_an_error(self) -> None:
        changing = [{7: dataclasses.replace(POOL, pg_num=number)} for number in range(1, 30)]
        error = self.assertRaises(errors.ClusterError, self.take, *changing)
        self.assertIn('volumes', str(error))

    def test_missing_pool_is_an_error(self) -> None:
        self.assertRaises(errors.ClusterError, self.take, {})
        self.assertRaises(errors.ClusterError, self.take, {7: POOL}, {})


class BoundedTest(testtools.TestCase):
    """A volume of sixteen objects of which two exist, in a pool of 64 groups."""

    def setUp(self) -> None:
        super().setUp()
        self.volume = fakes.volume()
        self.map = objectmap.name(self.volume.image_id)
        stored = struct.pack('<IBBIQ', 14, 1, 1, 8, 16) + b'\x40\0\0\x01'
        self.cluster: Any = fakes.Cluster(io=fakes.Ioctx({self.map: stored}))

    def bounded(self, *silent: bytes) -> bool:
        """Return whether a cut bounds the volume though the groups of some objects are silent."""
        versions = [7] * 64
        whole = records.Cut(64, 'null', tuple(versions))
        for group in cuts.groups_of(silent, '', whole) if silent else ():
            versions[int(group)] = cuts.UNBOUNDED
        return cuts.bounded(self.cluster, self.volume, {
            fakes.POOL_ID: dataclasses.replace(whole, versions=tuple(versions))})

    def name(self, number: int) -> bytes:
        return b'%s.%016x' % (fakes.PREFIX.encode(), number)

    def test_answer_of_all_groups_bounds_any_volume(self) -> None:
        self.cluster = None
        self.assertTrue(self.bounded())

    def test_silent_group_without_objects_of_the_volume_does_not_count(self) -> None:
        self.assertTrue(self.bounded(self.name(1)))

    def test_silent_group_of_an_object_is_no_bound(self) -> None:
        for number in (0, 15):
            self.assertFalse(self.bounded(self.name(number)), number)

    def test_silent_group_of_the_object_map_is_no_bound(self) -> None:
        self.assertFalse(self.bounded(self.map.encode()))

# SPDX-License-Identifier: Apache-2.0
"""The sweep finds every write after the cut, and calls nothing else dirty."""

import dataclasses
import itertools
import struct
import threading
from typing import Any
from unittest import mock

import ddt
import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.ceph import volume
from specreds_cinder.superposition.evidence import cut
from specreds_cinder.superposition.evidence import objectmap
from specreds_cinder.superposition.evidence import pace
from specreds_cinder.superposition.evidence import placement_groups
from specreds_cinder.superposition.evidence import seen
from specreds_cinder.superposition.evidence import sweep
from specreds_cinder.superposition.truth import record
from specreds_cinder.tests.unit import fakes

# Only a test that hangs waits this long.
_TIMEOUT = 60
_MAP = b'rbd_object_map.1a'
_OBJECTS = 16
# All sixteen objects exist.
_STORED = struct.pack('<IBBIQ', 14, 1, 1, 8, _OBJECTS) + b'\x55' * 4
DIGEST = objectmap.digest(fakes.Ioctx({_MAP.decode(): _STORED}), '1a')


def _data(number: int) -> bytes:
    return b'%s.%016x' % (fakes.PREFIX.encode(), number)


class SweepTestCase(testtools.TestCase):
    """A volume of sixteen objects, all as old as the cut."""

    def setUp(self) -> None:
        super().setUp()
        self.aio = fakes.AioIoctx({_MAP: 99, **{_data(number): 99
                                                for number in range(_OBJECTS)}})
        self.io = fakes.Ioctx({_MAP.decode(): _STORED})
        self.volume = fakes.volume(map_digest=DIGEST)
        self.record = fakes.superposition(volumes=(self.volume,))
        self.pools: list[dict[int, ceph.Pool]] = [{fakes.POOL_ID: fakes.pool()}]
        image = self.volume
        self.facts: volume.Facts | errors.VolumeGone = volume.Facts(
            ref=image.ref, image_id=image.image_id, pool_id=image.pool_id,
            data_pool_id=image.data_pool_id, data_prefix=image.data_prefix,
            size_bytes=image.size_bytes, object_size=image.object_size,
            features=image.features, clients=frozenset(), owners=frozenset(),
            invalid_map=False, mirrored=False, luks=None)
        patched = mock.patch.object(volume, 'inspect', self.inspect)
        patched.start()
        self.addCleanup(patched.stop)

    def inspect(self, _cluster: object, _ref: object) -> volume.Facts:
        if isinstance(self.facts, errors.VolumeGone):
            raise self.facts
        return self.facts

    def change(self, **changes: Any) -> None:
        """Change facts of the image."""
        assert isinstance(self.facts, volume.Facts)
        self.facts = dataclasses.replace(self.facts, **changes)

    @property
    def cluster(self) -> Any:
        return fakes.Cluster(self.io, self.aio, self.pools)

    def sweep(self, **options: Any) -> sweep.SweepReport:
        return sweep.Sweeper(self.cluster, self.record, **options).run()

    def assert_dirty(self, words: str) -> None:
        for thorough in (False, True):
            report = self.sweep(thorough=thorough)
            self.assertEqual((True, False), (report.dirty, report.unproven))
            self.assertIn(words, report.first or '')

    def assert_unproven(self, words: str) -> None:
        for thorough in (False, True):
            report = self.sweep(thorough=thorough)
            self.assertEqual((False, True), (report.dirty, report.unproven))
            self.assertIn(words, report.first or '')


@ddt.ddt
class SweeperTest(SweepTestCase):

    @ddt.data({}, {'thorough': True}, {'pace': 1e6})
    def test_volume_as_old_as_the_cut_is_clean(self, options: dict[str, Any]) -> None:
        report = self.sweep(**options)
        self.assertEqual((False, None, _OBJECTS), (report.dirty, report.first, report.objects))
        self.assertLessEqual({_data(number) for number in range(_OBJECTS)},
                             set(self.aio.statted))

    @ddt.data(0, 7, 15)
    def test_object_written_after_the_cut_is_dirty(self, number: int) -> None:
        self.aio.versions[_data(number)] = 101
        self.assert_dirty(f'{_data(number).decode()} of volumes/vol-1 was written')

    def test_object_with_the_version_of_the_cut_is_dirty(self) -> None:
        # In an erasure-coded pool two writes in flight may have one version.
        self.aio.versions[_data(7)] = 100
        self.assert_dirty(f'{_data(7).decode()} of volumes/vol-1 was written')

    def test_object_of_a_group_that_was_not_cut_is_dirty(self) -> None:
        group, = cut.groups_of([_data(3)], '', self.record.cuts[fakes.POOL_ID])
        versions = [100] * 8
        versions[int(group)] = cut.UNBOUNDED
        self.record = fakes.superposition(volumes=(self.volume,), cuts={
            fakes.POOL_ID: record.Cut(8, 'null', tuple(versions))})
        self.assertTrue(self.sweep().dirty)
        # Objects that do not exist were not written.
        self.aio.versions = {_MAP: 99}
        self.assertFalse(self.sweep(thorough=True).dirty)

    def test_silent_group_does_not_keep_a_clean_sweep_from_its_end(self) -> None:
        self.aio.silent = {placement_groups.markers(8, '', cut.MARKER)[2]}
        self.assertFalse(self.sweep(thorough=True).dirty)

    def test_silent_group_fails_an_unproven_sweep_behind_the_fence(self) -> None:
        self.change(invalid_map=True)
        self.aio.silent = {placement_groups.markers(8, '', cut.MARKER)[2]}
        self.assertRaises(errors.ClusterTimeout, self.sweep, thorough=True)

    def test_silent_group_fails_a_dirty_sweep_behind_the_fence(self) -> None:
        # The primary is started again: no write of its old client may arrive later.
        self.aio.silent = {placement_groups.markers(8, '', cut.MARKER)[2]}
        self.aio.versions[_data(0)] = 101
        self.assertRaises(errors.ClusterTimeout, self.sweep, thorough=True)
        self.assertRaises(errors.ClusterTimeout, sweep.barrier, self.cluster, self.record)
        del self.aio.versions[_data(0)]
        self.pools = [{fakes.POOL_ID: fakes.pool(merges='other')}]
        self.assertRaises(errors.ClusterTimeout, self.sweep, thorough=True)

    def test_silent_object_fails_the_sweep(self) -> None:
        self.aio.silent = {_data(4)}
        for thorough in (False, True):
            self.assertRaises(errors.ClusterTimeout, self.sweep, thorough=thorough)

    def test_object_is_compared_with_its_own_group(self) -> None:
        groups = placement_groups.stable_mod(
            placement_groups.hashes([_data(number) for number in range(_OBJECTS)]), 8).tolist()
        versions = tuple(10 * group + 2 for group in range(8))
        self.record = fakes.superposition(
            volumes=(self.volume,), cuts={fakes.POOL_ID: record.Cut(8, 'null', versions)})
        self.aio.versions = {_data(number): versions[group] - 1
                             for number, group in enumerate(groups)}
        self.assertFalse(self.sweep().dirty)
        self.aio.versions[_data(3)] += 1
        self.assert_dirty(_data(3).decode())

    def test_missing_object_that_is_in_the_map_is_clean(self) -> None:
        # A pending one may be there or not; had it been discarded, the map would tell.
        del self.aio.versions[_data(3)]
        self.assertFalse(self.sweep().dirty)

    def test_sweep_stops_at_the_first_dirty_batch_unless_thorough(self) -> None:
        self.aio.versions[_data(0)] = 101
        with mock.patch.object(sweep, '_BATCH', 4):
            self.assertEqual(4, self.sweep().objects)
            self.aio.statted.clear()
            self.assertEqual(_OBJECTS, self.sweep(thorough=True).objects)
        # A barrier is one only if it reaches every placement group.
        markers = placement_groups.markers(8, '', cut.MARKER)
        self.assertLessEqual(set(markers), set(self.aio.statted))

    def test_decision_is_renewed_after_each_batch(self) -> None:
        renew = mock.Mock(side_effect=[None] * 5 + [errors.RecordChanged('overtaken')])
        with mock.patch.object(sweep, '_BATCH', 4):
            self.assertFalse(self.sweep(thorough=True, renew=renew).dirty)
            self.assertEqual(4, renew.call_count)
            self.aio.statted.clear()
            self.assertRaises(errors.RecordChanged, self.sweep, renew=renew)
        self.assertEqual(8, len(self.aio.statted))

    @ddt.data(({'size_bytes': 1}, 'resized'), ({'features': 1}, 'other features'),
              ({'invalid_map': True}, 'invalid'), ({'image_id': '2b'}, 'replaced'))
    @ddt.unpack
    def test_changed_image_is_unproven(self, changes: dict[str, Any], words: str) -> None:
        self.change(**changes)
        # Whoever has changed the image has changed its map.
        self.io.objects[_MAP.decode()] = _STORED[:-1] + b'\x54'
        self.aio.versions[_MAP] = 101
        self.assert_unproven(words)

    @ddt.data({'size_bytes': 1}, {'invalid_map': True})
    def test_write_to_a_changed_image_is_dirty(self, changes: dict[str, Any]) -> None:
        self.change(**changes)
        self.aio.versions[_data(7)] = 101
        self.assert_dirty(f'{_data(7).decode()} of volumes/vol-1 was written')

    def test_missing_image_is_unproven(self) -> None:
        self.facts = errors.VolumeGone('gone')
        self.assert_unproven('image volumes/vol-1 is gone')

    def test_missing_map_is_unproven(self) -> None:
        self.io.objects.clear()
        self.assert_unproven('rbd_object_map.1a is gone')

    def test_map_that_is_removed_during_the_sweep_is_unproven(self) -> None:
        def remove(names: list[bytes], _depth: int) -> list[int]:
            self.io.objects.clear()
            return [99] * len(names)
        stored = dict(self.io.objects)
        for thorough in (False, True):
            self.io.objects.update(stored)
            with mock.patch.object(self.aio, 'stat_versions', remove), \
                    mock.patch.object(objectmap, '_CHUNK', 1):
                report = self.sweep(thorough=thorough)
            self.assertEqual((False, True), (report.dirty, report.unproven))
            self.assertIn('rbd_object_map.1a is gone', report.first or '')

    def test_changed_map_is_dirty(self) -> None:
        # The last object was created after the cut and is not there any more.
        self.io.objects[_MAP.decode()] = _STORED[:-1] + b'\x54'
        self.aio.versions[_MAP] = 101
        self.assert_dirty('objects were created or discarded')

    def test_map_touched_by_another_client_is_clean(self) -> None:
        self.aio.versions[_MAP] = 101
        self.change(owners=frozenset({'192.0.2.9:0/99'}))
        self.assertFalse(self.sweep().dirty)

    def test_map_touched_by_a_client_that_has_gone_proves_nothing_of_a_volume_handed_over(
            self) -> None:
        self.aio.versions[_MAP] = 101
        self.assertFalse(self.sweep().dirty)
        self.record = fakes.superposition(volumes=(dataclasses.replace(self.volume, handed=7),))
        report = self.sweep()
        self.assertEqual((False, True), (report.dirty, report.unproven))
        self.assertIn('touched by a client that has gone', report.first or '')
        self.change(owners=frozenset({'192.0.2.9:0/99'}))
        self.assertTrue(self.sweep().clean)

    def test_map_touched_by_the_primary_is_dirty_unless_fenced(self) -> None:
        self.aio.versions[_MAP] = 101
        self.change(owners=self.record.clients)
        report = self.sweep()
        self.assertTrue(report.dirty)
        self.assertIn('touched by the primary', report.first or '')
        # Behind the fence the contents alone decide.
        self.assertFalse(self.sweep(thorough=True).dirty)

    def test_map_without_a_digest_is_compared_by_version(self) -> None:
        self.record = fakes.superposition(volumes=(fakes.volume(map_digest=''),))
        self.assertFalse(self.sweep().dirty)
        self.aio.versions[_MAP] = 101
        self.assert_dirty('objects were created or discarded')

    @ddt.data({'merges': 'other'}, {'pg_num': 7})
    def test_merged_groups_are_unproven(self, changes: dict[str, Any]) -> None:
        self.pools = [{fakes.POOL_ID: fakes.pool(**changes)}]
        self.assert_unproven('volumes were merged')
        self.aio.versions[_data(7)] = 101
        self.assert_dirty(f'{_data(7).decode()} of volumes/vol-1 was written')

    def test_split_groups_are_swept(self) -> None:
        self.pools = [{fakes.POOL_ID: fakes.pool(pg_num=16)}]
        self.assertFalse(self.sweep(thorough=True).dirty)
        self.assertLessEqual(set(placement_groups.markers(16, '', cut.MARKER)),
                             set(self.aio.statted))

    def test_groups_merged_during_the_sweep_are_unproven(self) -> None:
        with mock.patch.object(self.aio, 'stat_versions', self.merge):
            self.assertTrue(self.sweep().unproven)

    def merge(self, names: list[bytes], _depth: int) -> list[int]:
        self.pools[0][fakes.POOL_ID] = fakes.pool(merges='other')
        return [99] * len(names)

    def test_groups_merged_after_the_first_sweep_prove_as_much(self) -> None:
        first = seen.FirstSweeps()
        self.assertTrue(self.sweep(first=first).clean)
        self.pools = [{fakes.POOL_ID: fakes.pool(merges='other')}]
        self.assertTrue(self.sweep(first=first, thorough=True).clean)
        # The group that is left may give a smaller version to a write than the cut had.
        self.aio.versions[_data(7)] = 98
        report = self.sweep(first=first, thorough=True)
        self.assertEqual((False, True), (report.dirty, report.unproven))
        self.assertIn('other versions than at the first sweep', report.first or '')

    def test_map_changed_in_merged_groups_is_dirty(self) -> None:
        first = seen.FirstSweeps()
        self.sweep(first=first)
        self.pools = [{fakes.POOL_ID: fakes.pool(merges='other')}]
        self.aio.versions[_MAP] = 98
        self.assertTrue(self.sweep(first=first).clean)
        self.io.objects[_MAP.decode()] = _STORED[:-1] + b'\x56'
        self.assertTrue(self.sweep(first=first).dirty)

    def test_first_sweep_that_proves_nothing_is_not_kept(self) -> None:
        first = seen.FirstSweeps()
        self.pools = [{fakes.POOL_ID: fakes.pool(merges='other')}]
        for _ in range(2):
            self.assertTrue(self.sweep(first=first).unproven)

    @ddt.data(0, 42)
    def test_object_that_is_gone_or_older_than_at_the_first_sweep_is_unproven(
            self, version: int) -> None:
        first = seen.FirstSweeps()
        self.assertTrue(self.sweep(first=first).clean)
        self.aio.versions[_data(7)] = version
        self.assertTrue(self.sweep(first=first).unproven)
        # It is the first sweep that counts.
        self.assertTrue(self.sweep(first=first).unproven)

    def hand_over(self, version: int) -> record.Volume:
        """Add a volume whose lock was handed over to the superposition.

        :param version: of its header now
        """
        other = fakes.volume(image='vol-2', image_id='id-2', data_prefix='rbd_data.2', handed=7)
        self.aio.versions[b'rbd_header.id-2'] = version
        self.record = dataclasses.replace(self.record, volumes=(other, self.volume))
        return other

    def test_volume_whose_header_has_not_changed_is_not_swept(self) -> None:
        other = self.hand_over(7)
        report = self.sweep()
        self.assertEqual((True, _OBJECTS), (report.clean, report.objects))
        self.record = dataclasses.replace(self.record, volumes=(other,))
        # Groups that were merged mean nothing to it.
        self.pools = [{fakes.POOL_ID: fakes.pool(merges='other')}]
        report = self.sweep()
        self.assertEqual((True, 0), (report.clean, report.objects))

    def test_sealed_volume_is_not_swept_whatever_its_header(self) -> None:
        other = self.hand_over(8)
        self.assertEqual(_OBJECTS, self.sweep(sealed=[other], thorough=True).objects)

    def test_volume_that_is_not_sealed_is_swept_whatever_its_header(self) -> None:
        self.volume = dataclasses.replace(self.volume, handed=7)
        self.record = dataclasses.replace(self.record, volumes=(self.volume,))
        self.aio.versions[f'rbd_header.{self.volume.image_id}'.encode()] = 7
        self.assertEqual(0, self.sweep().objects)
        self.assertEqual(_OBJECTS, self.sweep(sealed=[]).objects)

    def test_sweep_of_some_volumes_is_not_the_first(self) -> None:
        self.hand_over(7)
        first = seen.FirstSweeps()
        self.assertTrue(self.sweep(first=first).clean)
        self.assertEqual({}, first.get(self.record.id))

    def test_first_sweeps_of_many_superpositions_are_kept(self) -> None:
        first = seen.FirstSweeps()
        for number in range(5000):
            first.keep(str(number), {self.volume.ref: seen.Volume((), number)})
        self.assertEqual({}, first.get('0'))
        self.assertEqual(4999, first.get('4999')[self.volume.ref].map_version)

    def test_error_of_the_sweep_is_raised(self) -> None:
        with mock.patch.object(self.aio, 'stat_versions', side_effect=errors.ClusterTimeout):
            self.assertRaises(errors.ClusterTimeout, self.sweep)


@ddt.ddt
class WatchTest(SweepTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.reports: list[sweep.SweepReport] = []
        self.reported = threading.Event()
        self.same = super().cluster

    @property
    def cluster(self) -> Any:
        return self.same

    def report(self, report: sweep.SweepReport) -> None:
        self.reports.append(report)
        self.reported.set()

    def watch(self, pace: float = 1e6) -> sweep.BackgroundSweep:
        return sweep.BackgroundSweep(self.cluster, self.record, self.report, pace=pace)

    def test_dirty_volume_is_reported_once(self) -> None:
        self.aio.versions[_data(5)] = 101
        with self.watch() as watch:
            self.assertTrue(self.reported.wait(_TIMEOUT))
            watch._thread.join(_TIMEOUT)
            self.assertFalse(watch._thread.is_alive())
        self.assertEqual(1, len(self.reports))
        self.assertIn(_data(5).decode(), self.reports[0].first or '')

    def test_clean_volume_is_swept_again_until_dirty(self) -> None:
        again = threading.Event()
        stat = self.aio.stat_versions

        def count(names: list[bytes], depth: int) -> list[int]:
            if _data(0) in names and watch.passes:
                again.set()
            return stat(names, depth)

        watch = self.watch()
        with mock.patch.object(self.aio, 'stat_versions', count), watch:
            self.assertTrue(again.wait(_TIMEOUT))
            self.assertEqual([], self.reports)
            self.aio.versions[_data(0)] = 101
            self.assertTrue(self.reported.wait(_TIMEOUT))

    def test_watch_that_nobody_ends_sweeps_ever_less(self) -> None:
        now, waits = [0.0], list[float]()

        def wait(seconds: float) -> None:
            waits.append(seconds)
            # A pass takes a second.
            now[0] += seconds + 1
        self.patch(sweep, 'time', mock.Mock(monotonic=lambda: now[0]))
        watch = self.watch()
        watch._ended = mock.Mock(wait=wait, is_set=lambda: now[0] > 86400)
        watch._loop()
        self.assertEqual(sorted(waits), waits)
        early = list(itertools.takewhile(lambda at: at < 60, itertools.accumulate(
            seconds + 1 for seconds in waits)))
        # In the minute of a race it pauses for two seconds at the mean, later for a minute.
        self.assertGreater(len(early), 20)
        self.assertEqual(60, waits[-1])

    def test_sweep_is_repeated_after_an_error(self) -> None:
        failed = errors.ClusterTimeout('late')
        stat = self.aio.stat_versions
        seen = []

        def fail_once(names: list[bytes], depth: int) -> list[int]:
            seen.append(watch.error)
            if len(seen) == 1:
                raise failed
            self.aio.versions[_data(0)] = 101
            return stat(names, depth)

        watch = self.watch()
        with mock.patch.object(self.aio, 'stat_versions', fail_once), watch:
            self.assertTrue(self.reported.wait(_TIMEOUT))
        self.assertEqual([None, failed], seen[:2])
        self.assertIsNone(watch.error)

    def test_closing_the_watch_ends_a_slow_sweep(self) -> None:
        begun = threading.Event()
        stat = self.aio.stat_versions

        def stat_begun(names: list[bytes], depth: int) -> list[int]:
            begun.set()
            return stat(names, depth)

        # One object in a thousand seconds.
        with mock.patch.object(self.aio, 'stat_versions', stat_begun), self.watch(0.001) as watch:
            self.assertTrue(begun.wait(_TIMEOUT))
        self.assertFalse(watch._thread.is_alive())
        self.assertEqual((0, []), (watch.passes, self.reports))

    def test_stop_does_not_wait_for_an_osd(self) -> None:
        begun, answered = threading.Event(), threading.Event()
        self.addCleanup(answered.set)

        def hang(names: list[bytes], _depth: int) -> list[int]:
            begun.set()
            answered.wait()
            return [99] * len(names)

        watch = self.watch()
        with mock.patch.object(self.aio, 'stat_versions', hang):
            watch.start()
            self.assertTrue(begun.wait(_TIMEOUT))
            watch.stop()
            self.assertTrue(watch._thread.is_alive())
            answered.set()
            watch._thread.join(_TIMEOUT)
        self.assertFalse(watch._thread.is_alive())

    def test_passes_of_all_watches_together_are_limited(self) -> None:
        waits: list[float] = []
        for _ in range(6):
            watch = self.watch()
            watch._sweeper._stop = mock.Mock(wait=lambda _seconds: None)
            watch._ended = mock.Mock(**{'is_set.side_effect': [False, True],
                                        'wait.side_effect': waits.append})
            with mock.patch.object(sweep, '_PASSES', 0.01):
                watch._loop()
        # Each pass waits for those before it: a hundred seconds are reserved at a time.
        self.assertEqual(list(range(6)), [round(seconds / 100) for seconds in waits])

    def test_watches_share_one_rate(self) -> None:
        budget = pace.budget(self.cluster)
        for number in range(6):
            # Each waits for those before it: ten seconds are reserved at a time.
            self.assertEqual(10 * number, round(budget.reserve(100, 10)))
        self.assertIs(budget, pace.budget(self.cluster))
        other: Any = fakes.Cluster()
        self.assertEqual(0, pace.budget(other).reserve(100, 10))

    def test_watch_pauses_while_a_decision_sweeps(self) -> None:
        paused, stat = threading.Event(), self.aio.stat_versions
        budget = pace.budget(self.cluster)

        def look(names: list[bytes], depth: int) -> list[int]:
            self.assertFalse(budget.paused)
            return stat(names, depth)

        self.aio.versions[_data(5)] = 101
        watch = self.watch()
        watch._sweeper._stop = mock.Mock(
            wait=lambda _seconds: paused.set() if budget.paused else None)
        with mock.patch.object(self.aio, 'stat_versions', look):
            with budget.deciding():
                watch._thread.start()
                self.assertTrue(paused.wait(_TIMEOUT))
                self.assertEqual([], self.reports)
            self.assertTrue(self.reported.wait(_TIMEOUT))
        watch._thread.join(_TIMEOUT)

    @ddt.data(({}, True), ({'thorough': True}, True), ({'pace': 1e6}, False))
    @ddt.unpack
    def test_sweep_of_a_decision_pauses_watches(self, options: dict[str, Any],
                                                pauses: bool) -> None:
        budget, stat = pace.budget(self.cluster), self.aio.stat_versions

        def look(names: list[bytes], depth: int) -> list[int]:
            self.assertEqual(pauses, budget.paused)
            return stat(names, depth)

        with mock.patch.object(self.aio, 'stat_versions', look):
            self.sweep(**options)
        self.assertFalse(budget.paused)

    def test_pace_must_be_positive(self) -> None:
        for wrong in (0, -1, float('nan')):
            self.assertRaises(errors.InvalidInput, self.watch, wrong)

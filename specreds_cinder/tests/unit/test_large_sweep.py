# SPDX-License-Identifier: Apache-2.0
"""Large sweeps have processes, come to the same results, and do without those that are lost."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from unittest import mock

import ddt
import fixtures
import rados

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import objectmap
from specreds_cinder.superposition import pace
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import settings
from specreds_cinder.superposition import sweep
from specreds_cinder.superposition import sweep_process
from specreds_cinder.superposition import sweep_processes
from specreds_cinder.tests.unit import fakes
from specreds_cinder.tests.unit import test_sweep


class Processes:
    """Stands for the processes of a sweep."""

    entered: list[int] = []
    # Errors of the start, and of the stats after the first batch.
    cannot_start: errors.ClusterError | None = None
    failure: errors.ClusterError | None = None

    def __init__(self, cluster: Any, count: int, depth: int) -> None:
        self._aio = cluster.aio.ioctx(fakes.POOL_ID, '')
        self._count = count
        self._depth = depth

    def __enter__(self) -> 'Processes':
        self.entered.append(self._count)
        if self.cannot_start:
            raise self.cannot_start
        return self

    def __exit__(self, *_exc: object) -> None:
        pass

    def versions(self, volume: records.Volume, batches: Iterable[Sequence[int]]
                 ) -> Iterator[tuple[Sequence[int], list[int]]]:
        """Return what the stand-in of the cluster has."""
        for numbers in batches:
            yield numbers, self._aio.stat_versions(
                objectmap.data_names(volume.data_prefix, numbers), self._depth)
            if self.failure:
                raise self.failure


class StartedTest(test_sweep.SweepTestCase):
    """Which sweeps have processes. The volume may have sixteen objects, and has them all."""

    def setUp(self) -> None:
        super().setUp()
        self.same = super().cluster
        self.patch(sweep_processes, 'Processes', Processes)
        self.patch(Processes, 'entered', [])

    @property
    def cluster(self) -> Any:
        return self.same

    def count(self, processes: int = 8, each: int = 1, **options: Any) -> int:
        """Return the number of processes of a sweep."""
        Processes.entered.clear()
        self.sweep(settings=settings.Settings(
            sweep_processes=processes, sweep_objects_per_process=each), **options)
        return sum(Processes.entered)

    def test_sweep_has_as_many_processes_as_its_objects_need(self) -> None:
        self.assertEqual([8, 5, 2, 0, 0],
                         [self.count(each=each) for each in (1, 3, 8, 9, 100)])

    def test_limit_of_one_process_is_none(self) -> None:
        self.assertEqual([4, 2, 0], [self.count(limit) for limit in (4, 2, 1)])

    def test_sweep_without_settings_has_none(self) -> None:
        self.assertFalse(self.sweep().dirty)
        self.assertEqual([], Processes.entered)

    def test_background_sweep_has_none(self) -> None:
        self.assertEqual(0, self.count(pace=1e6))

    def test_map_of_a_small_volume_is_not_counted(self) -> None:
        with mock.patch.object(objectmap, 'count', side_effect=AssertionError):
            self.assertEqual(0, self.count(each=9))

    def test_thin_volume_has_none(self) -> None:
        with mock.patch.object(objectmap, 'count', return_value=1):
            self.assertEqual(0, self.count())

    def test_map_that_does_not_answer_counts_as_0(self) -> None:
        for error in (errors.ClusterTimeout('no answer'), rados.ObjectNotFound('gone', 2)):
            with mock.patch.object(objectmap, 'count', side_effect=error):
                self.assertEqual(0, self.count())

    def test_missing_volume_is_unproven_without_processes(self) -> None:
        self.io.objects.clear()
        self.assertEqual(0, self.count())
        self.assert_unproven('rbd_object_map.1a is gone')

    def test_sweeps_share_the_processes(self) -> None:
        budget = pace.budget(self.cluster)
        with budget.processes(5, 8) as other:
            self.assertEqual(5, other)
            self.assertEqual(3, self.count())
            # One process is no faster than none.
            with budget.processes(2, 8) as another:
                self.assertEqual(2, another)
                self.assertEqual(0, self.count())
        self.assertEqual(8, self.count())

    def test_failed_sweep_returns_its_processes(self) -> None:
        self.aio.silent = {test_sweep._data(4)}
        self.assertRaises(errors.ClusterTimeout, self.count)
        self.aio.silent = set()
        self.assertEqual(8, self.count())


class VerdictTest(test_sweep.SweeperTest):
    """A sweep with processes comes to the same results as one without."""

    def setUp(self) -> None:
        super().setUp()
        self.patch(sweep_processes, 'Processes', Processes)

    def sweep(self, **options: Any) -> sweep.SweepReport:
        return super().sweep(settings=settings.Settings(
            sweep_processes=2, sweep_objects_per_process=1), **options)


@ddt.ddt
class FailureTest(test_sweep.SweepTestCase):
    """What a sweep does if its processes fail. Each batch has four of the sixteen objects."""

    def setUp(self) -> None:
        super().setUp()
        self.same = super().cluster
        self.log = self.useFixture(fixtures.FakeLogger())
        self.patch(sweep_processes, 'Processes', Processes)
        self.patch(sweep, '_BATCH', 4)

    @property
    def cluster(self) -> Any:
        return self.same

    def sweep(self, **options: Any) -> sweep.SweepReport:
        return super().sweep(settings=settings.Settings(
            sweep_processes=8, sweep_objects_per_process=1), **options)

    def assert_alone(self, words: str) -> None:
        """Assert that one client examines all objects, and finds a write to the last of them."""
        for thorough in (False, True):
            report = self.sweep(thorough=thorough)
            self.assertEqual((False, 16), (report.dirty, report.objects))
        self.assertIn(words, self.log.output)
        self.aio.versions[test_sweep._data(15)] = 101
        self.assert_dirty(f'{test_sweep._data(15).decode()} of volumes/vol-1 was written')

    @ddt.data(errors.ClusterError, errors.ClusterTimeout, sweep_process.ProcessLost)
    def test_sweep_does_without_processes_that_cannot_start(
            self, kind: type[errors.ClusterError]) -> None:
        self.patch(Processes, 'cannot_start', kind('no setpriv'))
        self.assert_alone(f'superposition {self.record.id}: cannot start 8 processes, so that the '
                          f'sweep does without them: no setpriv')

    def test_processes_that_cannot_start_are_left_to_other_sweeps(self) -> None:
        self.patch(Processes, 'cannot_start', errors.ClusterError('no setpriv'))
        free = []

        def layer(*_: object) -> None:
            with pace.budget(self.cluster).processes(8, 8) as count:
                free.append(count)
        with mock.patch.object(sweep.Sweeper, '_groups', layer):
            self.sweep()
        self.assertEqual([8], free)

    def test_sweep_is_repeated_without_a_process_that_ends(self) -> None:
        self.patch(Processes, 'failure', sweep_process.ProcessLost('ended with status -9'))
        self.assert_alone(f'superposition {self.record.id}: the sweep is repeated without '
                          f'processes: ended with status -9')

    def test_repeated_sweep_begins_anew(self) -> None:
        # The first run counts four objects, of which one is dirty, before it fails.
        self.aio.versions[test_sweep._data(0)] = 101
        failure = sweep_process.ProcessLost('ended')
        self.patch(Processes, 'failure', failure)
        warning = mock.patch.object(sweep_processes.LOG, 'warning', side_effect=lambda *_:
                                    self.aio.versions.update({test_sweep._data(0): 99}))
        with warning:
            report = self.sweep(thorough=True)
        self.assertEqual((False, None, 16), (report.dirty, report.first, report.objects))

    @ddt.data(errors.ClusterError, errors.ClusterTimeout)
    def test_other_failure_fails_the_sweep(self, kind: type[errors.ClusterError]) -> None:
        self.patch(Processes, 'failure', kind('wrong'))
        for thorough in (False, True):
            error = self.assertRaises(errors.ClusterError, self.sweep, thorough=thorough)
            self.assertEqual((kind, 'wrong'), (type(error), str(error)))
        self.assertEqual('', self.log.output)

# SPDX-License-Identifier: Apache-2.0
"""Processes that stat the objects of a large sweep, each with a RADOS client of its own.

One process sweeps no faster than the one thread of its librados. The sweep hands out batches of
objects, and examines the versions that come back: each verdict is made in one place, however many
processes there are. Processes only save time: a sweep whose processes cannot be started, or one of
which ends, is done without processes. A process that hangs or fails otherwise fails the sweep.
"""

import collections
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
import contextlib
import logging
import queue
import threading
import time
from typing import Any, TypeGuard

import rados

from specreds_cinder.superposition import cluster as ceph
from specreds_cinder.superposition import errors
from specreds_cinder.superposition import objectmap
from specreds_cinder.superposition import pace as pacing
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import settings as tunables
from specreds_cinder.superposition import sweep_process

LOG = logging.getLogger(__name__)

# Batches that are handed out ahead, for each process.
_AHEAD = 2
# Stats in flight that a process has at least.
_LEAST_DEPTH = 128
# Limit of the start of all processes, which takes about a second. A sweep without processes begins
# at once, so that a longer wait would not pay.
_START_S = 10.0
_ENDING = 'sweep-end'
_VERSIONS = 1 << 64


def run(cluster: ceph.Cluster, record: records.Record, settings: tunables.Settings, depth: int,
        work: 'Callable[[Processes | None], None]') -> None:
    """Run a sweep with processes if it is large enough and they can be started, else without them.

    The processes end with the thread that calls this.

    :param depth: stats that the sweep has in flight at a time without processes
    :param work: sweeps all volumes of the record. It is repeated without processes if one of them
        is lost, and must start from the beginning then
    :raises ClusterTimeout: Ceph or a process did not answer in time
    :raises ClusterError: the sweep failed, or a process returned a wrong answer
    """
    try:
        with _started(cluster, record, settings, depth) as processes:
            work(processes)
    except sweep_process.ProcessLost as exc:
        LOG.warning('superposition %s: the sweep is repeated without processes: %s', record.id,
                    exc)
        work(None)


@contextlib.contextmanager
def _started(cluster: ceph.Cluster, record: records.Record, settings: tunables.Settings,
             depth: int) -> 'Iterator[Processes | None]':
    """Start processes that sweep the volumes of a record while the context lasts.

    :returns: None if the objects are too few, if other sweeps have all the processes, or if the
        processes cannot be started
    """
    with contextlib.ExitStack() as stack:
        count = stack.enter_context(pacing.budget(cluster).processes(
            _wanted(cluster, record, settings), settings.most_sweep_processes))
        processes = None
        if count:
            try:
                processes = stack.enter_context(Processes(cluster, count, depth))
            except errors.ClusterError as exc:
                LOG.warning('superposition %s: cannot start %d processes, so that the sweep does '
                            'without them: %s', record.id, count, exc)
                # Other sweeps may have the processes.
                stack.close()
        yield processes


def _wanted(cluster: ceph.Cluster, record: records.Record, settings: tunables.Settings) -> int:
    """Return how many processes should sweep the volumes of a record.

    The object maps are read only if enough objects for two processes may exist.
    """
    possible = sum(-(-volume.size_bytes // volume.object_size) for volume in record.volumes)
    if settings.sweep_processes_for(possible) < 2:
        return 1
    existing = sum(_existing(cluster, volume) for volume in record.volumes)
    return settings.sweep_processes_for(existing)


def _existing(cluster: ceph.Cluster, volume: records.Volume) -> int:
    # The sweep reads the map itself: it finds an image that is gone dirty, and fails if a map does
    # not answer.
    with contextlib.suppress(errors.VolumeGone, errors.ClusterError, rados.Error), \
            cluster.ioctx(volume.pool, volume.namespace) as io, \
            ceph.answering(f'read the object map of {volume.ref}'):
        return objectmap.count(io, volume.image_id)
    return 0


class Processes:
    """The processes of one sweep, which run while the context lasts.

    Each of them has an osdmap at least as new as any that was committed before the context was
    entered.

    :param depth: stats that a sweep without processes has in flight at a time. All processes
        together have twice as many, unless each has the least number
    """

    def __init__(self, cluster: ceph.Cluster, count: int, depth: int) -> None:
        self._cluster = cluster
        self._count = count
        self._depth = depth
        self._processes: list[sweep_process.Process] = []
        self._idle: queue.SimpleQueue[sweep_process.Process] = queue.SimpleQueue()
        self._executor = futures.ThreadPoolExecutor(count, 'sweep')

    def __enter__(self) -> 'Processes':
        """Start the processes.

        :raises ClusterTimeout: the processes were not ready in time
        :raises ClusterError: a process could not be started or connected
        """
        deadline = time.monotonic() + _START_S
        arguments = {'cluster': self._cluster.parameters,
                     'depth': max(_LEAST_DEPTH, 2 * self._depth // self._count)}
        try:
            for _ in range(self._count):
                self._processes.append(sweep_process.Process(arguments))
            ended, late = futures.wait(
                [self._submit(process.ready) for process in self._processes],
                max(0.0, deadline - time.monotonic()), futures.FIRST_EXCEPTION)
            for ready in ended:
                ready.result()
            if late:
                raise errors.ClusterTimeout(f'{len(late)} of {self._count} processes of the sweep '
                                            f'were not ready within {_START_S:g} s')
        except BaseException:
            self._end()
            raise
        for process in self._processes:
            self._idle.put(process)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_exc: object) -> None:
        leaving: list[futures.Future[None]] = []
        if kind is None:
            with contextlib.suppress(sweep_process.ProcessLost):
                leaving = [self._submit(self._leave) for _ in self._processes]
        self._end(leaving)

    def versions(self, volume: records.Volume, batches: Iterable[Sequence[int]]
                 ) -> Iterator[tuple[Sequence[int], list[int]]]:
        """Yield the numbers of each batch of objects and their versions, in the given order.

        :raises ClusterTimeout: an OSD or a process did not answer in time
        :raises sweep_process.ProcessLost: a process has ended
        :raises ClusterError: a stat failed, or a process returned a wrong answer
        """
        pending: collections.deque[tuple[Sequence[int], futures.Future[list[int]]]] = (
            collections.deque())

        def finish() -> tuple[Sequence[int], list[int]]:
            numbers, future = pending.popleft()
            # Each operation has a timeout, and without processes, so many precede the last one in
            # the worst case.
            return numbers, _result(
                future, self._cluster.timeout * (2 + len(numbers) // self._depth))
        try:
            for numbers in batches:
                pending.append((numbers, self._submit(self._stat, volume, numbers)))
                if len(pending) == _AHEAD * self._count:
                    yield finish()
            while pending:
                yield finish()
        finally:
            for _numbers, future in pending:
                future.cancel()

    def _stat(self, volume: records.Volume, numbers: Sequence[int]) -> list[int]:
        # There are as many threads as processes.
        process = self._idle.get()
        try:
            versions = process.ask({
                'pool_id': volume.data_pool_id, 'namespace': volume.namespace,
                'prefix': volume.data_prefix, 'numbers': list(numbers)})
        finally:
            self._idle.put(process)
        if not _are_versions(versions):
            raise errors.ClusterError(
                'a process of the sweep returned something else than a list of versions')
        if len(versions) != len(numbers):
            raise errors.ClusterError(f'a process of the sweep returned {len(versions)} versions '
                                      f'of {len(numbers)} objects')
        return versions

    def _submit(self, work: Callable[..., Any], *arguments: object) -> 'futures.Future[Any]':
        try:
            return self._executor.submit(work, *arguments)
        except RuntimeError as exc:
            raise sweep_process.ProcessLost(
                f'cannot start a thread for a process of the sweep: {exc}') from exc

    def _leave(self) -> None:
        # Each process is let go by one thread, once it has answered.
        self._idle.get().leave()

    def _end(self, leaving: 'Sequence[futures.Future[None]]' = ()) -> None:
        """End the processes in a thread, for which no decision waits.

        :param leaving: ends of processes that end by themselves; none if all are killed at once
        """
        if not leaving:
            self._kill()
        thread = threading.Thread(target=self._finish, args=(leaving,), name=_ENDING)
        try:
            thread.start()
        except RuntimeError:
            self._kill()
            self._finish(())

    def _finish(self, leaving: 'Sequence[futures.Future[None]]') -> None:
        futures.wait(leaving, sweep_process.END_S)
        self._kill()
        # The threads find the pipes closed.
        self._executor.shutdown(cancel_futures=True)
        for process in self._processes:
            process.close()

    def _kill(self) -> None:
        for process in self._processes:
            process.kill()


def wait_ended() -> None:
    """Wait until the processes of all sweeps that are over have ended."""
    for thread in threading.enumerate():
        if thread.name == _ENDING:
            thread.join()


def _are_versions(answer: object) -> TypeGuard[list[int]]:
    """Report whether an answer is a list of numbers of 64 bits."""
    return (isinstance(answer, list) and set(map(type, answer)) <= {int}
            and min(answer, default=0) >= 0 and max(answer, default=0) < _VERSIONS)


def _result(future: 'futures.Future[Any]', limit_s: float) -> Any:
    try:
        return future.result(limit_s)
    except TimeoutError:
        raise errors.ClusterTimeout(
            f'a process of the sweep did not answer within {limit_s:g} s; '
            f'{sweep_process.ADVICE}') from None

# SPDX-License-Identifier: Apache-2.0
"""Processes that stat the objects of a large sweep, each with a RADOS client of its own.

One process sweeps no faster than the one thread of its librados. The sweep hands out batches of
objects, and examines the versions that come back: each verdict is made in one place, however many
processes there are. A process that fails in any way fails the sweep.

Requests and answers are lines of JSON in pipes. A process is started anew, and not forked, since
the threads of librados do not survive a fork.
"""

import collections
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
import contextlib
import functools
import json
import os
import queue
import subprocess
import sys
from typing import Any, TextIO

from specreds_cinder.superposition import cluster as ceph
from specreds_cinder.superposition import errors
from specreds_cinder.superposition import objectmap
from specreds_cinder.superposition import pace as pacing
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import settings as tunables

# A process ends with the thread that has started it, even while it waits for Ceph. -P: no module
# of the current directory is imported.
COMMAND: tuple[str, ...] = (
    'setpriv', '--pdeathsig', 'KILL', sys.executable, '-P', '-m', __name__)
_BUFFER = 1 << 20
# Batches that are handed out ahead, for each process.
_AHEAD = 2
# Only a process that hangs takes so long to start, beside its calls to Ceph.
_START_S = 30.0
_ERRORS = {kind.__name__: kind for kind in (errors.ClusterError, errors.ClusterTimeout)}


@contextlib.contextmanager
def started(cluster: ceph.Cluster, record: records.Record, settings: tunables.Settings,
            depth: int) -> 'Iterator[Processes | None]':
    """Start processes that sweep the volumes of a record while the context lasts.

    The thread that enters the context has to leave it: the processes end with that thread.

    :param depth: stats that each process has in flight at a time
    :returns: None if the objects are too few, or other sweeps have all the processes
    :raises ClusterTimeout: a process did not connect in time
    :raises ClusterError: a process could not be started or connected
    """
    budget = pacing.budget(cluster)
    with budget.processes(_wanted(cluster, record, settings),
                          settings.most_sweep_processes) as count:
        if not count:
            yield None
            return
        with Processes(cluster, count, depth) as processes:
            yield processes


def _wanted(cluster: ceph.Cluster, record: records.Record, settings: tunables.Settings) -> int:
    """Return how many processes should sweep the volumes of a record.

    The object maps are read only if enough objects for two processes may exist.
    """
    layers = sum(layer.objects for volume in record.volumes for layer in volume.layers)
    possible = sum(-(-volume.size_bytes // volume.object_size) for volume in record.volumes)
    if settings.sweep_processes_for(layers + possible) < 2:
        return 1
    existing = sum(_existing(cluster, volume) for volume in record.volumes)
    return settings.sweep_processes_for(layers + existing)


def _existing(cluster: ceph.Cluster, volume: records.Volume) -> int:
    # The sweep finds an image that is gone dirty.
    with contextlib.suppress(errors.VolumeGone), \
            cluster.ioctx(volume.pool, volume.namespace) as io, \
            ceph.answering(f'read the object map of {volume.ref}'):
        return objectmap.count(io, volume.image_id)
    return 0


class Processes:
    """The processes of one sweep, which run while the context lasts.

    Each of them has an osdmap at least as new as any that was committed before the context was
    entered.
    """

    def __init__(self, cluster: ceph.Cluster, count: int, depth: int) -> None:
        self._cluster = cluster
        self._count = count
        self._depth = depth
        self._processes: list[_Process] = []
        self._idle: queue.SimpleQueue[_Process] = queue.SimpleQueue()
        self._executor = futures.ThreadPoolExecutor(count, 'sweep')

    def __enter__(self) -> 'Processes':
        """Start the processes. Raises as :func:`started` does."""
        try:
            for _ in range(self._count):
                self._processes.append(_Process({
                    'cluster': self._cluster.parameters, 'depth': self._depth}))
            limit = _START_S + 2 * self._cluster.timeout
            for ready in [self._executor.submit(process.answer) for process in self._processes]:
                _result(ready, limit)
        except BaseException:
            self._end()
            raise
        for process in self._processes:
            self._idle.put(process)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._end()

    def versions(self, volume: records.Volume, batches: Iterable[Sequence[int]]
                 ) -> Iterator[tuple[Sequence[int], list[int]]]:
        """Yield the numbers of each batch of objects and their versions, in the given order.

        :raises ClusterTimeout: an OSD or a process did not answer in time
        :raises ClusterError: a stat failed, or a process has ended
        """
        pending: collections.deque[tuple[Sequence[int], futures.Future[list[int]]]] = (
            collections.deque())

        def finish() -> tuple[Sequence[int], list[int]]:
            numbers, future = pending.popleft()
            # Each operation has a timeout, and so many precede the last one in the worst case.
            return numbers, _result(
                future, self._cluster.timeout * (2 + len(numbers) // self._depth))
        try:
            for numbers in batches:
                pending.append((numbers, self._executor.submit(self._stat, volume, numbers)))
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
            versions: list[int] = process.ask({
                'pool_id': volume.data_pool_id, 'namespace': volume.namespace,
                'prefix': volume.data_prefix, 'numbers': list(numbers)})
        finally:
            self._idle.put(process)
        if len(versions) != len(numbers):
            raise errors.ClusterError(f'a process of the sweep returned {len(versions)} versions '
                                      f'of {len(numbers)} objects')
        return versions

    def _end(self) -> None:
        for process in self._processes:
            process.kill()
        # The threads find the pipes closed.
        self._executor.shutdown(cancel_futures=True)
        for process in self._processes:
            process.close()


def _result(future: 'futures.Future[Any]', limit_s: float) -> Any:
    try:
        return future.result(limit_s)
    except TimeoutError:
        raise errors.ClusterTimeout(
            f'a process of the sweep did not answer within {limit_s:g} s') from None


class _Process:
    """A process, from the side of the sweep.

    :param arguments: its first request, which it answers once it is ready
    """

    def __init__(self, arguments: object) -> None:
        self._failed = False
        try:
            self._popen = subprocess.Popen(
                COMMAND, bufsize=_BUFFER, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                # A signal of the terminal is for the caller, which ends its processes.
                process_group=0)
        except FileNotFoundError as exc:
            raise errors.ClusterError(f'cannot start a process of the sweep: {exc}; install '
                                      f'util-linux, which has setpriv') from exc
        except OSError as exc:
            raise errors.ClusterError(f'cannot start a process of the sweep: {exc}') from exc
        self._send(arguments)

    def ask(self, request: object) -> Any:
        """Return the answer to a request. Raises as :meth:`answer` does."""
        if self._failed:
            raise errors.ClusterError(f'process {self._popen.pid} of the sweep has failed before')
        # What is left of a failed request must never answer another one.
        self._failed = True
        self._send(request)
        value = self.answer()
        self._failed = False
        return value

    def answer(self) -> Any:
        """Return the next answer.

        :raises ClusterTimeout: Ceph did not answer the process in time
        :raises ClusterError: the process has failed or ended
        """
        assert self._popen.stdout is not None
        line = self._popen.stdout.readline()
        if not line.endswith(b'\n'):
            raise errors.ClusterError(
                f'process {self._popen.pid} of the sweep ended with status {self._popen.wait()}; '
                f'sweep_processes = 1 makes do without processes')
        answer = json.loads(line)
        if 'error' in answer:
            raise _ERRORS[answer['error']](answer['message'])
        return answer['value']

    def kill(self) -> None:
        """Kill the process. May be repeated."""
        self._popen.kill()
        self._popen.wait()

    def close(self) -> None:
        """Close the pipes of a process that was killed."""
        for pipe in (self._popen.stdin, self._popen.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def _send(self, request: object) -> None:
        assert self._popen.stdin is not None
        # The answer of a process that has ended says so.
        with contextlib.suppress(BrokenPipeError):
            self._popen.stdin.write(json.dumps(request).encode() + b'\n')
            self._popen.stdin.flush()


def serve(requests: TextIO, answers: TextIO) -> None:
    """Answer requests until they end: this is what a process of a sweep does."""
    arguments = json.loads(requests.readline())
    cluster = ceph.Cluster(**arguments['cluster'])

    def answer(work: Callable[[], Any]) -> None:
        try:
            message = {'value': work()}
        except errors.ClusterError as exc:
            message = {'error': type(exc).__name__, 'message': str(exc)}
        answers.write(json.dumps(message) + '\n')
        answers.flush()

    def stat(line: str) -> list[int]:
        request = json.loads(line)
        io = cluster.aio.ioctx(request['pool_id'], request['namespace'])
        return io.stat_versions(objectmap.data_names(request['prefix'], request['numbers']),
                                arguments['depth'])
    # A monitor may have connected the client with an osdmap that lacks the fence.
    answer(lambda: cluster.aio.wait_for_latest_osdmap())
    for line in requests:
        answer(functools.partial(stat, line))


def main() -> None:
    """Serve the process that has started this one."""
    with os.fdopen(os.dup(sys.stdout.fileno()), 'w') as answers:
        # Nothing but answers gets into the pipe, whatever librados prints.
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        serve(sys.stdin, answers)
    os._exit(0)


if __name__ == '__main__':
    main()

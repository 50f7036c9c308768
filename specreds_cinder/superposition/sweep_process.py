# SPDX-License-Identifier: Apache-2.0
"""A process of a sweep, from both sides of the pipes.

Requests and answers are lines of JSON. The process is started anew, and not forked, since the
threads of librados do not survive a fork.
"""

from collections.abc import Callable, Mapping
import contextlib
import functools
import json
import os
import subprocess
import sys
from typing import Any, TextIO

from specreds_cinder.superposition import cluster as ceph
from specreds_cinder.superposition import errors
from specreds_cinder.superposition import objectmap

# A process ends with the thread that has started it, even while it waits for Ceph. -P: no module
# of the current directory is imported.
COMMAND: tuple[str, ...] = (
    'setpriv', '--pdeathsig', 'KILL', sys.executable, '-P', '-m', __name__)
# The form of requests and answers. A process has another one if the package was upgraded since the
# program that sweeps was started.
FORM = 1
_BUFFER = 1 << 20
# Limit of the end of a process that is let go.
END_S = 1.0
ADVICE = ('a sweep has no processes with [specreds] sweep_processes = 1 in the cinder.conf of a '
          'volume service, or with --sweep-processes 1 of specreds-super')
_RESTART = 'restart the service if its package was upgraded'
_ERRORS = {kind.__name__: kind for kind in (
    errors.ClusterError, errors.ClusterTimeout, errors.UnreadableObject)}


class ProcessLost(errors.ClusterError):
    """A process of a sweep ended by itself, was killed, or has no thread to serve it."""


class Process:
    """A process, from the side of the sweep.

    :param arguments: what :func:`serve` needs beside the form
    """

    def __init__(self, arguments: Mapping[str, object]) -> None:
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
        self._send({'form': FORM, **arguments})

    def ready(self) -> None:
        """Wait until the process is ready. Raises as :meth:`answer` does."""
        answer = self.answer()
        if answer != {'form': FORM}:
            raise errors.ClusterError(f'process {self._popen.pid} of the sweep answers {answer!r} '
                                      f'instead of form {FORM}; {_RESTART}')

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
        :raises ProcessLost: the process has ended
        :raises ClusterError: the process has failed, or its answer is malformed
        """
        assert self._popen.stdout is not None
        line = self._popen.stdout.readline()
        if not line.endswith(b'\n'):
            raise ProcessLost(f'process {self._popen.pid} of the sweep ended with status '
                              f'{self._popen.wait()}; {ADVICE}')
        try:
            answer = json.loads(line)
            failure = (_ERRORS[answer['error']](answer['message']) if 'error' in answer
                       else None)
            value = None if failure else answer['value']
        except (ValueError, TypeError, KeyError, RecursionError) as exc:
            raise errors.ClusterError(f'process {self._popen.pid} of the sweep returned a '
                                      f'malformed answer: {exc!r}') from exc
        if failure:
            raise failure
        return value

    def leave(self) -> None:
        """Let the process disconnect and end, and wait for that for some time."""
        assert self._popen.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._popen.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(END_S)

    def kill(self) -> None:
        """Kill the process, without waiting for its end. May be repeated."""
        self._popen.kill()

    def close(self) -> None:
        """Wait for the end of a process that was killed, and close its pipes."""
        self._popen.wait()
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
    if arguments.get('form') != FORM:
        _answer(answers, _refuse)
        return
    # librados removes its admin socket when it disconnects.
    with contextlib.closing(ceph.Cluster(**arguments['cluster'])) as cluster:
        _answer(answers, functools.partial(_ready, cluster))
        for line in requests:
            _answer(answers, functools.partial(_stat, cluster, arguments['depth'], line))


def _answer(answers: TextIO, work: Callable[[], Any]) -> None:
    try:
        message = {'value': work()}
    except errors.ClusterError as exc:
        message = {'error': type(exc).__name__, 'message': str(exc)}
    answers.write(json.dumps(message) + '\n')
    answers.flush()


def _refuse() -> None:
    raise errors.ClusterError(f'a process of the sweep knows form {FORM} only; {_RESTART}')


def _ready(cluster: ceph.Cluster) -> dict[str, int]:
    # A monitor may have connected the client with an osdmap that lacks the fence.
    cluster.aio.wait_for_latest_osdmap()
    return {'form': FORM}


def _stat(cluster: ceph.Cluster, depth: int, line: str) -> list[int]:
    request = json.loads(line)
    io = cluster.aio.ioctx(request['pool_id'], request['namespace'])
    return io.stat_versions(objectmap.data_names(request['prefix'], request['numbers']), depth)


def main() -> None:
    """Serve the process that has started this one."""
    with os.fdopen(os.dup(sys.stdout.fileno()), 'w') as answers:
        # Nothing but answers gets into the pipe, whatever librados prints.
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        serve(sys.stdin, answers)
    os._exit(0)


if __name__ == '__main__':
    main()

# SPDX-License-Identifier: Apache-2.0
"""Threads that are started again when they fail; the process ends if they fail too often.

A thread that hangs cannot be started again: it is among the problems, and systemd restarts the
process.
"""

import collections
from collections.abc import Callable
import threading
import time

from oslo_log import log as logging

from specreds_nova import progress
from specreds_nova.engine import exception

LOG = logging.getLogger(__name__)

# Seconds until a thread that has failed is started again.
_AGAIN = 1.0
# Failures within a number of seconds after which the process ends.
_TIMES, _WITHIN = 5, 60.0


class Threads:
    """The threads of a process.

    :param stopping: set when the threads have to end by themselves
    :param give_up: ends the process, which its supervisor starts again
    """

    def __init__(self, stopping: threading.Event, give_up: Callable[[], None]) -> None:
        self._stopping = stopping
        self._give_up = give_up
        self._threads: dict[str, threading.Thread] = {}
        self._failing: dict[str, str] = {}
        self._progress: dict[str, progress.Progress] = {}

    def begin(self, name: str, target: Callable[[], None], patience: float = float('inf')
              ) -> None:
        """Start a thread.

        :param patience: seconds between two calls of :meth:`progress`, after which it hangs
        """
        thread = threading.Thread(target=self._run, args=(name, target), name=name, daemon=True)
        self._threads[name] = thread
        self._progress[name] = progress.Progress(thread, patience)
        self._progress[name].note()
        thread.start()

    def every(self, seconds: float, name: str, look: Callable[[], object],
              patience: float = float('inf')) -> None:
        """Start a thread that takes a look again and again.

        :param seconds: between two looks, and before the first one
        :param look: a service or the database may not answer it: it is repeated then
        :param patience: as for :meth:`begin`
        """
        def run() -> None:
            while not self._stopping.wait(seconds):
                self.progress(name)
                try:
                    look()
                except exception.EngineError as exc:
                    LOG.warning('%s: what is due is done later: %s', name, exc)
        self.begin(name, run, patience)

    def progress(self, name: str) -> None:
        """Note that a thread makes progress."""
        self._progress[name].note()

    def join(self, patience: float) -> None:
        """Wait for the end of all threads.

        :param patience: seconds to wait for each thread
        """
        for thread in self._threads.values():
            thread.join(patience)

    def problems(self) -> list[str]:
        """Return the threads that have failed or hang; none while the process ends."""
        if self._stopping.is_set():
            return []
        stuck = [problem for each in self._progress.values() for problem in each.problems()]
        return stuck + [f'thread {name} has failed: {why}'
                        for name, why in list(self._failing.items())]

    def _run(self, name: str, target: Callable[[], None]) -> None:
        failures: collections.deque[float] = collections.deque(maxlen=_TIMES)
        while not self._stopping.is_set():
            try:
                target()
                return
            except Exception as exc:
                LOG.exception('thread %s has failed, and is started again', name)
                self._failing[name] = str(exc) or type(exc).__name__
            now = time.monotonic()
            failures.append(now)
            if len(failures) == _TIMES and now - failures[0] < _WITHIN:
                LOG.critical('thread %s has failed %d times in %g s: this process ends', name,
                             _TIMES, _WITHIN)
                self._give_up()
                return
            self._stopping.wait(_AGAIN)
            self._failing.pop(name, None)

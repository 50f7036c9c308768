# SPDX-License-Identifier: Apache-2.0
"""Threads that are not missed in silence: begun again when they fail, or the process ends."""

import collections
from collections.abc import Callable
import threading
import time

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

# Seconds until a thread that has failed is begun again.
_AGAIN = 1.0
# So many failures within so many seconds are not mended by another one.
_TIMES, _WITHIN = 5, 60.0


class Threads:
    """The threads of a process.

    :param stopping: set when they are to end, which they see to themselves
    :param give_up: has the process end; whoever supervises it starts it again
    """

    def __init__(self, stopping: threading.Event, give_up: Callable[[], None]) -> None:
        self._stopping = stopping
        self._give_up = give_up
        self._threads: dict[str, threading.Thread] = {}
        self._failing: dict[str, str] = {}

    def begin(self, name: str, target: Callable[[], None]) -> None:
        """Begin one."""
        thread = threading.Thread(target=self._run, args=(name, target), name=name, daemon=True)
        self._threads[name] = thread
        thread.start()

    def join(self, patience: float) -> None:
        """Wait for their end.

        :param patience: seconds, for each
        """
        for thread in self._threads.values():
            thread.join(patience)

    def problems(self) -> list[str]:
        """Return what is wrong with which of them; nothing while the process ends."""
        if self._stopping.is_set():
            return []
        dead = [f'thread {name} has ended' for name, thread in self._threads.items()
                if not thread.is_alive()]
        return dead + [f'thread {name} has failed: {why}'
                       for name, why in list(self._failing.items())]

    def _run(self, name: str, target: Callable[[], None]) -> None:
        failures: collections.deque[float] = collections.deque(maxlen=_TIMES)
        while not self._stopping.is_set():
            try:
                target()
                return
            except Exception as exc:
                LOG.exception('thread %s has failed', name)
                self._failing[name] = str(exc) or type(exc).__name__
            now = time.monotonic()
            failures.append(now)
            if len(failures) == _TIMES and now - failures[0] < _WITHIN:
                LOG.critical('thread %s fails again and again: this process ends', name)
                self._give_up()
                return
            self._stopping.wait(_AGAIN)
            self._failing.pop(name, None)

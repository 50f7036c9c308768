# SPDX-License-Identifier: Apache-2.0
"""Bounded numbers of threads of a volume service, none of which delays its end."""

import collections
from collections.abc import Callable, Iterable
import functools
import threading
from typing import TypeVar

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

_T = TypeVar('_T')

# Seconds after which a thread that gives way looks whether it still should.
_GIVE_WAY_S = 0.1


class Threads:
    """Calls functions in the order in which they come, a few at a time.

    A thread ends when no function waits.

    :param count: number of threads at most
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()
        self._waiting: collections.deque[Callable[[], None]] = collections.deque()
        self._working = 0

    def run(self, function: Callable[[], None]) -> None:
        """Call a function when its turn comes; return at once."""
        with self._lock:
            self._waiting.append(function)
            if self._working >= self._count:
                return
            self._working += 1
        try:
            threading.Thread(target=self._work, daemon=True).start()
        except RuntimeError:
            # The function waits for the next one that comes.
            LOG.exception('cannot start a thread')
            with self._lock:
                self._working -= 1

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._working -= 1
                    return
                function = self._waiting.popleft()
            try:
                _call(function)
            except BaseException:
                # It is not the end of the threads.
                with self._lock:
                    self._working -= 1
                raise


def each(items: Iterable[_T], work: Callable[[_T], None], count: int,
         busy: Callable[[], bool]) -> None:
    """Call a function for each item, in order, and return after the last call has ended.

    :param count: number of calls at a time at most
    :param busy: returns whether only one call at a time should be made now
    """
    rest = iter(items)
    lock, ended = threading.Lock(), threading.Event()

    def call_all(*, first: bool) -> None:
        while True:
            while not first and busy() and not ended.wait(_GIVE_WAY_S):
                pass
            with lock:
                try:
                    item = next(rest)
                except StopIteration:
                    ended.set()
                    return
            _call(functools.partial(work, item))
    others = [threading.Thread(target=call_all, kwargs={'first': False}, daemon=True)
              for _ in range(count - 1)]
    for thread in others:
        thread.start()
    call_all(first=True)
    for thread in others:
        thread.join()


def _call(function: Callable[[], None]) -> None:
    try:
        function()
    except Exception:
        LOG.exception('a step of the superpositions of this back end failed')

# SPDX-License-Identifier: Apache-2.0
"""Reads that several threads share.

All recoveries of a host read its row, often at the same time. A thread that asks while a read is
under way must not get its result, which may be older than the question: it waits for the next one,
with all that ask until that one begins.
"""

from collections.abc import Callable
from concurrent import futures
import threading
from typing import Generic, TypeVar

T = TypeVar('T')


class SharedReads(Generic[T]):
    """Reads by key. May be used by several threads.

    :param read: reads the value of a key
    """

    def __init__(self, read: Callable[[str], T]) -> None:
        self._read = read
        self._lock = threading.Lock()
        # By key: the read that is under way, and that which begins at its end.
        self._under_way: dict[str, futures.Future[T]] = {}
        self._next: dict[str, futures.Future[T]] = {}

    def get(self, key: str) -> T:
        """Return the result of a read that begins after this call, or raise its error."""
        with self._lock:
            before = self._under_way.get(key)
            shared = self._next.get(key)
            if shared is None:
                own = futures.Future[T]()
                (self._under_way if before is None else self._next)[key] = own
        if shared is not None:
            return shared.result()
        if before is not None:
            futures.wait([before])
        try:
            value = self._read(key)
        except BaseException as exc:
            self._end(key)
            own.set_exception(exc)
            raise
        self._end(key)
        own.set_result(value)
        return value

    def _end(self, key: str) -> None:
        """End the read that is under way: later calls do not share the next one."""
        with self._lock:
            if key in self._next:
                self._under_way[key] = self._next.pop(key)
            else:
                del self._under_way[key]

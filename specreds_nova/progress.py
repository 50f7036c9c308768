# SPDX-License-Identifier: Apache-2.0
"""The progress of a thread, which shows a watchdog whether the thread hangs or has ended."""

from collections.abc import Callable
import threading
import time


class Progress:
    """The progress of one thread.

    :param thread: the thread, which ends only with its process
    :param patience: seconds without progress after which the thread hangs
    """

    def __init__(self, thread: threading.Thread, patience: float = float('inf'),
                 monotonic: Callable[[], float] = time.monotonic) -> None:
        self._thread = thread
        self._patience = patience
        self._monotonic = monotonic
        # None while the thread has not begun, or waits for something to do.
        self._at: float | None = None

    def note(self) -> None:
        """Note that the thread makes progress."""
        self._at = self._monotonic()

    def rest(self) -> None:
        """Note that the thread waits for something to do, however long that takes."""
        self._at = None

    def problems(self) -> list[str]:
        """Return what is wrong with the thread; nothing before its start."""
        name, at = self._thread.name, self._at
        if self._thread.ident is None:
            return []
        if not self._thread.is_alive():
            return [f'thread {name} has ended']
        age = 0.0 if at is None else self._monotonic() - at
        return [f'thread {name} has made no progress for {age:.0f} s'] \
            if age > self._patience else []

# SPDX-License-Identifier: Apache-2.0
"""The superposed volumes that a worker sweeps in the background, and those that became dirty."""

import queue
import threading

from specreds_cinder import superposition as sp
from specreds_cinder.superposition.truth import states


class Watches:
    """The watched superpositions, by their ids. Safe to share between threads.

    :param watching: sweep in the background; else nothing is watched
    """

    def __init__(self, protocol: sp.Protocol, *, watching: bool) -> None:
        self._protocol = protocol
        self._watching = watching
        self._watches: dict[str, sp.BackgroundSweep] = {}
        self._dirty: dict[str, str] = {}
        self._dirty_ids: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._lock = threading.Lock()

    def __contains__(self, superposition: str) -> bool:
        """Return whether a superposition is watched."""
        return superposition in self._watches

    def begin(self, record: sp.Record) -> None:
        """Watch a superposition, unless it is decided, watched or dirty already."""
        if not self._watching or record.state != states.SUPERPOSED:
            return

        def note(report: sp.SweepReport) -> None:
            with self._lock:
                # A watch that has ended may find out yet what its last sweep has seen.
                if self._watches.get(record.id) is not watch:
                    return
                self._dirty[record.id] = report.first or ''
            self._dirty_ids.put(record.id)
        with self._lock:
            if record.id in self._watches or record.id in self._dirty:
                return
            watch = self._watches[record.id] = self._protocol.watch(record, note)
            watch.start()

    def end(self, superposition: str) -> None:
        """End the watch of a superposition, if there is one.

        A decision follows, which does not wait for the sweep that is under way.
        """
        with self._lock:
            watch = self._watches.pop(superposition, None)
            self._dirty.pop(superposition, None)
        if watch is not None:
            watch.stop()

    def watched(self) -> set[str]:
        """Return all superpositions that are watched."""
        return set(self._watches)

    def dirty(self, superposition: str) -> str | None:
        """Return what was written to a watched superposition; None if it is clean.

        :returns: an object or another reason
        """
        return self._dirty.get(superposition)

    def next_dirty(self, timeout: float) -> tuple[str, str] | None:
        """Wait for a superposition to become dirty.

        :param timeout: seconds
        :returns: its id, and the object that was written or another reason
        """
        try:
            superposition = self._dirty_ids.get(timeout=timeout)
        except queue.Empty:
            return None
        return superposition, self._dirty.get(superposition, '')

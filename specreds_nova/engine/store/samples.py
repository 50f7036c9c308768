# SPDX-License-Identifier: Apache-2.0
"""Samples that are collected in memory, and written together.

All servers of a kind share a row. While thousands of them recover, transactions of their own would
wait for each other's lock of that row.
"""

from collections.abc import Callable, Mapping, Sequence
import threading

from oslo_log import log as logging

from specreds_nova.engine import exception

LOG = logging.getLogger(__name__)

# Seconds for which a sample is kept in memory; a crash loses what only makes a forecast better.
_PAUSE = 1.0


class Samples:
    """The samples that are not written yet. May be used by several threads.

    :param write: writes samples by server; raises Unreachable if the database does not answer
    """

    def __init__(self, write: Callable[[Mapping[str, Sequence[float]]], object]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._pending: dict[str, list[float]] = {}
        self._timer: threading.Timer | None = None

    def add(self, server: str, seconds: float) -> None:
        """Add a sample of a server, to be written within a second."""
        with self._lock:
            self._pending.setdefault(server, []).append(seconds)
            self._arm()

    def flush(self) -> None:
        """Write all samples.

        :raises exception.Unreachable: the database does not answer, and the samples are kept
        """
        with self._writing:
            with self._lock:
                pending, self._pending = self._pending, {}
            if not pending:
                return
            try:
                self._write(pending)
            except exception.Unreachable:
                with self._lock:
                    for server, newer in self._pending.items():
                        pending.setdefault(server, []).extend(newer)
                    self._pending = pending
                    self._arm()
                raise

    def _arm(self) -> None:
        """Start the timer, unless it runs. The caller holds the lock."""
        if self._timer is None:
            self._timer = threading.Timer(_PAUSE, self._due)
            self._timer.daemon = True
            self._timer.start()

    def _due(self) -> None:
        with self._lock:
            self._timer = None
        try:
            self.flush()
        except exception.Unreachable as exc:
            LOG.warning('durations of backups are written later: %s', exc)

# SPDX-License-Identifier: Apache-2.0
"""Threads that wait for the conditions of backups."""

from collections.abc import Callable
import threading
import time
from typing import Any

from oslo_log import log as logging

from specreds_nova.host.ready import conditions
from specreds_nova.host.ready import probes

LOG = logging.getLogger(__name__)


class ReadinessWatch:
    """Checks a backup until its condition holds, its time is over, or the watch is stopped.

    :param begun: start of the backup, by time.monotonic()
    :param then: called once when the condition holds, by the thread of the watch
    :ivar late: whether its time is over
    """

    def __init__(self, condition: conditions.Condition, probe: probes.Probe,
                 begun: float, then: Callable[[], None] | None = None) -> None:
        self.ready = self.late = False
        self.detail = f'waiting for {condition}'
        self._condition = condition
        self._probe = probe
        self._begun = begun
        self._then = then
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name='specreds-ready')
        self._thread.start()

    def stop(self) -> None:
        """End the watch. May be repeated."""
        self._stopped.set()

    def wait(self, timeout: float) -> bool:
        """Return whether the watch has ended, after at most ``timeout`` seconds."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        deadline = self._begun + self._condition.timeout
        try:
            while not self._stopped.is_set():
                if seen := self._look():
                    self._done(f'{seen}, after {time.monotonic() - self._begun:.1f} s')
                    return
                if time.monotonic() >= deadline:
                    self.detail = (f'not ready within {self._condition.timeout:g} s: '
                                   f'{self._condition} does not hold')
                    self.late = True
                    return
                self._stopped.wait(self._probe.interval)
        finally:
            self._probe.close()

    def _look(self) -> str | None:
        try:
            return self._probe.look()
        except Exception as exc:
            # The next check may succeed; the error must not be lost.
            LOG.warning('cannot check for %s: %s', self._condition, exc)
            self.detail = f'waiting for {self._condition}; the last check failed: {exc}'
            return None

    def _done(self, detail: str) -> None:
        self.detail = detail
        self.ready = True
        if self._then is not None:
            self._then()


def watch(condition: conditions.Condition, guest: Any, box: Any, backup_id: str,
          then: Callable[[], None] | None = None) -> ReadinessWatch:
    """Start to watch a backup.

    :param guest: nova.virt.libvirt.guest.Guest, running
    :param box: the boxes of this host
    :param then: called once when it is ready, by the thread of the watch
    """
    probe = probes.of(condition, guest, box, backup_id)
    return ReadinessWatch(condition, probe, time.monotonic(), then)


def watch_frames(condition: conditions.Condition, guest: Any, box: Any, backup_id: str,
                 then: Callable[[], None]) -> ReadinessWatch:
    """Start to watch a backup for its first frame.

    :param condition: whose time it has
    """
    return ReadinessWatch(condition, probes.FirstFrame(guest, box, backup_id),
                          time.monotonic(), then)

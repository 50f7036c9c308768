# SPDX-License-Identifier: Apache-2.0
"""Something at even intervals, whatever else its process is busy with."""

import sys
from typing import Any

from oslo_log import log as logging

from specreds_nova import progress

LOG = logging.getLogger(__name__)

# Seconds without a beat after which the thread hangs: a beat may ask a service that is away.
_HANGS = 600.0


def green() -> bool:
    """Return whether this process runs on eventlet's threads."""
    eventlet = sys.modules.get('eventlet')
    return eventlet is not None and bool(eventlet.patcher.is_monkey_patched('thread'))


def native(module: str) -> Any:
    """Return a module of the standard library without the patches of eventlet."""
    if green():
        return sys.modules['eventlet'].patcher.original(module)
    return __import__(module)


class Pulse:
    """Calls something at even intervals, in a native thread of its own.

    What cannot be called in time is left out, never made up for. An error ends no thread.

    :param interval: seconds
    """

    def __init__(self, name: str, interval: float) -> None:
        threading = native('threading')
        self._time = native('time')
        self._interval = interval
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._progress = progress.Progress(self._thread, _HANGS, self._time.monotonic)

    def start(self) -> None:
        """Begin, at once."""
        self._thread.start()

    def stop(self, patience: float) -> None:
        """End.

        :param patience: seconds that the last call may still take
        """
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(patience)

    def problems(self) -> list[str]:
        """Return whether the thread has ended or hangs, or each beat fails; not after a stop."""
        return [] if self._stopped.is_set() else self._progress.problems()

    def beat(self) -> None:
        """In the thread, at each interval."""

    def delay(self) -> float:
        """Return the seconds until the next beat, in the thread, after each beat."""
        return self._interval

    def end(self) -> None:
        """In the thread, after the last beat."""

    def _run(self) -> None:
        due = self._time.monotonic()
        self._progress.note()
        failing = False
        while not self._stopped.wait(max(0.0, due - self._time.monotonic())):
            try:
                self.beat()
                due = max(due + self.delay(), self._time.monotonic())
            except Exception:
                if not failing:
                    LOG.exception('%s has failed, and is tried again', self._thread.name)
                failing = True
                due = self._time.monotonic() + self._interval
            else:
                failing = False
                self._progress.note()
        self.end()

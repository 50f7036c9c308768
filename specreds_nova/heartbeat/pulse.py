# SPDX-License-Identifier: Apache-2.0
"""Something at even intervals, whatever else its process is busy with."""

import sys
from typing import Any


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

    What cannot be called in time is left out, never made up for.

    :param interval: seconds
    """

    def __init__(self, name: str, interval: float) -> None:
        threading = native('threading')
        self._time = native('time')
        self._interval = interval
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

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

    def beat(self) -> None:
        """In the thread, at each interval."""

    def delay(self) -> float:
        """Return the seconds until the next beat, in the thread, after each beat."""
        return self._interval

    def end(self) -> None:
        """In the thread, after the last beat."""

    def _run(self) -> None:
        due = self._time.monotonic()
        while not self._stopped.wait(max(0.0, due - self._time.monotonic())):
            self.beat()
            due = max(due + self.delay(), self._time.monotonic())
        self.end()

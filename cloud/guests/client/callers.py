# SPDX-License-Identifier: Apache-2.0
"""Users who come one after the other, connect as most programs do, and wait to be served.

Nothing but the kernel limits how long a user waits for a connection. The kernel repeats a request
without an answer after 1, 3, 7, 15 and more seconds: it may be silent for seconds when the server
is back. After an error, as the reset by a guest that has just booted, a user tries again.
"""

from collections.abc import Callable
import threading

from cloud.guests.client import clock
from cloud.guests.client import database

# Seconds from one user to the next, and from an error to the next try. Each user is a process of
# the database, and a guest may be emulated.
INTERVAL_S, _PAUSE_S = 2.0, 1.0


class Callers:
    """The users.

    :param call: connects and is served, or raises an error
    :param tell: called with each event: `came` or `served`, and the time at which the user came
    """

    def __init__(self, call: Callable[[], None], tell: Callable[[str, object], None],
                 interval_s: float = INTERVAL_S) -> None:
        self._call = call
        self._tell = tell
        self._interval_s = interval_s
        self._lock = threading.Lock()

    def run(self, stop: threading.Event) -> None:
        """Let users come until stopped; those who still wait go unserved."""
        while not stop.is_set():
            came = clock.now()
            self._say('came', came)
            threading.Thread(target=self._serve, args=(came, stop), daemon=True).start()
            stop.wait(self._interval_s)

    def _serve(self, came: float, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                self._call()
            except (OSError, database.Error):
                stop.wait(_PAUSE_S)
            else:
                self._say('served', came)
                return

    def _say(self, event: str, came: float) -> None:
        with self._lock:
            self._tell(event, {'came': came})

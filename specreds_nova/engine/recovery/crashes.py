# SPDX-License-Identifier: Apache-2.0
"""The queue of servers whose domains have crashed; crashes that have to wait are tried again."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import queue
import threading
from typing import Any

from oslo_log import log as logging

from specreds_nova.engine import exception
from specreds_nova.engine import interfaces

LOG = logging.getLogger(__name__)

Why = Sequence[Mapping[str, Any]]
Act = Callable[[str, str, Why], str | None]

# Seconds after which a crash that still has to wait is dropped. A host is not trusted while other
# recoveries of it are under way, which end within this time.
_LONGEST = 900.0
# Share of a crash's age until the next attempt, if it is longer than the interval of attempts.
_SHARE = 0.1


@dataclasses.dataclass
class _Crash:
    host: str
    server: str
    why: Why
    heard: float
    due: float
    held: str | None = None


class Crashes:
    """A thread that acts on crashes, so that no suspicion of a host waits for a single server.

    :param act: acts on one crash, and returns why it has to wait: Dispatcher.crashed
    :param again: seconds between two tries
    """

    def __init__(self, act: Act, clock: interfaces.Clock, again: float = 1.0) -> None:
        self._act = act
        self._clock = clock
        self._again = again
        self._news: queue.Queue[_Crash | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name='crashes', daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, patience: float) -> None:
        """Stop the thread; crashes that wait are dropped."""
        self._news.put(None)
        self._thread.join(patience)

    def tell(self, host: str, server: str, why: Why) -> None:
        """Add the crash of a server. Returns at once."""
        now = self._clock.now()
        self._news.put(_Crash(host, server, why, now, now))

    def _run(self) -> None:
        waiting: list[_Crash] = []
        while True:
            try:
                due = [self._news.get(timeout=self._again if waiting else None)]
            except queue.Empty:
                now = self._clock.now()
                due = [crash for crash in waiting if crash.due <= now]
                waiting = [crash for crash in waiting if crash.due > now]
            for crash in due:
                if crash is None:
                    return
                if self._waits(crash):
                    waiting.append(crash)

    def _waits(self, crash: _Crash) -> bool:
        """Act on a crash, and return whether to try again."""
        try:
            held = self._act(crash.host, crash.server, crash.why)
        except exception.EngineError as exc:
            held = str(exc)
        except Exception:
            LOG.exception('the crash of server %s on %s is dropped', crash.server, crash.host)
            return False
        if held is None:
            return False
        now = self._clock.now()
        age = now - crash.heard
        over, crash.due = age >= _LONGEST, now + max(self._again, _SHARE * age)
        if over or held != crash.held:
            LOG.warning('server %s crashed on %s, and is not restarted%s: %s', crash.server,
                        crash.host, '' if over else ' yet', held)
        crash.held = held
        return not over

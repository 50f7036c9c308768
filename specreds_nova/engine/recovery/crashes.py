# SPDX-License-Identifier: Apache-2.0
"""Servers of which it was heard that their domains have crashed: what cannot be done yet waits."""

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

# Seconds after which it is given up.
_LONGEST = 60.0


@dataclasses.dataclass
class _Crash:
    host: str
    server: str
    why: Why
    until: float
    held: str | None = None


class Crashes:
    """A thread of its own, so that no host waits for what is done about a single server.

    :param act: acts on one, and gives why that is not done yet: Dispatcher.crashed
    :param again: seconds between two tries
    """

    def __init__(self, act: Act, clock: interfaces.Clock, again: float = 1.0) -> None:
        self._act = act
        self._clock = clock
        self._again = again
        self._news: queue.Queue[_Crash | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name='crashes', daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, patience: float) -> None:
        """End; what waits is forgotten."""
        self._news.put(None)
        self._thread.join(patience)

    def tell(self, host: str, server: str, why: Why) -> None:
        """A server has crashed. Returns at once."""
        self._news.put(_Crash(host, server, why, self._clock.now() + _LONGEST))

    def _run(self) -> None:
        waiting: list[_Crash] = []
        while True:
            try:
                found = [self._news.get(timeout=self._again if waiting else None)]
            except queue.Empty:
                found = [*waiting]
                waiting.clear()
            for one in found:
                if one is None:
                    return
                if self._waits(one):
                    waiting.append(one)

    def _waits(self, one: _Crash) -> bool:
        """Try once; tells whether it is to be tried again."""
        try:
            held = self._act(one.host, one.server, one.why)
        except exception.EngineError as exc:
            held = str(exc)
        except Exception:
            LOG.exception('server %s on %s', one.server, one.host)
            return False
        if held is None:
            return False
        over = self._clock.now() >= one.until
        if over or held != one.held:
            LOG.warning('nothing is done %sabout the crash of server %s on %s: %s',
                        '' if over else 'yet ', one.server, one.host, held)
        one.held = held
        return not over

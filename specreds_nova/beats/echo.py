# SPDX-License-Identifier: Apache-2.0
"""Send the engine's own beats, which it receives itself: see :mod:`.listening`."""

from collections.abc import Callable
import math
import threading
from typing import Any

from oslo_log import log as logging

from specreds_nova.beats import listening
from specreds_nova.beats import pulse
from specreds_nova.beats import sender
from specreds_nova.engine.clients import clock as clocks

LOG = logging.getLogger(__name__)

# Seconds after the time at which a late host is to be suspected, to be after it by any clock.
_AFTER = 0.001


# Echoes that may be on their way: as many as are sent in minutes.
_UNDER_WAY = 5000


class Echoed:
    """The echoes that this process has sent and not received. May be used by several threads.

    Whoever can send to the broker can send an echo: only echoes of this process count, each once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent: dict[float, None] = {}

    def add(self, sent: float) -> None:
        """Note an echo that is about to be sent."""
        with self._lock:
            self._sent[sent] = None
            if len(self._sent) > _UNDER_WAY:
                del self._sent[next(iter(self._sent))]

    def take(self, sent: float) -> bool:
        """Return whether an echo is one of this process that was not received before."""
        with self._lock:
            return self._sent.pop(sent, self) is None


class Echo(pulse.Pulse):
    """The thread that sends the engine's own beats.

    :param conf: the global configuration
    :param engine: unique name of this engine
    :param left: returns the seconds until the next late host is to be suspected; infinity for none
    :param echoed: receives the echoes that are sent
    :param interval: seconds between two echoes
    """

    def __init__(self, conf: Any, engine: str, clock: clocks.Clock,
                 left: Callable[[], float] = lambda: math.inf,
                 echoed: Echoed | None = None, interval: float = listening.Settings.echo) -> None:
        super().__init__('specreds-echo', interval)
        self._left = left
        self._echoed = echoed or Echoed()
        self._early = False
        self._engine = engine
        self._clock = clock
        self._sender = sender.Sender(conf)
        self._failing = False

    def beat(self) -> None:
        """Send one."""
        sent = self._clock.now()
        self._echoed.add(sent)
        error = self._sender.send('echo', engine=self._engine, sent=sent)
        if error is not None and not self._failing:
            LOG.warning('the engine cannot send to itself: %s', error)
        self._failing = error is not None

    def delay(self) -> float:
        """Return the seconds until the next one, which comes early for a host that is late.

        The silence of a host lasts until the newest echo. Without a broker no time passes for the
        hosts, so only every other one comes early.
        """
        left = self._left()
        self._early = not self._early and 0.0 < left < self._interval
        return left + _AFTER if self._early else self._interval

    def end(self) -> None:
        """Disconnect."""
        self._sender.close()

# SPDX-License-Identifier: Apache-2.0
"""Send the engine's own beats, which it receives itself: see :mod:`.listening`."""

from collections.abc import Callable
import math
from typing import Any

from oslo_log import log as logging

from specreds_nova.engine import interfaces
from specreds_nova.heartbeat import pulse
from specreds_nova.heartbeat import sender

LOG = logging.getLogger(__name__)

# Seconds after the time at which a late host is to be suspected, to be after it by any clock.
_AFTER = 0.001


class Echo(pulse.Pulse):
    """The thread that sends the engine's own beats.

    :param conf: the global configuration
    :param engine: unique name of this engine
    :param left: returns the seconds until the next late host is to be suspected; infinity for none
    """

    def __init__(self, conf: Any, engine: str, clock: interfaces.Clock,
                 left: Callable[[], float] = lambda: math.inf) -> None:
        super().__init__('specreds-echo', conf.engine.echo_interval)
        self._left = left
        self._early = False
        self._engine = engine
        self._clock = clock
        self._sender = sender.Sender(conf)
        self._failing = False

    def start(self) -> None:
        """Start the thread, unless echoes are disabled."""
        if self._interval:
            super().start()

    def beat(self) -> None:
        """Send one."""
        error = self._sender.send('echo', engine=self._engine, sent=self._clock.now())
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

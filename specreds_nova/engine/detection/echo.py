# SPDX-License-Identifier: Apache-2.0
"""Send the engine's own beats, which it receives itself: see :mod:`.listening`."""

from typing import Any

from oslo_log import log as logging

from specreds_nova.engine import interfaces
from specreds_nova.heartbeat import pulse
from specreds_nova.heartbeat import sender

LOG = logging.getLogger(__name__)


class Echo(pulse.Pulse):
    """The thread that sends the engine's own beats.

    :param conf: the global configuration
    :param engine: unique name of this engine
    """

    def __init__(self, conf: Any, engine: str, clock: interfaces.Clock) -> None:
        super().__init__('specreds-echo', conf.engine.echo_interval)
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

    def end(self) -> None:
        """Disconnect."""
        self._sender.close()

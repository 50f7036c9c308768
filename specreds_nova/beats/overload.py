# SPDX-License-Identifier: Apache-2.0
"""The overload of an engine, which reads messages too late to judge hosts."""

from oslo_log import log as logging

from specreds_nova.engine.clients import clock as clocks

LOG = logging.getLogger(__name__)

# Seconds without an overload after which it has ended.
_OVER = 5.0


class Overload:
    """Logs the beginning and the end of an overload. For use by one thread."""

    def __init__(self, clock: clocks.Clock) -> None:
        self._clock = clock
        self._began = self._latest = 0.0
        self._seconds = 0.0

    def look(self, seconds: float) -> float:
        """Take by how many seconds messages are read late, and return the greatest lateness.

        :param seconds: 0 if messages are read in time
        :returns: the greatest lateness since the overload began; 0 if there is none
        """
        now = self._clock.now()
        if seconds:
            self._latest = now
            if not self._seconds:
                self._began = now
                LOG.warning('the engine is overloaded, or the broker is: it reads messages %.1f s '
                            'late, and suspected hosts are held back', seconds)
            self._seconds = max(seconds, self._seconds)
        elif self._seconds and now - self._latest >= _OVER:
            LOG.warning('the engine reads messages in time again, after %.0f s in which they were '
                        'up to %.1f s late', self._latest - self._began, self._seconds)
            self._seconds = 0.0
        return self._seconds

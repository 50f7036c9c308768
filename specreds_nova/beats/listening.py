# SPDX-License-Identifier: Apache-2.0
"""Whether silence means anything: the engine's link to the broker, and its own pauses.

The engine sends beats of its own, *echoes*, through the broker to itself. A queue keeps its order:
once an echo is back, every message that reached the broker before it has been read. So the silence
of hosts is measured up to the time at which the newest echo was sent, however late the engine
reads. While no echo comes back, no time passes for the hosts.
"""

import dataclasses
import threading


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the engine's own link.

    :ivar echo: seconds between two echoes
    :ivar pause: seconds between two echoes or looks from which the engine may have been deaf
    :ivar outage: seconds of deafness from which hosts may have lost the broker, too
    :ivar settle: seconds for hosts to reconnect after an outage, and after the engine's start
    """

    echo: float = 0.1
    pause: float = 0.3
    outage: float = 1.0
    settle: float = 5.0


class Listening:
    """A clock that runs only while the engine hears. Every method may be called by any thread.

    :param now: when the engine starts, in seconds
    """

    def __init__(self, settings: Settings, now: float) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._horizon = now
        self._skipped = 0.0
        self._settled = now + settings.settle
        self._heard = False
        # When the newest echo was received; None if that is unknown.
        self._received: float | None = None

    def echo(self, sent: float, received: float | None = None) -> float | None:
        """Take an echo.

        :param sent: when it was sent
        :param received: when it was received; None if that does not matter
        :returns: None, or, after a time in which the engine may have been deaf, the time of this
            clock at which all hosts count as heard
        """
        self._heard = True
        self._received = received
        return self._move(sent)

    def at(self, now: float) -> float:
        """Return the time of this clock for a message that arrives now."""
        # Whether later time counts is not known yet.
        return min(now, self._horizon + self._settings.pause) - self._skipped

    def runs(self, now: float) -> bool:
        """Return whether the clock runs, so that gaps between beats are meaningful."""
        return now - self._horizon <= self._settings.pause and self._horizon >= self._settled

    def echoed(self) -> float:
        """Return when the newest echo was sent, by the engine's clock.

        Beats that are read later have reached the broker after this time.
        """
        return self._horizon

    def horizon(self) -> float:
        """Return the time of this clock up to which every message was read."""
        return self._horizon - self._skipped

    def trouble(self, now: float) -> str | None:
        """Return why silence is meaningless now; None if it is meaningful."""
        settings = self._settings
        if not self._heard:
            return 'the engine has not heard its own beats yet'
        behind, late = now - self._horizon, self.lateness(now)
        if late > settings.pause:
            return f'the engine is overloaded: it has read its own beats {late:.1f} s late'
        if behind > settings.pause:
            return f'the engine has not heard its own beats for {behind:.1f} s'
        left = self._settled - self._horizon
        if left > 0:
            return f'the engine hears again, and waits {left:.1f} s for those who lost the ' \
                   f'broker, too'
        return None

    def lateness(self, now: float) -> float:
        """Return by how many seconds messages are read late; 0 without a recent echo.

        An engine that is overloaded hears everything, and late. Without echoes it is deaf.
        """
        if self._received is None or now - self._received > self._settings.outage:
            return 0.0
        return max(0.0, self._received - self._horizon)

    def overload(self, now: float) -> float:
        """Return by how many seconds messages are read late, if that is too late; otherwise 0."""
        late = self.lateness(now)
        return late if late > self._settings.pause else 0.0

    def _move(self, to: float) -> float | None:
        settings = self._settings
        with self._lock:
            passed = to - self._horizon
            if passed <= 0.0:
                return None
            settling = self._horizon < self._settled
            self._horizon = to
            if passed > settings.outage:
                self._settled = to + settings.settle
            if not settling and passed <= settings.pause:
                return None
            # Messages that arrive meanwhile are later than that, too.
            self._skipped += passed
            return self._horizon - self._skipped

# SPDX-License-Identifier: Apache-2.0
"""Whether silence means anything: the engine's own link to the broker, and its own pauses.

The engine sends beats of its own, *echoes*, through the broker to itself. A queue keeps its order:
once an echo is back, all is heard that was with the broker before it. So the silence of hosts is
measured at the moment at which the newest echo was sent, however late the engine is in reading.
While no echo comes back, no time passes for the hosts.
"""

import dataclasses
import threading


@dataclasses.dataclass(frozen=True)
class Settings:
    """When the engine knows that it hears.

    :ivar echo: seconds between two echoes; 0 for none: then the clock itself is trusted
    :ivar pause: seconds between two echoes, or looks, from which on nothing may have been heard
    :ivar outage: seconds of it from which on others may have lost the broker, too
    :ivar settle: seconds that those are given to come back after that, and after the start
    """

    echo: float = 0.1
    pause: float = 0.3
    outage: float = 1.0
    settle: float = 5.0


class Listening:
    """A clock that runs only while the engine hears. It may be asked from any thread.

    :param now: when the engine starts, in seconds
    """

    def __init__(self, settings: Settings, now: float) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._horizon = now
        self._skipped = 0.0
        self._settled = now + settings.settle
        self._heard = not settings.echo

    def echo(self, sent: float) -> float | None:
        """An own beat is back. See :meth:`advance` for what it gives.

        :param sent: when it was sent
        """
        self._heard = True
        return self._move(sent)

    def advance(self, now: float) -> float | None:
        """Let time pass, if there are no echoes.

        :return: None, or, after a time in which nothing may have been heard, the moment of this
            clock up to which all hosts have to be taken as heard at the latest
        """
        return None if self._settings.echo else self._move(now)

    def at(self, now: float) -> float:
        """Give the moment of this clock at which something is that is heard now."""
        # Of what is further ahead it is not known yet whether it counts.
        return min(now, self._horizon + self._settings.pause) - self._skipped

    def runs(self, now: float) -> bool:
        """Tell whether this clock runs, so that gaps between what is heard mean something."""
        return now - self._horizon <= self._settings.pause and self._horizon >= self._settled

    def horizon(self) -> float:
        """Give the moment of this clock up to which all was heard."""
        return self._horizon - self._skipped

    def trouble(self, now: float) -> str | None:
        """Say why silence means nothing now; None if it does."""
        settings = self._settings
        if not self._heard:
            return 'the engine has not heard its own beats yet'
        behind = now - self._horizon
        if behind > settings.pause:
            return f'the engine has not heard its own beats for {behind:.1f} s'
        left = self._settled - self._horizon
        if left > 0:
            return f'the engine hears again, and waits {left:.1f} s for those who lost the ' \
                   f'broker, too'
        return None

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
            # Also what is heard meanwhile is later than that.
            self._skipped += passed
            return self._horizon - self._skipped

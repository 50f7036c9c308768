# SPDX-License-Identifier: Apache-2.0
"""Sends beats to all engines, and forgets those that cannot be sent."""

import time
from typing import Any

from specreds_nova.beats import message
from specreds_nova.beats import rabbit

# Seconds between two attempts while the broker is away: less than engines wait for hosts then.
_AGAIN = 1.0


class Sender:
    """Sends. For one thread, which also has to close it; it never raises.

    :param conf: the global configuration, as oslo.messaging knows all of its options only there
    :param subscription: what is heard beside
    :param broker: URL of the broker; by default ``[DEFAULT] transport_url``
    """

    def __init__(self, conf: Any, subscription: rabbit.Subscription | None = None,
                 broker: str | None = None) -> None:
        self._conf = conf
        self._subscription = subscription
        self._url = broker
        self._bus: rabbit.Publisher | None = None
        self._again = 0.0
        self._error: Exception | None = None

    def send(self, method: str, **arguments: Any) -> Exception | None:
        """Send, and return the error if that failed; an absent broker is not tried each time."""
        now = time.monotonic()
        if self._error is not None and now < self._again:
            return self._error
        try:
            self._bus = self._bus or of(self._conf, self._subscription, self._url)
            self._bus.cast(method, arguments)
        except Exception as exc:
            # Whatever it is that an outage brings up in the libraries beneath. It may be no more
            # than a connection that broke: the next beat finds out.
            self._again = time.monotonic() + (_AGAIN if self._error is not None else 0.0)
            self._error = exc
        else:
            self._error = None
        return self._error

    @property
    def broker(self) -> str:
        """The broker node that the latest message was sent to; empty if that is unknown."""
        return '' if self._bus is None else self._bus.broker

    def close(self) -> None:
        """Disconnect."""
        if self._bus is not None:
            self._bus.close()


def of(conf: Any, subscription: rabbit.Subscription | None = None,
       broker: str | None = None) -> rabbit.Publisher:
    """Return the bus of the configured broker; nothing is sent yet."""
    return rabbit.Publisher(rabbit.Brokers(conf, message.rabbit_url(conf, broker)), subscription)

# SPDX-License-Identifier: Apache-2.0
"""Answers to the heartbeats of trusted hosts: each renews a host's lease on the network.

An answer names the latest beat that was heard, and the host counts its lease from when it sent
that beat, so neither clocks nor messages under way matter. No engine answers a host that it
suspects itself, or that is not trusted in the database. A reading of the database is used for
``FRESH`` seconds only, so no answer is sent to a host later than ``FRESH`` seconds after any
engine has recorded its suspicion.
"""

from collections.abc import Iterable
from typing import Any, Protocol

from oslo_log import log as logging

from specreds_nova.engine import interfaces
from specreds_nova.engine import model
from specreds_nova.engine.detection import leases as all_leases
from specreds_nova.heartbeat import message
from specreds_nova.heartbeat import pulse
from specreds_nova.heartbeat import rabbit

LOG = logging.getLogger(__name__)

# Answers in the time of one lease, of which three may be lost.
_KEPT = 4


class Bus(Protocol):
    """The transport of answers."""

    def send(self, host: str, arguments: dict[str, Any]) -> None:
        """Send an answer to a host, or raise the transport's error."""

    def close(self) -> None:
        """Disconnect."""


class Heard(Protocol):
    """The part of the monitor that the answers need."""

    def answerable(self) -> Iterable[tuple[str, str, int]]:
        """Return host, boot and number of the latest beat of each host that is not suspected."""


class Answers(pulse.Pulse):
    """The thread that answers heartbeats.

    :param bus: the transport; without one, hosts rely on Ceph alone
    :param length: of the lease, in seconds; 0 for none
    """

    def __init__(self, bus: Bus | None, heard: Heard, store: interfaces.Store,
                 clock: interfaces.Clock, leases: all_leases.Leases, length: float) -> None:
        super().__init__('specreds-answers', length / _KEPT)
        self._bus = bus
        self._heard = heard
        self._store = store
        self._clock = clock
        self._leases = leases
        self._last: dict[str, tuple[str, int]] = {}
        self._failing = False

    def start(self) -> None:
        """Start the thread if there is a lease."""
        if self._interval:
            super().start()

    def beat(self) -> None:
        """Answer every host once."""
        try:
            self._answer_all()
        except Exception as exc:
            # An outage raises any error of the libraries; the next answers are newer.
            if not self._failing:
                LOG.warning('heartbeats are not answered: %r', exc)
            self._failing = True
        else:
            self._failing = False

    def end(self) -> None:
        """Disconnect."""
        if self._bus is not None:
            self._bus.close()

    def _answer_all(self) -> None:
        began = self._clock.now()
        hosts = self._store.hosts()
        self._leases.note(hosts, self._clock.now())
        refused = {host.name for host in hosts if host.state != model.TRUSTED}
        for name, boot, number in self._heard.answerable():
            if self._clock.now() - began >= all_leases.FRESH:
                LOG.warning('not all hosts are answered, as that takes too long')
                break
            if name not in refused and self._last.get(name) != (boot, number):
                self._answer(name, boot, number)

    def _answer(self, name: str, boot: str, number: int) -> None:
        if self._bus is not None:
            self._bus.send(name, {'boot': boot, 'number': number})
        self._last[name] = boot, number


def of(conf: Any, heard: Heard, store: interfaces.Store, clock: interfaces.Clock,
       leases: all_leases.Leases) -> Answers:
    """Return the thread that answers heartbeats, for the configured broker.

    :param conf: the global configuration
    """
    url = message.rabbit_url(conf)
    bus = None if url is None else rabbit.Answers(rabbit.Brokers(conf, url))
    return Answers(bus, heard, store, clock, leases, conf.engine.sentinel_network_lease)

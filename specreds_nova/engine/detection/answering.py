# SPDX-License-Identifier: Apache-2.0
"""Answers to the heartbeats of trusted hosts: each renews a host's lease on the network.

An answer names the latest beat that was heard, and the host counts its lease from when it sent
that beat, so neither clocks nor messages under way matter. Engines answer each host that is
trusted in the database, and no other one. A suspicion that an engine has not recorded, such as one
that gates hold back, changes nothing: it begins no recovery, and a host that lives shows its
servers meanwhile. A reading of the database is used for ``FRESH`` seconds only, so no engine
answers a beat that was sent later than ``FRESH`` seconds after any engine has recorded the
suspicion, and the step ``unseen`` waits from that record on.
"""

from collections.abc import Sequence
from typing import Any

from oslo_log import log as logging

from specreds_nova.engine import model
from specreds_nova.engine.clients import clock as clocks
from specreds_nova.engine.db import store as stores
from specreds_nova.engine.detection import leases as all_leases
from specreds_nova.engine.detection import monitor as monitors
from specreds_nova.heartbeat import message
from specreds_nova.heartbeat import pulse
from specreds_nova.heartbeat import rabbit
from specreds_nova.heartbeat import renewals

LOG = logging.getLogger(__name__)

# Answers in the time of one lease, of which three may be lost.
_KEPT = 4
# Answers that are sent together.
_AT_ONCE = 50
_NEVER = None, float('-inf')


class Answers(pulse.Pulse):
    """The thread that answers heartbeats.

    :param bus: the transport
    :param length: of the lease, in seconds
    """

    def __init__(self, bus: rabbit.Answers, heard: monitors.Monitor,
                 store: stores.Store, clock: clocks.Clock, leases: all_leases.Leases,
                 length: float) -> None:
        super().__init__('specreds-answers', length / _KEPT)
        self._bus = bus
        self._heard = heard
        self._store = store
        self._clock = clock
        self._leases = leases
        # By host: boot and number of the beat that was answered last, and when.
        self._last: dict[str, tuple[tuple[str, int], float]] = {}
        self._failing = False

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
        self._bus.close()

    def _answer_all(self) -> None:
        began = self._clock.now()
        refusing = [host for host in self._store.notable_hosts() if host.state != model.TRUSTED]
        self._leases.note_all(refusing, self._clock.now())
        refused = {host.name for host in refusing}
        due = [(name, (boot, number)) for name, boot, number in self._heard.answerable()
               if name not in refused
               and self._last.get(name, _NEVER)[0] != (boot, number)]
        # If time is short, other hosts miss an answer than at the last look.
        due.sort(key=lambda answer: self._last.get(answer[0], _NEVER)[1])
        for first in range(0, len(due), _AT_ONCE):
            if self._clock.now() - began >= all_leases.FRESH:
                LOG.warning('not all hosts are answered, as that takes too long')
                break
            self._answer(due[first:first + _AT_ONCE])

    def _answer(self, answers: Sequence[tuple[str, tuple[str, int]]]) -> None:
        self._bus.send_all([(name, {'boot': boot, 'number': number})
                            for name, (boot, number) in answers])
        now = self._clock.now()
        self._last.update((name, (answered, now)) for name, answered in answers)


def of(conf: Any, heard: monitors.Monitor, store: stores.Store, clock: clocks.Clock,
       leases: all_leases.Leases) -> Answers:
    """Return the thread that answers heartbeats, for the configured broker.

    :param conf: the global configuration
    """
    bus = rabbit.Answers(rabbit.Brokers(conf, message.rabbit_url(conf)))
    return Answers(bus, heard, store, clock, leases, renewals.LEASE_S)

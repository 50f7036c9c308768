# SPDX-License-Identifier: Apache-2.0
"""Answers to the heartbeats of trusted hosts: each renews a host's lease on the network.

An answer names the latest beat that was heard, and the host counts its lease from when it sent
that beat, so neither clocks nor messages under way matter. Engines answer each host that is
trusted in the database, and no other one. A suspicion that an engine has not recorded, such as one
that gates hold back, changes nothing: it begins no recovery, and a host that lives shows its
servers meanwhile. A reading of the database is used for ``FRESH`` seconds only, so no engine
answers a beat that was sent later than ``FRESH`` seconds after any engine has recorded the
suspicion, and the step ``unseen`` waits from that record on. The same holds for beats of sentinels
by UDP. What an engine answers to these meanwhile, so that they have a nonce, renews no lease.

An answer also says whether the host is to hide its servers when it hears nobody: only where the
mode is to act. Engines promote nobody on a host that may not do so. So before the first answer
that says otherwise, an engine records the host as one that shows its servers, unless the host is
suspected by then (``engine/suspicion/sentinels.py`` has the way back). Beats are taken before the
modes are read: what an answer says by a former mode concerns a beat from before the change.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from oslo_log import log as logging

from specreds_nova.beats import message
from specreds_nova.beats import pulse
from specreds_nova.beats import rabbit
from specreds_nova.beats import renewals
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine import modes as all_modes
from specreds_nova.engine.clients import clock as clocks
from specreds_nova.engine.store import store as stores
from specreds_nova.engine.suspicion import leases as all_leases
from specreds_nova.engine.suspicion import monitor as monitors

LOG = logging.getLogger(__name__)

# Answers in the time of one lease, of which three may be lost.
_KEPT = 4
# Answers that are sent together.
_AT_ONCE = 50
_NEVER = None, float('-inf')
# Seconds between two looks after which a host may count as one that hides its servers, although
# this engine has told it otherwise before.
_UNSEEN_S = 5.0


class _Due(NamedTuple):
    """A beat that is to be answered.

    :ivar boot: of a nova-compute; in bytes, of a sentinel that is heard by UDP
    """

    host: str
    boot: str | bytes
    number: int
    hides: bool = True

    @property
    def sender(self) -> tuple[str, bool]:
        """The host, and whether its sentinel has sent the beat."""
        return self.host, isinstance(self.boot, bytes)


class Voices(Protocol):
    """The sentinels that are heard by UDP."""

    def answerable(self) -> list[tuple[str, bytes, int]]:
        """Return host, boot and number of the latest sign of life of each sentinel."""

    def renew(self, host: str, boot: bytes, number: int, hides: bool) -> None:
        """Renew the lease of a host by an answer to its sentinel."""

    def address(self) -> str:
        """Return where this engine hears sentinels; empty if it does not."""


class NoVoices:
    """An engine that hears no sentinel."""

    def answerable(self) -> list[tuple[str, bytes, int]]:
        """Return nothing."""
        return []

    def renew(self, host: str, boot: bytes, number: int, hides: bool) -> None:
        """Do nothing."""

    def address(self) -> str:
        """Return nothing."""
        return ''


class Answers(pulse.Pulse):
    """The thread that answers heartbeats.

    :param bus: the transport
    :param length: of the lease, in seconds
    :param voices: the sentinels that are heard by UDP
    :param engine: name of this engine
    """

    def __init__(self, bus: rabbit.Answers, heard: monitors.Monitor,
                 store: stores.Store, clock: clocks.Clock, leases: all_leases.Leases,
                 length: float, modes: all_modes.Modes, voices: Voices | None = None,
                 engine: str = '') -> None:
        super().__init__('specreds-answers', length / _KEPT)
        self._bus = bus
        self._heard = heard
        self._store = store
        self._clock = clock
        self._leases = leases
        self._voices = voices or NoVoices()
        self._engine = engine
        # By sender: boot and number of the beat that was answered last, and when.
        self._last: dict[tuple[str, bool], tuple[tuple[str | bytes, int], float]] = {}
        # The hosts that were told to hide no server at the latest look, and when that was.
        self._shown: frozenset[str] = frozenset()
        self._looked = float('-inf')
        # By host: which of its servers it protects.
        self.protects: Mapping[str, str] = {}
        self._modes = modes
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
        beats = [*(_Due(*beat) for beat in self._voices.answerable()),
                 *(_Due(*beat) for beat in self._heard.answerable())]
        refusing = [host for host in self._store.notable_hosts() if host.state != model.TRUSTED]
        self._leases.note_all(refusing, self._clock.now())
        refused = {host.name for host in refusing}
        due = self._instructed([
            beat for beat in beats if beat.host not in refused
            and self._last.get(beat.sender, _NEVER)[0] != (beat.boot, beat.number)])
        # If time is short, other hosts miss an answer than at the last look.
        due.sort(key=lambda answer: self._last.get(answer.sender, _NEVER)[1])
        for first in range(0, len(due), _AT_ONCE):
            if self._clock.now() - began >= all_leases.FRESH:
                LOG.warning('not all hosts are answered, as that takes too long')
                break
            self._answer(due[first:first + _AT_ONCE])

    def _instructed(self, due: Sequence[_Due]) -> list[_Due]:
        """Return the answers with what each says of hiding.

        Those to hosts are left out whose mode is unknown, or that are recorded otherwise: what was
        said before goes on.

        :raises exception.Unreachable: the database does not answer
        """
        self._modes.known()
        answers = []
        for answer in due:
            try:
                hides = self._modes.of(answer.host) == model.ACT
            except exception.Unreachable:
                continue
            answers.append(answer if hides else answer._replace(hides=False))
        shown = frozenset(answer.host for answer in answers if not answer.hides)
        recorded = self._recorded(shown) if shown else shown
        self._shown = shown & recorded
        return [answer for answer in answers if answer.hides or answer.host in recorded]

    def _recorded(self, shown: Collection[str]) -> frozenset[str]:
        """Record hosts that are about to show their servers; return those that are recorded.

        :raises exception.Unreachable: the database does not answer
        """
        now = self._clock.now()
        before = self._shown if now - self._looked < _UNSEEN_S else frozenset()
        self._looked = now
        known = frozenset(self._store.showing())
        if new := [host for host in shown if host not in before & known]:
            self._store.show(sorted(new))
            known = frozenset(self._store.showing())
        return known.intersection(shown)

    def _answer(self, answers: Sequence[_Due]) -> None:
        # Datagrams do not wait for a broker that is away.
        by_broker = []
        for answer in answers:
            if isinstance(answer.boot, bytes):
                self._voices.renew(answer.host, answer.boot, answer.number, answer.hides)
                self._note(answer)
            else:
                by_broker.append(answer)
        if not by_broker:
            return
        where = self._where()
        self._bus.send_all([(answer.host, {'boot': answer.boot, 'number': answer.number,
                                           'hides': answer.hides, **where,
                                           **self._protects(answer.host)})
                            for answer in by_broker])
        for answer in by_broker:
            self._note(answer)

    def _note(self, answer: _Due) -> None:
        self._last[answer.sender] = (answer.boot, answer.number), self._clock.now()

    def _protects(self, host: str) -> dict[str, str]:
        """Return which of its servers a host protects; empty while that is unknown."""
        word = self.protects.get(host)
        return {} if word is None else {'protects': word}

    def _where(self) -> dict[str, str]:
        """Return where this engine hears sentinels; empty if it does not."""
        address = self._voices.address()
        return {'engine': self._engine, 'voice': address} if address else {}


def of(conf: Any, heard: monitors.Monitor, store: stores.Store, clock: clocks.Clock,
       leases: all_leases.Leases, modes: all_modes.Modes, voices: Voices | None = None) -> Answers:
    """Return the thread that answers heartbeats, for the configured broker.

    :param conf: the global configuration
    """
    bus = rabbit.Answers(rabbit.Brokers(conf, message.rabbit_url(conf)))
    return Answers(bus, heard, store, clock, leases, renewals.LEASE_S, modes, voices,
                   conf.engine.name)

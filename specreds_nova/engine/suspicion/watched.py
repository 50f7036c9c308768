# SPDX-License-Identifier: Apache-2.0
"""The state of one watched host: its own beats, and evidence of others."""

import collections
from collections.abc import Mapping
import dataclasses
from typing import Any

from specreds_nova.beats import message
from specreds_nova.beats import senders
from specreds_nova.engine import model
from specreds_nova.engine.suspicion import accrual
from specreds_nova.engine.suspicion import evidence

# Beats closer together than this share of the interval were delayed, and may come from a host
# that has died since.
_HELD_UP = 0.25
# Seconds for which the report of one crash can be heard, with those that a beat may be late.
_HEARD = message.REPEATED + 2.0


@dataclasses.dataclass(frozen=True)
class View:
    """A snapshot of a host as this engine sees it.

    :ivar heard: when its latest beat was heard, by the engine's clock; None for never
    :ivar well: the same for the latest beat before a suspicion
    :ivar sent_after: a time after which the latest beat has reached the broker; None for never
    :ivar silence: seconds of listening since then
    :ivar phi: how suspicious that silence is
    :ivar patience: seconds of silence after which it is suspected
    :ivar suspected: whether it is suspected, ``since`` when by the engine's clock
    :ivar why: the evidence: kind, words, at
    :ivar leaving: it said goodbye, and its silence is still expected
    :ivar word: an operator's word: ``suspect``, ``clear`` or None
    :ivar flaps: number of recent wrong suspicions
    :ivar voice: the state of its sentinel's voice; None if that was never heard
    :ivar speaks: its nova-compute is silent, and its sentinel says that the host is well
    :ivar spoke: when its sentinel was heard last, by the engine's clock; None for never
    """

    host: str
    heard: float | None
    silence: float
    phi: float
    patience: float
    suspected: bool
    since: float | None
    why: tuple[Mapping[str, Any], ...]
    leaving: bool
    word: str | None
    flaps: int
    libvirt_age: float | None
    storage_age: float | None
    well: float | None = None
    sent_after: float | None = None
    voice: str | None = None
    speaks: bool = False
    spoke: float | None = None


class Watched:
    """A watched host. Not thread-safe.

    Times ``at`` are by the listening clock, times ``now`` by the clock of the world.

    :param interval: seconds between its beats, unless it reports another value
    """

    __slots__ = ('accrual', 'beat', 'boot', 'booted', 'broker', 'calm', 'crashed', 'domains',
                 'doubted', 'flaps', 'gone', 'goodbye', 'goodbye_at', 'heard', 'interval',
                 'kernel', 'leaving', 'listing_kernel', 'lost', 'name', 'notable', 'noted',
                 'number', 'places', 'rebooted', 'reported', 'restarted', 'senders', 'sent_after',
                 'silent_since', 'since', 'started', 'suspected', 'suspected_boot',
                 'suspected_kernel', 'times', 'well', 'why', 'word', 'word_reason')

    def __init__(self, name: str, settings: accrual.Settings, at: float, interval: float) -> None:
        self.name = name
        self.interval = interval
        self.accrual = accrual.Accrual(settings, at, interval)
        self.beat: message.Beat | None = None
        self.senders = senders.Senders()
        self.boot: str | None = None
        self.number = -1
        self.heard: float | None = None
        # Beats wait in the broker while the engine does not read.
        self.sent_after: float | None = None
        self.well: float | None = None
        # Number of consecutive beats that were about on time.
        self.calm = 0
        # Whether the watcher knows of its silence.
        self.doubted = False
        # Whether there is evidence beside silence.
        self.notable = False
        self.noted: dict[str, evidence.Evidence] = {}
        self.word: str | None = None
        self.word_reason = ''
        self.suspected = False
        # Since when it was silent then, by the listening clock.
        self.silent_since = 0.0
        self.suspected_boot: str | None = None
        self.since: float | None = None
        self.why: tuple[Mapping[str, Any], ...] = ()
        self.flaps: collections.deque[float] = collections.deque(maxlen=100)
        self.crashed: frozenset[str] = frozenset()
        # By crashed server: how often its latest beat reports its crash.
        self.times: Mapping[str, int] = {}
        # Likewise: when that was heard first, by the engine's clock.
        self.reported: Mapping[str, float] = {}
        # Those of the crashed servers whose domains do not run, and those whose domains run again.
        self.gone: frozenset[str] = frozenset()
        self.restarted: frozenset[str] = frozenset()
        # The latest list of the domains that run: its digest, and their UUIDs.
        self.domains: tuple[str, frozenset[str]] = ('', frozenset())
        # Domains that ran before the host lost power, until it lists the domains that run.
        self.lost: frozenset[str] = frozenset()
        # Whether others may be lost as well: it has booted, and has not listed its domains since.
        self.rebooted = False
        # Kind and time of its goodbye if it was not heard since, and whether its silence is still
        # expected.
        self.goodbye: str | None = None
        self.goodbye_at: float | None = None
        self.leaving = False
        # Time of the first beat of this nova-compute, by the engine's clock.
        self.started = 0.0
        # The kernel that ran when the host was suspected last, and at its latest list of domains.
        self.suspected_kernel = self.listing_kernel = ''
        # The boot up to which all servers are known that boots have ended.
        self.kernel: str | None = None
        # Time of its boot by its own report, by the engine's clock.
        self.booted: float | None = None
        # The broker node that it is connected to, and its availability zone and aggregates: none
        # if Nova does not list it, and None before Nova has answered.
        self.broker = ''
        self.places: tuple[str, ...] | None = None

    def hear(self, beat: message.Beat, at: float, now: float, learn: bool) -> str | None:
        """Take a beat, and return why it does not count; None if it does.

        :param learn: whether the gap before this beat is meaningful
        :returns: a reason of ``beats.rejections``; empty for a beat that is only old
        """
        # Without a call for a usual beat.
        latest = self.beat
        if latest is not None and (beat.number - self.number != 1 or beat.boot != self.boot
                                   or beat.interval != self.interval):
            refusal = self.senders.refusal(beat, latest, now - (self.heard or 0.0), now)
            if refusal is not None:
                return refusal
        if beat.boot != self.boot:
            if latest is not None and self.senders.replace(latest.boot, beat.boot):
                # Another sender has had the host's name meanwhile.
                self.lost, self.rebooted = frozenset(), False
            else:
                self._booted(beat)
            self.boot = beat.boot
            self.accrual.begin(at, beat.interval)
            self.crashed, self.times, self.reported = frozenset(), {}, {}
            self.calm = 0
            self.started = now
            # Evidence about the previous nova-compute does not concern this one.
            self.noted.pop(evidence.NOVA, None)
        else:
            if at >= self.accrual.deadline:
                self.calm = 0
            elif now - (self.heard or 0.0) >= _HELD_UP * beat.interval:
                self.calm += 1
            if learn:
                self.accrual.heard(at, beat.interval)
            else:
                self.accrual.pretend(at)
        self.number = beat.number
        self.interval = beat.interval
        self.beat = beat
        self.heard = now
        self.leaving = beat.leaving
        self.goodbye = (beat.goodbye or message.SERVICE) if beat.leaving else None
        self.goodbye_at = now if beat.leaving else None
        if beat.domains is not None:
            self.domains = beat.running, frozenset(beat.domains)
            self.listing_kernel = beat.kernel
        if beat.uptime is not None:
            self.booted = now - beat.uptime
            self.broker = beat.broker
        if not self.suspected:
            self.well = now
        self.doubted = False
        return None

    def _booted(self, beat: message.Beat) -> None:
        """Note the domains that a host has lost by a boot.

        A host that was shut down in good order, and is back within its grace, has stopped its
        servers as its operator wanted, unless it was suspected.
        """
        before = self.kernel if self.beat is None else self.beat.kernel
        if self.beat is None and self.kernel is None:
            # The engine records it with the host.
            self.kernel = beat.kernel
        if not before or before == beat.kernel:
            return
        in_order = (self.leaving and self.goodbye == message.SYSTEM) and not self.suspected
        self.lost = frozenset() if in_order else self.lost | self.domains[1]
        self.rebooted = not in_order

    def ended(self, beat: message.Beat) -> list[tuple[str, bool]]:
        """Return the servers that a beat reports as crashed for the first time.

        The domains that a power failure of the host has ended are among them, and
        ``model.ANY_SERVER``, as the list from before it may be old.

        :returns: each server, and whether a boot of the host has ended it
        """
        times, now = collections.Counter(beat.ended), self.heard or 0.0
        crashed = [server for server in times
                   if times[server] > self.times.get(server, 0) or self._crashed_again(server)
                   or now - self.reported.get(server, now) > _HEARD]
        lost: list[str] = []
        # A crash that is no longer reported is over: the next crash of the server is a new one.
        self.crashed, self.times = frozenset(times), times
        self.reported = {server: now if server in crashed else self.reported[server]
                         for server in times}
        listed = self.listed()
        if listed is not None:
            self.restarted = ((self.restarted | self.gone) & self.crashed).intersection(listed)
            self.gone = self.crashed.difference(listed)
            lost += sorted(self.lost.difference(listed, beat.ended))
            lost += [model.ANY_SERVER] if self.rebooted else []
            self.lost, self.rebooted = frozenset(), False
        return [*((server, False) for server in crashed), *((server, True) for server in lost)]

    def _crashed_again(self, server: str) -> bool:
        """Return whether a server that ran again after a crash does not run once more.

        The host may still report the earlier crash.
        """
        listed = self.listed()
        return server in self.restarted and listed is not None and server not in listed

    def runs(self, server: str) -> bool | None:
        """Return whether a server's domain runs here by the latest beat; None if unknown.

        A host that does not report its domains counts as running all of them.
        """
        beat = self.beat
        if beat is None or not beat.kernel:
            return True
        digest, domains = self.domains
        if beat.running and beat.running == digest:
            return server in domains
        # The host has rebooted, so the domain is gone unless a list names it. After a list, Nova
        # may have started the domain, and then have restarted.
        return False if self.suspected_kernel not in ('', beat.kernel) \
            and self.listing_kernel != beat.kernel else None

    def listed(self) -> tuple[str, ...] | None:
        """Return the servers whose domains run here by the latest beat; None if unknown."""
        digest, domains = self.domains
        if self.beat is None or not digest or self.beat.running != digest:
            return None
        return tuple(sorted(domains))

    def troubled_since(self) -> float:
        """Return the time since which the host is silent."""
        return self.accrual.last

    def view(self, at: float, recent: float) -> View:
        """Return a snapshot of the host.

        :param recent: time by the engine's clock from which wrong suspicions count
        """
        beat = self.beat
        return View(
            host=self.name, heard=self.heard, silence=max(0.0, at - self.accrual.last),
            phi=0.0 if self.leaving else self.accrual.phi(at),
            patience=self.accrual.deadline - self.accrual.last,
            suspected=self.suspected, since=self.since, why=self.why, leaving=self.leaving,
            word=self.word, flaps=self.flapped(recent),
            libvirt_age=beat.libvirt_age if beat else None,
            storage_age=beat.storage_age if beat else None, well=self.well,
            sent_after=self.sent_after)

    def flapped(self, since: float) -> int:
        """Return the number of wrong suspicions since a time."""
        return sum(moment >= since for moment in self.flaps)

# SPDX-License-Identifier: Apache-2.0
"""What is known of one host: what it said, and what others say of it."""

import collections
from collections.abc import Mapping
import dataclasses
from typing import Any

from specreds_nova.engine.detection import accrual
from specreds_nova.engine.detection import evidence
from specreds_nova.heartbeat import message

# Beats that come closer together than this share of the interval were held up on their way, and
# may be of a host that has died since.
_HELD_UP = 0.25


@dataclasses.dataclass(frozen=True)
class View:
    """A host as this engine sees it at a moment.

    :ivar heard: when its latest beat was heard, in seconds since the epoch; None for never
    :ivar well: the same of the latest one while it was not suspected
    :ivar silence: seconds of listening since then
    :ivar phi: how suspicious that is
    :ivar patience: seconds of silence after which it is suspected
    :ivar suspected: whether it is, and ``since`` when, in seconds since the epoch
    :ivar why: the evidence: kind, words, at
    :ivar leaving: it said goodbye, and its silence means nothing yet
    :ivar word: what an operator said: ``suspect``, ``clear`` or None
    :ivar flaps: how often it was wrongly suspected lately
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


class Watched:
    """A host. Not for use by several threads at once.

    Moments ``at`` are those of the listening clock, ``now`` those of the world.

    :param interval: seconds between its beats, unless it says otherwise
    """

    __slots__ = ('accrual', 'beat', 'boot', 'calm', 'crashed', 'domains', 'doubted', 'flaps',
                 'goodbye', 'goodbye_at', 'heard', 'interval', 'leaving', 'name', 'notable',
                 'noted', 'number', 'since', 'started', 'suspected', 'suspected_boot',
                 'suspected_kernel', 'well', 'why', 'word', 'word_reason')

    def __init__(self, name: str, settings: accrual.Settings, at: float, interval: float) -> None:
        self.name = name
        self.interval = interval
        self.accrual = accrual.Accrual(settings, at, interval)
        self.beat: message.Beat | None = None
        self.boot: str | None = None
        self.number = -1
        self.heard: float | None = None
        self.well: float | None = None
        # How many beats in a row came about when they should.
        self.calm = 0
        # Whether it was told that it is silent.
        self.doubted = False
        # Whether there is something to be weighed beside silence.
        self.notable = False
        self.noted: dict[str, evidence.Evidence] = {}
        self.word: str | None = None
        self.word_reason = ''
        self.suspected = False
        self.suspected_boot: str | None = None
        self.since: float | None = None
        self.why: tuple[Mapping[str, Any], ...] = ()
        self.flaps: collections.deque[float] = collections.deque(maxlen=100)
        self.crashed: frozenset[str] = frozenset()
        # The latest list of the domains that run: its digest, and their UUIDs.
        self.domains: tuple[str, frozenset[str]] = ('', frozenset())
        # The kind of its goodbye and when it was said, if it was not heard since; and whether its
        # silence means nothing yet.
        self.goodbye: str | None = None
        self.goodbye_at: float | None = None
        self.leaving = False
        # When this nova-compute was heard for the first time, in seconds since the epoch.
        self.started = 0.0
        # The kernel that ran when the host was suspected last.
        self.suspected_kernel = ''

    def hear(self, beat: message.Beat, at: float, now: float, learn: bool) -> bool:
        """Take a beat; False if it is an old one.

        :param learn: whether the time since the one before means anything
        """
        if beat.boot != self.boot:
            self.boot = beat.boot
            self.accrual.begin(at, beat.interval)
            self.crashed = frozenset()
            self.calm = 0
            self.started = now
            # What was said of the nova-compute that has ended says nothing of this one.
            self.noted.pop(evidence.NOVA, None)
        elif beat.number <= self.number:
            return False
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
        if not self.suspected:
            self.well = now
        self.doubted = False
        return True

    def ended(self, beat: message.Beat) -> list[str]:
        """Give the servers of a beat of which nobody has heard yet that they crashed."""
        new = [server for server in beat.ended if server not in self.crashed]
        # What is not told any more is over: the next crash of the server is another one.
        self.crashed = frozenset(beat.ended)
        return new

    def runs(self, server: str) -> bool | None:
        """Return whether a server's domain runs here, by the latest beat; None if it is not known.

        A host that does not say what runs on it is believed to run everything.
        """
        beat = self.beat
        if beat is None or not beat.kernel:
            return True
        digest, domains = self.domains
        if beat.running and beat.running == digest:
            return server in domains
        # The kernel under which it ran is gone, and its domain with it, unless a list says more.
        return False if self.suspected_kernel not in ('', beat.kernel) else None

    def troubled_since(self) -> float:
        """Give the moment since which it is silent."""
        return self.accrual.last

    def view(self, at: float, recent: float) -> View:
        """Give it as it is at a moment.

        :param recent: wrong suspicions of before that do not count, in seconds since the epoch
        """
        beat = self.beat
        return View(
            host=self.name, heard=self.heard, silence=max(0.0, at - self.accrual.last),
            phi=0.0 if self.leaving else self.accrual.phi(at),
            patience=self.accrual.deadline - self.accrual.last,
            suspected=self.suspected, since=self.since, why=self.why, leaving=self.leaving,
            word=self.word, flaps=self.flapped(recent),
            libvirt_age=beat.libvirt_age if beat else None,
            storage_age=beat.storage_age if beat else None, well=self.well)

    def flapped(self, since: float) -> int:
        """Give how often it was wrongly suspected since a moment."""
        return sum(moment >= since for moment in self.flaps)

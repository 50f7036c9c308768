# SPDX-License-Identifier: Apache-2.0
"""What the other hosts say about a silent host: who fell silent with it, and who has just booted.

Hosts of one broker node, availability zone or aggregate that fall silent together may have lost a
switch or a broker rather than their lives. Hosts that have just booted say that the site lost its
power: the ones that are still silent may be booting, too.
"""

import collections
from collections.abc import Callable, Hashable, Iterable, Mapping
import dataclasses
from typing import Any

from specreds_nova.engine.suspicion import watched

# Longest time in seconds for which a host counts as silent that has returned: librbd and the OSDs
# find each other again in less.
RETURNED_S = 15.0


@dataclasses.dataclass(frozen=True)
class Group:
    """Hosts that have a cause of silence in common.

    :ivar name: what they have in common, in words
    :ivar silent: how many of them fell silent at about the same time
    :ivar known: how many of them there are, without those that were silent long before
    """

    name: str
    silent: int
    known: int


@dataclasses.dataclass(frozen=True)
class Returned:
    """A host that was suspected, and is heard again.

    :ivar since: when it fell silent, by the listening clock
    :ivar suspected: when it was suspected, by the engine's clock
    :ivar until: when it was heard again
    :ivar stalled: its beats came all the time, and reported a stall
    """

    name: str
    since: float
    suspected: float
    until: float
    stalled: bool

    def counts(self, now: float) -> bool:
        """Return whether hosts that fell silent with it may be about to return as well.

        After a stall of Ceph or a network they return one after the other.
        """
        return now - self.until < min(self.until - self.suspected, RETURNED_S)


@dataclasses.dataclass(frozen=True)
class Overview:
    """All hosts at one moment, without those that said goodbye.

    :ivar heard: those that are heard
    :ivar troubled: the others
    :ivar returned: those that are heard, and were not a moment ago
    :ivar labels: what hosts that are heard have in common, with the number of those hosts
    :ivar booted: boots of hosts that are heard, with their times by the engine's clock
    :ivar own_broker: broker node through which this engine hears itself: it works
    """

    heard: frozenset[str]
    troubled: tuple[watched.Watched, ...]
    returned: tuple[Returned, ...]
    labels: Mapping[str, int]
    booted: Mapping[str, float]
    own_broker: str
    # Thousands of hosts may be silent, and each of them asks about the others.
    _known: dict[Hashable, Any] = dataclasses.field(default_factory=dict, compare=False)

    def silence(self, since: float, within: float) -> frozenset[str]:
        """Return the hosts that fell silent at about a time; others did long before, or later.

        :param within: seconds around that time
        """
        return self._silent(since, within, since + within)

    def silent(self, since: float, within: float) -> tuple[frozenset[str], int]:
        """Return the hosts that fell silent at about a time or later: they are silent as well.

        So are hosts that fell silent at about that time, and have just returned.

        :param within: seconds around that time
        :returns: these hosts, and the number of all hosts that matter
        """
        silent = self._silent(since, within, float('inf'))
        known = len(silent) + len(self.heard)
        if not self.returned:
            return silent, known
        first = round(since - within, 1)
        both: frozenset[str] | None = self._known.get(first)
        if both is None:
            both = self._known[first] = silent.union(
                host.name for host in self.returned if abs(host.since - since) <= within)
        return both, known

    def _silent(self, since: float, within: float, until: float) -> frozenset[str]:
        first, until = round(since - within, 1), round(until, 1)
        silent: frozenset[str] | None = self._known.get((first, until))
        if silent is None:
            silent = self._known[first, until] = frozenset(
                host.name for host in self.troubled
                if first <= round(host.troubled_since(), 1) <= until)
        return silent

    def _counted(self, silent: frozenset[str]) -> Mapping[str, int]:
        """Return what silent hosts have in common, with the number of those hosts."""
        counted: Mapping[str, int] | None = self._known.get(silent)
        if counted is None:
            counted = self._known[silent] = collections.Counter(
                label for host in self.troubled if host.name in silent
                for label in _labels(host, self.own_broker))
        return counted

    def groups(self, host: watched.Watched, silent: frozenset[str]) -> tuple[Group, ...]:
        """Return the groups of a host, without those that all hosts are in.

        :param silent: the hosts that fell silent with it
        """
        # A host may be heard although an operator suspects it.
        heard, among = host.name in self.heard, host.name in silent
        labels = self._counted(silent)
        count, groups = len(self.heard) - heard + len(silent) - among + 1, []
        for label in _labels(host, self.own_broker):
            members = 1 + labels.get(label, 0) - among
            known = members + self.labels.get(label, 0) - heard
            if known != count:
                groups.append(Group(label, members, known))
        return tuple(groups)

    def powered_up(self, host: watched.Watched | None, now: float, grace: float) -> float | None:
        """Return for how long a host may still be booting after its site was powered up.

        That is so if most of the hosts that are heard have booted since this one was heard last.

        :param now: by the engine's clock
        :param grace: seconds that a host has for that
        :returns: seconds; None if the site was not powered up lately
        """
        last = float('-inf') if host is None or host.heard is None else host.heard
        own = '' if host is None else host.name
        boots = sorted((booted for name, booted in self.booted.items()
                        if name != own and booted > last and now - booted < grace), reverse=True)
        majority = (len(self.heard) - (own in self.heard)) // 2 + 1
        if len(boots) < majority:
            return None
        # The majority is there until the earliest of its boots is too long ago.
        return boots[majority - 1] + grace - now


def overview(hosts: Iterable[watched.Watched], in_trouble: Callable[[watched.Watched], bool],
             returned: Iterable[Returned], own_broker: str, now: float, grace: float,
             excused: Callable[[watched.Watched], bool] = lambda host: host.leaving) -> Overview:
    """Return all hosts at this moment.

    :param in_trouble: returns whether a host does not count as heard
    :param returned: hosts that were suspected until lately
    :param now: by the engine's clock
    :param grace: seconds for which the boot of a host matters
    :param excused: returns whether the silence of a host is expected
    """
    heard: list[watched.Watched] = []
    troubled: list[watched.Watched] = []
    for host in hosts:
        if not excused(host):
            (troubled if in_trouble(host) else heard).append(host)
    labels = collections.Counter(
        label for host in heard for label in _labels(host, own_broker))
    booted = {host.name: host.booted for host in heard
              if host.booted is not None and now - host.booted < grace}
    return Overview(frozenset(host.name for host in heard), tuple(troubled),
                    tuple(host for host in returned if host.counts(now)), labels, booted,
                    own_broker)


def _labels(host: watched.Watched, own_broker: str) -> tuple[str, ...]:
    if host.broker and own_broker and host.broker != own_broker:
        return (f'broker node {host.broker}', *(host.places or ()))
    return host.places or ()

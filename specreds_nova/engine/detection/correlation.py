# SPDX-License-Identifier: Apache-2.0
"""What the other hosts say about a silent host: who fell silent with it, and who has just booted.

Hosts of one broker node, availability zone or aggregate that fall silent together may have lost a
switch or a broker rather than their lives. Hosts that have just booted say that the site lost its
power: the ones that are still silent may be booting, too.
"""

import collections
from collections.abc import Callable, Collection, Iterable, Mapping
import dataclasses

from specreds_nova.engine.detection import watched


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
class Overview:
    """All hosts at one moment, without those that said goodbye.

    :ivar heard: those that are heard
    :ivar troubled: the others
    :ivar labels: what hosts that are heard have in common, with the number of those hosts
    :ivar booted: boots of hosts that are heard, with their times in seconds since the epoch
    :ivar own_broker: broker node through which this engine hears itself: it works
    """

    heard: frozenset[str]
    troubled: tuple[watched.Watched, ...]
    labels: Mapping[str, int]
    booted: Mapping[str, float]
    own_broker: str

    def silence(self, since: float, within: float) -> frozenset[str]:
        """Return the hosts that fell silent at about a time; others did long before.

        :param within: seconds around that time
        """
        return frozenset(host.name for host in self.troubled
                         if abs(host.troubled_since() - since) <= within)

    def groups(self, host: watched.Watched, silent: Collection[str]) -> tuple[Group, ...]:
        """Return the groups of a host, without those that all hosts are in.

        :param silent: the hosts that fell silent with it
        """
        with_it = [other for other in self.troubled
                   if other.name in silent and other is not host]
        # A host may be heard although an operator suspects it.
        heard = self.heard - {host.name}
        count, groups = len(heard) + len(with_it) + 1, []
        for label in _labels(host, self.own_broker):
            members = 1 + sum(label in _labels(other, self.own_broker) for other in with_it)
            known = members + self.labels.get(label, 0) - (host.name in self.heard)
            if known != count:
                groups.append(Group(label, members, known))
        return tuple(groups)

    def powered_up(self, host: watched.Watched | None, now: float, grace: float) -> float | None:
        """Return for how long a host may still be booting after its site was powered up.

        That is so if most of the hosts that are heard have booted since this one was heard last.

        :param now: in seconds since the epoch
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


def overview(hosts: Iterable[watched.Watched], doubtful: Callable[[watched.Watched], bool],
             own_broker: str, now: float, grace: float) -> Overview:
    """Return all hosts at this moment.

    :param doubtful: returns whether a host may be suspected soon
    :param now: in seconds since the epoch
    :param grace: seconds for which the boot of a host matters
    """
    heard: list[watched.Watched] = []
    troubled: list[watched.Watched] = []
    for host in hosts:
        if not host.leaving:
            (troubled if host.suspected or doubtful(host) else heard).append(host)
    labels = collections.Counter(
        label for host in heard for label in _labels(host, own_broker))
    booted = {host.name: host.booted for host in heard
              if host.booted is not None and now - host.booted < grace}
    return Overview(frozenset(host.name for host in heard), tuple(troubled), labels, booted,
                    own_broker)


def _labels(host: watched.Watched, own_broker: str) -> tuple[str, ...]:
    if host.broker and own_broker and host.broker != own_broker:
        return (f'broker node {host.broker}', *host.places)
    return host.places

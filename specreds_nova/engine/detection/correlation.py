# SPDX-License-Identifier: Apache-2.0
"""What the other hosts say about a silent host: who fell silent with it, and who has just booted.

Hosts of one broker node, availability zone or aggregate that fall silent together may have lost a
switch or a broker rather than their lives. Hosts that have just booted say that the site lost its
power: the ones that are still silent may be booting, too.
"""

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
class Silence:
    """The hosts at the time at which one of them fell silent.

    :ivar silent: those that fell silent at about that time
    :ivar heard: those that are heard
    """

    silent: frozenset[str]
    heard: frozenset[str]

    def groups(self, host: watched.Watched, hosts: Mapping[str, watched.Watched],
               own_broker: str) -> tuple[Group, ...]:
        """Return the groups of a host, without those that all hosts are in.

        :param hosts: all hosts, by name
        :param own_broker: broker node through which this engine hears itself: it works
        """
        names = self.silent | self.heard | {host.name}
        groups = []
        for label in _labels(host, own_broker):
            members = {name for name in names if label in _labels(hosts[name], own_broker)}
            if members != names:
                groups.append(Group(label, len(members & (self.silent | {host.name})),
                                    len(members)))
        return tuple(groups)


def silence(hosts: Iterable[watched.Watched], since: float, within: float,
            doubtful: Callable[[watched.Watched], bool]) -> Silence:
    """Return the hosts that fell silent at about a time, and those that are heard.

    A host that fell silent long before is left out of both, and so is one that said goodbye.

    :param within: seconds around that time
    :param doubtful: returns whether a host may be suspected soon
    """
    silent, heard = set(), set()
    for host in hosts:
        if host.leaving:
            continue
        if not host.suspected and not doubtful(host):
            heard.add(host.name)
        elif abs(host.troubled_since() - since) <= within:
            silent.add(host.name)
    return Silence(frozenset(silent), frozenset(heard))


def powered_up(host: watched.Watched | None, others: Collection[watched.Watched], now: float,
               grace: float) -> float | None:
    """Return for how long a host may still be booting after its site was powered up.

    That is so if most of the hosts that are heard have booted since this one was heard last.

    :param others: the hosts that are heard
    :param now: in seconds since the epoch
    :param grace: seconds that a host has for that
    :returns: seconds; None if the site was not powered up lately
    """
    last = float('-inf') if host is None or host.heard is None else host.heard
    boots = sorted((other.booted for other in others
                    if other.booted is not None and other.booted > last
                    and now - other.booted < grace), reverse=True)
    majority = len(others) // 2 + 1
    if len(boots) < majority:
        return None
    # The majority is there until the earliest of its boots is too long ago.
    return boots[majority - 1] + grace - now


def _labels(host: watched.Watched, own_broker: str) -> tuple[str, ...]:
    if host.broker and own_broker and host.broker != own_broker:
        return (f'broker node {host.broker}', *host.places)
    return host.places

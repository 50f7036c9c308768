# SPDX-License-Identifier: Apache-2.0
"""Gates: reasons not to act on a suspected host.

Each gate returns its reason as text, or None if it is open. Gates open by themselves, so a host
that is held back has to be checked again for as long as it is suspected::

    gates = conf.host_gates(CONF.engine)
    reasons = gates.reasons(monitor.facts(host, nova.service(host)))
"""

from collections.abc import Iterable, Mapping
import dataclasses
from typing import Any, Protocol

from specreds_nova.engine import model
from specreds_nova.engine.suspicion import correlation


@dataclasses.dataclass(frozen=True)
class Facts:
    """What gates look at.

    :ivar host: its name
    :ivar trouble: reason why the engine may be deaf; None if it hears
    :ivar known: number of hosts that did not say goodbye, and were heard when the host was
    :ivar silent: those hosts that are suspected, or about to be, or have just returned
    :ivar word: an operator said that the host has failed
    :ivar flaps: number of recent wrong suspicions
    :ivar service: of nova-compute, as ``Compute.service`` returns it; empty if
        Nova does not answer
    :ivar mode: its mode
    :ivar silence: seconds of listening without a beat of the host, or for which the host has
        reported for too long that Ceph or libvirt does not answer
    :ivar hearing: the other engines that hear the host
    :ivar groups: what the host has in common with some of the other hosts
    :ivar powered_up: seconds for which the host may still be booting after its site was powered up
    :ivar sentinel: the state of the host's sentinel; None if that is unknown or does not matter
    :ivar shows: engines may have told its sentinel to hide no server
    :ivar reported: seconds after its latest beat at which its nova-compute has reported to Nova
    :ivar unheard: seconds since the start of this engine, which has not heard the host; None if it
        has, or if a goodbye is recorded
    :ivar speaks: its nova-compute is silent, and its sentinel says that the host is well
    """

    host: str
    trouble: str | None = None
    known: int = 1
    silent: frozenset[str] = frozenset()
    word: bool = False
    flaps: int = 0
    service: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    mode: str = model.ACT
    silence: float = 0.0
    hearing: tuple[str, ...] = ()
    groups: tuple[correlation.Group, ...] = ()
    powered_up: float | None = None
    sentinel: str | None = None
    shows: bool = False
    reported: float = 0.0
    unheard: float | None = None
    speaks: bool = False


class Gate(Protocol):
    """One reason not to act."""

    def reason(self, facts: Facts) -> str | None:
        """Return the reason; None if the gate is open."""


# Smallest number of silent hosts to which a share applies: one may always have failed.
SEVERAL = 2
# Seconds of silence after which hosts are believed to have failed that fell silent together: they
# connect to another broker node, and the network finds another way, in less.
CORRELATED_S = 5.0
# Seconds of silence after which a host is taken for dead that was wrongly suspected too often.
# From 30 s on (osd_client_watch_timeout), Ceph has forgotten the clients of guests that have
# written nothing, and of multi-attach volumes: they cannot be fenced.
FLAPPING_S = 15.0
# Seconds after the latest beat from which a report to Nova was sent later: Nova's conductor may
# have noted an earlier one late. Seconds of such reports after which no beats are to be expected.
REPORTED_S, UNPLUGGED_S = 15.0, 300.0


class Link:
    """The engine itself is deaf. An operator's word does not depend on that."""

    def reason(self, facts: Facts) -> str | None:
        """Return the engine's trouble."""
        return None if facts.word else facts.trouble


class TooMany:
    """So many hosts are silent at once that the network or the broker is a likelier cause.

    :param share: of all hosts; more are too many
    """

    def __init__(self, share: float) -> None:
        self._share = share

    def reason(self, facts: Facts) -> str | None:
        """Return how many hosts are silent."""
        silent, known = len(facts.silent), max(facts.known, 1)
        if silent >= SEVERAL and silent > self._share * known:
            return f'{silent} of {known} hosts are silent: more than {self._share:.0%} are too ' \
                   f'many to have failed at once'
        return None


class Hearing:
    """Another engine hears the host: this engine's link is at fault.

    An operator's word about the failure of the host takes precedence.
    """

    def reason(self, facts: Facts) -> str | None:
        """Return the engines that hear the host."""
        if facts.word or not facts.hearing:
            return None
        return f'{", ".join(facts.hearing)} hears {facts.host}: a host has failed only if no ' \
               f'engine hears it'


class Correlated:
    """Most hosts with something in common fell silent together: it may be that which has failed.

    An operator's word takes precedence.

    :param share: of the hosts that have something in common; more are too many
    """

    def __init__(self, share: float) -> None:
        self._share = share

    def reason(self, facts: Facts) -> str | None:
        """Return what the silent hosts have in common."""
        if facts.word or facts.silence >= CORRELATED_S:
            return None
        for group in facts.groups:
            if group.silent >= SEVERAL and group.silent > self._share * group.known:
                return f'{group.silent} of {group.known} hosts of {group.name} fell silent ' \
                       f'together: they have {CORRELATED_S:g} s to be heard again'
        return None


class PowerUp:
    """The site was powered up: the host may still be booting.

    An operator's word takes precedence.
    """

    def reason(self, facts: Facts) -> str | None:
        """Return for how long the host may be booting."""
        if facts.word or facts.powered_up is None:
            return None
        return f'most hosts have booted since {facts.host} was heard last: it has ' \
               f'{facts.powered_up:.0f} s more to boot'


class Mode:
    """The mode of the host is not to act. An operator's word does not change that."""

    def reason(self, facts: Facts) -> str | None:
        """Return the mode."""
        if facts.mode == model.ACT:
            return None
        return observing(facts.host) if facts.mode == model.OBSERVE else \
            f'the mode of {facts.host} is {facts.mode}'


def observing(host: str) -> str:
    """Return the reason for which a host is only observed."""
    return f'the mode of {host} is {model.OBSERVE}'


class Disabled:
    """The host is disabled or forced down in Nova. An operator's word takes precedence."""

    def reason(self, facts: Facts) -> str | None:
        """Return the state of the service in Nova."""
        if facts.word:
            return None
        if not facts.service.get('enabled', True):
            return f'nova-compute of {facts.host} is disabled: it is taken to be in maintenance'
        if facts.service.get('forced_down', False):
            return f'Nova was told that {facts.host} is down: it is being evacuated already'
        return None


class Reporting:
    """Nova-compute reports to Nova, and sends no beats: the host works, without the plug-in.

    The plug-in was removed, or its heartbeat was disabled, or an upgrade of Nova has not ended. If
    such a nova-compute stops, nothing tells an upgrade from a death of the host. An operator's
    word takes precedence.
    """

    def reason(self, facts: Facts) -> str | None:
        """Return since when Nova alone hears the host, and what an operator can do."""
        if facts.word:
            return None
        if facts.reported < REPORTED_S:
            return self._unheard(facts)
        heard = (f'nova-compute of {facts.host} has reported to Nova until {facts.reported:.0f} s '
                 f'after its latest heartbeat')
        if facts.reported >= UNPLUGGED_S:
            return f'{heard}, so its servers are not protected: enable the heartbeat there, or ' \
                   f'suspect the host if it has failed'
        if facts.service.get('up', False):
            return f'{heard}: the host has failed only if Nova takes it for down'
        return None

    @staticmethod
    def _unheard(facts: Facts) -> str | None:
        """Return why an engine that has just started waits for the next reports of a host.

        It does not know when the host was heard last, so that one report proves little.
        """
        if facts.unheard is None or not facts.service.get('up', False):
            return None
        if facts.unheard >= (2 * REPORTED_S if facts.reported > 0.0 else REPORTED_S):
            return None
        return f'this engine has started {facts.unheard:.0f} s ago and has not heard ' \
               f'{facts.host}, which Nova takes for up: it waits for the next reports to Nova'


class Speaking:
    """The machine lives by the word of its sentinel, and so do its servers.

    An operator's word takes precedence.
    """

    def reason(self, facts: Facts) -> str | None:
        """Return what an operator has to look at."""
        if facts.word or not facts.speaks:
            return None
        return f'the sentinel of {facts.host} is heard, although nova-compute does not answer ' \
               f'there: its servers run on, so start nova-compute'


class Flapping:
    """The host was wrongly suspected too often. An operator's word takes precedence.

    :param count: number of wrong suspicions that is too many; 0 for no limit
    """

    def __init__(self, count: int) -> None:
        self._count = count

    def reason(self, facts: Facts) -> str | None:
        """Return the number of wrong suspicions."""
        if facts.word or not self._count or facts.flaps < self._count:
            return None
        if facts.silence >= FLAPPING_S:
            return None
        return f'{facts.host} was wrongly suspected {facts.flaps} times lately: its own link ' \
               f'needs to be looked at'


class Unleased:
    """The sentinel of the host does not hide each server of it when it hears nobody.

    It has never heard an engine, or cannot read the records of some servers, or engines that did
    not act on the host have told it to hide none. No wait makes sure that tenants do not see the
    servers beside their backups. An operator's word takes precedence.
    """

    def reason(self, facts: Facts) -> str | None:
        """Return what an operator has to do."""
        if facts.word:
            return None
        if facts.shows and facts.mode == model.ACT:
            return f'{facts.host} hid no server while its mode was not to act, and has not ' \
                   f'confirmed yet that it hides them again: that takes half a minute from the ' \
                   f'change of the mode on; make sure that the host is off, and suspect it'
        if facts.sentinel != model.UNLEASED:
            return None
        return f'the sentinel of {facts.host} has never heard an engine, or cannot read the ' \
               f'records of its servers in Ceph, so that tenants may still see them: make sure ' \
               f'that the host is off, and suspect it'


class Gates:
    """All gates of hosts.

    :param gates: in the order in which their reasons are given
    """

    def __init__(self, gates: Iterable[Gate]) -> None:
        self._gates = tuple(gates)

    def reasons(self, facts: Facts) -> list[str]:
        """Return the reasons of the shut gates; none if the engine may act."""
        reasons = (gate.reason(facts) for gate in self._gates)
        return [reason for reason in reasons if reason is not None]

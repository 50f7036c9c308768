# SPDX-License-Identifier: Apache-2.0
"""Why nothing is to be done about a host, although it is suspected.

Each gate gives its reason as text, or None if it is open. A host that a gate has held up is to be
asked about again for as long as it is suspected: gates open by themselves::

    gates = conf.host_gates(CONF.engine)
    reasons = gates.reasons(monitor.facts(host, nova.service(host)))
"""

from collections.abc import Iterable, Mapping
import dataclasses
from typing import Any, Protocol


@dataclasses.dataclass(frozen=True)
class Facts:
    """What gates look at.

    :ivar host: its name
    :ivar trouble: why the engine may not hear at all; None if it does
    :ivar known: how many hosts there are: heard of, and not gone in good order
    :ivar silent: which of them are suspected, or about to be
    :ivar word: an operator said that the host has failed
    :ivar flaps: how often it was wrongly suspected lately
    :ivar service: of nova-compute, as :meth:`.interfaces.Compute.service` returns it; empty if
        Nova does not answer
    :ivar maintenance: why an operator works on the host; None if nobody does
    :ivar silence: seconds for which the engine has listened and not heard the host
    """

    host: str
    trouble: str | None = None
    known: int = 1
    silent: frozenset[str] = frozenset()
    word: bool = False
    flaps: int = 0
    service: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    maintenance: str | None = None
    silence: float = 0.0


class Gate(Protocol):
    """One reason to do nothing."""

    def reason(self, facts: Facts) -> str | None:
        """Give it; None if the gate is open."""


class Link:
    """The engine itself does not hear. An operator's word does not depend on that."""

    def reason(self, facts: Facts) -> str | None:
        """Give the engine's trouble."""
        return None if facts.word else facts.trouble


class TooMany:
    """So many hosts at once that it is rather the network or the broker, or worse.

    :param share: of all hosts; more are too many
    :param count: from how many silent hosts on that applies
    :param absolute: this many are too many in any case; 0 for no such number
    """

    def __init__(self, share: float, count: int, absolute: int = 0) -> None:
        self._share = share
        self._count = count
        self._absolute = absolute

    def reason(self, facts: Facts) -> str | None:
        """Give how many hosts are silent."""
        silent, known = len(facts.silent), max(facts.known, 1)
        if self._absolute and silent >= self._absolute:
            return f'{silent} of {known} hosts are silent: {self._absolute} are too many to ' \
                   f'have failed at once'
        if silent >= self._count and silent > self._share * known:
            return f'{silent} of {known} hosts are silent: more than {self._share:.0%} are too ' \
                   f'many to have failed at once'
        return None


class Maintenance:
    """An operator said that somebody works on the host. A word about its failure goes first."""

    def reason(self, facts: Facts) -> str | None:
        """Return why it is being worked on."""
        if facts.word or facts.maintenance is None:
            return None
        return f'{facts.host} is in maintenance: {facts.maintenance}'


class Disabled:
    """Somebody is at work on the host, or has declared it down. An operator's word goes first.

    :param disabled: whether hosts whose service is disabled are looked after nevertheless
    :param forced_down: the same of hosts that were forced down
    """

    def __init__(self, disabled: bool, forced_down: bool) -> None:
        self._disabled = disabled
        self._forced_down = forced_down

    def reason(self, facts: Facts) -> str | None:
        """Give what Nova says of the service."""
        if facts.word:
            return None
        if not self._disabled and not facts.service.get('enabled', True):
            return f'nova-compute of {facts.host} is disabled: it is taken to be in maintenance'
        if not self._forced_down and facts.service.get('forced_down', False):
            return f'Nova was told that {facts.host} is down: it is being evacuated already'
        return None


class Flapping:
    """The host was suspected too often and lived. An operator's word goes first.

    :param count: how often is too often; 0 for never
    :param patience: seconds of silence after which the host has failed, however often it lived
    """

    def __init__(self, count: int, patience: float = float('inf')) -> None:
        self._count = count
        self._patience = patience

    def reason(self, facts: Facts) -> str | None:
        """Give how often."""
        if facts.word or not self._count or facts.flaps < self._count:
            return None
        if facts.silence >= self._patience:
            return None
        return f'{facts.host} was wrongly suspected {facts.flaps} times lately: its own link ' \
               f'needs to be looked at'


class Gates:
    """All gates of hosts.

    :param gates: in the order in which their reasons are given
    """

    def __init__(self, gates: Iterable[Gate]) -> None:
        self._gates = tuple(gates)

    def reasons(self, facts: Facts) -> list[str]:
        """Give the reasons of the gates that are shut; none if something may be done."""
        found = (gate.reason(facts) for gate in self._gates)
        return [reason for reason in found if reason is not None]

# SPDX-License-Identifier: Apache-2.0
"""The rules of single servers, for hosts and engine: whether they are recovered, and when.

Rules are extra specs of the server's flavor, metadata of its host's aggregates, and metadata of
the server. The first place with a rule counts, in this order: so operators go before tenants. Of
several aggregates the rule with the least consequence counts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
import functools
from typing import Any, NamedTuple

from oslo_utils import strutils

PROTECT = 'specreds:protect'
PRIORITY = 'specreds:priority'
EVACUATE_AFTER = 'specreds:evacuate_after'
NOT_BEFORE = 'specreds:not_before'

# The first key that a place has counts. Masakari's users set HA_Enabled.
METADATA_KEYS = (PROTECT, 'HA_Enabled')

# What engines tell a host about its servers, by the rules of its aggregates or else by default:
# servers with a rule of their flavor aside, it protects all, none, those that do not opt out, or
# those that opt in.
ALL, NONE, OPT_OUT, OPT_IN = 'all', 'none', 'opt-out', 'opt-in'
# The file below Nova's state in which a host keeps that.
FILE = 'specreds/protects'

# The largest priority, and the limits of times, in seconds.
HIGHEST = 1000
EVACUATE_LIMITS = 10.0, 86400.0
NOT_BEFORE_LIMITS = 0.0, 3600.0


class Rule(NamedTuple):
    """A rule.

    :ivar entry: the property, as KEY=VALUE
    :ivar place: where it stands, in words
    """

    value: float
    entry: str
    place: str
    by_tenant: bool


def _flag(text: str) -> float:
    return bool(strutils.bool_from_string(text, default=False))


def _priority(text: str) -> float:
    return max(-HIGHEST, min(HIGHEST, int(text)))


def _seconds(limits: tuple[float, float], text: str) -> float:
    """Return a number of seconds.

    :raises ValueError: it is none, or beyond the limits
    """
    if not limits[0] <= float(text) <= limits[1]:
        raise ValueError(text)
    return float(text)


# By rule: how its text is read, and which of several values has the least consequence.
_KINDS: Mapping[str, tuple[Callable[[str], float], Callable[..., Rule]]] = {
    PROTECT: (_flag, min), PRIORITY: (_priority, min),
    EVACUATE_AFTER: (functools.partial(_seconds, EVACUATE_LIMITS), max),
    NOT_BEFORE: (functools.partial(_seconds, NOT_BEFORE_LIMITS), max)}

# Places of one rank, in words, each with its properties.
_Places = list[tuple[str, Mapping[str, Any]]]


class Rules:
    """The rules of a server.

    :param extra_specs: of its flavor
    :param aggregates: of its host: name and metadata of each
    :param metadata: of the server
    """

    def __init__(self, extra_specs: Mapping[str, Any], aggregates: Iterable[Mapping[str, Any]],
                 metadata: Mapping[str, Any]) -> None:
        self._ranks: list[_Places] = [
            [('its flavor', extra_specs)],
            [(f'aggregate {each["name"]}', each.get('metadata') or {}) for each in aggregates],
            [('its metadata', metadata)]]

    def get(self, key: str) -> Rule | None:
        """Return the rule that counts; None if there is none."""
        least = _KINDS[key][1]
        for rank in self._ranks:
            if rules := [each for each in self._read(key, rank) if isinstance(each, Rule)]:
                return least(rules, key=lambda rule: rule.value)
        return None

    def protects(self, default: bool) -> bool:
        """Return whether the server is protected."""
        rule = self.get(PROTECT)
        return default if rule is None else bool(rule.value)

    def in_words(self, default: bool) -> list[str]:
        """Return the rules that count, and entries that are none, in words."""
        counting = [self.get(key) for key in _KINDS]
        words = [f'{rule.entry} of {rule.place}' for rule in counting if rule is not None]
        if counting[0] is None:
            words.insert(0, f'protect_by_default = {default}')
        return words + [each for key in _KINDS for rank in self._ranks
                       for each in self._read(key, rank) if isinstance(each, str)]

    def _read(self, key: str, rank: _Places) -> Iterator[Rule | str]:
        """Yield the rule of each place that has one, or why its entry is none."""
        for place, entries in rank:
            name = next((name for name in (METADATA_KEYS if key == PROTECT else (key,))
                         if name in entries), None)
            if name is None:
                continue
            entry = f'{name}={entries[name]}'
            try:
                yield Rule(_KINDS[key][0](entries[name]), entry, place, rank is self._ranks[-1])
            except (TypeError, ValueError):
                yield f'{entry} of {place} does not count: it is no such number, or out of range'


def word(aggregates: Iterable[Mapping[str, Any]], default: bool) -> str:
    """Return what engines tell a host about its servers."""
    rule = Rules({}, aggregates, {}).get(PROTECT)
    if rule is None:
        return OPT_OUT if default else OPT_IN
    return ALL if rule.value else NONE

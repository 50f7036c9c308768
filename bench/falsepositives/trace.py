# SPDX-License-Identifier: Apache-2.0
"""Traces of times in which hosts did not answer: CSV files.

::

    # hosts: 1000
    # days: 365
    host,began,seconds,outcome
    h17,86400.5,12.3,returned
    h4,90000,,dead

*began*
    seconds since any moment, the same one for all.
*outcome*
    *returned*: the host answered again by itself, after so many *seconds*, and its guests were
    still there. *dead*: its guests were gone (it crashed, was rebooted or replaced); when it came
    back does not matter, and *seconds* may be empty.

The two comments tell how much was observed; without them there are no figures per year. Other
lines that begin with # say nothing.
"""

from collections.abc import Sequence
import csv
import dataclasses
import functools
import itertools
import math
import pathlib
import re

_FIELDS = ('host', 'began', 'seconds', 'outcome')
_RETURNED, _DEAD = 'returned', 'dead'
_FACT = re.compile(r'#\s*(hosts|days)\s*:\s*(\S+)\s*$')
_YEAR = 365.25


class BadTrace(Exception):
    """A trace is malformed."""


@dataclasses.dataclass(frozen=True)
class Silence:
    """One time in which a host did not answer.

    :ivar began: in seconds
    :ivar seconds: how long it was; infinite if the guests were gone
    """

    host: str
    began: float
    seconds: float

    @property
    def dead(self) -> bool:
        """Return whether the host was dead."""
        return math.isinf(self.seconds)


@dataclasses.dataclass(frozen=True)
class Trace:
    """The observed silences.

    :ivar hosts: how many were watched, and for how many `days`; None if that is not known
    """

    name: str
    silences: tuple[Silence, ...]
    hosts: float | None = None
    days: float | None = None

    @property
    def host_years(self) -> float | None:
        """Return the observed time; None if the trace does not contain it."""
        if self.hosts is None or self.days is None:
            return None
        return self.hosts * self.days / _YEAR

    @functools.cached_property
    def dead(self) -> int:
        """Return the number of silences that were deaths."""
        return sum(silence.dead for silence in self.silences)

    @functools.cached_property
    def returned(self) -> list[float]:
        """Return the lengths of the silences after which the host answered again, in order."""
        return sorted(silence.seconds for silence in self.silences if not silence.dead)

    @functools.cached_property
    def waited(self) -> list[float]:
        """Return the sums of the shortest of these: of none, of one, of two and so on."""
        return [0.0, *itertools.accumulate(self.returned)]


def load(path: pathlib.Path) -> Trace:
    """Read a file.

    :raises BadTrace: it cannot be understood; the message names the line
    :raises OSError: it cannot be read
    """
    return parse(path.read_text(), path.name)


def parse(text: str, name: str) -> Trace:
    """Read a trace.

    :raises BadTrace: it cannot be understood; the message names the line
    """
    facts: dict[str, float] = {}
    rows: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if fact := _FACT.match(line):
            facts[fact[1]] = _amount(fact[2], f'{name} line {number}: {fact[1]}')
        elif line.strip() and not line.startswith('#'):
            rows.append((number, line))
    if not rows or tuple(_cells(rows[0][1])) != _FIELDS:
        raise BadTrace(f'{name}: the first line that is no comment must be {",".join(_FIELDS)}')
    silences = tuple(_silence(_cells(line), f'{name} line {number}') for number, line in rows[1:])
    return Trace(name, silences, facts.get('hosts'), facts.get('days'))


def dump(trace: Trace) -> str:
    """Write a trace as :func:`parse` reads it."""
    lines = [f'# {name}: {value:g}' for name, value in
             (('hosts', trace.hosts), ('days', trace.days)) if value is not None]
    lines.append(','.join(_FIELDS))
    lines += [','.join((silence.host, repr(silence.began),
                        '' if silence.dead else repr(silence.seconds),
                        _DEAD if silence.dead else _RETURNED)) for silence in trace.silences]
    return '\n'.join([*lines, ''])


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line]))]


def _silence(cells: Sequence[str], where: str) -> Silence:
    if len(cells) != len(_FIELDS):
        raise BadTrace(f'{where}: there are {len(cells)} fields, not {len(_FIELDS)}')
    host, began, seconds, outcome = cells
    if outcome not in (_RETURNED, _DEAD):
        raise BadTrace(f'{where}: the outcome {outcome!r} is neither {_RETURNED} nor {_DEAD}')
    if outcome == _DEAD:
        return Silence(host, _number(began, f'{where}: began'), math.inf)
    return Silence(host, _number(began, f'{where}: began'), _amount(seconds, f'{where}: seconds'))


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadTrace(f'{where}: {text!r} is no number')
    return value


def _amount(text: str, where: str) -> float:
    value = _number(text, where)
    if value < 0:
        raise BadTrace(f'{where}: {text!r} is negative')
    return value

# SPDX-License-Identifier: Apache-2.0
"""Output of recoveries and hosts: plain values for programs, lines and bars for people."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
import re
from typing import Any

from cliff import columns
from osc_lib.cli import format_columns

# What a command displays: columns and the values of one thing, or headers and rows.
Fields = tuple[tuple[str, ...], tuple[Any, ...]]
Rows = tuple[tuple[str, ...], list[tuple[Any, ...]]]

RECOVERY = ('id', 'server_id', 'server_name', 'project_id', 'state', 'outcome', 'error',
            'host', 'destination', 'superposition_id', 'why', 'priority', 'expected_seconds',
            'abort_requested', 'merged_bytes', 'engine', 'epoch', 'suspected_at', 'created_at',
            'updated_at', 'ended_at', 'steps')
HOST = ('name', 'state', 'since', 'why', 'word', 'word_reason', 'dead_at', 'flaps', 'goodbye',
        'goodbye_at', 'held', 'sentinel', 'voices', 'silent_since', 'recoveries')
MODE = ('scope', 'name', 'mode', 'reason', 'user_id', 'since', 'until')
PROTECTION = ('server_id', 'project_id', 'protected', 'recovery', 'reasons', 'volumes',
              'host', 'destinations', 'rules')

_WIDTH = 32
_HEAD = ('offset s', 'step', 'duration ms', '', 'detail')
_UNENDED = '…'
_SECONDS = {'s': 1, 'm': 60, 'h': 3600, 'd': 86400}

RECOVERIES = {
    'id': 'ID',
    'server_name': 'Server Name',
    'host': 'Host',
    'destination': 'Destination',
    'state': 'State',
    'outcome': 'Outcome',
    'suspected_at': 'Suspected At',
}
RECOVERIES_LONG = {
    **RECOVERIES,
    'server_id': 'Server ID',
    'project_id': 'Project ID',
    'engine': 'Engine',
    'priority': 'Priority',
    'ended_at': 'Ended At',
    'error': 'Error',
}
HOSTS = {
    'name': 'Name',
    'state': 'State',
    'since': 'Since',
    'why': 'Why',
    'word': "Operator's Word",
    'flaps': 'Flaps',
    'sentinel': 'Sentinel',
    'voices': 'Voices',
    'silent_since': 'Silent Since',
}
MODES = {
    'scope': 'Scope',
    'name': 'Name',
    'mode': 'Mode',
    'until': 'Until',
    'since': 'Since',
    'user_id': 'User ID',
    'reason': 'Reason',
}
COVERED = {
    'id': 'ID',
    'name': 'Name',
    'project': 'Project ID',
    'host': 'Host',
    'recovery': 'Recovery',
    'reasons': 'Reasons',
    'without_room': 'Without Room If',
}
SUMS = {name: name.replace('_', ' ').title() for name in (
    'speculative', 'evacuated', 'failed', 'none', 'without_room', 'without_room_of_two')}
FORECAST = {
    'name': 'Server Name',
    'host': 'Host',
    'recovery': 'Recovery',
    'destination': 'Destination',
    'begins': 'Begins',
    'seconds': 'Seconds',
    'reasons': 'Reasons',
    'id': 'Server ID',
}


class Evidence(columns.FormattableColumn[list[dict[str, Any]]]):
    """Evidence against a host; for people, one piece per line."""

    def human_readable(self) -> str:
        return '\n'.join(str(piece.get('words', piece.get('kind'))) for piece in self._value)


class Timeline(columns.FormattableColumn[list[dict[str, Any]]]):
    """Steps of a recovery; for people, with bars."""

    def human_readable(self) -> str:
        return _timeline(self._value)


class Recoveries(columns.FormattableColumn[list[dict[str, Any]]]):
    """Recoveries; for people, one per line."""

    def human_readable(self) -> str:
        return '\n'.join(f'{entry["id"]} ({entry["server_name"]}, {entry["state"]})'
                         for entry in self._value)


class Volumes(columns.FormattableColumn[dict[str, list[str]]]):
    """Volumes, and why they cannot be superposed; for people, one per line."""

    def human_readable(self) -> str:
        return '\n'.join(f'{volume}: {"; ".join(reasons) or "ok"}'
                         for volume, reasons in self._value.items())


_FORMATS: dict[str, type[columns.FormattableColumn[Any]]] = {
    'destinations': format_columns.ListColumn,
    'held': format_columns.ListColumn,
    'reasons': format_columns.ListColumn,
    'recoveries': Recoveries,
    'rules': format_columns.ListColumn,
    'steps': Timeline,
    'volumes': Volumes,
    'without_room': format_columns.ListColumn,
    'why': Evidence,
}


def one(body: Mapping[str, Any], fields: Sequence[str]) -> Fields:
    """Return the columns and values of one thing, without those that the user may not see."""
    present = tuple(field for field in fields if field in body)
    return present, row(body, present)


def row(body: Mapping[str, Any], fields: Iterable[str]) -> tuple[Any, ...]:
    """Return the values of a row."""
    return tuple(_value(body, field) for field in fields)


def lines(texts: list[str]) -> Any:
    """Return texts as a value."""
    return format_columns.ListColumn(texts)


def seconds(text: str) -> int:
    """Return the seconds of a time such as 90s, 30m, 2h or 1d."""
    match = re.fullmatch(r'([1-9][0-9]*)([smhd])', text)
    if match is None:
        raise argparse.ArgumentTypeError(f'"{text}" is no time such as 90s, 30m, 2h or 1d')
    return int(match[1]) * _SECONDS[match[2]]


def _value(body: Mapping[str, Any], field: str) -> Any:
    value = body.get(field)
    return _FORMATS[field](value) if field in _FORMATS and value is not None else value


def _timeline(steps: Sequence[Mapping[str, Any]]) -> str:
    """Return the timeline; offsets count from the moment when the host was suspected.

    :param steps: as the API returns them
    """
    if not steps:
        return ''
    whole = max(step['offset_seconds'] + (step['seconds'] or 0.0) for step in steps)
    rows = [_HEAD, *(_step_row(step, max(whole, 1e-9)) for step in steps)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    return '\n'.join(_step_line(row, widths) for row in rows)


def _step_row(step: Mapping[str, Any], whole: float) -> tuple[str, str, str, str, str]:
    name = step['name'] if step['attempt'] == 1 else f'{step["name"]} ({step["attempt"]})'
    took = _UNENDED if step['seconds'] is None else f'{step["seconds"] * 1000:.0f}'
    detail = ', '.join(f'{key}={value}' for key, value in step.get('detail', {}).items())
    return f'{step["offset_seconds"]:.3f}', name, took, _bar(step, whole), detail


def _bar(step: Mapping[str, Any], whole: float) -> str:
    first = min(int(max(step['offset_seconds'], 0.0) / whole * _WIDTH), _WIDTH - 1)
    if step['seconds'] is None:
        return f'|{" " * first}{_UNENDED.ljust(_WIDTH - first)}|'
    length = max(round(step['seconds'] / whole * _WIDTH), 1)
    return f'|{" " * first}{("█" * min(length, _WIDTH - first)).ljust(_WIDTH - first)}|'


def _step_line(row: Sequence[str], widths: Sequence[int]) -> str:
    offset, name, took, bar, detail = row
    return (f'{offset.rjust(widths[0])}  {name.ljust(widths[1])}  {took.rjust(widths[2])}  '
            f'{bar.ljust(widths[3])}  {detail}').rstrip()

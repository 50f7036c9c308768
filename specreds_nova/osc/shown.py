# SPDX-License-Identifier: Apache-2.0
"""Output of recoveries and hosts: plain values for programs, lines and bars for people."""

import argparse
from collections.abc import Mapping
import re
from typing import Any

from cliff import columns
from osc_lib.cli import format_columns

from specreds_nova.osc import timeline

_RECOVERY = ('id', 'server_id', 'server_name', 'project_id', 'state', 'outcome', 'error',
             'host', 'destination', 'superposition_id', 'why', 'priority', 'expected_seconds',
             'abort_requested', 'merged_bytes', 'engine', 'epoch', 'suspected_at', 'created_at',
             'updated_at', 'ended_at', 'steps')
_HOST = ('name', 'state', 'since', 'why', 'word', 'word_reason', 'dead_at', 'flaps', 'goodbye',
         'goodbye_at', 'held', 'sentinel', 'voices', 'recoveries')
_MODE = ('scope', 'name', 'mode', 'reason', 'user_id', 'since', 'until')
_PROTECTION = ('server_id', 'project_id', 'protected', 'recovery', 'reasons', 'volumes',
               'host', 'destinations', 'rules')

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
        """Return one line per piece of evidence."""
        return '\n'.join(str(piece.get('words', piece.get('kind'))) for piece in self._value)


class Timeline(columns.FormattableColumn[list[dict[str, Any]]]):
    """Steps of a recovery; for people, with bars."""

    def human_readable(self) -> str:
        """Return the steps as a table with bars."""
        return timeline.text(self._value)


class Recoveries(columns.FormattableColumn[list[dict[str, Any]]]):
    """Recoveries; for people, one per line."""

    def human_readable(self) -> str:
        """Return one line per recovery."""
        return '\n'.join(f'{entry["id"]} ({entry["server_name"]}, {entry["state"]})'
                         for entry in self._value)


class Volumes(columns.FormattableColumn[dict[str, list[str]]]):
    """Volumes, and why they cannot be superposed; for people, one per line."""

    def human_readable(self) -> str:
        """Return one line per volume."""
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


def recovery(body: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Return the columns and values of a recovery, without those that the user may not see."""
    return _one(body, _RECOVERY)


def host(body: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Return the columns and values of a host."""
    return _one(body, _HOST)


def mode(body: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Return the columns and values of a mode."""
    return _one(body, _MODE)


def protection(body: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Return the columns and values of the protection of a server."""
    return _one(body, _PROTECTION)


def row(body: Mapping[str, Any], fields: Mapping[str, str]) -> tuple[Any, ...]:
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


def _one(body: Mapping[str, Any], fields: tuple[str, ...]
         ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    present = tuple(field for field in fields if field in body)
    return present, tuple(_value(body, field) for field in present)


def _value(body: Mapping[str, Any], field: str) -> Any:
    value = body.get(field)
    return _FORMATS[field](value) if field in _FORMATS and value is not None else value

# SPDX-License-Identifier: Apache-2.0
"""Output of superpositions: plain values for programs, units and lines for people."""

from collections.abc import Mapping, Sequence
from typing import Any

from cliff import columns
from osc_lib.cli import format_columns

# What a command displays: columns and the values of one thing, or headers and rows.
Fields = tuple[tuple[str, ...], tuple[Any, ...]]
Rows = tuple[tuple[str, ...], list[tuple[Any, ...]]]

_UNITS = ('B', 'KiB', 'MiB', 'GiB', 'TiB')
_FIELDS = ('id', 'state', 'outcome', 'volumes', 'overlay_bytes', 'dirty', 'dirty_object',
           'server_id', 'reason', 'project_id', 'user_id', 'request_id', 'created_at',
           'updated_at', 'age_seconds')
_ADMIN_FIELDS = ('hosts', 'unreachable_hosts')
_BRIEF = {
    'id': 'ID',
    'state': 'State',
    'volume_ids': 'Volumes',
    'server_id': 'Server',
    'created_at': 'Created At',
}
_LONG = {
    **_BRIEF,
    'outcome': 'Outcome',
    'dirty': 'Dirty',
    'overlay_bytes': 'Overlay Bytes',
    'age_seconds': 'Age Seconds',
    'reason': 'Reason',
    'project_id': 'Project',
    'user_id': 'User',
}


class Volumes(columns.FormattableColumn[list[dict[str, Any]]]):
    """Volumes; for people, one per line."""

    def human_readable(self) -> str:
        return '\n'.join(
            f'{volume["id"]} ({size(volume["size_bytes"])}, overlay '
            f'{size(volume["overlay_bytes"])})' for volume in self._value)


class Size(columns.FormattableColumn[int]):
    """A number of bytes; for people, with a unit."""

    def human_readable(self) -> str:
        return size(self._value)


class Durations(columns.FormattableColumn[dict[str, float]]):
    """Seconds of each part of the work; for people, one part per line."""

    def human_readable(self) -> str:
        return '\n'.join(f'{part}: {took:.3f} s' for part, took in self._value.items())


_FORMATS = {
    'durations': Durations,
    'hosts': format_columns.ListColumn,
    'overlay_bytes': Size,
    'reasons': format_columns.ListColumn,
    'unreachable_hosts': format_columns.ListColumn,
    'volume_ids': format_columns.ListColumn,
    'volumes': Volumes,
}


def size(value: int | None) -> str:
    """Return a number of bytes with a binary unit, as Cinder counts: a volume of size 1 is 1 GiB.

    :param value: None if the volume service has not reported it
    """
    if value is None:
        return 'unknown'
    power = min(max(value.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    return f'{value / 1024**power:.4g} {_UNITS[power]}'


def one(superposition: Mapping[str, Any]) -> Fields:
    """Return the columns and values of one superposition."""
    fields = _FIELDS + tuple(field for field in _ADMIN_FIELDS if field in superposition)
    return fields, values(superposition, fields)


def many(superpositions: Sequence[Mapping[str, Any]], *, long: bool) -> Rows:
    """Return the headers and rows of superpositions.

    :param long: show all fields, which the superpositions must have
    """
    shown = _LONG if long else _BRIEF
    rows = [{**each, 'volume_ids': [*each.get('volume_ids', ()), *each.get('disks', ())]}
            for each in superpositions]
    return tuple(shown.values()), [values(row, shown) for row in rows]


def values(entry: Mapping[str, Any], fields: Sequence[str] | Mapping[str, Any]
           ) -> tuple[Any, ...]:
    """Return the values of some fields; a missing one is None."""
    return tuple(_FORMATS[field](entry[field])
                 if field in _FORMATS and entry.get(field) is not None else entry.get(field)
                 for field in fields)

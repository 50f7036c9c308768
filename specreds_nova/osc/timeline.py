# SPDX-License-Identifier: Apache-2.0
"""A timeline of a recovery as text: the beginning and the duration of its steps."""

from collections.abc import Mapping, Sequence
from typing import Any

_WIDTH = 32
_HEAD = ('offset s', 'step', 'duration ms', '', 'detail')
_UNENDED = '…'


def text(steps: Sequence[Mapping[str, Any]]) -> str:
    """Return the timeline; offsets count from the moment when the host was suspected.

    :param steps: as the API returns them
    """
    if not steps:
        return ''
    whole = max(step['offset_seconds'] + (step['seconds'] or 0.0) for step in steps)
    rows = [_HEAD, *(_row(step, max(whole, 1e-9)) for step in steps)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    return '\n'.join(_line(row, widths) for row in rows)


def _row(step: Mapping[str, Any], whole: float) -> tuple[str, str, str, str, str]:
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


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    offset, name, took, bar, detail = row
    return (f'{offset.rjust(widths[0])}  {name.ljust(widths[1])}  {took.rjust(widths[2])}  '
            f'{bar.ljust(widths[3])}  {detail}').rstrip()

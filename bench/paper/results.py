# SPDX-License-Identifier: Apache-2.0
"""Figures of earlier runs: JSON files of benchmarks, of the demo, and of reports."""

from collections.abc import Iterable, Mapping
import json
import pathlib
from typing import Any


class BadResults(RuntimeError):
    """A file is not the output of a benchmark or of the demo."""


def load(paths: Iterable[pathlib.Path]) -> dict[str, Any]:
    """Return the figures of files; if several have the same one, it is taken from the last file.

    :raises BadResults: one of them is something else
    """
    known: dict[str, Any] = {}
    for path in paths:
        try:
            contents = json.loads(path.read_text())
        except (OSError, ValueError) as exc:
            raise BadResults(f'{path} cannot be read: {exc}') from None
        if isinstance(contents, dict) and all('.' in key for key in contents):
            known |= contents
        elif isinstance(contents, list):
            for accident in contents:
                known |= _accident(accident, path)
        else:
            raise BadResults(f'{path} is neither the JSON of a benchmark nor of the demo')
    return known


def _accident(accident: Mapping[str, Any], path: pathlib.Path) -> dict[str, Any]:
    """Return the figures of one accident of the demo."""
    try:
        key = f'paper.accident.{accident["key"]}'
        if accident['wrong']:
            return {f'paper.failed.{accident["key"]}': '; '.join(accident['wrong'])}
        figures = {f'{key}.database_s': accident['unavailable_s'], f'{key}.lost': accident['lost']}
        if accident['web_unavailable_s'] is not None:
            figures[f'{key}.web_s'] = accident['web_unavailable_s']
        if accident['overhead_s']:
            figures[f'{key}.overhead_s'] = accident['overhead_s']
        return figures | {f'{key}.{name}_s': ended - began
                          for name, (began, ended) in accident['phases'].items()}
    except (KeyError, TypeError, ValueError) as exc:
        raise BadResults(f'{path} is no failover.json of the demo: {exc!r}') from None

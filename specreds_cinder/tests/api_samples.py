# SPDX-License-Identifier: Apache-2.0
"""Samples of requests and responses of the API reference, and their comparison with answers."""

from collections.abc import Iterator
import json
import pathlib
from typing import Any

DIRECTORY = pathlib.Path(__file__).parents[2] / 'doc' / 'api_samples'


def load(name: str) -> Any:
    """Return a sample, by its file's name without the extension."""
    return json.loads((DIRECTORY / f'{name}.json').read_text())


def differences(sample: Any, live: Any, where: str = 'answer') -> list[str]:
    """Return the places where an answer has other keys or other types than a sample.

    Null matches everything. An answer's list may have any length; each item must have the shape of
    the sample's first item.
    """
    return list(_differences(sample, live, where))


def _differences(sample: Any, live: Any, where: str) -> Iterator[str]:
    if sample is None or live is None:
        return
    if _kind(sample) != _kind(live):
        yield f'{where}: {_kind(live)} instead of {_kind(sample)}'
    elif isinstance(sample, dict):
        for key in sorted(sample.keys() | live.keys()):
            if key not in live:
                yield f'{where}.{key}: missing'
            elif key not in sample:
                yield f'{where}.{key}: in no sample'
            else:
                yield from _differences(sample[key], live[key], f'{where}.{key}')
    elif isinstance(sample, list) and sample:
        for number, item in enumerate(live):
            yield from _differences(sample[0], item, f'{where}[{number}]')


def _kind(value: Any) -> str:
    kinds = {bool: 'boolean', int: 'number', float: 'number', str: 'string', list: 'list',
             dict: 'object'}
    return kinds[type(value)]

# SPDX-License-Identifier: Apache-2.0
"""Golden logs of the stories: ``python -m specreds_nova.tests.simulation.golden --write``.

Each says when which recovery took which step, in simulated time, for one interleaving. A change of
behaviour shows as a difference of these files.
"""

import argparse
from collections.abc import Iterator
import difflib
import importlib
import logging
import os
import pathlib
import sys
from typing import Any

from testing import environment

_PLACE = pathlib.Path(__file__).parent / 'golden'
_SEED = 0
# The details of a step that tell what was decided.
_TELLING = ('host', 'outcome', 'state', 'asked', 'why')


def main() -> int:
    """Compare the golden logs with what the engines do, or write them; return the exit status."""
    parser = argparse.ArgumentParser(description='Compare the golden logs of all stories.')
    parser.add_argument('--write', action='store_true', help='write what the engines do')
    args = parser.parse_args()
    if os.environ.get('PYTHONHASHSEED') != '0':
        # The order of sets is part of what a seed determines.
        os.execve(sys.executable, [sys.executable, '-W', 'ignore', '-m',
                                   'specreds_nova.tests.simulation.golden', *sys.argv[1:]],
                  os.environ | {'PYTHONHASHSEED': '0'})
    environment.prepare()
    # The libraries of OpenStack choose eventlet if they are imported before.
    story = importlib.import_module('specreds_nova.tests.simulation.story')
    logging.disable(logging.CRITICAL)
    logs = {name: _log(story.Story(story.load(name), _SEED).run()) for name in story.names()}
    if args.write:
        _write(logs)
        return 0
    different = list(_differences(logs))
    print('\n'.join(different) or f'{len(logs)} stories are as their golden logs')
    return 1 if different else 0


def _log(ending: Any) -> str:
    """Return what happened in a story."""
    lines = [f'wrong: {wrong}' for wrong in ending.wrong]
    for recovery in ending.history:
        lines.append(f'{_time(recovery.created)}  {recovery.server} on {recovery.host}')
        for step in recovery.steps:
            details = [f'{name}={step.detail[name]}' for name in _TELLING if step.detail.get(name)]
            ended = '     …' if step.ended is None else _time(step.ended)
            lines.append(f'  {_time(step.began)} - {ended}  '
                         + ' '.join([step.name, step.engine, *details]))
        state = recovery.outcome or recovery.state
        lines.append(f'{_time(recovery.ended or recovery.updated)}  {recovery.server}: {state}'
                     + (f', {recovery.error}' if recovery.error else ''))
    return '\n'.join([*lines, ''])


def _time(at: float) -> str:
    """Return seconds since the begin of a story."""
    return f'{at - 1000.0:6.2f}'


def _write(logs: dict[str, str]) -> None:
    _PLACE.mkdir(exist_ok=True)
    for path in _PLACE.glob('*.txt'):
        path.unlink()
    for name, text in logs.items():
        (_PLACE / f'{name}.txt').write_text(text)


def _differences(logs: dict[str, str]) -> Iterator[str]:
    """Yield the lines of a comparison of the golden logs with others."""
    golden = {path.stem: path.read_text() for path in _PLACE.glob('*.txt')}
    for name in sorted(logs.keys() | golden.keys()):
        yield from difflib.unified_diff(
            golden.get(name, '').splitlines(), logs.get(name, '').splitlines(),
            f'golden/{name}.txt', f'{name} as it is', lineterm='', n=2)


if __name__ == '__main__':
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Outcomes of the scenarios as text: a table, and a timeline of availability."""

from collections.abc import Sequence
import textwrap

from cloud.demo import outcome

_WIDTH = 72
# The letter and the name of each phase.
LETTERS = {'timeout': 't', 'peer': 'm', 'detect': 'd', 'dispatch': 'q', 'super': 's',
           'start': 'b', 'race': 'r', 'hold': 'w', 'harden': 'h', 'unseen': 'u', 'collapse': 'c',
           'promote': 'p', 'evacuate': 'e', 'answer': 'a', 'serve': 'g'}
WORDS = {
    'timeout': 'waiting for the timeout', 'peer': 'until Masakari evacuates',
    'detect': 'until it is suspected',
    'dispatch': 'until the recovery begins', 'super': 'superposition',
    'start': 'start of the backup', 'race': 'boot and recovery of the guest',
    'hold': 'until its first frame may decide', 'harden': 'until its writes are durable',
    'unseen': 'until nobody sees the primary', 'collapse': 'decision', 'promote': 'promotion',
    'evacuate': "Nova's evacuation", 'answer': 'until the guest answers',
    'serve': "until the guest's service answers"}
_SERVED, _SILENT = '─', '·'


def table(outcomes: Sequence[outcome.Outcome]) -> str:
    """Return a table of the cost of each accident."""
    rows = [('scenario', 'unavailable', 'other server', 'acknowledged', 'lost', 'errors', '')]
    for accident in outcomes:
        rows.append((accident.name, f'{accident.unavailable_s:.1f} s',
                     '' if accident.web_s is None else f'{accident.web_s:.1f} s',
                     f'{len(accident.done):,}', str(accident.lost),
                     str(len(accident.errors)) if accident.key == 'suspicion' else '',
                     'WRONG' if accident.wrong else 'ok'))
    return '\n'.join(_aligned(rows))


def steps(result: outcome.Outcome) -> str:
    """Return a table of the engine's steps and their times."""
    rows = [('step', 'began', 'took', 'engine')]
    for step in result.steps:
        took = '' if step.ended is None else f'{step.ended - step.began:.2f} s'
        rows.append((step.name, f'{step.began - result.event:+.2f} s', took, step.engine))
    return '\n'.join(_aligned(rows))


def timeline(outcomes: Sequence[outcome.Outcome]) -> str:
    """Return the timelines of availability since the accidents, all to one scale."""
    if not outcomes:
        return ''
    last = max(accident.gap.ended - accident.event for accident in outcomes) * 1.05
    width = max(len(accident.name) for accident in outcomes)
    lines = [f'{accident.name:{width}}  {_line(accident, last)}  {accident.unavailable_s:6.1f} s'
             for accident in outcomes]
    scale = f'{"":{width}}  0{f"{last:.0f} s":>{_WIDTH - 1}}'
    used = [name for name in outcome.PHASES
            if any(phase.name == name for accident in outcomes for phase in accident.phases)]
    legend = textwrap.wrap(f'{_SERVED} served; not served: ' + ', '.join(
        f'{LETTERS[name]} {WORDS[name]}' for name in used), _WIDTH)
    return '\n'.join([*lines, scale, *(f'{"":{width}}  {line}' for line in legend)])


def _line(result: outcome.Outcome, last: float) -> str:
    cells = []
    for place in range(_WIDTH):
        at = (place + 0.5) * last / _WIDTH
        silent = result.gap.began <= result.event + at < result.gap.ended
        phase = next((phase.name for phase in result.phases
                      if phase.began <= at < phase.ended), '')
        cells.append(LETTERS.get(phase, _SILENT) if silent else _SERVED)
    return ''.join(cells)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ['  '.join(cell.ljust(width) if place == 0 else cell.rjust(width)
                       for place, (cell, width) in enumerate(zip(row, widths, strict=True)))
             for row in rows]
    return [lines[0], '  '.join('-' * width for width in widths), *lines[1:]]

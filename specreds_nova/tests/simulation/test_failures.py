# SPDX-License-Identifier: Apache-2.0
"""Failures that engines once handled wrongly: each story fails without the step that mends it."""

import contextlib
import dataclasses
import pathlib
from typing import Any
from unittest import mock

import ddt
import testtools
import yaml  # type: ignore[import-untyped]

from specreds_nova.engine.recovery import dispatch
from testing.simulation import mutations
from testing.simulation import play
from testing.simulation import schedule as schedules

_PLACE = pathlib.Path(__file__).parent / 'failures'
# When the reasons are read that hold hosts back, in seconds.
_LOOK = 30.0
_SEEDS = range(3)


def _names() -> list[str]:
    return sorted(path.stem for path in _PLACE.glob('*.yaml'))


def _load(name: str) -> dict[str, Any]:
    script: dict[str, Any] = yaml.safe_load((_PLACE / f'{name}.yaml').read_text())
    return script


def _schedule(script: dict[str, Any], seed: int) -> schedules.Schedule:
    return schedules.Schedule(
        seed, tuple(script.get('hosts', ('h1', 'h2', 'h3', 'h4'))),
        tuple(script.get('engines', ('e1',))), 1,
        {name: tuple(values) for name, values in script['servers'].items()}, {},
        script.get('options', {}), tuple(schedules.Fault(*fault) for fault in script['faults']),
        zones=script.get('zones', {}), metadata=script.get('metadata', {}))


def _wrong(script: dict[str, Any], schedule: schedules.Schedule) -> list[str]:
    """Return what differs from what a story expects."""
    game = play.Play(schedule)
    held: dict[str, str] = {}

    def look() -> None:
        for host in schedule.hosts:
            held[host] = '; '.join(game._cloud.store.host(host).held)
    game._hub.call(_LOOK, look)
    result = game.run()
    wrong = list(result.wrong)
    if result.outcomes != script.get('outcomes', result.outcomes):
        wrong.append(f'the recoveries ended {result.outcomes}, not {script["outcomes"]}')
    return wrong + [f'{host} is held by "{held.get(host)}", not by "{reason}"'
                    for host, reason in script.get('held', {}).items()
                    if reason not in held.get(host, '')]


@ddt.ddt
class FailuresTest(testtools.TestCase):
    """Each failure is handled, and is not without the step that its story names."""

    @ddt.idata(_names())
    def test_failure_is_handled(self, name: str) -> None:
        script = _load(name)
        for seed in _SEEDS:
            self.assertEqual([], _wrong(script, _schedule(script, seed)), f'seed {seed}')

    @ddt.idata(_names())
    def test_failure_is_missed_without_its_step(self, name: str) -> None:
        script = _load(name)
        schedule, without = _schedule(script, 0), script['without']
        context: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
        if isinstance(without, dict):
            schedule = dataclasses.replace(schedule, options=schedule.options | without)
        elif without == 'hold':
            context = mock.patch.object(dispatch.Dispatcher, 'hold', mock.Mock())
        else:
            context = mutations.MUTATIONS[without].applied()
        with context:
            self.assertNotEqual([], _wrong(script, schedule))

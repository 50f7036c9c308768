# SPDX-License-Identifier: Apache-2.0
"""The order of the steps of a recovery: one table, for TaskFlow and for the simulation."""

from collections.abc import Callable
from typing import Any, NamedTuple

from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery.steps import adopt
from specreds_nova.engine.recovery.steps import decide
from specreds_nova.engine.recovery.steps import destination
from specreds_nova.engine.recovery.steps import end
from specreds_nova.engine.recovery.steps import fence
from specreds_nova.engine.recovery.steps import merge
from specreds_nova.engine.recovery.steps import promote
from specreds_nova.engine.recovery.steps import race
from specreds_nova.engine.recovery.steps import start
from specreds_nova.engine.recovery.steps import super as super_step


class Step(NamedTuple):
    """A step, and what it passes on.

    :ivar name: name of its task
    :ivar take: takes the step, with the run and the verdicts of the required steps
    :ivar provides: name of its verdict
    :ivar requires: names of the verdicts that it needs; a step that needs none may be taken at
        the same time as the other ones that need none
    """

    name: str
    take: Callable[..., Any]
    provides: str
    requires: tuple[str, ...] = ()


STEPS = (
    Step('destination', destination.destination, 'placed'),
    Step('super', super_step.superpose, 'superposed'),
    Step('start', start.start, 'started', ('placed', 'superposed')),
    Step('race', race.race, 'raced', ('started',)),
    Step('decide', decide.decide, 'decided', ('raced',)),
    Step('fence', fence.fence, 'fenced', ('decided',)),
    Step('promote', promote.promote, 'promoted', ('fenced',)),
    Step('adopt', adopt.adopt, 'adopted', ('promoted',)),
    Step('merge', merge.merge, 'merged', ('adopted',)),
    Step('end', end.end, 'outcome', ('merged',)),
)


def attempt(run: runs.Run) -> str:
    """Take the steps one after the other, without TaskFlow, and return the outcome.

    :raises exception.RetryAttempt: another attempt is needed
    :raises exception.Superseded: another engine has taken over the recovery
    """
    results: dict[str, Any] = {}
    for step in STEPS:
        results[step.provides] = step.take(run, *(results[name] for name in step.requires))
    return str(results[STEPS[-1].provides])

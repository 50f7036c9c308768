# SPDX-License-Identifier: Apache-2.0
"""The order of the steps of a recovery, in one table."""

from collections.abc import Callable
import functools
from typing import Any, NamedTuple

from specreds_nova.engine import fibers
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

    :ivar name: name of the step
    :ivar take: takes the step, with the run and the verdicts of the required steps
    :ivar provides: name of its verdict
    :ivar requires: names of the verdicts that it needs; a step that needs none may be taken at
        the same time as the other ones that need none
    :ivar rank: rank of its calls at first. Servers whose backups are ready serve first, then other
        backups are started and servers are evacuated; what is left to do for servers that serve
        comes last
    """

    name: str
    take: Callable[..., Any]
    provides: str
    requires: tuple[str, ...] = ()
    rank: int = fibers.FIRST


STEPS = (
    Step('destination', destination.destination, 'placed', rank=fibers.SECOND),
    Step('super', super_step.superpose, 'superposed', rank=fibers.SECOND),
    Step('start', start.start, 'started', ('placed', 'superposed'), fibers.SECOND),
    Step('race', race.race, 'raced', ('started',)),
    Step('decide', decide.decide, 'decided', ('raced',)),
    Step('fence', fence.fence, 'fenced', ('decided',), fibers.SECOND),
    Step('promote', promote.promote, 'promoted', ('fenced',)),
    Step('adopt', adopt.adopt, 'adopted', ('promoted',), fibers.SECOND),
    Step('merge', merge.merge, 'merged', ('adopted',), fibers.LAST),
    Step('end', end.end, 'outcome', ('merged',), fibers.LAST),
)


def attempt(run: runs.Run) -> str:
    """Take the steps, and return the outcome.

    Steps that require no other step are taken at the same time. Each step begins with what the
    recovery's record says, so that an engine that takes over a recovery takes all steps again.

    :raises exception.RetryAttempt: another attempt is needed
    :raises exception.Superseded: another engine has taken over the recovery
    """
    first = [step for step in STEPS if not step.requires]
    run.context.rank(fibers.SECOND)
    results = dict(zip((step.provides for step in first), run.context.together(
        [functools.partial(step.take, run) for step in first]), strict=True))
    for step in STEPS:
        if not step.requires:
            continue
        run.context.rank(step.rank)
        results[step.provides] = step.take(run, *(results[name] for name in step.requires))
    return str(results[STEPS[-1].provides])

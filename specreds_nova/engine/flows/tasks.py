# SPDX-License-Identifier: Apache-2.0
"""The steps in their order: as a flow of TaskFlow, and as they are for tests.

A flow is one attempt. If a step says that there has to be another one, the flow fails with
:class:`run.Again`, and a new one begins.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from taskflow import task
from taskflow.patterns import linear_flow
from taskflow.patterns import unordered_flow

from specreds_nova.engine import exception
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts
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

# What tasks get that is not in the database: the run.
RUN = 'run'


class Handover(BaseException):
    """This engine has nothing to do with it any more.

    It goes through TaskFlow as the death of the process does, so that nothing of it is written
    down and whoever goes on finds the flow as it was.
    """


class _Step(task.Task):
    """Runs a function with the run and what the tasks before it gave."""

    step: ClassVar[Callable[..., Any]]

    def _run(self, run: runs.Run, *told: Any) -> Any:
        try:
            return type(self).step(run, *(verdicts.StepVerdict(*one) for one in told))
        except (exception.Superseded, exception.Interrupted) as exc:
            raise Handover from exc


class Destination(_Step):
    """Chooses where the backup is to run."""

    default_provides = 'placed'
    step = staticmethod(destination.destination)

    def execute(self, run: runs.Run) -> Any:
        """Do it."""
        return self._run(run)


class Super(_Step):
    """Puts the volumes into superposition."""

    default_provides = 'superposed'
    step = staticmethod(super_step.superpose)

    def execute(self, run: runs.Run) -> Any:
        """Do it."""
        return self._run(run)


class Start(_Step):
    """Starts the backup."""

    default_provides = 'started'
    step = staticmethod(start.start)

    def execute(self, run: runs.Run, placed: Any, superposed: Any) -> Any:
        """Do it."""
        return self._run(run, placed, superposed)


class Race(_Step):
    """Waits until it is clear who wins."""

    default_provides = 'raced'
    step = staticmethod(race.race)

    def execute(self, run: runs.Run, started: Any) -> Any:
        """Do it."""
        return self._run(run, started)


class Decide(_Step):
    """Has it decided."""

    default_provides = 'decided'
    step = staticmethod(decide.decide)

    def execute(self, run: runs.Run, raced: Any) -> Any:
        """Do it."""
        return self._run(run, raced)


class Fence(_Step):
    """Fences a primary that has no backup."""

    default_provides = 'fenced'
    step = staticmethod(fence.fence)

    def execute(self, run: runs.Run, decided: Any) -> Any:
        """Do it."""
        return self._run(run, decided)


class Promote(_Step):
    """Lets the backup out."""

    default_provides = 'promoted'
    step = staticmethod(promote.promote)

    def execute(self, run: runs.Run, fenced: Any) -> Any:
        """Do it."""
        return self._run(run, fenced)


class Adopt(_Step):
    """Has Nova know where the server is."""

    default_provides = 'adopted'
    step = staticmethod(adopt.adopt)

    def execute(self, run: runs.Run, promoted: Any) -> Any:
        """Do it."""
        return self._run(run, promoted)


class Merge(_Step):
    """Waits until the disks are merged."""

    default_provides = 'merged'
    step = staticmethod(merge.merge)

    def execute(self, run: runs.Run, adopted: Any) -> Any:
        """Do it."""
        return self._run(run, adopted)


class End(_Step):
    """Notes the outcome."""

    default_provides = 'outcome'
    step = staticmethod(end.end)

    def execute(self, run: runs.Run, merged: Any) -> Any:
        """Do it."""
        return self._run(run, merged)


def make() -> linear_flow.Flow:
    """Make the flow of one attempt."""
    flow = linear_flow.Flow('recovery')
    flow.add(unordered_flow.Flow('preparation').add(Destination('destination'), Super('super')))
    flow.add(Start('start'), Race('race'), Decide('decide'), Fence('fence'), Promote('promote'),
             Adopt('adopt'), Merge('merge'), End('end'))
    return flow


def attempt(run: runs.Run) -> str:
    """Take the steps one after the other, without TaskFlow; gives the outcome.

    :raises Again: there has to be another attempt
    :raises exception.Superseded: another engine has taken the recovery over
    """
    placed, superposed = destination.destination(run), super_step.superpose(run)
    raced = race.race(run, start.start(run, placed, superposed))
    fenced = fence.fence(run, decide.decide(run, raced))
    adopted = adopt.adopt(run, promote.promote(run, fenced))
    return end.end(run, merge.merge(run, adopted))

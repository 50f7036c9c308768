# SPDX-License-Identifier: Apache-2.0
"""The steps of a recovery as tasks of TaskFlow.

A flow is one attempt. When a step needs another attempt, the flow fails with
:class:`.exception.RetryAttempt`, and a new flow begins.
"""

from typing import Any

from taskflow import task
from taskflow.patterns import linear_flow
from taskflow.patterns import unordered_flow

from specreds_nova.engine import exception
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import sequence
from specreds_nova.engine.recovery import verdict as verdicts

# The input of all tasks that is not in the database: the run.
RUN = 'run'


class Handover(BaseException):
    """This engine stops its work on a recovery; another engine continues it.

    TaskFlow takes this exception for the death of the process: it records nothing, so that the
    next engine finds the flow as it was.
    """


class StepTask(task.Task):
    """Takes one step, with the run and the verdicts of the steps that it requires."""

    def __init__(self, step: sequence.Step) -> None:
        super().__init__(name=step.name, provides=step.provides, requires=step.requires)
        self._step = step

    def execute(self, run: runs.Run, **results: Any) -> Any:
        """Take the step.

        :param results: verdicts by name, as lists if they come from the database
        :raises Handover: another engine continues the recovery
        """
        required = (verdicts.StepVerdict(*results[name]) for name in self._step.requires)
        try:
            return self._step.take(run, *required)
        except (exception.Superseded, exception.Interrupted) as exc:
            raise Handover from exc


def make() -> linear_flow.Flow:
    """Return the flow of one attempt."""
    preparation = unordered_flow.Flow('preparation')
    flow = linear_flow.Flow('recovery').add(preparation)
    for step in sequence.STEPS:
        (flow if step.requires else preparation).add(StepTask(step))
    return flow

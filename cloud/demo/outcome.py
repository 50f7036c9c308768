# SPDX-License-Identifier: Apache-2.0
"""What a scenario has shown: how long nobody was served, what took how long, what is wrong."""

from collections.abc import Sequence
import dataclasses
import itertools
from typing import Any

from cloud import commands
from cloud.demo import recoveries

# What happens while nobody is served, in order. `answer` is what is left until the first answer.
PHASES = ('timeout', 'detect', 'dispatch', 'super', 'start', 'race', 'collapse', 'promote',
          'evacuate', 'answer')
# The engine's steps that belong to each of them.
_STEPS = {'destination': 'super', 'super': 'super', 'start': 'start', 'race': 'race',
          'harden': 'collapse', 'collapse': 'collapse', 'promote': 'promote'}
# What the paper's overhead is: all but the guest's own boot and recovery.
_OVERHEAD = ('detect', 'dispatch', 'super', 'collapse', 'promote')


@dataclasses.dataclass(frozen=True)
class Gap:
    """A time without answers, in seconds since the epoch."""

    began: float
    ended: float

    @property
    def seconds(self) -> float:
        """How long it was."""
        return self.ended - self.began


@dataclasses.dataclass(frozen=True)
class Phase:
    """What was done from when to when, in seconds since the accident."""

    name: str
    began: float
    ended: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.began


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of one accident.

    :ivar key: of the scenario, and `name` for people
    :ivar event: when it happened, in seconds since the epoch
    :ivar gap: in which the database acknowledged nothing
    :ivar web_s: seconds in which the other server did not answer; None if that was not measured
    :ivar done: when each transaction was acknowledged
    :ivar lost: how many that had been acknowledged are missing, or are not what was written
    :ivar errors: what a client that waits patiently was told
    :ivar wrong: what is not as it should be, in words
    :ivar steps: what the engine says of its recovery of the database
    :ivar settled: when that had ended, in seconds since the epoch; None if there was none
    """

    key: str
    name: str
    event: float
    gap: Gap
    phases: tuple[Phase, ...] = ()
    web_s: float | None = None
    done: tuple[float, ...] = ()
    lost: int = 0
    errors: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    steps: tuple[recoveries.Step, ...] = ()
    settled: float | None = None

    @property
    def unavailable_s(self) -> float:
        """For how many seconds nobody was served."""
        return self.gap.seconds

    @property
    def overhead_s(self) -> float:
        """Seconds of it that the guest itself did not need."""
        return sum(phase.seconds for phase in self.phases if phase.name in _OVERHEAD)

    def facts(self) -> dict[str, Any]:
        """Everything, as JSON has it; moments are seconds since the accident."""
        return {
            'key': self.key, 'name': self.name, 'event': self.event,
            'unavailable_s': self.unavailable_s, 'web_unavailable_s': self.web_s,
            'overhead_s': self.overhead_s,
            'phases': {phase.name: [phase.began, phase.ended] for phase in self.phases},
            'acknowledged': len(self.done), 'lost': self.lost, 'errors': list(self.errors),
            'wrong': list(self.wrong), 'steps': [dataclasses.asdict(step) for step in self.steps]}


def longest(done: Sequence[float], event: float, until: float | None = None) -> Gap:
    """Give the longest time without answers around an accident.

    :param done: when there was an answer, in order
    :param event: answers before it do not matter, except for the last one
    :param until: nothing after it matters
    :raises CloudError: there was no answer before, or none after
    """
    before = [moment for moment in done if moment <= event][-1:]
    after = [moment for moment in done if event < moment and (until is None or moment < until)]
    if not before or not after:
        raise commands.CloudError(f'there was no answer {"after" if before else "before"} the '
                                  'accident')
    return max((Gap(*pair) for pair in itertools.pairwise([*before, *after])),
               key=lambda gap: gap.seconds)


def rate(done: Sequence[float], began: float, ended: float) -> float:
    """Give how many answers there were per second in a stretch of time.

    :param done: when there was one
    """
    return sum(began <= moment < ended for moment in done) / (ended - began)


def phases(event: float, suspected: float, steps: Sequence[recoveries.Step], served: float
           ) -> tuple[Phase, ...]:
    """Give what an engine's recovery has spent its time on, until the first answer.

    What the engine did while another phase was under way counts for the earlier one only, and
    what passes between two steps for the later one. The backup is let out when its box is open:
    what its host does after that is no phase.

    :param event: when the accident happened; all moments are seconds since the epoch
    :param served: when the first answer came
    """
    found = [Phase('detect', 0.0, suspected - event)]
    known: dict[str, tuple[float, float]] = {}
    for step in steps:
        name = _STEPS.get(step.name)
        if name is None or step.ended is None:
            continue
        last = step.ended if step.opened is None else step.opened
        began, ended = known.get(name, (step.began, last))
        known[name] = min(began, step.began), max(ended, last)
    at = suspected
    if known:
        known['dispatch'] = suspected, min(began for began, _ in known.values())
    for name in PHASES:
        if name in known:
            ended = min(known[name][1], served)
            if ended > at:
                found.append(Phase(name, at - event, ended - event))
                at = ended
    found.append(Phase('answer', at - event, max(at, served) - event))
    return tuple(found)

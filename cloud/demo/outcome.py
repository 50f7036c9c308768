# SPDX-License-Identifier: Apache-2.0
"""Outcome of a scenario: the time without service, its phases, and faults."""

from collections.abc import Sequence
import dataclasses
import itertools
from typing import Any

from cloud import commands
from cloud.demo import recoveries

# Phases of the time without service, in order. `answer` is the rest until the first answer.
PHASES = ('timeout', 'peer', 'detect', 'dispatch', 'super', 'start', 'race', 'harden', 'unseen',
          'collapse', 'promote', 'evacuate', 'answer')
# The phase that each of the engine's steps belongs to.
_STEPS = {'destination': 'super', 'super': 'super', 'start': 'start', 'race': 'race',
          'harden': 'harden', 'unseen': 'unseen', 'collapse': 'collapse', 'promote': 'promote'}
# The guest's own boot and recovery: the rest is overhead.
_GUEST = 'race'


@dataclasses.dataclass(frozen=True)
class Gap:
    """A time without answers, in seconds since the epoch."""

    began: float
    ended: float

    @property
    def seconds(self) -> float:
        """Return the length in seconds."""
        return self.ended - self.began


@dataclasses.dataclass(frozen=True)
class Phase:
    """A phase of the time without service, in seconds since the accident."""

    name: str
    began: float
    ended: float

    @property
    def seconds(self) -> float:
        """Return the duration in seconds."""
        return self.ended - self.began


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The measurements of one accident.

    :ivar key: the key of the scenario; `name` is the name for readers
    :ivar event: time of the accident, in seconds since the epoch
    :ivar gap: the time in which the database acknowledged no transaction
    :ivar web_s: seconds in which the other server did not answer; None if not measured
    :ivar done: the time of each acknowledged transaction
    :ivar lost: number of acknowledged transactions that are missing or altered
    :ivar errors: the errors that a patient client received
    :ivar wrong: differences from the expected outcome, in words
    :ivar steps: the steps of the engine's recovery of the database
    :ivar settled: end of that recovery, in seconds since the epoch; None without a recovery
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
        """Return the seconds without service."""
        return self.gap.seconds

    @property
    def overhead_s(self) -> float:
        """Return the seconds without service that the guest itself did not need."""
        return sum(phase.seconds for phase in self.phases if phase.name != _GUEST)

    def facts(self) -> dict[str, Any]:
        """Return all measurements for JSON; times of phases are seconds since the accident."""
        return {
            'key': self.key, 'name': self.name, 'event': self.event,
            'unavailable_s': self.unavailable_s, 'web_unavailable_s': self.web_s,
            'overhead_s': self.overhead_s,
            'phases': {phase.name: [phase.began, phase.ended] for phase in self.phases},
            'acknowledged': len(self.done), 'lost': self.lost, 'errors': list(self.errors),
            'wrong': list(self.wrong), 'steps': [dataclasses.asdict(step) for step in self.steps]}


def renamed(result: Outcome, key: str, name: str, wrong: Sequence[str]) -> Outcome:
    """Return the outcome of a scenario as the outcome of another one.

    :param wrong: further differences from the expected outcome
    """
    return dataclasses.replace(result, key=key, name=name, wrong=(*result.wrong, *wrong))


def longest(done: Sequence[float], event: float, until: float | None = None) -> Gap:
    """Return the longest time without answers around an accident.

    :param done: the times of the answers, in order
    :param event: the time of the accident; of the earlier answers, only the last one counts
    :param until: answers after this time are ignored
    :raises CloudError: there is no answer before the accident, or none after
    """
    before = [moment for moment in done if moment <= event][-1:]
    after = [moment for moment in done if event < moment and (until is None or moment < until)]
    if not before or not after:
        raise commands.CloudError(f'there was no answer {"after" if before else "before"} the '
                                  'accident')
    return max((Gap(*pair) for pair in itertools.pairwise([*before, *after])),
               key=lambda gap: gap.seconds)


def rate(done: Sequence[float], began: float, ended: float) -> float:
    """Return the number of answers per second in a span of time.

    :param done: the times of the answers
    """
    return sum(began <= moment < ended for moment in done) / (ended - began)


def phases(event: float, suspected: float, steps: Sequence[recoveries.Step], served: float
           ) -> tuple[Phase, ...]:
    """Return the phases of an engine's recovery, until the first answer.

    If two phases overlap, the overlap counts for the earlier one; the time between two steps
    counts for the later one. Promotion ends when the box is open: the work of the backup's host
    after that is part of no phase.

    :param event: the time of the accident; all times are in seconds since the epoch
    :param served: the time of the first answer
    """
    parts = [Phase('detect', 0.0, suspected - event)]
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
                parts.append(Phase(name, at - event, ended - event))
                at = ended
    parts.append(Phase('answer', at - event, max(at, served) - event))
    return tuple(parts)

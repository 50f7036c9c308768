# SPDX-License-Identifier: Apache-2.0
"""Outcome of a scenario: the time without service, its phases, and faults."""

from collections.abc import Mapping, Sequence
import dataclasses
import itertools
from typing import Any

from cloud import commands
from cloud.demo import recoveries

# Phases of the time without service, in order. `hold` is the end of a race whose first frame was
# too early to decide. `answer` lasts until the guest answers the first packet, `serve` until the
# guest's service does.
PHASES = ('timeout', 'peer', 'detect', 'dispatch', 'super', 'start', 'race', 'hold', 'harden',
          'unseen', 'collapse', 'promote', 'evacuate', 'answer', 'serve')
# The phase that each of the engine's steps belongs to.
_STEPS = {'destination': 'super', 'super': 'super', 'start': 'start', 'race': 'race',
          'harden': 'harden', 'unseen': 'unseen', 'collapse': 'collapse', 'promote': 'promote'}
# Moments of a recovery, in order: the host is suspected, the first frame of the backup's guest may
# decide, Cinder has decided, the guest answers a packet.
MOMENTS = ('suspected', 'frame', 'decided', 'answered')
# The guest's own boot and recovery, before and after its promotion: the rest is overhead.
_GUEST = ('race', 'serve')
# Beginnings of a client's errors that a guest itself has sent.
_ANSWERS = ('Connection refused', 'the database system is starting up')


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
    :ivar waits: for users who connect without a limit, and came before the database served
        again: the seconds until each was served
    :ivar done: the time of each acknowledged transaction
    :ivar lost: number of acknowledged transactions that are missing or altered
    :ivar errors: the errors that a patient client received
    :ivar wrong: differences from the expected outcome, in words
    :ivar steps: the steps of the engine's recovery of the server that `gap` is about
    :ivar settled: end of that recovery, in seconds since the epoch; None without a recovery
    """

    key: str
    name: str
    event: float
    gap: Gap
    phases: tuple[Phase, ...] = ()
    web_s: float | None = None
    waits: tuple[float, ...] = ()
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
    def blocking_s(self) -> float | None:
        """Return the longest wait of a user who connects without a limit; None if not measured."""
        return max(self.waits, default=None)

    @property
    def overhead_s(self) -> float:
        """Return the seconds without service that the guest itself did not need."""
        return sum(phase.seconds for phase in self.phases if phase.name not in _GUEST)

    @property
    def frame_to_open_s(self) -> float | None:
        """Return the seconds from a guest's first frame to its open box.

        None unless that frame has decided. The time does not count in which it was too early to.
        """
        frame = next((step.frame for step in self.steps if step.frame is not None), None)
        opened = next((step.opened for step in self.steps if step.opened is not None), None)
        return None if frame is None or opened is None else opened - frame

    @property
    def moments(self) -> dict[str, float]:
        """Return the moments of the recovery that there were, in seconds since the accident."""
        ends = {phase.name: phase.ended for phase in self.phases}
        frame = next((step.frame for step in self.steps if step.frame is not None), None)
        known = {'suspected': ends.get('detect'), 'frame': frame and frame - self.event,
                 'decided': ends.get('collapse'), 'answered': ends.get('answer')}
        return {name: seconds for name in MOMENTS if (seconds := known[name]) is not None}

    def facts(self) -> dict[str, Any]:
        """Return all measurements for JSON; times of phases are seconds since the accident."""
        return {
            'key': self.key, 'name': self.name, 'event': self.event,
            'unavailable_s': self.unavailable_s, 'web_unavailable_s': self.web_s,
            'blocking_s': self.blocking_s, 'overhead_s': self.overhead_s,
            'frame_to_open_s': self.frame_to_open_s,
            'moments': self.moments,
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


def reached(failures: Sequence[Mapping[str, Any]], event: float) -> float | None:
    """Return when a client first had an answer of the guest after an accident.

    :param failures: the client's events of this kind
    :returns: None if its first answer was one of the guest's service
    """
    return next((float(failure['at']) for failure in failures if failure['at'] > event
                 and any(answer in failure['more']['error'] for answer in _ANSWERS)), None)


def following(event: float, gap: Gap, ends: Sequence[tuple[str, float]]) -> tuple[Phase, ...]:
    """Return phases that follow each other and fill a time without answers.

    :param event: the time of the accident
    :param ends: the phases in order, with the times of their ends; the last phase ends with the
        gap
    """
    parts: list[Phase] = []
    at = gap.began
    for name, ended in [*ends[:-1], (ends[-1][0], gap.ended)]:
        until = min(ended, gap.ended)
        if until > at:
            parts.append(Phase(name, at - event, until - event))
            at = until
    return tuple(parts)


def phases(event: float, gap: Gap, suspected: float, steps: Sequence[recoveries.Step],
           first: float | None = None) -> tuple[Phase, ...]:
    """Return the phases of an engine's recovery, which fill the time without answers.

    If two phases overlap, the overlap counts for the earlier one; the time between two steps
    counts for the later one. Promotion ends when the box is open: the work of the backup's host
    after that is part of no phase.

    :param event: the time of the accident; all times are in seconds since the epoch
    :param first: when the guest answered, before its service did
    """
    known: dict[str, tuple[float, float]] = {}
    for step in steps:
        name = _STEPS.get(step.name)
        if name is None or step.ended is None:
            continue
        last = step.ended if step.opened is None else step.opened
        began, ended = known.get(name, (step.began, last))
        known[name] = min(began, step.began), max(ended, last)
        if step.first is not None:
            known['race'], known['hold'] = (began, step.first), (step.first, last)
    ends = [('detect', suspected)]
    if known:
        ends.append(('dispatch', min(began for began, _ in known.values())))
    ends += [(name, known[name][1]) for name in PHASES if name in known]
    ends += [('answer', gap.ended)] if first is None else [('answer', first), ('serve', gap.ended)]
    return following(event, gap, ends)

# SPDX-License-Identifier: Apache-2.0
"""Rounds side by side: each of some processes plays one round at a time.

A process has connections of its own to the cluster, as another controller has.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from concurrent.futures import process as pools
import dataclasses
import faulthandler
import multiprocessing
import os
import sys
import threading
import time
import traceback
from typing import Generic, TypeVar

from cloud import deadline
from testing.race import outcomes

# Longest time of a round, on a machine that has nothing else to do: a backup hangs for two
# minutes, and the other steps take seconds.
LONGEST_S = 600.0
_LOOK_S = 0.5

_Place = TypeVar('_Place')


class RoundHangs(RuntimeError):
    """A round did not end, or its process died."""


class RoundFails(RuntimeError):
    """A round ended with an error that says nothing about the race."""


@dataclasses.dataclass(frozen=True)
class Task:
    """A round to play.

    :param number: place of the round among all rounds, from 0 on
    :param kind: of primary, one of :data:`outcomes.KINDS`
    :param seed: of all its choices
    """

    number: int
    kind: str
    seed: int


@dataclasses.dataclass(frozen=True)
class Played:
    """A round that has ended.

    :param seconds: duration
    """

    task: Task
    result: outcomes.Result
    story: list[str]
    seconds: float


@dataclasses.dataclass(frozen=True)
class Crew(Generic[_Place]):
    """What the processes do; everything is sent to them.

    :param connect: returns what a process plays its rounds on; called once in each process
    :param play: plays a round, and appends to its story
    :param longest_s: a round that takes longer hangs
    """

    connect: Callable[[], _Place]
    play: Callable[[_Place, Task, list[str]], outcomes.Result]
    longest_s: float = LONGEST_S

    def run(self, tasks: Sequence[Task], jobs: int) -> Iterator[Played]:
        """Play rounds, and yield each as soon as it has ended.

        :param jobs: number of processes
        :raises RoundFails: a round failed
        :raises RoundHangs: a round hangs, or its process died; the story and the stack of each
            thread of a round that hangs are on standard error
        """
        pool = futures.ProcessPoolExecutor(
            jobs, mp_context=multiprocessing.get_context('spawn'), initializer=_begin,
            initargs=(self,))
        try:
            for future in futures.as_completed([pool.submit(_play, task) for task in tasks]):
                yield future.result()
        except pools.BrokenProcessPool as exc:
            raise RoundHangs('a round hangs, or its process died: see above') from exc
        finally:
            pool.shutdown(cancel_futures=True)

    def turn(self, place: _Place, task: Task) -> Played:
        """Play one round in this process, which ends if the round hangs."""
        story: list[str] = []
        ended = threading.Event()
        watchdog = threading.Thread(target=_watch, daemon=True, name='watchdog', args=(
            ended, task, story, deadline.Deadline(self.longest_s)))
        watchdog.start()
        began = time.monotonic()
        try:
            result = self.play(place, task, story)
        except Exception as exc:
            # As a text, because not every error can be sent to another process.
            raise RoundFails('\n'.join([
                f'race {task.number + 1}: {task.kind}, seed {task.seed}', *story,
                *traceback.format_exception(exc)])) from None
        finally:
            ended.set()
            watchdog.join()
        return Played(task, result, story, time.monotonic() - began)


def _watch(ended: threading.Event, task: Task, story: Sequence[str],
           limit: deadline.Deadline) -> None:
    """End the process if a round does not end in time."""
    while not ended.wait(_LOOK_S):
        if limit.passed:
            print(f'race {task.number + 1} hangs: {task.kind}, seed {task.seed}', *story,
                  sep='\n', file=sys.stderr, flush=True)
            faulthandler.dump_traceback()
            os._exit(1)


_turn: Callable[[Task], Played]


def _begin(crew: Crew[_Place]) -> None:
    """Begin a process of a crew."""
    global _turn
    place = crew.connect()
    _turn = lambda task: crew.turn(place, task)  # noqa: E731  the place has any type


def _play(task: Task) -> Played:
    return _turn(task)

# SPDX-License-Identifier: Apache-2.0
"""Simulated time, and actors that run one at a time in an order that a seed determines."""

from collections.abc import Callable
import heapq
import itertools
import random
from typing import Any

import greenlet  # type: ignore[import-untyped]


class Killed(BaseException):
    """The process of the actor was killed."""


class Actor:
    """A thread of activity within a process.

    :ivar owner: the name of the process
    """

    def __init__(self, hub: 'Hub', owner: str, act: Callable[[], Any]) -> None:
        self.owner = owner
        self.result: Any = None
        self.failure: Exception | None = None
        self.over = False
        self._hub = hub
        self._act = act
        self.greenlet = greenlet.greenlet(self._run, hub.greenlet)

    def _run(self) -> None:
        try:
            self.result = self._act()
        except Killed:
            pass
        except Exception as exc:
            self.failure = exc
            if not getattr(exc, 'expected', False) and self.owner in self._hub.strict:
                self._hub.failures.append(exc)
        self.over = True


class Hub:
    """The clock and the scheduler of all actors.

    :ivar failures: the errors of actors of strict processes
    :ivar strict: the processes whose actors must not fail
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.greenlet = greenlet.getcurrent()
        self.failures: list[Exception] = []
        self.strict: set[str] = set()
        self._time = 1000.0
        self._count = itertools.count()
        self._due: list[tuple[float, float, int, Actor]] = []
        self._dead: set[str] = set()
        self._frozen: dict[str, list[Actor]] = {}
        self._actors: dict[Any, Actor] = {}

    def now(self) -> float:
        """Return the simulated time."""
        return self._time

    def spawn(self, owner: str, act: Callable[[], Any], after: float = 0.0) -> Actor:
        """Start an actor after some seconds."""
        actor = Actor(self, owner, act)
        self._actors[actor.greenlet] = actor
        self._plan(actor, after)
        return actor

    def sleep(self, seconds: float) -> None:
        """Suspend the running actor for some seconds."""
        actor = self._actors[greenlet.getcurrent()]
        self._plan(actor, seconds)
        self.greenlet.switch()
        if actor.owner in self._dead:
            raise Killed

    def latency(self, least: float, most: float) -> None:
        """Suspend the running actor for a random time."""
        self.sleep(self.random.uniform(least, most))

    def wait(self, actor: Actor, poll: float = 0.02) -> Any:
        """Wait for the end of an actor, and return its result or raise its error."""
        while not actor.over:
            self.sleep(poll)
        if actor.failure is not None:
            raise actor.failure
        return actor.result

    def kill(self, owner: str) -> None:
        """Kill a process: none of its actors continues."""
        self._dead.add(owner)

    def freeze(self, owner: str) -> None:
        """Stop a process, which does not notice the time that passes."""
        self._frozen.setdefault(owner, [])

    def thaw(self, owner: str) -> None:
        """Continue a process that was frozen."""
        for actor in self._frozen.pop(owner, []):
            self._plan(actor, 0.0)

    def die(self) -> None:
        """Kill the process of the running actor at this point.

        :raises Killed: always
        """
        self.kill(self._actors[greenlet.getcurrent()].owner)
        raise Killed

    def alive(self, owner: str) -> bool:
        """Return whether a process has not been killed."""
        return owner not in self._dead

    def run(self, until: float, enough: Callable[[], bool]) -> None:
        """Run the actors.

        :param until: seconds of simulated time
        :param enough: returns whether the run may end early
        """
        end = self._time + until
        while self._due and self._due[0][0] <= end and not enough():
            time, _, _, actor = heapq.heappop(self._due)
            self._time = max(self._time, time)
            if actor.owner in self._dead and not actor.greenlet:
                actor.over = True
                continue
            if actor.owner in self._frozen and actor.owner not in self._dead:
                self._frozen[actor.owner].append(actor)
                continue
            actor.greenlet.switch()
            if actor.over:
                self._actors.pop(actor.greenlet, None)

    def close(self) -> None:
        """End all actors that still wait."""
        self._dead |= {actor.owner for actor in self._actors.values()}
        for actor in list(self._actors.values()):
            if actor.greenlet:
                actor.greenlet.throw(Killed)
        self._actors.clear()
        self._due.clear()

    def _plan(self, actor: Actor, after: float) -> None:
        heapq.heappush(self._due, (self._time + max(after, 0.0), self.random.random(),
                                   next(self._count), actor))

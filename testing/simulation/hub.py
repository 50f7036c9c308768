# SPDX-License-Identifier: Apache-2.0
"""Simulated time, and actors that run one at a time in an order that a seed determines."""

import collections
from collections.abc import Callable
import heapq
import itertools
import random
from typing import Any

import greenlet  # type: ignore[import-untyped]

START = 1000.0
# Turns at one moment beyond which no time passes: whatever waits for a moment waits for ever.
_MOST_TURNS = 100_000


class Killed(greenlet.GreenletExit):
    """The process of the actor was killed."""


class NoProgressError(AssertionError):
    """Actors take turns, and simulated time does not pass."""


class Clock:
    """The clocks of one process.

    :ivar rate: seconds that pass for the process in one second
    :ivar ahead: seconds that its system clock is ahead of the time
    """

    __slots__ = ('ahead', 'rate')

    def __init__(self) -> None:
        self.rate, self.ahead = 1.0, 0.0


class Actor:
    """A thread of activity within a process.

    :ivar owner: the name of the process
    :ivar clock: the clock of the process
    """

    __slots__ = ('_act', '_hub', 'clock', 'failure', 'greenlet', 'over', 'owner', 'result', 'turn',
                 'woken')

    def __init__(self, hub: 'Hub', owner: str, act: Callable[[], Any]) -> None:
        self.owner = owner
        self.clock = hub.clock(owner)
        self.result: Any = None
        self.failure: Exception | None = None
        self.over = False
        # The number of its next turn: an earlier plan for it is void.
        self.turn = -1
        self.woken = False
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


class Timer:
    """A call that is made at a time.

    :ivar cancelled: set to leave the call out
    """

    __slots__ = ('act', 'cancelled')

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act
        self.cancelled = False


class Hub:
    """The clock and the scheduler of all actors.

    Most of the time of a simulation is spent here, so that the code of a turn is in few functions.

    :ivar time: the simulated time
    :ivar failures: the errors of actors of strict processes
    :ivar strict: the processes whose actors must not fail
    :ivar running: the actor that runs; None for a timer
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.greenlet = greenlet.getcurrent()
        self.failures: list[Exception] = []
        self.strict: set[str] = set()
        self.running: Actor | None = None
        self.time = START
        self._to_hub = self.greenlet.switch
        self._chance = self.random.random
        self._count = itertools.count()
        self._due: list[tuple[float, float, int, Actor | Timer]] = []
        self._dead: set[str] = set()
        self._frozen: dict[str, list[Actor]] = {}
        self._actors: set[Actor] = set()
        self._clocks: collections.defaultdict[str, Clock] = collections.defaultdict(Clock)

    def now(self) -> float:
        """Return the simulated time."""
        return self.time

    # Clocks of processes

    def set_clock(self, owner: str, rate: float = 1.0, ahead: float = 0.0) -> None:
        """Let the clock of a process run faster or slower, and be ahead."""
        clock = self._clocks[owner]
        clock.rate, clock.ahead = rate, ahead

    def clock(self, owner: str | None = None) -> Clock:
        """Return the clock of a process, by default of the running one."""
        if owner is not None:
            return self._clocks[owner]
        return self.running.clock if self.running is not None else self._clocks['']

    # Actors

    @property
    def owner(self) -> str:
        """The process of the running actor."""
        return self.running.owner if self.running is not None else ''

    def spawn(self, owner: str, act: Callable[[], Any], after: float = 0.0) -> Actor:
        """Start an actor after some seconds."""
        actor = Actor(self, owner, act)
        self._actors.add(actor)
        self._plan(actor, after)
        return actor

    def call(self, after: float, act: Callable[[], object]) -> Timer:
        """Call a function after some seconds; it must not sleep."""
        timer = Timer(act)
        heapq.heappush(self._due, (self.time + max(after, 0.0), self._chance(),
                                   next(self._count), timer))
        return timer

    def sleep(self, seconds: float) -> None:
        """Suspend the running actor for some seconds."""
        actor = self.running
        assert actor is not None, 'a timer cannot sleep'
        if actor.owner in self._dead:
            raise Killed
        self._plan(actor, seconds)
        # Its turn may be within one of its fibers.
        actor.greenlet = greenlet.getcurrent()
        self._to_hub()
        if actor.owner in self._dead:
            raise Killed

    def park(self, seconds: float | None) -> bool:
        """Suspend the running actor until it is woken; return False if the time is over.

        :param seconds: None for no limit
        """
        actor = self.running
        assert actor is not None, 'a timer cannot wait'
        if actor.owner in self._dead:
            raise Killed
        actor.woken = False
        if seconds is None:
            actor.turn = -1
        else:
            turn = actor.turn = next(self._count)
            heapq.heappush(self._due, (self.time + seconds if seconds > 0.0 else self.time,
                                       self._chance(), turn, actor))
        actor.greenlet = greenlet.getcurrent()
        self._to_hub()
        if actor.owner in self._dead:
            raise Killed
        return actor.woken

    def wake(self, actor: Actor) -> None:
        """Let a parked actor continue."""
        if not actor.woken and not actor.over:
            actor.woken = True
            self._plan(actor, 0.0)

    def latency(self, least: float, most: float) -> None:
        """Suspend the running actor for a random time."""
        self.sleep(least + (most - least) * self._chance())

    def wait(self, actor: Actor, poll: float = 0.02) -> Any:
        """Wait for the end of an actor, and return its result or raise its error."""
        while not actor.over:
            self.sleep(poll)
        if actor.failure is not None:
            raise actor.failure
        return actor.result

    # Processes

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

    def frozen(self, owner: str) -> bool:
        """Return whether a process is stopped."""
        return owner in self._frozen

    def die(self) -> None:
        """Kill the process of the running actor at this point.

        :raises Killed: always
        """
        self.kill(self.owner)
        raise Killed

    def alive(self, owner: str) -> bool:
        """Return whether a process has not been killed."""
        return owner not in self._dead

    def run(self, until: float, enough: Callable[[], bool] = lambda: False) -> None:
        """Run the actors.

        :param until: seconds of simulated time
        :param enough: returns whether the run may end early
        :raises NoProgressError: simulated time does not pass
        """
        end, turns = self.time + until, 0
        due, dead, frozen, pop = self._due, self._dead, self._frozen, heapq.heappop
        while due and due[0][0] <= end and not enough():
            time, _, turn, actor = pop(due)
            turns = 0 if time > self.time else turns + 1
            if turns > _MOST_TURNS:
                last = 'a timer' if isinstance(actor, Timer) else actor.owner
                raise NoProgressError(f'{turns} turns at {time} s, the last one of {last}')
            if isinstance(actor, Timer):
                self.time = time
                if not actor.cancelled:
                    actor.act()
                continue
            if actor.turn != turn or actor.over:
                continue
            self.time = time
            owner = actor.owner
            if owner in dead:
                if not actor.greenlet:
                    actor.over = True
                    self._actors.discard(actor)
                    continue
            elif frozen and owner in frozen:
                frozen[owner].append(actor)
                continue
            self.running = actor
            actor.greenlet.switch()
            self.running = None
            if actor.over:
                self._actors.discard(actor)

    def close(self) -> None:
        """End all actors that still wait."""
        self._dead |= {actor.owner for actor in self._actors}
        for actor in list(self._actors):
            if actor.greenlet:
                self.running = actor
                actor.greenlet.throw(Killed)
        self.running = None
        self._actors.clear()
        self._due.clear()

    def _plan(self, actor: Actor, after: float) -> None:
        turn = actor.turn = next(self._count)
        heapq.heappush(self._due, (self.time + after if after > 0.0 else self.time,
                                   self._chance(), turn, actor))

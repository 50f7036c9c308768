# SPDX-License-Identifier: Apache-2.0
"""One engine's work on one recovery, from its taking over on."""

from collections.abc import Callable, Iterator, Mapping
import contextlib
import dataclasses
import threading
from typing import Any, TypeVar

from oslo_log import log as logging

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine import ports
from specreds_nova.engine.recovery import choices
from specreds_nova.engine.recovery import observer as observers
from specreds_nova.engine.recovery import turns as all_turns
from specreds_nova.engine.recovery import verdict as verdicts

LOG = logging.getLogger(__name__)

_T = TypeVar('_T')

# Seconds between two tries of what does not answer: at first, and at last.
_SOON = 0.1
_LATER = 2.0
# Seconds for which what was read is as good as read now.
_MOMENT = 1.0
# Seconds that a host that is back has for saying what runs on it, and Nova for what it is doing.
_UNKNOWN = 20.0
SUPER = 'super'
START = 'start'
WITHDRAW = 'withdraw'
COLLAPSE = 'collapse'
DESTINATION = 'destination'
# States of a superposition in which the backup's version is the real one.
DECIDED = frozenset({'promoted', 'merging', 'merged'})
_UNDECIDED = frozenset({'creating', 'superposed'})
_NOTED = {'promoted': verdicts.PROMOTED, 'late-dirty': verdicts.LATE,
          'dirty': verdicts.PRIMARY, 'gone': verdicts.GONE}


class Interrupted(Exception):
    """The engine is being stopped; another one goes on."""


class Again(Exception):
    """This attempt is over, and nothing is left of it: begin anew."""


@dataclasses.dataclass(frozen=True)
class World:
    """What steps have to do with.

    :ivar options: group ``[engine]``
    :ivar turns: who prepares a backup now
    :ivar beside: calls something, if it can while whoever asks goes on
    :ivar stopping: tells whether the engine is being stopped
    :ivar observer: told of what happens
    """

    clock: ports.Clock
    compute: ports.Compute
    backups: ports.Backups
    volumes: ports.Volumes
    suspects: ports.Suspects
    store: ports.Store
    options: Any
    choices: choices.Choices
    turns: all_turns.Turns = dataclasses.field(default_factory=all_turns.Turns)
    beside: Callable[[Callable[[], None]], object] = lambda act: act()
    stopping: Callable[[], bool] = lambda: False
    observer: observers.Observer = dataclasses.field(default_factory=observers.Observer)


class Run:
    """What the steps of a recovery share. Two of them may run at once.

    :param recovery: as it was taken over
    """

    def __init__(self, world: World, recovery: model.Recovery) -> None:
        self.world = world
        self.options = world.options
        self._recovery = recovery
        self._lock = threading.Lock()
        self._server: model.Server | None = None
        self._resumed: verdicts.Verdict | None = None
        self._looked = False
        self._written = False
        self._read = world.clock.now()
        if recovery.epoch == 1 and recovery.state == model.QUEUED and not recovery.steps:
            # Nobody has worked on it before.
            self._looked = True

    @property
    def recovery(self) -> model.Recovery:
        """As it was read or changed last."""
        with self._lock:
            return self._recovery

    @property
    def id(self) -> str:
        """The recovery's."""
        return self._recovery.id

    @property
    def now(self) -> float:
        """Seconds since the epoch."""
        return self.world.clock.now()

    # The store

    def fresh(self) -> model.Recovery:
        """Read the recovery, with its steps.

        :raises exception.Superseded: it is another engine's, or has ended
        """
        found = self.insist(self.world.store.get, self.id)
        if found is None or found.state == model.ENDED:
            raise exception.Ended(f'recovery {self.id} has ended')
        if found.epoch != self._recovery.epoch:
            raise exception.Superseded(
                f'recovery {self.id} was taken over by engine {found.engine}')
        with self._lock:
            self._recovery = found
            self._read = self.now
        return found

    def glance(self) -> model.Recovery:
        """Read it unless that was done a moment ago.

        :raises exception.Superseded: it is another engine's, or has ended
        """
        return self.fresh() if self.now - self._read >= _MOMENT else self.recovery

    def change(self, **values: Any) -> model.Recovery:
        """Change the recovery.

        :raises exception.Superseded: it is another engine's
        """
        changed = self.insist(lambda: self.world.store.change(self._recovery, **values))
        with self._lock:
            self._recovery = dataclasses.replace(changed, steps=self._recovery.steps)
            return self._recovery

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[dict[str, Any]]:
        """Note that a step begins and ends, with what is put into the dictionary that this gives.

        :raises exception.Superseded: the recovery is another engine's
        """
        attempt = self.insist(self.world.store.begin_step, self._recovery, name)
        began = model.Step(name, attempt, self._recovery.engine or '', self.now)
        self._note(began)
        detail: dict[str, Any] = {}
        try:
            yield detail
        except (exception.Superseded, Interrupted):
            raise
        except Exception as exc:
            detail.setdefault('error', str(exc))
            self._end(began, detail)
            raise
        self._end(began, detail)
        self.world.observer.step(name, self.now - began.began)

    def _end(self, began: model.Step, detail: dict[str, Any]) -> None:
        self.insist(self.world.store.end_step, self._recovery, began.name, began.attempt, detail)
        self._note(dataclasses.replace(began, ended=self.now, detail=dict(detail)))

    def _note(self, step: model.Step) -> None:
        """Have a step among those that are known, as it is in the store by now."""
        with self._lock:
            others = tuple(one for one in self._recovery.steps
                           if (one.name, one.attempt) != (step.name, step.attempt))
            self._recovery = dataclasses.replace(self._recovery, steps=(*others, step))

    # Where it is

    def resumed(self) -> verdicts.Verdict | None:
        """Where it stood when this engine took over; it is found out once."""
        with self._lock:
            if self._looked:
                return self._resumed
        found = self.standing()
        with self._lock:
            self._resumed, self._looked = found, True
        return found

    def standing(self) -> verdicts.Verdict | None:
        """Tell what is decided, or is being decided, by whomever; None if nothing."""
        recovery = self.fresh()
        if recovery.state == model.MERGING:
            return verdicts.Verdict(verdicts.ADOPTED)
        last = self._last_collapse()
        if last is not None and last.ended is not None:
            noted = _NOTED.get(last.detail.get('outcome', ''))
            mine = last.detail.get('superposition') == recovery.superposition
            if noted and recovery.superposition and mine:
                return verdicts.Verdict(noted)
        elif last is not None and recovery.superposition:
            state = self.insist(self.world.volumes.state, recovery.superposition)
            if state is None:
                return verdicts.Verdict(verdicts.GONE)
            if state not in _UNDECIDED:
                return verdicts.Verdict(verdicts.DECIDING)
        if recovery.state == model.COMMITTED:
            return verdicts.Verdict(verdicts.PROMOTED)
        return None

    def deciding(self) -> bool:
        """Tell whether a decision was begun of which it is not noted how it ended."""
        last = self._last_collapse()
        return last is not None and last.ended is None

    def _last_collapse(self) -> model.Step | None:
        return next((step for step in reversed(self.recovery.steps) if step.name == COLLAPSE),
                    None)

    def chosen(self) -> list[str]:
        """The hosts that were chosen for backups, one after the other."""
        return [str(step.detail['host']) for step in self.recovery.steps
                if step.name == DESTINATION and step.ended and step.detail.get('host')]

    def superposition(self) -> str | None:
        """The one that it has; also if an engine died before it could say so itself."""
        recovery = self.recovery
        if recovery.superposition is not None:
            return recovery.superposition
        for step in reversed(recovery.steps):
            if step.name == SUPER and step.detail.get('superposition'):
                return str(step.detail['superposition'])
            if step.name not in (SUPER, DESTINATION):
                # Whatever comes after it begins with saying so.
                return None
        return None

    def server(self, *, anew: bool = False) -> model.Server | None:
        """The server as it was when it was looked at; None if it is deleted.

        :param anew: look at it now
        """
        if self._server is None or anew:
            self._server = self.insist(self.world.compute.server, self._recovery.server)
        return self._server

    # When to stop

    def over(self) -> verdicts.Verdict | None:
        """Say why there is no need to go on before the commit point; None if there is."""
        if self.recovery.abort:
            return verdicts.Verdict(verdicts.ABORTED, 'an operator wants it to end')
        if self.insisting():
            return None
        if self._written:
            return verdicts.Verdict(verdicts.PRIMARY, 'it has written')
        if self.back():
            return verdicts.Verdict(verdicts.PRIMARY, f'{self._recovery.host} is back')
        return None

    def back(self) -> bool:
        """Return whether the host is not suspected, and says that the server runs on it.

        A host that has booted again, or has lost the server's domain otherwise, is no living
        primary. Its recovery goes on: the storage decides as ever, so that nothing is lost if
        Nova starts the server there meanwhile, and nothing depends on a host that has just failed.
        """
        host, suspects = self._recovery.host, self.world.suspects
        return (not suspects.suspected(host)
                and bool(suspects.running(host, self._recovery.server)))

    def wrote(self) -> None:
        """Note that the primary has written since: what has, always has."""
        self._written = True

    def spared(self) -> verdicts.Verdict | None:
        """The same right before the decision: it is never against a host that beats and is well.

        An operator's word begins a race, but does not decide it. A host that is well without the
        server does not speak for it, unless somebody has stopped the server or is at work on it.
        """
        host, suspects = self._recovery.host, self.world.suspects
        until = self.now + _UNKNOWN
        while not self.insisting() and suspects.beats(host):
            runs = suspects.running(host, self._recovery.server)
            if runs:
                return verdicts.Verdict(verdicts.PRIMARY, f'{host} is well')
            if runs is not None or self.now >= until:
                found = self._handled(until)
                if found is None or found.kind != verdicts.AGAIN:
                    return found or self.over()
            self.pause(_SOON)
        return self.over()

    def _handled(self, until: float) -> verdicts.Verdict | None:
        """Say what Nova or its users do with a server that does not run on its host, if anything.

        :param until: seconds since the epoch until which what Nova is doing may end
        :returns: ``AGAIN`` for: ask again
        """
        host, compute = self._recovery.host, self.world.compute
        server = self.server(anew=True)
        if server is None:
            return verdicts.Verdict(verdicts.ABORTED, 'the server is deleted')
        if server.host != host:
            return verdicts.Verdict(verdicts.ABORTED, f'the server is on {server.host} now')
        if server.task is not None:
            return verdicts.Verdict(verdicts.AGAIN) if self.now < until else None
        if server.status == 'SHUTOFF' and not self.insist(compute.stopped_by_itself, server.id):
            return verdicts.Verdict(verdicts.PRIMARY, 'somebody has stopped it')
        return None

    def insisting(self) -> bool:
        """Tell whether the primary may be fenced although its host is well.

        So it is after a decision of which nobody knows how it ended: only another one tells.
        """
        return any(step.name == COLLAPSE and step.detail.get('outcome') == 'gone'
                   for step in self.recovery.steps)

    def silent(self, host: str) -> bool:
        """Tell whether a backup's host is not heard, while others are.

        It is not asked then: whoever waits for its answer does nothing else meanwhile.
        """
        suspects = self.world.suspects
        return suspects.suspected(host) and bool(suspects.healthy())

    def lost(self, host: str, since: float) -> bool:
        """Tell whether a backup's host is to be given up.

        :param since: when it ceased to answer, in seconds since the epoch
        """
        return self.now - since >= self.options.destination_timeout and self.silent(host)

    def pause(self, seconds: float) -> None:
        """Let time pass.

        :raises Interrupted: the engine is being stopped
        """
        self.world.turns.leave(self.id)
        self.wait(self.world.clock.sleep, seconds)

    def wait(self, wait: Callable[..., _T], *arguments: Any) -> _T:
        """Wait for something, by calling what waits for it.

        :raises Interrupted: the engine is being stopped
        """
        if self.world.stopping():
            raise Interrupted
        found = wait(*arguments)
        if self.world.stopping():
            raise Interrupted
        return found

    def insist(self, call: Callable[..., _T], *arguments: Any,
               until: float | None = None) -> _T:
        """Call until it is answered.

        :param until: seconds since the epoch after which to give up
        :raises exception.Unreachable: it was not, in time
        :raises Interrupted: the engine is being stopped
        """
        pause = _SOON
        while True:
            try:
                return call(*arguments)
            except exception.Unreachable as exc:
                if until is not None and self.now >= until:
                    raise
                if pause == _SOON:
                    LOG.warning('recovery %s waits: %s', self.id, exc)
            self.pause(pause)
            pause = min(pause * 2, _LATER)


class Silence:
    """For how long a backup's host has been asked for nothing.

    :param host: its name
    """

    def __init__(self, run: Run, host: str) -> None:
        self._run = run
        self._host = host
        self._since: float | None = None

    def lasts(self) -> bool:
        """Note that it does not answer, and tell whether it is to be given up."""
        if self._since is None:
            self._since = self._run.now
        return self._run.lost(self._host, self._since)

    def ends(self) -> None:
        """Note that it has answered."""
        self._since = None


def before_commit(recovery: model.Recovery) -> bool:
    """Tell whether a recovery can still end in favour of the primary."""
    return recovery.state in model.BEFORE_COMMIT


def metadata_seconds(metadata: Mapping[str, str], key: str, default: float) -> float:
    """Give a number of seconds from a server's metadata; the default if there is none in it."""
    try:
        return max(0.0, float(metadata[key]))
    except (KeyError, ValueError):
        return default

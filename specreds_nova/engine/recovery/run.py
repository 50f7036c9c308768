# SPDX-License-Identifier: Apache-2.0
"""The work of one engine on one recovery: what is decided, and whether to continue."""

from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import threading
from typing import Any, TypeVar
import uuid

from oslo_log import log as logging

from specreds_cinder.superposition.truth import states
from specreds_nova import exception as backup_errors
from specreds_nova.beats import voices
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import context as contexts
from specreds_nova.engine.recovery import left
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.suspicion import evidence

LOG = logging.getLogger(__name__)

# The names of the steps on the timeline of a recovery, in the order in which they are taken.
DESTINATION = 'destination'
SUPER = 'super'
START = 'start'
RACE = 'race'
# Parts of the decision: the backup becomes durable, tenants cease to see the primary, Cinder
# decides, or the backup is dropped.
HARDEN = 'harden'
UNSEEN = 'unseen'
COLLAPSE = 'collapse'
WITHDRAW = 'withdraw'
FENCE = 'fence'
# The part of it without a superposition.
SHUT_OUT = 'shut-out'
PROMOTE = 'promote'
ADOPT = 'adopt'
# The part of it that records a request of a user which the failed host has left.
PENDING = 'pending'
MERGE = 'merge'
# A guest that was promoted at its first frame gets ready.
READY = 'ready'
# The only step of a recovery of a server that crashed on a healthy host.
RESTART = 'restart'

_T = TypeVar('_T')

# Seconds between two calls of a service that does not answer: at first, and at last.
_PAUSE = 0.1
_PAUSE_AT_LAST = 2.0
# Seconds for which a recovery that was read counts as up to date.
_MOMENT = 1.0
# Seconds for a returned host to report its domains, and for Nova to end what it is doing.
_UNKNOWN = 20.0
# Seconds between two looks for that report.
_SOON = 0.1
# Seconds after the creation of a recovery for which its server need not be read again.
_RECENT = 2.0
# Seconds for which a host that is heard may leave calls unanswered: what it was asked for may take
# long.
_MUTE = 30.0
# If a host does not answer, so many others are asked, to see whether calls arrive at all.
_OTHERS = 3
# Decisions that prove nothing, after which the server is evacuated.
_UNPROVEN = 2
_UNDECIDED = frozenset({states.CREATING, states.SUPERPOSED})
# By the outcome of a decision of Cinder: the verdict.
KINDS = {'promoted': verdicts.PROMOTED, 'late-dirty': verdicts.LATE,
         'dirty': verdicts.PRIMARY, 'gone': verdicts.GONE}


class _Taken:
    """A step that a run takes.

    :ivar step: the step as it is known here
    :ivar stored: the step as it is stored; None if it is not
    :ivar writing: whether the step is being written
    """

    def __init__(self, step: model.Step) -> None:
        self.step = step
        self.stored: model.Step | None = None
        self.writing = False


class Run:
    """One engine's work on one recovery: its record, its steps and its patience.

    The steps share it, and two of them may run at the same time. The end of a step is written
    together with what follows it at once, mostly the begin of the next step: a transaction costs
    more than the work of most steps. An engine that is killed between the end of a step and that
    transaction has not written the end, as if it were killed before the end. What follows may only
    read: before it changes anything elsewhere, it has to begin a step, or to change the recovery.

    :param recovery: as it was taken over, with its steps
    :param server: the server, as it was read just before the recovery was created
    """

    def __init__(self, context: contexts.Context, recovery: model.Recovery,
                 server: model.Server | None = None) -> None:
        self.context = context
        self.options, self.settings = context.options, context.settings
        # As it is stored, but with the steps as they are known here.
        self._recovery = recovery
        self._lock = threading.Lock()
        self._read = context.clock.now()
        # What is not written yet: steps that have begun or ended, and values.
        self._unwritten: list[_Taken] = []
        self._planned: dict[str, Any] = {}
        # Seconds for which services that this run needs have not answered: no limit counts them.
        self.away = 0.0
        # The recovery may have waited for its preparation. What users change after the server was
        # read is found out before the decision: recovery/tenant.py.
        self._server = server if context.age(recovery.created) <= _RECENT else None
        self._began = self.now
        self._resumed: verdicts.StepVerdict | None = None
        self._looked = False
        # Whether a host for the backup is being chosen, while other steps are taken.
        self.choosing = False
        # When the backup was started by this run, by the engine's clock.
        self.started: float | None = None
        # Whether the backup's host asks the sentinel of the primary's host.
        self.asks_sentinel = False
        # The status with which the backup's host has answered to its start, until the race.
        self.answer: Mapping[str, Any] | None = None
        # Whether the backup's box was opened, so that users reach the server.
        self.serves = False
        if recovery.epoch == 1 and recovery.state == model.QUEUED and not recovery.steps:
            # No engine has worked on it before.
            self._looked = True

    # The record

    @property
    def recovery(self) -> model.Recovery:
        """The recovery, as it was read or changed last."""
        with self._lock:
            if self._planned:
                return dataclasses.replace(self._recovery, **self._planned)
            return self._recovery

    @property
    def id(self) -> str:
        """The id of the recovery."""
        return self._recovery.id

    @property
    def now(self) -> float:
        """Seconds of this engine's own clock, to be compared with each other only."""
        return self.context.clock.now()

    def suspected_for(self, host: model.Host) -> float:
        """Return for how many seconds a host is suspected, or trusted again.

        :param host: as it was read just before
        """
        known = self.context.leases.known(host, self.now)
        return self.context.age(host.since) if known is None else known

    def fresh(self) -> model.Recovery:
        """Read what others may have changed of the recovery.

        :raises exception.Superseded: another engine has the recovery, or it has ended
        """
        self.flush()
        current = self.insist(lambda: self.context.store.refresh(self._recovery))
        with self._lock:
            self._recovery = dataclasses.replace(self._recovery, abort=current.abort)
            self._read = self.now
            return self._recovery

    def glance(self) -> model.Recovery:
        """Read the recovery, unless it was read or changed within the last second.

        :raises exception.Superseded: another engine has the recovery, or it has ended
        """
        return self.fresh() if self.now - self._read >= _MOMENT else self.recovery

    def change(self, **values: Any) -> model.Recovery:
        """Change the recovery, and write the steps that have ended.

        :raises exception.Superseded: another engine has the recovery
        """
        self._write(values)
        return self.recovery

    def _write(self, values: Mapping[str, Any], begun: Sequence[_Taken] = (), *,
               waits: bool = False) -> None:
        """Write values and steps, with all that is not written yet.

        :param begun: steps that begin
        :param waits: whether to write the begins of steps that have not ended, too
        """
        with self._lock:
            recovery, new = self._recovery, {**self._planned, **values}
            before = [taken for taken in self._unwritten
                      if not taken.writing and (waits or taken.step.ended is not None)]
            written = [(taken, taken.step) for taken in (*before, *begun)]
            for taken in before:
                taken.writing = True
        try:
            changed = self._insist(self._sleep, lambda: self.context.store.change(
                recovery, begun=[step for taken, step in written if taken.stored is None],
                ended=[step for taken, step in written if taken.stored is not None], **new))
            with self._lock:
                self._recovery = dataclasses.replace(changed, steps=self._recovery.steps)
                self._planned = {name: value for name, value in self._planned.items()
                                 if name not in new}
                self._read = self.now
                self._wrote(written, changed.steps)
        finally:
            for taken in before:
                taken.writing = False

    def _wrote(self, written: Sequence[tuple[_Taken, model.Step]], begun: Sequence[model.Step]
               ) -> None:
        """Note what is stored of steps, which may have ended since they were written.

        :param written: the steps, each as it was written
        :param begun: the steps among them that were not stored before, as they are stored now
        """
        stored = iter(begun)
        for taken, step in written:
            taken.stored = next(stored) if taken.stored is None else step
            self._note(taken, taken.stored if taken.step == step else dataclasses.replace(
                taken.step, attempt=taken.stored.attempt))
        self._unwritten = [taken for taken in self._unwritten if taken.step != taken.stored]

    def plan(self, **values: Any) -> None:
        """Change the recovery together with the step that begins next.

        Nothing but this run may depend on the values before that step.
        """
        with self._lock:
            self._planned |= values

    def flush(self) -> None:
        """Write what is not written yet.

        :raises exception.Superseded: another engine has the recovery
        """
        if self._planned or any(not taken.writing for taken in self._unwritten):
            self._write({}, waits=True)

    def discard(self) -> None:
        """Discard what is not written yet, as if the engine had been killed before."""
        with self._lock:
            for taken in self._unwritten:
                self._note(taken, taken.stored)
            self._unwritten, self._planned = [], {}

    @contextlib.contextmanager
    def step(self, name: str, *, reads: bool = False) -> Iterator[dict[str, Any]]:
        """Record the begin of a step at once, and its end together with what follows.

        The dictionary that is yielded becomes the detail of the step.

        :param reads: whether the step changes nothing elsewhere: its begin is recorded when the
            run waits, or together with the end
        :raises exception.Superseded: another engine has the recovery
        """
        taken, began = _Taken(self._new(name)), self.now
        if reads:
            self._put(taken, taken.step)
        else:
            self._write({}, [taken])
        detail: dict[str, Any] = {}
        try:
            yield detail
        except (exception.Superseded, exception.Interrupted):
            raise
        except Exception as exc:
            detail.setdefault('error', str(exc))
            self._end(taken, detail)
            raise
        self._end(taken, detail)
        self.context.observer.step(name, self.now - began)

    def _new(self, name: str) -> model.Step:
        """Return a new step, with the attempt that follows the known ones."""
        attempt = 1 + max((step.attempt for step in self.recovery.steps if step.name == name),
                          default=0)
        return model.Step(name, attempt, self._recovery.engine or '', self.context.clock.wall())

    def _end(self, taken: _Taken, detail: dict[str, Any]) -> None:
        self._put(taken, dataclasses.replace(
            taken.step, ended=self.context.clock.wall(), detail=dict(detail)))

    def _put(self, taken: _Taken, step: model.Step) -> None:
        """Replace a step by what is still to be written."""
        with self._lock:
            self._note(taken, step)
            if taken not in self._unwritten:
                self._unwritten.append(taken)

    def _note(self, taken: _Taken, step: model.Step | None) -> None:
        """Replace a known step, or add it to the known ones; remove it if it is None."""
        steps = list(self._recovery.steps)
        place = steps.index(taken.step) if taken.step in steps else len(steps)
        steps[place:place + 1] = [] if step is None else [step]
        self._recovery = dataclasses.replace(self._recovery, steps=tuple(steps))
        if step is not None:
            taken.step = step

    def free(self) -> None:
        """Free the slot: nothing races, whatever is still to be done."""
        self.context.capacity.leave(self.id)

    def silent(self, host: str) -> bool:
        """Return whether a backup's host is not heard while other hosts are.

        Such a host is not called: the recovery could do nothing else while it waits.
        """
        suspects = self.context.suspects
        return suspects.suspected(host) and bool(suspects.healthy())

    def lost(self, host: str, since: float) -> bool:
        """Return whether a backup's host has to be given up.

        A nova-compute that is silent beside a living sentinel does nothing for a recovery either.

        :param since: time since which it has not answered, by the engine's clock
        """
        suspects = self.context.suspects
        return self.now - since >= self.settings.destination_timeout and (
            self.silent(host) or (suspects.speaks(host) and bool(suspects.healthy())))

    def pause(self, seconds: float) -> None:
        """Write what is not written yet, and sleep.

        :raises exception.Interrupted: the engine is being stopped
        :raises exception.Superseded: another engine has the recovery
        """
        self.flush()
        self._sleep(seconds)

    def _sleep(self, seconds: float) -> None:
        self.context.preparations.leave(self.id)
        self.wait(self.context.clock.sleep, seconds)

    def wait(self, wait: Callable[..., _T], *arguments: Any) -> _T:
        """Call a function that waits, and return its result.

        :raises exception.Interrupted: the engine is being stopped
        """
        if self.context.stopping():
            raise exception.Interrupted
        result = wait(*arguments)
        if self.context.stopping():
            raise exception.Interrupted
        return result

    def insist(self, call: Callable[..., _T], *arguments: Any,
               until: float | None = None) -> _T:
        """Call a service again until it answers, and return the answer.

        :param until: time after which to give up, by the engine's clock
        :raises exception.Unreachable: the service has not answered in time
        :raises exception.Interrupted: the engine is being stopped
        """
        # The database may not answer either: it must not delay what has a limit.
        return self._insist(self.pause if until is None else self._sleep, call, *arguments,
                            until=until)

    def _insist(self, rest: Callable[[float], None], call: Callable[..., _T], *arguments: Any,
                until: float | None = None) -> _T:
        pause, began = _PAUSE, self.now
        while True:
            try:
                answer = call(*arguments)
            except exception.Unreachable as exc:
                if until is not None and self.now >= until:
                    raise
                if pause == _PAUSE:
                    LOG.warning('recovery %s waits for a service: %s', self.id, exc)
            else:
                if pause > _PAUSE:
                    self.away += self.now - began
                return answer
            rest(pause)
            pause = min(pause * 2, _PAUSE_AT_LAST)

    # Progress

    def resumed(self) -> verdicts.StepVerdict | None:
        """Return the decision that this engine found when it took over; None without one."""
        with self._lock:
            if self._looked:
                return self._resumed
        verdict = self.standing(anew=False)
        with self._lock:
            self._resumed, self._looked = verdict, True
        return verdict

    def standing(self, *, anew: bool = True) -> verdicts.StepVerdict | None:
        """Return the decision that was made or is being made by any engine; None without one.

        :param anew: read the recovery again; the begin of a step does that as well
        """
        recovery = self.fresh() if anew else self.recovery
        if recovery.state == model.MERGING:
            return verdicts.StepVerdict(verdicts.ADOPTED)
        last = self._last_collapse()
        if last is not None and last.ended is not None:
            noted = KINDS.get(last.detail.get('outcome', ''))
            mine = last.detail.get('superposition') == recovery.superposition
            if recovery.superposition and mine:
                if last.detail['outcome'] == states.UNPROVEN:
                    return self.nothing_proven()
                if noted:
                    return verdicts.StepVerdict(noted)
        elif last is not None and recovery.superposition:
            state = self.insist(self.context.volumes.state, recovery.superposition)
            if state is None:
                return verdicts.StepVerdict(verdicts.GONE)
            if state not in _UNDECIDED:
                return verdicts.StepVerdict(verdicts.DECIDING)
        if recovery.state == model.COMMITTED:
            return verdicts.StepVerdict(verdicts.PROMOTED)
        if self.shutting_out() is not None:
            return verdicts.StepVerdict(verdicts.SHUT_OUT, 'its volumes cannot be superposed')
        return None

    def deciding(self) -> bool:
        """Return whether a decision was begun whose outcome is not recorded."""
        last = self._last_collapse()
        return last is not None and last.ended is None

    def unproven(self) -> int:
        """Return the number of decisions that have proven nothing.

        Something else has changed the volumes: the primary may live, or not.
        """
        return sum(step.name == COLLAPSE
                   and step.detail.get('outcome') == states.UNPROVEN
                   for step in self.recovery.steps)

    def nothing_proven(self) -> verdicts.StepVerdict:
        """Return what follows a decision that has proven nothing: another race, but only once."""
        return verdicts.StepVerdict(
            verdicts.AGAIN if self.unproven() < _UNPROVEN else verdicts.EVACUATE,
            'it is unproven whether the primary has written')

    def shutting_out(self) -> model.Step | None:
        """Return the last request to fence the primary without a superposition.

        None if there is none, or Cinder has refused it before it fenced a client.
        """
        last = next((step for step in reversed(self.recovery.steps)
                     if step.name == SHUT_OUT), None)
        return None if last is None or last.detail.get('outcome') == 'refused' else last

    def _last_collapse(self) -> model.Step | None:
        return next((step for step in reversed(self.recovery.steps)
                     if step.name == COLLAPSE), None)

    @property
    def backup_id(self) -> str:
        """The id of the backup on its host: the recovery's for the first one, else another.

        A host accepts an id once, and the first backup may still have a claim with it.
        """
        return backup_id(self.recovery)

    def superposition(self) -> str | None:
        """Return the id of the superposition, even if an engine died before it recorded it."""
        recovery = self.recovery
        if recovery.superposition is not None:
            return recovery.superposition
        for step in reversed(recovery.steps):
            if step.name == SUPER and step.detail.get('superposition'):
                return str(step.detail['superposition'])
            if step.name not in (SUPER, DESTINATION):
                # Any later step begins with the record of the superposition.
                return None
        return None

    def superposed(self) -> Mapping[str, Any]:
        """Return what was recorded with the last superposition: the server's volumes and MACs."""
        return next((step.detail for step in reversed(self.recovery.steps)
                     if step.name == SUPER and step.detail.get('superposition')), {})

    def server(self, *, anew: bool = False) -> model.Server | None:
        """Return the server as it was first read; None if it is deleted.

        :param anew: read the server again
        """
        if self._server is None or anew:
            self._server = self.insist(self.context.compute.server, self._recovery.server)
        return self._server

    # Reasons to stop

    def over(self) -> verdicts.StepVerdict | None:
        """Return a verdict if the recovery need not continue before the commit point."""
        if self.recovery.abort:
            return verdicts.StepVerdict(verdicts.ABORTED, self.recovery.abort)
        if self.drill:
            return self._gives_way()
        if self.insisting():
            return None
        if (mode := self.insist(self.context.modes.of, self._recovery.host)) != model.ACT:
            return verdicts.StepVerdict(
                verdicts.ABORTED, f'the mode of {self._recovery.host} is {mode}')
        if self.back():
            return verdicts.StepVerdict(verdicts.PRIMARY, f'{self._recovery.host} is back')
        return None

    @property
    def drill(self) -> bool:
        """Whether the primary is well, and its backup is only tried."""
        return is_drill(self._recovery)

    def _gives_way(self) -> verdicts.StepVerdict | None:
        """Return a verdict if a drill is to end: it holds no recovery up.

        Of several drills the oldest one goes on.
        """
        host, context = self._recovery.host, self.context
        if context.suspects.suspected(host) or (
                self.insist(context.store.host, host).state != model.TRUSTED):
            return verdicts.StepVerdict(verdicts.ABORTED, f'{host} is suspected')
        if self.insist(context.modes.of, host) == model.PAUSE:
            return verdicts.StepVerdict(verdicts.ABORTED,
                                        f'the mode of {host} is {model.PAUSE}')
        if (context.suspects.is_well(host)
                and context.suspects.running(host, self._recovery.server) is False):
            return verdicts.StepVerdict(verdicts.ABORTED, f'its guest does not run on {host}')
        mine = self._recovery.created, self.id
        for other in self.insist(context.store.active):
            if other.id != self.id and (
                    not is_drill(other) or (other.created, other.id) < mine):
                return verdicts.StepVerdict(
                    verdicts.ABORTED, f'recovery {other.id} of another server is under way')
        return None

    def back(self) -> bool:
        """Return whether the host is not suspected, and reports that the server runs on it.

        Only a beat that this engine has heard since it began to work on the recovery counts:
        another engine may have noticed the host's silence a moment earlier.

        A host that has rebooted, or has lost the server's domain otherwise, has no living
        primary. Its recovery continues: storage decides, so that nothing is lost if Nova starts
        the server there meanwhile, and nothing depends on a host that has just failed.
        """
        host, suspects = self._recovery.host, self.context.suspects
        return (not suspects.suspected(host) and suspects.heard_after(host, self._began)
                and bool(suspects.running(host, self._recovery.server)))

    def lives(self) -> verdicts.StepVerdict | None:
        """Return a verdict if the host is well and reports that the server runs.

        Unlike :meth:`spared` it waits for nothing: the last look before a decision.
        """
        host, suspects = self._recovery.host, self.context.suspects
        if (not self.insisting() and suspects.is_well(host)
                and (self.left or suspects.running(host, self._recovery.server))):
            return verdicts.StepVerdict(verdicts.PRIMARY, f'{host} is well')
        return self.spoken_for() or self.over()

    def spoken_for(self) -> verdicts.StepVerdict | None:
        """Return a verdict if the sentinel says that the host is well, and nova-compute is silent.

        That says nothing of a server that has crashed. Only what this engine has heard since it
        began to work on the recovery counts.
        """
        host = self._recovery.host
        if not self._speaks() or not self.context.suspects.spoke_after(host, self._began):
            return None
        return verdicts.StepVerdict(verdicts.PRIMARY, f'the sentinel of {host} is heard')

    def _speaks(self) -> bool:
        """Return whether the sentinel of the host seems to speak for the server."""
        crashed = any(fact.get('kind') in (evidence.CRASH, evidence.BOOT)
                      for fact in self._recovery.why)
        return not (self.insisting() or crashed) and (
            self.context.suspects.speaks(self._recovery.host))

    @property
    def left(self) -> bool:
        """Whether the server did not run, or was busy, when its host died."""
        return left.of(self._recovery) is not None

    def spared(self) -> verdicts.StepVerdict | None:
        """Return a verdict right before the decision if the host beats and is well.

        An operator's word begins a race, but does not decide it. A host that is well without the
        server spares the server only if a user has stopped it or Nova is working on it. A server
        that was left in its state stays with a host that is back.
        """
        host, suspects = self._recovery.host, self.context.suspects
        until = self.now + _UNKNOWN
        while not self.insisting() and suspects.is_well(host):
            runs = suspects.running(host, self._recovery.server)
            if runs or self.left:
                return verdicts.StepVerdict(verdicts.PRIMARY, f'{host} is well')
            if runs is not None or self.now >= until:
                verdict = self._handled(until)
                if verdict is None or verdict.kind != verdicts.AGAIN:
                    return verdict or self.over()
            self.pause(_SOON)
        while self.now - self._began < voices.ALONE and self._speaks() and (
                not suspects.spoke_after(host, self._began)):
            # An engine that has just taken the recovery over may have heard its last datagram
            # before that: the next one is due.
            self.pause(_SOON)
        return self.spoken_for() or self.over()

    def second_opinion(self, status: Mapping[str, Any]) -> verdicts.StepVerdict | None:
        """Return a verdict if the sentinel of the primary's host reports that the server runs.

        :param status: the status of the backup, whose host has asked
        """
        self.asks_sentinel = bool(status.get('primary_asked'))
        if not status.get('primary_runs') or self.insisting() or self.drill:
            return None
        return verdicts.StepVerdict(
            verdicts.PRIMARY, f'the sentinel of {self._recovery.host} reports that it runs')

    def _handled(self, until: float) -> verdicts.StepVerdict | None:
        """Return a verdict if Nova or a user handles a server that does not run on its host.

        :param until: time by the engine's clock until which Nova's task may end
        :returns: ``AGAIN`` to ask again
        """
        host, compute = self._recovery.host, self.context.compute
        server = self.server(anew=True)
        if server is None:
            return verdicts.StepVerdict(verdicts.ABORTED, 'the server is deleted')
        if server.host != host:
            return verdicts.StepVerdict(verdicts.ABORTED, f'the server is on {server.host} now')
        if server.deleting:
            return verdicts.StepVerdict(verdicts.ABORTED, f'{host} is well, and deletes it')
        if server.task is not None:
            return verdicts.StepVerdict(verdicts.AGAIN) if self.now < until else None
        if server.status == 'SHUTOFF' and not self.insist(compute.stopped_by_itself, server.id):
            return verdicts.StepVerdict(verdicts.PRIMARY, 'somebody has stopped it')
        return None

    def insisting(self) -> bool:
        """Return whether the primary may be fenced although its host is well.

        That is so after a decision with an unknown outcome: only another decision shows it; and
        after a request to fence it without a superposition.
        """
        return self.shutting_out() is not None or any(
            step.name == COLLAPSE and step.detail.get('outcome') == 'gone'
            for step in self.recovery.steps)


class UnansweredSince:
    """The time since which the host of a backup has left each call unanswered."""

    def __init__(self, run: Run, host: str) -> None:
        self._run = run
        self._host = host
        self._since: float | None = None

    def lasts(self) -> bool:
        """Note an unanswered call, and return whether the host has to be given up."""
        if self._since is None:
            self._since = self._run.now
        return self._run.lost(self._host, self._since) or self._is_mute()

    def _is_mute(self) -> bool:
        """Return whether a host that is heard answers not even a call for which it does nothing.

        Of hosts that are not heard the broker may be away, so that nobody answers. If no other
        host answers either, the calls of this engine are lost.
        """
        run = self._run
        if run.context.suspects.suspected(self._host) or (
                self._since is None or run.now - self._since < _MUTE):
            return False
        backups = run.context.backups
        others = sorted(set(run.context.suspects.healthy()) - {self._host})[:_OTHERS]
        mute = not self._answers(backups.status, self._host, run.backup_id) and (
            not others or any(self._answers(backups.boot, other) for other in others))
        if not mute:
            self._since = None
        return mute

    def _answers(self, call: Callable[..., object], *arguments: str) -> bool:
        try:
            call(*arguments)
        except exception.Unreachable:
            return False
        except backup_errors.BackupError:
            pass
        return True

    def ends(self) -> None:
        """Note an answer."""
        self._since = None


def is_drill(recovery: model.Recovery) -> bool:
    """Return whether a recovery only tries the backup of a server that is well."""
    return any(fact.get('kind') == evidence.DRILL for fact in recovery.why)


def backup_id(recovery: model.Recovery) -> str:
    """Return the id of the backup of a recovery on its host.

    That is the id of the recovery for the first backup, another one for the next, and its own for
    one that an earlier recovery has promoted.
    """
    if before := inherited(recovery):
        return str(before['backup_id'])
    number = len(chosen(recovery))
    return recovery.id if number <= 1 else str(uuid.uuid5(uuid.UUID(recovery.id), str(number)))


def chosen(recovery: model.Recovery) -> list[str]:
    """Return the hosts that were chosen for backups of a recovery, in this order."""
    return [str(step.detail['host']) for step in recovery.steps
            if step.name == DESTINATION and step.ended and step.detail.get('host')]


def inherited(recovery: model.Recovery) -> Mapping[str, Any]:
    """Return what a recovery has taken over of an earlier one; empty for nothing.

    That is the last answer of Cinder to a superposition, if it was that a backup serves.
    """
    last = next((step.detail for step in reversed(recovery.steps)
                 if step.name == SUPER and step.ended), {})
    return last if 'backup_id' in last else {}


def before_commit(recovery: model.Recovery) -> bool:
    """Return whether a recovery can still end in favour of the primary."""
    return recovery.state in model.BEFORE_COMMIT


# SPDX-License-Identifier: Apache-2.0
"""The names of the steps on the timeline of a recovery, in the order in which they are taken."""

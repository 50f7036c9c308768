# SPDX-License-Identifier: Apache-2.0
"""The work of one engine on one recovery: what is decided, and whether to continue."""

from collections.abc import Mapping
from typing import Any
import uuid

from specreds_cinder.superposition.truth import states
from specreds_nova.engine import model
from specreds_nova.engine.recovery import context as contexts
from specreds_nova.engine.recovery import left
from specreds_nova.engine.recovery import recorded
from specreds_nova.engine.recovery import timeline
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.suspicion import evidence

# Seconds for a returned host to report its domains, and for Nova to end what it is doing.
_UNKNOWN = 20.0
# Seconds between two looks for that report.
_SOON = 0.1
# Seconds after the creation of a recovery for which its server need not be read again.
_RECENT = 2.0
# Decisions that prove nothing, after which the server is evacuated.
_UNPROVEN = 2
_UNDECIDED = frozenset({states.CREATING, states.SUPERPOSED})
_NOTED = {'promoted': verdicts.PROMOTED, 'late-dirty': verdicts.LATE,
          'dirty': verdicts.PRIMARY, 'gone': verdicts.GONE}


class Run(recorded.RecordedRun):
    """The state that the steps of a recovery share. Two steps may run at the same time.

    :param recovery: as it was taken over
    :param server: the server, as it was read just before the recovery was created
    """

    def __init__(self, context: contexts.Context, recovery: model.Recovery,
                 server: model.Server | None = None) -> None:
        super().__init__(context, recovery)
        # The recovery may have waited for its preparation. What users change after the server was
        # read is found out before the decision: recovery/tenant.py.
        self._server = server if self._age(recovery.created) <= _RECENT else None
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
            noted = _NOTED.get(last.detail.get('outcome', ''))
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
        return sum(step.name == timeline.COLLAPSE
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
                     if step.name == timeline.SHUT_OUT), None)
        return None if last is None or last.detail.get('outcome') == 'refused' else last

    def _last_collapse(self) -> model.Step | None:
        return next((step for step in reversed(self.recovery.steps)
                     if step.name == timeline.COLLAPSE), None)

    @property
    def backup_id(self) -> str:
        """The id of the backup on its host: the recovery's for the first one, else another.

        A host accepts an id once, and the first backup may still have a claim with it.
        """
        return backup_id(self.recovery)

    def chosen(self) -> list[str]:
        """Return the hosts that were chosen for backups, in this order."""
        return _chosen(self.recovery)

    def inherited(self) -> Mapping[str, Any]:
        """Return what this recovery has taken over of an earlier one; empty for nothing."""
        return _inherited(self.recovery)

    def superposition(self) -> str | None:
        """Return the id of the superposition, even if an engine died before it recorded it."""
        recovery = self.recovery
        if recovery.superposition is not None:
            return recovery.superposition
        for step in reversed(recovery.steps):
            if step.name == timeline.SUPER and step.detail.get('superposition'):
                return str(step.detail['superposition'])
            if step.name not in (timeline.SUPER, timeline.DESTINATION):
                # Any later step begins with the record of the superposition.
                return None
        return None

    def superposed(self) -> Mapping[str, Any]:
        """Return what was recorded with the last superposition: the server's volumes and MACs."""
        return next((step.detail for step in reversed(self.recovery.steps)
                     if step.name == timeline.SUPER and step.detail.get('superposition')), {})

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
            return verdicts.StepVerdict(verdicts.ABORTED, 'an operator wants it to end')
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

        That says nothing of a server that has crashed.
        """
        host, suspects = self._recovery.host, self.context.suspects
        crashed = any(fact.get('kind') in (evidence.CRASH, evidence.BOOT)
                      for fact in self._recovery.why)
        if self.insisting() or crashed or not suspects.speaks(host):
            return None
        return verdicts.StepVerdict(verdicts.PRIMARY, f'the sentinel of {host} is heard')

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
            step.name == timeline.COLLAPSE and step.detail.get('outcome') == 'gone'
            for step in self.recovery.steps)


def is_drill(recovery: model.Recovery) -> bool:
    """Return whether a recovery only tries the backup of a server that is well."""
    return any(fact.get('kind') == evidence.DRILL for fact in recovery.why)


def backup_id(recovery: model.Recovery) -> str:
    """Return the id of the backup of a recovery on its host.

    That is the id of the recovery for the first backup, another one for the next, and its own for
    one that an earlier recovery has promoted.
    """
    if inherited := _inherited(recovery):
        return str(inherited['backup_id'])
    number = len(_chosen(recovery))
    return recovery.id if number <= 1 else str(uuid.uuid5(uuid.UUID(recovery.id), str(number)))


def _chosen(recovery: model.Recovery) -> list[str]:
    return [str(step.detail['host']) for step in recovery.steps
            if step.name == timeline.DESTINATION and step.ended and step.detail.get('host')]


def _inherited(recovery: model.Recovery) -> Mapping[str, Any]:
    """Return the last answer of Cinder to a superposition, if it was that a backup serves."""
    last = next((step.detail for step in reversed(recovery.steps)
                 if step.name == timeline.SUPER and step.ended), {})
    return last if 'backup_id' in last else {}


def before_commit(recovery: model.Recovery) -> bool:
    """Return whether a recovery can still end in favour of the primary."""
    return recovery.state in model.BEFORE_COMMIT

# SPDX-License-Identifier: Apache-2.0
"""The evacuation of a server by Nova, which is requested until it has succeeded."""

from collections.abc import Callable
import dataclasses
import functools
from typing import Any

from oslo_log import log as logging

from specreds_cinder.superposition.truth import states
from specreds_nova import exception as backup_errors
from specreds_nova import tasks
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import cleaning
from specreds_nova.engine.recovery import left
from specreds_nova.engine.recovery import pending
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.recovery.steps import destination
from specreds_nova.engine.recovery.steps import super as super_step

LOG = logging.getLogger(__name__)

# Seconds between two looks, each of which costs Nova and Neutron while other servers race.
_PAUSE = 1.0
# Seconds until a failed evacuation is requested again: at first, and at most.
_ASK_AGAIN = 2.0
_ASK_AT_LAST = 60.0
# Seconds for which a server counts as it was read.
_MOMENT = 2.0
# Seconds for which Nova may still begin an evacuation or a deletion that it has not confirmed.
_MAY_BEGIN = 30.0
# Number of failed evacuations after which Nova's checks of the host are skipped.
_BEFORE_FORCE = 2
# Seconds of silence of the host of a backup after which an operator has to look there.
_LEFT_ALONE = 120.0

LetOut = Callable[[str], bool]
# Seconds for which the engine has seen Nova's claim before it asks the host for its uptime.
_ASK_HOST = 10.0
# How wrong the start of nova-compute may be by the engine's clock: at once, and by which share of
# the time since that look. And seconds by which the engine's clock and Nova's differ at most.
_WRONG, _DRIFT, _APART = 1.0, 0.02, 10.0
# Seconds for which a nova-compute may wait for its resource tracker.
_FINISHES = 60.0
# Seconds after which Nova is asked what has become of a request: a little longer than its
# conductor waits for the scheduler (rpc_response_timeout, 60 s by default). Seconds between two
# questions, each of which costs as much as a look at the server.
_ASK_NOVA = 75.0
_UNCLAIMED_AGAIN = 30.0
# Seconds after which a request counts as lost that the conductor has not given up. A queue of
# requests for a whole rack takes minutes, and one that is in it still will be fulfilled later. So
# the time doubles with each such request.
_LOST = 300.0


def evacuate(run: runs.Run, source: str, detail: dict[str, Any],
         let_out: LetOut | None = None) -> verdicts.StepVerdict | None:
    """Have Nova move a server; None when it has, or the server is deleted.

    :param let_out: opens the backup's box on a host and returns whether it is open; None without a
        backup
    """
    return _Evacuation(run, source, detail, let_out).wait()


class _Evacuation:
    """The state of one evacuation."""

    def __init__(self, run: runs.Run, source: str, detail: dict[str, Any],
                 let_out: LetOut | None) -> None:
        self._run = run
        self._source = source
        self._detail = detail
        self._has_backup = let_out is not None
        self._let_out: LetOut = let_out or (lambda host: False)
        self._asked: float | None = None
        # When Nova will not begin any more what it has not confirmed.
        self._uncertain = float('-inf')
        self._times = 0
        # Times of the last look at the server, and of the last one at Nova's evacuation of it.
        self._read = self._looked = run.now
        self._started = float('-inf')
        # Times since which hosts are silent.
        self._silent: dict[str, float] = {}
        self._worker = _Worker(run)
        self._unclaimed = _Unclaimed(run)
        # The destination of a request that Nova may still fulfill: no other host gets another one.
        self._named: str | None = None
        # The destination that is silent, and may find the request when it is back.
        self._awaited: str | None = None
        # Whether the evacuation has been noted as late.
        self._late = False
        # The destination where the guest may run, although Nova has not noted that.
        self._unnoted: str | None = None

    def wait(self) -> verdicts.StepVerdict | None:
        """Request the evacuation until the server is on another host, or the time is over."""
        with self._run.context.crowds.waiting('evacuation') as interval:
            return self._wait(interval)

    def _wait(self, interval: Callable[[float, int], float]) -> verdicts.StepVerdict | None:
        run = self._run
        until = run.now - run.away + run.settings.adopt_timeout
        while True:
            server = self._server()
            if server is None:
                self._detail['deleted'] = True
                return None
            moved = server.host != self._source and server.task is None
            if moved and not self._stopped(server):
                self._detail['host'] = server.host
                if self._late:
                    run.plan(error=None)
                pending.fulfill(run, server, self._detail)
                return None
            over = run.now - run.away >= until
            if ((over or self._left_alone()) and self._may_serve()) or (
                    over and (self._is_worked_on(server) or self._must_wait(server))):
                self._note_late(server, run.settings.adopt_timeout if over else _LEFT_ALONE)
                over = False
            # An engine that left a request that Nova has lost would leave it so for ever.
            if over and not (server.host == self._source and self._awaited is None
                             and self._unclaimed.is_undecided(server)):
                return self._fail(server)
            if moved:
                self._start(server)
            elif server.deleting:
                self._delete(server)
            elif self._stuck(server) if server.task is not None else (
                    self._due() and not self._finishes(server)):
                if over:
                    return self._fail(server)
                if self._source == run.recovery.host or not cleaning.returned(run, self._source):
                    self._ask(server)
                elif left := self._leave(server):
                    return left
            run.pause(interval(_PAUSE, run.context.capacity.count()))

    def _may_serve(self) -> bool:
        """Return whether the promoted backup may serve on its host.

        Such a server stays this recovery's until Nova has adopted it: nothing else keeps Nova from
        starting it somewhere else.
        """
        host = self._backup_host
        if host is None or self._unnoted not in (None, host):
            return False
        if not self._lost(host) and self._run.context.suspects.running(
                host, self._run.recovery.server) is False:
            # A host that was booted has lost its backup: then the record names it no more.
            self._let_out(host)
        return self._backup_host is not None

    def _is_worked_on(self, server: model.Server) -> bool:
        """Return whether a host that is heard evacuates a server: what follows is still due."""
        moving = self._moving(server) if tasks.is_rebuild(server.task) else None
        return moving is not None and moving.claimed and not self._lost(moving.host)

    def _must_wait(self, server: model.Server) -> bool:
        """Return whether nobody may start a server before a silent destination is back.

        If its source is back, the server stays there instead, and the request is ended by a reset.
        """
        return (self._awaited is not None and tasks.is_rebuild(server.task)
                and not self._stays(server))

    def _stays(self, server: model.Server) -> bool:
        suspects = self._run.context.suspects
        return (suspects.is_well(self._source)
                and suspects.running(self._source, server.id) is False)

    def _left_alone(self) -> bool:
        """Return whether the host of the backup has been silent for so long that it may live.

        Cinder would have merged what a dead host has left, and Nova evacuated the server.
        """
        host = self._backup_host
        return (host is not None and self._lost(host)
                and self._run.now - self._silent[host] >= _LEFT_ALONE)

    def _fail(self, server: model.Server) -> verdicts.StepVerdict:
        """Return a failure, and reset a server whose evacuation Nova has given up or lost.

        If its source is back, nobody recovers it again: it is started there.
        """
        run = self._run
        waits = self._awaited is not None and tasks.is_rebuild(server.task)
        if self._unclaimed.lost or waits:
            if server.task is not None and self._stays(server) and (
                    verdict := self._leave(server)):
                return verdict
            pending.note(run, server)
            try:
                run.insist(self._act, run.context.compute.reset, server)
            except exception.Refused as exc:
                LOG.warning('recovery %s: %s', run.id, exc)
        return verdicts.failed(self._unfinished(server, run.settings.adopt_timeout),
                               self._remedy(server))

    def _note_late(self, server: model.Server, seconds: float) -> None:
        """Show that the adoption is late, once."""
        if self._late:
            return
        self._late = True
        host, why = self._backup_host, self._unfinished(server, seconds)
        if host is not None:
            why += f'; its backup may serve on {host}'
        why = verdicts.with_remedy(why, self._remedy(server))
        LOG.warning('recovery %s: %s', self._run.id, why)
        self._run.context.observer.recovery('error', self._run.change(error=why))

    def _remedy(self, server: model.Server) -> str:
        """Return what an operator does about an evacuation that does not end."""
        host, run = self._backup_host, self._run
        if host is not None and self._lost(host):
            # Cinder merges only when nobody has the second version open.
            return f'{host} is silent: start nova-compute there, or power {host} off'
        if self._unnoted is not None and server.task is None:
            return (f'its guest may run on {self._unnoted}, although Nova has it on '
                    f'{server.host}: look there. To have it evacuated, end it there: '
                    f'virsh destroy {server.id}')
        if self._must_wait(server):
            return (f'{self._awaited} is silent: start nova-compute there, or, if it is off: '
                    f'openstack speculative host suspect --dead {self._awaited}')
        if server.task is None or self._unclaimed.lost or self._is_worked_on(server):
            return verdicts.AGAIN_LATER
        return f'if Nova does nothing to it: {verdicts.make_active(run.recovery.server)}'

    def _unfinished(self, server: model.Server, seconds: float) -> str:
        """Say what Nova has not done in some seconds."""
        return (f'Nova has not evacuated it in {seconds:g} s: it is '
                f'{server.status}, {server.task or "and nothing is being done to it"}')

    def _server(self) -> model.Server | None:
        run = self._run
        self._read = run.now
        return run.insist(run.context.compute.server, run.recovery.server)

    def _act(self, act: Callable[[str], None] | None, server: model.Server, *,
             anew: bool = False) -> bool:
        """Have Nova act on a server after another look; return False if the server has changed.

        :param act: None only to look
        :param anew: only another host counts as a change
        :raises exception.Superseded: another engine has the recovery
        """
        self._run.fresh()
        seen = self._server()
        if seen != server and not (anew and seen is not None and seen.host == server.host):
            return False
        if act is not None:
            act(server.id)
        return True

    def _leave(self, server: model.Server) -> verdicts.StepVerdict | None:
        """Leave a server where it is, because that host is back; None if it has changed.

        An evacuation that hangs is reset. Whoever saw the end of the guest there has left it to
        that evacuation, so the guest is started here, unless it was at rest.
        """
        run, compute, hangs = self._run, self._run.context.compute, server.task is not None
        if hangs:
            pending.note(run, server)
        try:
            if not run.insist(self._act, compute.reset if hangs else None, server):
                return None
            gone = run.context.suspects.running(self._source, server.id) is False
            active = hangs or server.status == 'ACTIVE'
            if gone and not run.insist(self._rests, server, active) and hangs:
                run.insist(functools.partial(self._act, compute.reboot, server, anew=True))
        except exception.Refused as exc:
            LOG.warning('recovery %s: %s', run.id, exc)
            self._detail['refused'] = str(exc)
        return verdicts.failed(f'{self._source} is back', verdicts.NOTHING)

    def _rests(self, server: model.Server, active: bool) -> bool:
        """Stop a server that was at rest, unless it has another host; return if it was."""
        return not self._act(None, server, anew=True) or pending.settle(
            self._run, server.id if active else None)

    def _stopped(self, server: model.Server) -> bool:
        """Return whether Nova has stopped an evacuated server that no user has stopped.

        The nova-compute of the failed host, which is back, may mark the server as stopped between
        the engine's look and Nova's evacuation, which then stops it again.
        """
        compute = self._run.context.compute
        return server.status == 'SHUTOFF' and not left.was_off(self._run.recovery) and bool(
            self._run.insist(compute.stopped_by_itself, server.id))

    def _start(self, server: model.Server) -> None:
        """Have Nova start an evacuated server on its new host."""
        run = self._run
        if run.now - self._started < _ASK_AGAIN:
            return
        self._started = run.now
        LOG.warning('recovery %s: Nova has stopped the server after its evacuation: it is started '
                    'on %s', run.id, server.host)
        try:
            self._act(run.context.compute.reboot, server)
        except (exception.Refused, exception.Unreachable) as exc:
            self._detail['refused'] = str(exc)

    def _due(self) -> bool:
        """Return whether to ask Nova (again).

        Nova does not refuse a second evacuation at once (``API.evacuate``): while one is adopted,
        the other one finds a guest on its host, and sets the server to error.
        """
        if self._run.now < self._uncertain:
            return False
        wait = min(_ASK_AGAIN * 2.0 ** (self._times - 1), _ASK_AT_LAST)
        return self._asked is None or self._run.now - self._asked >= wait

    @property
    def _backup_host(self) -> str | None:
        return self._run.recovery.destination if self._has_backup else None

    def _target(self) -> str | None:
        """Return the host of the backup; None without a backup, or if the host is lost."""
        host = self._backup_host
        return None if host is None or self._lost(host) else host

    def _lost(self, host: str) -> bool:
        suspects = self._run.context.suspects
        if not (suspects.suspected(host) or suspects.speaks(host)) or (
                host not in (self._source, self._backup_host) and suspects.unplugged(
                    host, self._run.insist(self._run.context.compute.service_at_hand, host))):
            self._silent.pop(host, None)
            return False
        return self._run.lost(host, self._silent.setdefault(host, self._run.now))

    def _stuck(self, server: model.Server) -> bool:
        """Return whether what Nova is doing hangs, so that the evacuation has to be requested."""
        run = self._run
        if run.now - self._looked < _ASK_AGAIN:
            return False
        self._looked = run.now
        self._named = self._awaited = None
        moving = self._moving(server)
        if moving is None:
            return (run.now >= self._uncertain and server.host == self._source
                    and (tasks.is_of_its_host(server.task)
                         or left.is_as_left(run.recovery, server)
                         or self._unclaimed.is_lost(server, None))
                    and self._lost(self._source))
        host = moving.host
        if host and self._lost(host):
            if self._given_up(host):
                return True
            self._awaited = None if moving.claimed else host
            return False
        if host and (self._dropped(moving) or self._backup_serves(host)):
            return True
        if moving.claimed:
            self._unclaimed.forget()
            return False
        lost = self._unclaimed.is_lost(server, host)
        self._named = None if self._unclaimed.given_up else host or None
        return lost

    def _moving(self, server: model.Server) -> model.Evacuation | None:
        """Return Nova's evacuation of a server from its host; None if there is none.

        Nova leaves records of requests, because it takes the oldest one for each.
        """
        moving = self._run.insist(self._run.context.compute.evacuation, server.id)
        if moving is None or moving.host == server.host or (
                not moving.claimed and self._worker.is_left(moving)):
            return None
        return moving

    def _given_up(self, host: str) -> bool:
        """Return whether the server may be evacuated again from a destination that is lost."""
        run = self._run
        if host == self._backup_host:
            # Whoever else is to run it waits until Cinder has fenced and merged what ran there.
            return True
        # Should the host be back while Nova is at it elsewhere, it would run twice. A host that is
        # off is back later, and finds that Nova has ended the request.
        return super_step.is_known_dead(run, host) or bool(
            run.options.evacuate_unfenced
            and run.now - self._silent[host] >= run.options.evacuate_after)

    def _finishes(self, server: model.Server) -> bool:
        """Return whether an earlier evacuation of a server without a task may have moved it.

        Another engine or somebody else may have requested that. If it has ended since the server
        was read, the server is read once more.
        """
        self._unnoted = self._named = None
        moving = self._moving(server)
        if moving is None:
            return self._times > 0 and self._server() != server
        if not moving.claimed:
            # The task was reset: should Nova go on with it, no other host starts the server.
            host = moving.host
            if host and not self._lost(host) and not self._unclaimed.is_given_up(server):
                self._named = host
            return False
        if self._worker.is_left(moving) or not self._may_run(moving, server):
            return False
        self._unnoted = moving.host
        return True

    def _may_run(self, moving: model.Evacuation, server: model.Server) -> bool:
        """Return whether a claimed evacuation may have started a server without a task."""
        if self._lost(moving.host):
            return not self._given_up(moving.host)
        adopted = moving.host == self._backup_host
        # The task of an evacuation that goes on has not ended with an error.
        return not (adopted and server.status == 'ERROR') and self._worker.finishes(
            moving, adopted)

    def _dropped(self, moving: model.Evacuation) -> bool:
        """Return whether an evacuation was interrupted that nobody else continues."""
        if not self._worker.ended(moving):
            return False
        if moving.host != self._backup_host:
            return True
        # A host that still has its backup adopts it; another one can never open the box.
        self._let_out(moving.host)
        return False

    def _backup_serves(self, host: str) -> bool:
        """Return whether Nova waits on a host for the end of a backup that serves on another one.

        The backup's host was silent, and is back. Cinder gives the volumes to no other host before
        their merge has ended, and the backup's host ends it only when the backup is adopted. So
        nothing runs on the host on which Nova waits. Nova's own check of the task ends its work
        there after a reset.
        """
        run = self._run
        backup = self._target()
        if backup is None or backup == host or run.recovery.superposition is None:
            return False
        if not run.context.suspects.is_well(backup):
            return False
        state = run.insist(run.context.volumes.state, run.recovery.superposition)
        return state in states.THROUGH_OVERLAY and self._let_out(backup)

    def _ask(self, server: model.Server) -> None:
        run, compute = self._run, self._run.context.compute
        self._times += 1
        self._asked = run.now
        self._detail['asked'] = self._times
        target = self._target()
        if target is not None and self._times > 1:
            # It was silent, or Nova would have adopted it: it may be shut yet.
            self._let_out(target)
            target = self._target()
        try:
            if not self._force_down():
                return
            as_it_is = self._as_it_is(server)
            host = target or self._named or self._other(server)
            force = self._force(server, host, bool(target))
            slow: list[Callable[[], object]] = []
            if target is not None:
                slow.append(functools.partial(self._release, target))
            if self._times > 1:
                slow.append(functools.partial(self._fence_again, server))
            # Neither is done in vain, nor is the server evacuated as it was before a slow one.
            while slow and not self._changed(server):
                slow.pop(0)()
            if slow or self._changed(server):
                self._times -= 1
                return
            self._worker.forget()
            self._unclaimed.begin()
            pending.note(run, server)
            run.glance()
            if not as_it_is:
                compute.reset(server.id)
            compute.evacuate(server.id, host, force)
        except (exception.Refused, exception.Unreachable) as exc:
            self._failed(exc)

    def _fence_again(self, server: model.Server) -> None:
        """Have Cinder end what was begun with fenced volumes since the fence.

        Nova cannot attach a volume that a user has begun to detach or to back up. Cinder refuses
        the fence for each volume that Nova has taken from the host by now.
        """
        if self._run.shutting_out() is None:
            return
        for volume in server.volumes:
            alone = dataclasses.replace(server, volumes=(volume,), disks=())
            try:
                self._run.context.volumes.fence(alone, self._source, self._run.id)
            except exception.Refused as exc:
                LOG.info('recovery %s: volume %s is left as it is: %s', self._run.id, volume, exc)

    def _delete(self, server: model.Server) -> None:
        """Have Nova delete a server whose failed host cannot do what a user has asked for.

        Nova itself deletes the server of a host that it has down. The server is read right
        before, so that only a deletion that was requested is repeated.
        """
        if server.host != self._source or not self._lost(self._source) or not self._due():
            return
        self._times += 1
        self._asked = self._run.now
        try:
            if not self._force_down():
                return
            fresh = self._server()
            if fresh is not None and fresh.deleting and fresh.host == self._source:
                self._run.glance()
                LOG.warning('recovery %s: asking Nova to delete the server without its failed '
                            'host %s, since a user has deleted it', self._run.id, self._source)
                self._run.context.compute.delete(fresh.id)
        except (exception.Refused, exception.Unreachable) as exc:
            self._failed(exc)

    def _failed(self, exc: exception.EngineError) -> None:
        """Record the error of a request to Nova, which may still take effect."""
        LOG.warning('recovery %s: %s', self._run.id, exc)
        self._detail['refused'] = str(exc)
        if isinstance(exc, exception.Unanswered):
            self._uncertain = self._run.now + _MAY_BEGIN

    def _force_down(self) -> bool:
        done = cleaning.force_down(self._run, self._source)
        if not done:
            self._detail['refused'] = f'{self._source} may not be forced down'
        return done

    def _changed(self, server: model.Server) -> bool:
        """Return whether a server may be about to run on a host, which Nova does not check.

        A service that does not answer may have been waited for since the server was read, and an
        evacuation that hung may have ended meanwhile, because its host is back.
        """
        if self._run.now - self._read < _MOMENT:
            return False
        fresh = self._server()
        if fresh is None or (fresh.host, fresh.task) != (server.host, server.task):
            return True
        return fresh.task is not None and not self._stuck(fresh)

    def _force(self, server: model.Server, host: str | None, backup: bool) -> bool:
        """Return whether Nova is to skip the checks of a host.

        For the scheduler a member of an affinity group can only be where a member is, and the
        server itself, on the host that has failed, is one. All other policies of Nova have to
        allow the host: licences, and the isolation of tenants, are not passed over.

        :param backup: the server's backup runs on the host
        """
        together = str((server.group or {}).get('policy')) == 'affinity'
        if host is None or not (together or (backup and self._times > _BEFORE_FORCE)):
            return False
        permitted = self._run.context.compute.permits(server, host)
        if not permitted:
            self._detail['refused'] = f"Nova's policies do not allow the server on {host}"
        return permitted

    def _release(self, host: str) -> None:
        """Release the claim of the backup right before Nova claims the same room."""
        run = self._run
        try:
            run.context.backups.release(host, run.backup_id)
        except (backup_errors.BackupError, exception.Unreachable) as exc:
            LOG.warning('recovery %s: the claim of the backup is not released, so that Nova may '
                        'find no room for the server on %s: %s', run.id, host, exc)

    def _as_it_is(self, server: model.Server) -> bool:
        """Return whether Nova can evacuate a server in its state.

        Nova stops a stopped server again after its evacuation: then a user must have stopped it,
        or it was stopped when its host died.
        """
        if server.task is not None:
            return False
        return server.status == 'ACTIVE' or (server.status == 'SHUTOFF' and (
            left.was_off(self._run.recovery)
            or not self._run.context.compute.stopped_by_itself(server.id)))

    def _other(self, server: model.Server) -> str | None:
        """Return a host that may run the server, one that is heard if possible.

        If there is none, Nova chooses. Such a request never counts as lost (_Unclaimed).
        """
        hosts = self._run.context.compute.candidates(server)
        return next(iter([*destination.heard(self._run, hosts), *hosts]), None)


class _Worker:
    """The nova-compute of the destination that has claimed an evacuation: is it at work yet?"""

    def __init__(self, run: runs.Run) -> None:
        self._run = run
        # The destination that has begun to work, the time at which that was seen, and the id of
        # its nova-compute after that time.
        self._claimed: tuple[str, float] | None = None
        self._id: str | None = None
        # Since when Nova has no task for the server, although the evacuation is under way.
        self._without_task: float | None = None

    def forget(self) -> None:
        """Forget what was seen of an evacuation, since another one is requested."""
        self._claimed = self._without_task = None

    def ended(self, moving: model.Evacuation) -> bool:
        """Return whether the nova-compute that was at work on the evacuation has ended.

        Nova does not continue what such an end has interrupted. A beat after Nova's record of the
        claim is one of the process that made the claim, or of a later one. If another process
        beats after that beat, the former one is gone: it saves and starts nothing, and a reset is
        safe, unless it has started the guest. It may also be gone before that beat: then the
        process that beats has started after the engine saw the claim, or after the last note of
        the former one in Nova's record.
        """
        suspects, host = self._run.context.suspects, moving.host
        if not moving.claimed:
            self._claimed = None
        elif self._claimed is None or self._claimed[0] != host:
            self._claimed, self._id = (host, self._run.now), None
        if self._claimed is None or not suspects.heard_after(*self._claimed):
            return False
        boot = suspects.boot(host)
        self._id = self._id or boot
        if suspects.running(host, self._run.recovery.server) is not False:
            return False
        return boot != self._id or self._started_since(moving, self._claimed[1])

    def _started_since(self, moving: model.Evacuation, seen: float) -> bool:
        """Return whether the nova-compute of a destination has started since its claim.

        The age of the process counts from before the question, so that it is not too low however
        long the answer takes, or the clock of the engine has stood still meanwhile.

        :param seen: when the engine saw the claim first, by its own clock
        """
        run, now = self._run, self._run.now
        if now - seen < _ASK_HOST:
            return False
        wall = run.context.clock.wall()
        try:
            answer = run.context.backups.boot(moving.host)
        except (backup_errors.BackupError, exception.Unreachable) as exc:
            LOG.debug('recovery %s: host %s does not report its uptime: %s',
                      run.id, moving.host, exc)
            return False
        uptime = float(answer['service_uptime'])
        return (now - uptime > seen + _WRONG + _DRIFT * (now - seen)
                or 0.0 < moving.updated < wall - uptime - _APART)

    def is_left(self, moving: model.Evacuation) -> bool:
        """Return whether the record of a request or a claim is left from an earlier accident.

        Nova's API evacuates no server whose host is heard, as this one was after that.
        """
        return 0.0 < moving.updated < self._run.recovery.suspected - _APART

    def finishes(self, moving: model.Evacuation, adopted: bool) -> bool:
        """Return whether a claimed evacuation without a task may note the new host yet.

        Nova ends the task as soon as the guest runs, and notes the host once nobody else uses the
        resource tracker of the destination (``ResourceTracker.finish_evacuation``), which may take
        seconds there. If it fails to, the adoption of a backup may be requested again, but another
        guest must not be evacuated while it may run.

        :param adopted: the backup of the server runs on the destination
        """
        if self._without_task is None:
            self._without_task = self._run.now
        return self._run.now - self._without_task < _FINISHES or not (
            adopted or self._run.context.suspects.running(
                moving.host, self._run.recovery.server) is False)


class _Unclaimed:
    """What is known of the latest request while no host has claimed it.

    Nova's API sets the server to ``rebuilding``, and leaves the rest to its conductor, which asks
    the scheduler for a host. Nova resets the server after a few errors of that way only. After all
    others, such as a scheduler that does not answer or a port that is deleted meanwhile, or if the
    conductor dies, the server would be ``rebuilding`` for ever.

    :ivar given_up: Nova has said that it will not fulfill the request
    :ivar lost: Nova never fulfills the request
    """

    def __init__(self, run: runs.Run) -> None:
        self._run = run
        # Since when the engine sees the request, when it has asked Nova, and what that has shown.
        self._since: float | None = None
        self._asked = float('-inf')
        self.lost = self.given_up = False
        # Whether a request on which Nova says nothing counts as lost after some time.
        self._may_be_lost = True
        # How many requests have been lost in a row without a word of Nova.
        self._times = 0

    def begin(self) -> None:
        """Note that there is another request."""
        self.forget()
        self._since = self._run.now

    def forget(self) -> None:
        """Forget what was seen of a request, since a host has claimed it."""
        self._since, self._asked = None, float('-inf')
        self.lost = self.given_up = False

    def is_undecided(self, server: model.Server) -> bool:
        """Return whether it will turn out later that Nova has lost the request for a server."""
        return (self._since is not None and tasks.is_rebuild(server.task) and not self.lost
                and (self._asked < self._since or self._may_be_lost))

    def is_lost(self, server: model.Server, host: str | None) -> bool:
        """Return whether Nova never fulfills the request for a server.

        :param host: destination of the request; empty if Nova chooses it, None without a record of
            the request
        """
        now = self._run.now
        if not tasks.is_rebuild(server.task):
            return False
        if self._since is None:
            self._since = now
        if now - self._since >= _ASK_NOVA and now - self._asked >= _UNCLAIMED_AGAIN:
            self._asked = now
            self.lost = self._ask(server, host, now - self._since)
        return self.lost

    def is_given_up(self, server: model.Server) -> bool:
        """Return whether Nova's conductor has given up the latest request for a server."""
        return self._request(server) == model.GIVEN_UP

    def _request(self, server: model.Server) -> str | None:
        try:
            return self._run.insist(self._run.context.compute.evacuation_request, server.id)
        except exception.Refused as exc:
            LOG.debug('recovery %s: Nova does not say what has become of its request: %s',
                      self._run.id, exc)
            return model.PENDING

    def _ask(self, server: model.Server, host: str | None, seconds: float) -> bool:
        request = self._request(server)
        self.given_up = request == model.GIVEN_UP
        if self.given_up:
            self._times = 0
            return True
        # A host that Nova has not named may have the server yet, and must not get a rival.
        self._may_be_lost = request is not None and host != ''
        if not self._may_be_lost or seconds < _LOST * 2.0 ** self._times:
            return False
        self._times += 1
        return True

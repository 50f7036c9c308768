# SPDX-License-Identifier: Apache-2.0
"""Step ``fence``: without a backup, the primary is fenced, so that Nova can evacuate it."""

from specreds_nova.engine import exception
from specreds_nova.engine import fibers
from specreds_nova.engine import model
from specreds_nova.engine.recovery import left
from specreds_nova.engine.recovery import refusals
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import stamps
from specreds_nova.engine.recovery import tenant
from specreds_nova.engine.recovery import timeline
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.recovery.steps import decide
from specreds_nova.engine.recovery.steps import moved
from specreds_nova.engine.recovery.steps import shut_out
from specreds_nova.engine.recovery.steps import super as super_step
from specreds_nova.engine.recovery.steps import unseen

_PAUSE = 1.0
# Seconds within which a guest that lives has written: file systems write their journals at least
# that often.
_WATCH = 30.0
# Seconds between two requests to superpose disks whose merge has not ended.
_MERGE_PAUSE = 10.0


def fence(run: runs.Run, decided: verdicts.StepVerdict) -> verdicts.StepVerdict:
    """Fence the primary, once its host has been suspected for long enough.

    Its calls have the first rank from the decision on: many servers may wait for hours.

    :raises exception.RetryAttempt: another controller has decided, with an unknown outcome
    """
    if decided.kind not in (verdicts.EVACUATE, verdicts.MERGING, verdicts.SHUT_OUT):
        return decided
    standing = run.standing()
    if standing is not None and standing.kind != verdicts.SHUT_OUT:
        run.context.rank(fibers.FIRST)
        return decide.decide(run, standing)
    run.free()
    with run.step(timeline.FENCE) as detail:
        detail['why'] = decided.why
        if standing is not None:
            verdict = _shut_out(run, standing.why)
        else:
            # The last look: the others wait for minutes, in which another host may start it.
            verdict = (_wait(run) or _room(run) or unseen.wait(run) or moved.elsewhere(run)
                       or _fence(run))
        detail['outcome'] = verdict.kind
        if verdict.why:
            detail['reason'] = verdict.why
    return verdict


def _wait(run: runs.Run) -> verdicts.StepVerdict | None:
    """Wait until the host has been suspected for long enough."""
    server, least = run.server(), run.options.evacuate_after
    if server is not None:
        least = left.evacuated_after(server, least)
    while True:
        run.fresh()
        if verdict := run.spared():
            return verdict
        # The wait begins anew for a host that has failed again meanwhile.
        host = run.insist(run.context.store.host, run.recovery.host)
        waited = min(run.suspected_for(host),
                     stamps.age(run.context.clock, run.recovery.suspected))
        if waited >= least:
            return None
        run.pause(min(_PAUSE, least - waited))


def _room(run: runs.Run) -> verdicts.StepVerdict | None:
    """Wait until Nova can evacuate the server to a host, so that no primary is fenced in vain.

    A server that a user has deleted needs no other host.
    """
    until = run.now + run.settings.evacuate_timeout
    while True:
        server = run.server(anew=True)
        if server is None:
            return verdicts.StepVerdict(verdicts.ABORTED, 'the server is deleted')
        why = None if server.deleting else _obstacle(run, server)
        if why is None:
            return None
        run.fresh()
        if verdict := run.spared():
            return verdict
        if run.now >= until:
            return verdicts.failed(*why)
        run.pause(_PAUSE)


def _obstacle(run: runs.Run, server: model.Server) -> tuple[str, str] | None:
    """Return why Nova cannot evacuate a server at the moment, and what helps; None if it can."""
    restart = f'nothing but its host brings it back: start {server.host}'
    if why := run.insist(run.context.compute.immovable, server):
        return why, restart
    hosts = run.insist(run.context.compute.candidates, server)
    if not hosts:
        return (f'no host had room for it in {run.settings.evacuate_timeout:g} s',
                verdicts.AGAIN_LATER)
    # A host that is not heard may take as long as a call may last.
    heard = frozenset(run.context.suspects.healthy())
    try:
        if why := refusals.reason(refusals.ask(
                run.context.backups, sorted(hosts, key=lambda host: host not in heard),
                server.id)):
            return why, restart
        eligible = run.context.volumes.eligibility(server)
    except exception.Unreachable as exc:
        return str(exc), verdicts.AGAIN_LATER
    except exception.Refused:
        # Cinder without superpositions does not know; it may be asked to fence all the same.
        return None
    if not (busy := refusals.of_volumes(eligible)):
        return None
    volume = next(volume for volume, each in eligible.items() if not each.movable)
    return '; '.join(busy), (f'if nothing works on it any more: openstack volume set --state '
                             f'in-use {volume}')


def _fence(run: runs.Run) -> verdicts.StepVerdict:
    watched = not run.unproven()
    until = run.now + run.settings.adopt_timeout
    while True:
        superposed = super_step.version(run)
        if superposed.kind == verdicts.MERGING:
            if inherited := run.inherited():
                # A backup that an earlier recovery has promoted may serve: it is adopted there.
                run.plan(destination=inherited['backup_host'],
                         superposition=inherited['promoted'])
                decide.commit(run)
                return verdicts.StepVerdict(verdicts.PROMOTED, superposed.why)
            # A host that is only silent may end its own merge at any time, and goes on: Nova must
            # not be asked before.
            if run.now >= until:
                return verdicts.failed(superposed.why, verdicts.AGAIN_LATER)
            run.pause(_MERGE_PAUSE)
            run.fresh()
            if verdict := run.spared():
                return verdict
            continue
        if superposed.kind == verdicts.EVACUATE:
            return _shut_out(run, superposed.why)
        if superposed.kind != verdicts.STARTED:
            return superposed
        if run.recovery.superposition != superposed.why:
            run.change(superposition=superposed.why)
        run.fresh()
        run.context.rank(fibers.FIRST)
        objection = tenant.objection(run)
        if objection is None and not watched:
            # A cut that is as old as the watch may prove nothing again.
            objection, watched = _watch(run), True
        verdict = decide.decide(run, objection or verdicts.StepVerdict(verdicts.DECIDING))
        if verdict.kind != verdicts.EVACUATE:
            return verdict
        run.context.rank(fibers.SECOND)
        run.pause(_PAUSE)


def _watch(run: runs.Run) -> verdicts.StepVerdict:
    """Look for writes of the primary, of which its races have not proven that there are none."""
    until = run.now + _WATCH
    while run.now < until:
        run.pause(run.settings.dirty_interval)
        run.fresh()
        if verdict := run.spared():
            return verdict
        try:
            if run.context.volumes.dirty(str(run.recovery.superposition)):
                return verdicts.StepVerdict(verdicts.PRIMARY, 'it has written')
        except (exception.Unreachable, exception.Refused):
            # The decision checks for writes as well.
            continue
    return verdicts.StepVerdict(verdicts.EVACUATE, f'nothing was written in {_WATCH:g} s')


def _shut_out(run: runs.Run, why: str) -> verdicts.StepVerdict:
    run.context.rank(fibers.FIRST)
    return shut_out.shut_out(run, why)

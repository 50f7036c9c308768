# SPDX-License-Identifier: Apache-2.0
"""Step ``fence``: without a backup, the primary is fenced, so that Nova can evacuate it."""

from specreds_nova import tasks
from specreds_nova.engine import exception
from specreds_nova.engine import fibers
from specreds_nova.engine import model
from specreds_nova.engine.recovery import left
from specreds_nova.engine.recovery import refusals
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import tenant
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.recovery.steps import decide
from specreds_nova.engine.recovery.steps import super as super_step
from specreds_nova.engine.suspicion import evidence

_PAUSE = 1.0
# Seconds within which a guest that lives has written: file systems write their journals at least
# that often.
_WATCH = 30.0
# Seconds between two requests to superpose disks whose merge has not ended.
_MERGE_PAUSE = 10.0
_LOOK = 2.0
_FENCED, _REFUSED = 'fenced', 'refused'


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
    with run.step(runs.FENCE) as detail:
        detail['why'] = decided.why
        if standing is not None:
            verdict = shut_out(run, standing.why)
        else:
            # The last look: the others wait for minutes, in which another host may start it.
            verdict = (_wait(run) or _room(run) or decide.wait_unseen(run) or elsewhere(run)
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
        waited = min(run.suspected_for(host), run.context.age(run.recovery.suspected))
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
            if inherited := runs.inherited(run.recovery):
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
            return shut_out(run, superposed.why)
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


def elsewhere(run: runs.Run) -> verdicts.StepVerdict | None:
    """Wait until the other host of a move says that it does not run the server.

    Nova shows one host of a server that it moves or resizes. If that host is dead, the other one
    may run the server already, or may have no part of it. A dead host may also not have begun with
    the move: it would find the request in its queue when it is back, and begin then.

    :returns: why the server must not be evacuated; None if it may be
    """
    until = run.now + run.settings.evacuate_timeout
    while run.left:
        server = run.server(anew=True)
        if server is None:
            return verdicts.StepVerdict(verdicts.ABORTED, 'the server is deleted')
        moving = left.is_moving(server)
        # A failed evacuation has made it active, and left Nova's record of the move.
        move = run.insist(run.context.compute.move, server) if moving or left.was_moving(
            run.recovery) else None
        if not moving and move is None:
            return _runs_elsewhere(run, server)
        why = _unclear(run, server, move)
        if why is None:
            return None
        run.fresh()
        if verdict := run.spared():
            return verdict
        # Nova's conductor names the other host late. If it gives up, it ends the move by itself.
        if (move is not None and not move.begun) or run.now >= until:
            return verdicts.failed(
                f'it is {server.status}, and {why}',
                f'look there before you make it active: {verdicts.make_active(server.id)}')
        run.pause(_LOOK)
    return None


def _runs_elsewhere(run: runs.Run, server: model.Server) -> verdicts.StepVerdict | None:
    """Return a verdict if another host reports the guest of a server, as after a failed move."""
    suspects = run.context.suspects
    for host in sorted(suspects.healthy()):
        if host != run.recovery.host and suspects.running(host, server.id):
            return verdicts.failed(
                f'it is {server.status}, and its guest runs on {host}',
                f'look there. To have it evacuated, end it there: virsh destroy {server.id}')
    return None


def _unclear(run: runs.Run, server: model.Server, move: model.Move | None) -> str | None:
    """Return why a server may run on another host, now or later; None if it does not."""
    if move is None:
        return 'Nova does not say which other host takes part'
    if not move.begun:
        return f'{server.host} begins to move it to {move.host} when it is back'
    suspects = run.context.suspects
    if not suspects.is_well(move.host):
        return f'{move.host}, which takes part, is silent'
    runs_there = suspects.running(move.host, server.id)
    return None if runs_there is False else f'it may run on {move.host}'


def _note(run: runs.Run) -> None:
    """Have Cinder note the clients of a server's disks, before it is read once more.

    Cinder does not know on which host a server is, and fences only clients of disks that it has
    noted. An earlier request may have failed.
    """
    until = run.now + run.settings.adopt_timeout
    server = run.server()
    while server is not None and server.disks and not super_step.observe(run) and run.now < until:
        run.pause(_PAUSE)


def shut_out(run: runs.Run, why: str) -> verdicts.StepVerdict:
    """Shut the primary out of its volumes, unless it is spared; then it can be evacuated.

    Once Cinder was asked, the primary may be fenced: from then on it is not spared.

    :param why: reason why the volumes cannot be superposed
    """
    run.context.rank(fibers.FIRST)
    attempt = run.shutting_out()
    if attempt is None:
        _note(run)
        run.fresh()
        if verdict := tenant.objection(run):
            return verdict
    if attempt is None or attempt.detail.get('outcome') != _FENCED:
        verdict = _fence_host(run, why, again=attempt is not None)
        if verdict is not None:
            return verdict
    decide.commit(run)
    return verdicts.StepVerdict(verdicts.PROMOTED, f'evacuated without a backup: {why}')


def _fence_host(run: runs.Run, why: str, *, again: bool) -> verdicts.StepVerdict | None:
    """Have Cinder fence the host; return a verdict if it cannot, or need not.

    :param again: an earlier request may have fenced the primary
    """
    server = run.server(anew=True)
    if server is None:
        return verdicts.StepVerdict(verdicts.ABORTED, 'the server is deleted')
    if not again and (elsewhere := _moving(run, server)):
        return elsewhere
    if not server.volumes and not server.disks:
        return _unfenced(run, why, safe=True)
    until = run.now + run.settings.adopt_timeout
    with run.step(runs.SHUT_OUT) as detail:
        while True:
            try:
                detail['clients'] = run.context.volumes.fence(server, run.recovery.host, run.id)
                detail['outcome'] = _FENCED
                return None
            except exception.Refused as exc:
                refusal = str(exc)
                break
            except exception.Unreachable as exc:
                refusal, again = str(exc), True
                if run.now >= until:
                    break
            run.pause(_PAUSE)
            run.fresh()
        detail.update(outcome='unknown' if again else _REFUSED, refused=refusal)
    if again:
        return verdicts.failed(f'it may be fenced, and Cinder does not complete that: {refusal}',
                               _by_hand(run))
    return _unfenced(run, refusal, safe=False)


def _moving(run: runs.Run, server: model.Server) -> verdicts.StepVerdict | None:
    """Return a verdict if Nova starts the server elsewhere: its clients may be noted there."""
    if server.host != run.recovery.host:
        return verdicts.StepVerdict(verdicts.ABORTED, f'the server is on {server.host}')
    if server.disks and tasks.is_rebuild(server.task):
        return verdicts.StepVerdict(verdicts.ABORTED, f'Nova evacuates the server: {server.task}')
    return None


def _by_hand(run: runs.Run) -> str:
    return (f'once {run.recovery.host} is off: openstack server evacuate {run.recovery.server}')


def _unfenced(run: runs.Run, why: str, *, safe: bool) -> verdicts.StepVerdict:
    """Handle a primary that is not fenced: an option says whether to evacuate it.

    :param safe: the server has nothing that two instances of it could damage
    """
    if not safe and not run.options.evacuate_unfenced:
        return verdicts.failed(f'it could not be fenced: {why}', _by_hand(run))
    run.fresh()
    if verdict := tenant.objection(run):
        return verdict
    if run.context.suspects.is_well(run.recovery.host):
        _restart_there(run)
    decide.commit(run)
    return verdicts.StepVerdict(verdicts.PROMOTED, f'evacuated without a fence: {why}')


def _restart_there(run: runs.Run) -> None:
    """Start the server where it was, as after a crash: its host is back without it.

    Without a fence Nova might start it there while it is evacuated, and it would run twice.

    :raises exception.RetryAttempt: always; the next attempt treats a crashed server
    """
    crash = evidence.of(evidence.CRASH, run.recovery.server, run.context.clock.wall())
    run.change(why=(*run.recovery.why, crash.told()))
    raise exception.RetryAttempt(f'{run.recovery.host} is back without it')

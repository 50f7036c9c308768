# SPDX-License-Identifier: Apache-2.0
"""A primary whose volumes cannot be superposed is shut out of them, and then evacuated."""

from oslo_log import log as logging

from specreds_nova import tasks
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import tenant
from specreds_nova.engine.recovery import timeline
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.recovery.steps import decide
from specreds_nova.engine.suspicion import evidence

LOG = logging.getLogger(__name__)

_PAUSE = 1.0
_FENCED, _REFUSED = 'fenced', 'refused'


def observe(run: runs.Run) -> bool:
    """Have Cinder note which clients have the volumes open, for a fence that may follow.

    Ceph forgets some kinds of clients soon after their host has failed, so that it cannot wait.

    :returns: whether Cinder has answered
    """
    server = run.server()
    if server is None or not (server.volumes or server.disks):
        return True
    try:
        run.context.volumes.observe(server, run.recovery.host, run.id)
    except exception.Refused as exc:
        LOG.info('recovery %s: the clients of its volumes are not noted: %s', run.id, exc)
    except exception.Unreachable as exc:
        LOG.info('recovery %s: the clients of its volumes are not noted yet: %s', run.id, exc)
        return False
    return True


def _note(run: runs.Run) -> None:
    """Have Cinder note the clients of a server's disks, before it is read once more.

    Cinder does not know on which host a server is, and fences only clients of disks that it has
    noted. An earlier request may have failed.
    """
    until = run.now + run.settings.adopt_timeout
    server = run.server()
    while server is not None and server.disks and not observe(run) and run.now < until:
        run.pause(_PAUSE)


def shut_out(run: runs.Run, why: str) -> verdicts.StepVerdict:
    """Shut the primary out of its volumes, unless it is spared; then it can be evacuated.

    Once Cinder was asked, the primary may be fenced: from then on it is not spared.

    :param why: reason why the volumes cannot be superposed
    """
    attempt = run.shutting_out()
    if attempt is None:
        _note(run)
        run.fresh()
        if verdict := tenant.objection(run):
            return verdict
    if attempt is None or attempt.detail.get('outcome') != _FENCED:
        verdict = _fence(run, why, again=attempt is not None)
        if verdict is not None:
            return verdict
    decide.commit(run)
    return verdicts.StepVerdict(verdicts.PROMOTED, f'evacuated without a backup: {why}')


def _fence(run: runs.Run, why: str, *, again: bool) -> verdicts.StepVerdict | None:
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
    with run.step(timeline.SHUT_OUT) as detail:
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

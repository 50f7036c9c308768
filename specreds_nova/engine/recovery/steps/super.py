# SPDX-License-Identifier: Apache-2.0
"""Step ``super``: Cinder puts the server's volumes into superposition.

The primary may be a backup that an earlier recovery has promoted, and that is not merged yet. The
recovery waits for its merge then, and takes the backup over if it may serve on another host.
"""

from typing import Any

from oslo_log import log as logging

from specreds_nova.engine import exception
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.suspicion import evidence

LOG = logging.getLogger(__name__)

# Seconds until Cinder is asked again after it did not answer.
_PAUSE = 0.5


def superpose(run: runs.Run) -> verdicts.StepVerdict:
    """Put the volumes of a server that is to have a backup into superposition."""
    if run.left:
        return run.resumed() or verdicts.StepVerdict(verdicts.EVACUATE, 'it has no backup')
    return version(run)


def version(run: runs.Run) -> verdicts.StepVerdict:
    """Put the server's volumes into superposition, unless they are; its id is the why."""
    if verdict := run.resumed() or run.over():
        return verdict
    if known := run.superposition():
        return verdicts.StepVerdict(verdicts.STARTED, known)
    server = run.server()
    if server is None:
        return verdicts.StepVerdict(verdicts.ABORTED, 'the server is deleted')
    with run.step(runs.SUPER) as detail:
        while True:
            # A drill leaves its primary alone.
            fact = None if run.drill else proof_of_death(run)
            detail.update({'dead': fact} if fact else {})
            try:
                superposition = run.context.volumes.superpose(
                    server, run.id,
                    'a drill' if run.drill else fact or f'host {run.recovery.host} is suspected',
                    run.recovery.host if fact and server.host == run.recovery.host else None)
                break
            except exception.Merging as exc:
                detail['refused'] = str(exc)
                detail.update(_serving(run, exc.promoted_by))
                return verdicts.StepVerdict(verdicts.MERGING, str(exc))
            except exception.Refused as exc:
                detail['refused'] = str(exc)
                if not run.drill:
                    observe(run)
                return verdicts.StepVerdict(verdicts.EVACUATE, str(exc))
            except exception.Unreachable as exc:
                detail['waited'] = str(exc)
                # A superposition that exists nevertheless is dropped by the decision.
                if verdict := run.over():
                    return verdict
            run.pause(_PAUSE)
        detail.update(superposition=superposition, volumes=list(server.volumes),
                      macs=list(server.macs))
    if run.choosing:
        # The begin of the next step may be far, and an engine that takes over has to drop it.
        run.flush()
    return verdicts.StepVerdict(verdicts.STARTED, superposition)


def _serving(run: runs.Run, earlier: str | None) -> dict[str, Any]:
    """Return what this recovery takes over of an earlier one whose backup may serve elsewhere.

    :param earlier: the recovery that has promoted a backup whose merge has not begun
    """
    before = None if earlier is None else run.insist(run.context.store.get, earlier)
    if (before is None or before.server != run.recovery.server or before.superposition is None
            or before.destination in (None, run.recovery.host)):
        return {}
    return {'promoted_by': before.id, 'backup_id': runs.backup_id(before),
            'backup_host': before.destination, 'promoted': before.superposition}


def proof_of_death(run: runs.Run) -> str | None:
    """Return the proof that the primary is dead: its host has booted, or somebody knows.

    Silence proves nothing, however long it lasts.

    :returns: the proof in words; None without one
    """
    name, suspects = run.recovery.host, run.context.suspects
    if suspects.is_well(name):
        booted = any(each.get('kind') == evidence.BOOT for each in run.recovery.why)
        # Nova may have started the server there again.
        gone = booted and suspects.running(name, run.recovery.server) is False
        return f'{name} has booted' if gone else None
    return f'somebody knows that {name} is dead' if is_known_dead(run, name) else None


def is_known_dead(run: runs.Run, name: str) -> bool:
    """Return whether somebody who knows has said that a host is dead.

    A word is about the boot of that time: it is void once an engine has heard the host.
    """
    host = run.insist(run.context.store.host, name)
    if host.dead_at is None:
        return False
    said = run.now - run.context.age(host.dead_at)
    heard = run.context.suspects.last_heard(name, said)
    return heard is not None and heard < said


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

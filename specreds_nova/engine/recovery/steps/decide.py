# SPDX-License-Identifier: Apache-2.0
"""Step ``decide``: Cinder promotes the backup, or its version is dropped.

A decision of Cinder is final: a promoted superposition is never dropped, and a decision that has
begun is completed, because the primary may be fenced.
"""

from oslo_log import log as logging

from specreds_cinder.superposition.truth import states
from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import cleaning
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import tenant
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.recovery.steps import super as super_step

LOG = logging.getLogger(__name__)

_PAUSE = 0.2
# Of a decision that is under way: the longest pause, and the share of the time that it takes so
# far. A sweep of large volumes takes minutes.
_LONGEST_PAUSE, _SHARE = 2.0, 0.2
# Seconds that Cinder has for removing what was dropped, before it is left to finish alone.
_DROPPING = 30.0
# Refusals in a row, without a reason that shows in the state, after which there is no decision.
_REFUSALS = 3
_LOST = (verdicts.PRIMARY, verdicts.ABORTED, verdicts.EVACUATE, verdicts.MERGING, verdicts.AGAIN)
_LEASE_PAUSE = 0.5


def decide(run: runs.Run, raced: verdicts.StepVerdict) -> verdicts.StepVerdict:
    """Have Cinder decide; a backup that has lost is removed.

    :raises exception.RetryAttempt: no decision was made: another attempt is needed
    """
    # Another engine may have had it decided, and died before it recorded the outcome.
    verdict = run.standing(anew=raced.kind != verdicts.READY) or raced
    if verdict.kind == verdicts.READY:
        reading = tenant.Reading(run)
        reading.begin()
        verdict = (_harden(run) or wait_unseen(run) or reading.verdict() or _ask_again(run)
                   or run.lives() or collapse(run))
    elif verdict.kind == verdicts.DECIDING:
        verdict = collapse(run)
    elif verdict.kind == verdicts.GONE:
        _note_gone(run)
    while verdict.kind in _LOST:
        # A version is not dropped if it was promoted meanwhile.
        decided = withdraw(run)
        if decided is None:
            break
        verdict = decided
    if verdict.kind == verdicts.GONE:
        verdict = _moved(run) or verdict
    if verdict.kind in (verdicts.PROMOTED, verdicts.LATE, verdicts.ADOPTED):
        commit(run)
    if verdict.kind in (verdicts.LATE, verdicts.GONE):
        # Another engine may have the recovery, and need its backup.
        run.flush()
        remove(run)
        run.change(destination=None)
    if verdict.kind in (verdicts.AGAIN, verdicts.GONE):
        run.change(superposition=None)
        raise exception.RetryAttempt(verdict.why or verdict.kind)
    return verdict


def commit(run: runs.Run) -> None:
    """Record the commit point, and that the host has to be cleaned when it returns."""
    if runs.before_commit(run.recovery):
        run.change(state=model.COMMITTED)
    else:
        run.flush()
    cleaning.require(run, run.recovery.host)


def collapse(run: runs.Run) -> verdicts.StepVerdict:
    """Request the decision until Cinder has made it."""
    superposition = run.recovery.superposition
    if superposition is None:
        return verdicts.StepVerdict(verdicts.AGAIN, 'there is nothing to decide on')
    with run.step(runs.COLLAPSE) as detail:
        detail['superposition'] = superposition
        refused, began = 0, run.now
        while True:
            try:
                outcome = run.context.volumes.collapse(superposition)
                break
            except exception.Refused as exc:
                refused += 1
                LOG.warning('recovery %s: %s', run.id, exc)
                why = str(exc)
            except exception.Unreachable as exc:
                refused, why = 0, str(exc)
            state = run.insist(run.context.volumes.state, superposition)
            if state is None or state in states.DECIDED:
                outcome = 'gone' if state is None else 'promoted'
                break
            if state == states.SUPERPOSED:
                # The decision has not begun, so the primary may still win.
                run.fresh()
                verdict = run.spared()
                if verdict is None and refused >= _REFUSALS:
                    verdict = verdicts.StepVerdict(verdicts.AGAIN, why)
                if verdict is not None:
                    detail.update(outcome='none', why=verdict.why)
                    return verdict
                run.pause(_PAUSE)
            else:
                run.pause(min(max(_PAUSE, _SHARE * (run.now - began)), _LONGEST_PAUSE))
        detail['outcome'] = outcome
    if outcome == states.UNPROVEN:
        return run.nothing_proven()
    return verdicts.StepVerdict(runs.KINDS[outcome])


def withdraw(run: runs.Run) -> verdicts.StepVerdict | None:
    """Remove the backup and its version; return the decision if one was made meanwhile."""
    superposition = run.superposition()
    if superposition is None:
        if run.recovery.destination is not None:
            run.change(destination=None)
        return None
    if run.recovery.superposition is None:
        run.change(superposition=superposition)
    run.fresh()
    with run.step(runs.WITHDRAW) as detail:
        removed = False
        while True:
            state = run.insist(run.context.volumes.state, superposition)
            if state in states.DECIDED or state == states.COLLAPSING:
                detail['state'] = state
                break
            if state is None and run.deciding():
                _note_gone(run)
                return verdicts.StepVerdict(verdicts.GONE)
            if not removed:
                remove(run)
                removed = True
            if state is None or dropped(run, superposition):
                run.change(destination=None, superposition=None)
                return None
    return collapse(run)


def remove(run: runs.Run) -> None:
    """Remove the backup from its host, if the host answers in time.

    Otherwise the host removes the backup when it finds its superposition gone.
    """
    host = run.recovery.destination
    if host is None:
        return
    backup = run.backup_id
    until = run.now + run.settings.abort_timeout
    while True:
        if run.silent(host):
            # The host removes the backup when it is back; Cinder keeps the backup from the disks.
            return
        try:
            run.context.backups.abort(host, backup)
            return
        except backup_errors.BackupConflict as exc:
            # Cinder has promoted the backup, so it is not dropped.
            LOG.info('recovery %s: %s', run.id, exc)
            return
        except (backup_errors.BackupError, exception.Unreachable) as exc:
            LOG.warning('recovery %s: %s', run.id, exc)
        if run.now >= until:
            return
        run.pause(_PAUSE)


def _ask_again(run: runs.Run) -> verdicts.StepVerdict | None:
    """Return a verdict if the primary runs by a second opinion read right before the decision.

    That of the hardening is seconds old after a wait. A backup's host that does not answer has no
    opinion. Nothing is called where no sentinel is asked.
    """
    host = run.recovery.destination
    if not run.asks_sentinel or host is None or run.silent(host):
        return None
    try:
        return run.second_opinion(run.context.backups.status(host, run.backup_id))
    except (backup_errors.BackupError, exception.Unreachable) as exc:
        LOG.info('recovery %s: no second opinion right before the decision: %s', run.id, exc)
    return None


def dropped(run: runs.Run, superposition: str) -> bool:
    """Drop the backup's version; return False if the state has to be read again."""
    try:
        run.insist(run.context.volumes.drop, superposition)
    except exception.Refused as exc:
        LOG.info('recovery %s: %s', run.id, exc)
        run.pause(_PAUSE)
        return False
    until = run.now + _DROPPING
    while run.now < until:
        state = run.insist(run.context.volumes.state, superposition)
        if state is None:
            return True
        if state != states.ABORTING:
            return False
        run.pause(_PAUSE)
    # The primary has won, and only Cinder has work left.
    return True


def _note_gone(run: runs.Run) -> None:
    """Record a decision whose outcome is unknown."""
    with run.step(runs.COLLAPSE) as detail:
        detail.update(superposition=run.recovery.superposition, outcome='gone')
    run.fresh()


def _moved(run: runs.Run) -> verdicts.StepVerdict | None:
    """Return a verdict if Nova has the server on another host: all has been done already."""
    server = run.insist(run.context.compute.server, run.recovery.server)
    if server is None or server.host == run.recovery.host:
        return None
    return verdicts.StepVerdict(verdicts.ADOPTED, f'Nova knows it on {server.host}')


def _harden(run: runs.Run) -> verdicts.StepVerdict | None:
    """Make the backup durable; return a verdict if no decision is needed."""
    host, backup = run.recovery.destination, run.backup_id
    if host is None:
        return verdicts.StepVerdict(verdicts.AGAIN, 'its backup is gone')
    silence = runs.UnansweredSince(run, host)
    with run.step(runs.HARDEN) as detail:
        while True:
            verdict = run.spared()
            if verdict is None:
                try:
                    status = run.context.backups.harden(host, backup)
                    return run.second_opinion(status) or run.spared()
                except backup_errors.BackupError as exc:
                    verdict = verdicts.StepVerdict(verdicts.AGAIN, exc.format_message())
                except exception.Unreachable as exc:
                    if silence.lasts():
                        verdict = verdicts.StepVerdict(verdicts.AGAIN, str(exc))
            if verdict is not None:
                detail['why'] = verdict.why
                return verdict
            run.pause(_PAUSE)
            run.fresh()


def wait_unseen(run: runs.Run) -> verdicts.StepVerdict | None:
    """Wait until tenants cannot see a primary that may live on a host that is cut off.

    A host that is cut off from engines and Ceph hides its servers when its lease on the network is
    over (``specreds_nova/sentinel/lease.py``). Engines renew the lease of trusted hosts only
    (``specreds_nova/beats/answering.py``), so it is over this long after the database has
    shown the host as suspected::

        FRESH + LEASE_S + network_lease_margin

    Mostly the boot of the backup takes longer.

    Where the sentinel of a host had ended before, nothing hides the servers of the host. Then only
    time speaks for their end: they are not promoted before nothing was heard of the host for
    ``evacuate_after``, unless the host is dead as a fact. The step says that tenants may see both.

    :returns: the reason to spare the primary; None if there is none
    """
    shown = _is_unhidden(run)
    if not shown and not _lease_left(run):
        return None
    with run.step(runs.UNSEEN) as detail:
        if shown:
            detail['why'] = (f'{run.recovery.host} has no live sentinel: tenants may see the '
                             f'server beside its backup')
        while left := _lease_left(run):
            run.pause(min(_LEASE_PAUSE, left))
            run.fresh()
            if verdict := run.spared():
                detail['why'] = verdict.why
                return verdict
    return None


def _lease_left(run: runs.Run) -> float:
    host, suspects = run.recovery.host, run.context.suspects
    if suspects.is_well(host) and suspects.running(host, run.recovery.server) is False:
        # The host reports that the server does not run.
        return 0.0
    recorded_host = run.insist(run.context.store.host, host)
    leases = run.context.leases
    left = leases.left(recorded_host, run.now, run.settings)
    silence = leases.silence(recorded_host, run.now) if _is_unhidden(run) else None
    return left if silence is None else max(left, run.options.evacuate_after - silence)


def _is_unhidden(run: runs.Run) -> bool:
    """Return whether the primary may run on a host that was known to have no live sentinel."""
    recorded_host = run.insist(run.context.store.host, run.recovery.host)
    return (recorded_host.state != model.TRUSTED and recorded_host.sentinel == model.SILENT
            and super_step.proof_of_death(run) is None)

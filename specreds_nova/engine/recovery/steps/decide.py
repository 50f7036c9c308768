# SPDX-License-Identifier: Apache-2.0
"""The decision: Cinder's for the backup, or to drop it; and what remains of what lost.

Whatever Cinder has decided holds: a superposition that was promoted is never dropped, and one on
which a decision has begun is decided, because its primary may be fenced.
"""

from oslo_log import log as logging

from specreds_cinder.superposition import states
from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import tenant
from specreds_nova.engine.recovery import timeline
from specreds_nova.engine.recovery import unanswered
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.recovery.steps import unseen

LOG = logging.getLogger(__name__)

_PAUSE = 0.2
# Seconds that Cinder has for removing what was dropped, before it is left to finish alone.
_DROPPING = 30.0
# Refusals in a row, without a reason that shows in the state, after which there is no decision.
_REFUSALS = 3
_KINDS = {'promoted': verdicts.PROMOTED, 'late-dirty': verdicts.LATE,
          'dirty': verdicts.PRIMARY, 'gone': verdicts.GONE}
_LOST = (verdicts.PRIMARY, verdicts.ABORTED, verdicts.EVACUATE, verdicts.MERGING, verdicts.AGAIN)


def decide(run: runs.Run, raced: verdicts.StepVerdict) -> verdicts.StepVerdict:
    """Have it decided; the backup is gone if it lost.

    :raises Again: there is no decision: begin anew
    """
    # It may have been done before, by an engine that did not come to tell of it.
    found = run.standing() or raced
    if found.kind == verdicts.READY:
        reading = tenant.Reading(run)
        reading.begin()
        found = _harden(run) or unseen.wait(run) or reading.verdict() or collapse(run)
    elif found.kind == verdicts.DECIDING:
        found = collapse(run)
    elif found.kind == verdicts.GONE:
        _note_gone(run)
    while found.kind in _LOST:
        # Nothing is dropped that somebody has decided for meanwhile.
        decided = withdraw(run)
        if decided is None:
            break
        found = decided
    if found.kind == verdicts.GONE:
        found = _moved(run) or found
    if found.kind in (verdicts.PROMOTED, verdicts.LATE, verdicts.ADOPTED):
        commit(run)
    if found.kind in (verdicts.LATE, verdicts.GONE):
        remove(run)
        run.change(destination=None)
    if found.kind in (verdicts.AGAIN, verdicts.GONE):
        run.change(superposition=None)
        raise exception.RetryAttempt(found.why or found.kind)
    return found


def commit(run: runs.Run) -> None:
    """Note that there is no way back, and that the host is to be cleaned when it returns."""
    if runs.before_commit(run.recovery):
        run.change(state=model.COMMITTED)
    while True:
        host = run.insist(run.context.store.host, run.recovery.host)
        if host.state == model.FENCED or run.insist(_fenced, run, host):
            return


def _fenced(run: runs.Run, host: model.Host) -> model.Host | None:
    # It is still the same suspicion.
    since = host.since if host.state == model.SUSPECTED else run.now
    return run.context.store.change_host(host, state=model.FENCED, since=since)


def collapse(run: runs.Run) -> verdicts.StepVerdict:
    """Let Cinder decide, until it has."""
    superposition = run.recovery.superposition
    if superposition is None:
        return verdicts.StepVerdict(verdicts.AGAIN, 'there is nothing to decide on')
    with run.step(timeline.COLLAPSE) as detail:
        detail['superposition'] = superposition
        refused = 0
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
                # It has not begun, so there is a way back yet.
                run.fresh()
                found = run.spared()
                if found is None and refused >= _REFUSALS:
                    found = verdicts.StepVerdict(verdicts.AGAIN, why)
                if found is not None:
                    detail.update(outcome='none', why=found.why)
                    return found
            run.pause(_PAUSE)
        detail['outcome'] = outcome
    return verdicts.StepVerdict(_KINDS[outcome])


def withdraw(run: runs.Run) -> verdicts.StepVerdict | None:
    """Remove the backup and its version; the decision, if there is one already."""
    superposition = run.superposition()
    if superposition is None:
        if run.recovery.destination is not None:
            run.change(destination=None)
        return None
    if run.recovery.superposition is None:
        run.change(superposition=superposition)
    run.fresh()
    with run.step(timeline.WITHDRAW) as detail:
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
            if state is None or _dropped(run, superposition):
                run.change(destination=None, superposition=None)
                return None
    return collapse(run)


def remove(run: runs.Run) -> None:
    """Remove the backup from its host, unless that does not answer in time.

    Then the host removes it by itself when it finds its superposition gone.
    """
    host = run.recovery.destination
    if host is None:
        return
    backup = run.backup_id
    until = run.now + run.options.abort_timeout
    while True:
        if run.silent(host):
            # What is left there is removed when it is back, and Cinder keeps it from the disks.
            return
        try:
            run.context.backups.abort(host, backup)
            return
        except backup_errors.BackupConflict as exc:
            # Cinder has decided for it, so it is not dropped after all.
            LOG.info('recovery %s: %s', run.id, exc)
            return
        except (backup_errors.BackupError, exception.Unreachable) as exc:
            LOG.warning('recovery %s: %s', run.id, exc)
        if run.now >= until:
            return
        run.pause(_PAUSE)


def _dropped(run: runs.Run, superposition: str) -> bool:
    """Drop the backup's version; False if the state is to be looked at again."""
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
    # It is decided for the primary, and only Cinder has something to do yet.
    return True


def _note_gone(run: runs.Run) -> None:
    """Note that somebody decided, and that nobody knows how."""
    with run.step(timeline.COLLAPSE) as detail:
        detail.update(superposition=run.recovery.superposition, outcome='gone')
    run.fresh()


def _moved(run: runs.Run) -> verdicts.StepVerdict | None:
    """Tell whether Nova knows the server elsewhere: then all of it has been done already."""
    server = run.insist(run.context.compute.server, run.recovery.server)
    if server is None or server.host == run.recovery.host:
        return None
    return verdicts.StepVerdict(verdicts.ADOPTED, f'Nova knows it on {server.host}')


def _harden(run: runs.Run) -> verdicts.StepVerdict | None:
    """Make the backup durable; why there is no need to decide, if there is none."""
    host, backup = run.recovery.destination, run.backup_id
    if host is None:
        return verdicts.StepVerdict(verdicts.AGAIN, 'nothing is left of its backup')
    silence = unanswered.UnansweredSince(run, host)
    with run.step(timeline.HARDEN) as detail:
        while True:
            run.fresh()
            found = run.spared()
            if found is None:
                try:
                    run.context.backups.harden(host, backup)
                    return run.spared()
                except backup_errors.BackupError as exc:
                    found = verdicts.StepVerdict(verdicts.AGAIN, exc.format_message())
                except exception.Unreachable as exc:
                    if silence.lasts():
                        found = verdicts.StepVerdict(verdicts.AGAIN, str(exc))
            if found is not None:
                detail['why'] = found.why
                return found
            run.pause(_PAUSE)

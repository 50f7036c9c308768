# SPDX-License-Identifier: Apache-2.0
"""Step ``end``: the engine records the outcome of the recovery."""

from oslo_log import log as logging

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts

LOG = logging.getLogger(__name__)

# Seconds between two looks whether a guest is ready that serves already.
_PAUSE = 2.0

_OUTCOMES = {verdicts.PRIMARY: model.PRIMARY, verdicts.ABORTED: model.ABORTED,
             verdicts.FAILED: model.FAILED}


def end(run: runs.Run, merged: verdicts.StepVerdict) -> str:
    """Record the outcome, and return it."""
    outcome = _OUTCOMES.get(merged.kind) or _recovered(run)
    why = merged.why or (_unready(run) if outcome == model.RECOVERED else '')
    run.change(state=model.ENDED, outcome=outcome, error=why[:255] or None)
    run.free()
    LOG.info('recovery %s of server %s on %s: %s%s', run.id, run.recovery.server,
             run.recovery.host, outcome, f', {why}' if why else '')
    return outcome


def _unready(run: runs.Run) -> str:
    """Wait until a guest is ready whose first frame has decided; return why it is not.

    A host that does not say so is waited for no longer than a guest that races.
    """
    host = run.recovery.destination
    raced = next((step for step in reversed(run.recovery.steps) if step.name == runs.RACE),
                 None)
    if host is None or raced is None or not raced.detail.get('early'):
        return ''
    began, timeout = run.now, run.settings.ready_timeout
    with run.step(runs.READY, reads=True) as detail:
        while run.now - began < timeout and not run.silent(host):
            try:
                status = run.context.backups.status(host, run.backup_id)
            except backup_errors.BackupError:
                break
            except exception.Unreachable:
                status = {}
            # The server's owner may have set another one.
            timeout = min(status.get('ready_timeout') or timeout, run.settings.ready_timeout_max)
            detail['why'] = str(status.get('ready_detail') or '')
            if status.get('ready'):
                break
            if status.get('ready_late'):
                why = f'it serves on {host}, and its guest is {detail["why"]}'
                LOG.warning('recovery %s of server %s: %s', run.id, run.recovery.server, why)
                run.context.observer.unready()
                return why
            run.pause(_PAUSE)
    return ''


def _recovered(run: runs.Run) -> str:
    steps = run.recovery.steps
    decisions = [step.detail.get('outcome') for step in steps if step.name == runs.COLLAPSE]
    if decisions and decisions[-1] == 'late-dirty':
        return model.RESTARTED
    hosts = [step.detail['host'] for step in steps
             if step.name == runs.ADOPT and step.detail.get('host')]
    backup = run.recovery.destination
    if backup is None or (hosts and hosts[-1] != backup):
        return model.EVACUATED
    return model.RECOVERED

# SPDX-License-Identifier: Apache-2.0
"""Step ``start``: a host starts the backup; if that host cannot run it, another one does."""

from typing import Any

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.recovery.steps import destination

# Seconds that a host which is heard may take to start a backup.
_PATIENCE = 120.0
_PAUSE = 0.5


def start(run: runs.Run, placed: verdicts.StepVerdict,
          superposed: verdicts.StepVerdict) -> verdicts.StepVerdict:
    """Start the backup, on one host after the other until one of them runs it."""
    _note(run, placed, superposed)
    for required in (superposed, placed):
        if required.kind != verdicts.STARTED:
            return required
    while True:
        run.glance()
        if over := run.over():
            return over
        recovery = run.recovery
        if recovery.superposition is None:
            return verdicts.StepVerdict(verdicts.AGAIN, 'its superposition is gone')
        if not destination.settle(run):
            run.change(destination=None)
            placed = destination.choose(run)
            _note(run, placed, superposed)
            if placed.kind != verdicts.STARTED:
                return placed
            continue
        with run.step(runs.START) as detail:
            detail.update(host=recovery.destination, backup_id=run.backup_id)
            run.context.preparations.leave(run.id)
            failure = _on(run, str(recovery.destination), str(recovery.superposition))
            if failure is not None:
                detail['error'] = failure.why
                failure = run.over() or failure
        if failure is None:
            run.started = run.now
            return verdicts.StepVerdict(verdicts.STARTED)
        if failure.kind != _ELSEWHERE:
            return failure
        # Nothing was begun on that host, so no other client has the disks open.
        run.change(destination=None)
        placed = destination.choose(run)
        _note(run, placed, superposed)
        if placed.kind != verdicts.STARTED:
            return placed


def _note(run: runs.Run, placed: verdicts.StepVerdict, superposed: verdicts.StepVerdict) -> None:
    """Write destination and superposition to the record, before anything depends on them.

    A value in the record is newer than a verdict of a step that was taken at the same time.
    """
    values: dict[str, Any] = {}
    if placed.kind == verdicts.STARTED and run.recovery.destination is None:
        values.update(destination=placed.why, state=model.RACING)
    if (superposed.kind == verdicts.STARTED and run.recovery.superposition is None
            and run.superposition() == superposed.why):
        values['superposition'] = superposed.why
    if values:
        run.plan(**values)


_ELSEWHERE = 'elsewhere'


def _on(run: runs.Run, host: str, superposition: str) -> verdicts.StepVerdict | None:
    """Start the backup on a host; return None if it runs, or else why not."""
    began, unanswered_since = run.now, runs.UnansweredSince(run, host)
    backup = run.backup_id
    while True:
        try:
            run.answer = run.context.backups.start(
                host, backup, run.recovery.server, superposition)
            return None
        except backup_errors.ServerNotEligible as exc:
            return verdicts.StepVerdict(_ELSEWHERE, exc.format_message())
        except backup_errors.BackupError as exc:
            # The host may keep a part of the backup.
            return verdicts.StepVerdict(verdicts.AGAIN, exc.format_message())
        except exception.Unreachable as exc:
            if unanswered_since.lasts() or run.now - began > _PATIENCE:
                return verdicts.StepVerdict(verdicts.AGAIN, str(exc))
        if over := run.over():
            return over
        run.pause(_PAUSE)

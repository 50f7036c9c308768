# SPDX-License-Identifier: Apache-2.0
"""The start of the backup, on another host if one cannot have it."""

from collections.abc import Iterator
import contextlib
from typing import Any

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import dirty_precheck
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import timeline
from specreds_nova.engine.recovery import unanswered
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.recovery.steps import destination

# With more recoveries than these it is rather a host that is dead: reading all that its volumes
# consist of would take time from its servers' backups, and is left to their races.
_FEW = 4
# Seconds that a host that is heard may take for it.
_PATIENCE = 120.0
_PAUSE = 0.5


def start(run: runs.Run, placed: verdicts.StepVerdict,
          superposed: verdicts.StepVerdict) -> verdicts.StepVerdict:
    """Have the backup started."""
    _note(run, placed, superposed)
    for told in (superposed, placed):
        if told.kind != verdicts.STARTED:
            return told
    while True:
        run.glance()
        if found := run.over():
            return found
        recovery = run.recovery
        if recovery.superposition is None:
            return verdicts.StepVerdict(verdicts.AGAIN, 'its superposition is gone')
        with run.step(timeline.START) as detail:
            detail.update(host=recovery.destination, backup=run.backup_id)
            run.context.preparations.leave(run.id)
            with _looking(run):
                found = _on(run, str(recovery.destination), str(recovery.superposition))
            if found is not None:
                detail['error'] = found.why
                found = run.over() or found
        if found is None:
            return verdicts.StepVerdict(verdicts.STARTED)
        if found.kind != _ELSEWHERE:
            return found
        # Nothing was begun there, so nobody else has the disks open.
        run.change(destination=None)
        placed = destination.choose(run)
        _note(run, placed, superposed)
        if placed.kind != verdicts.STARTED:
            return placed


@contextlib.contextmanager
def _looking(run: runs.Run) -> Iterator[None]:
    """Find out meanwhile whether the primary has written."""
    look = dirty_precheck.DirtyPrecheck(run, str(run.recovery.destination), run.backup_id)
    if run.context.destinations.count() <= _FEW and not run.insisting():
        run.context.in_background(look.take)
    try:
        yield
    finally:
        look.over()


def _note(run: runs.Run, placed: verdicts.StepVerdict, superposed: verdicts.StepVerdict) -> None:
    """Note what was found out, before anything depends on it.

    What is known already is newer, if what was told was kept for a while.
    """
    values: dict[str, Any] = {}
    if placed.kind == verdicts.STARTED and run.recovery.destination is None:
        values.update(destination=placed.why, state=model.RACING)
    if (superposed.kind == verdicts.STARTED and run.recovery.superposition is None
            and run.superposition() == superposed.why):
        values['superposition'] = superposed.why
    if values:
        run.change(**values)


_ELSEWHERE = 'elsewhere'


def _on(run: runs.Run, host: str, superposition: str) -> verdicts.StepVerdict | None:
    """Have it started on a host; None if it runs."""
    began, silence = run.now, unanswered.UnansweredSince(run, host)
    backup = run.backup_id
    while True:
        try:
            run.context.backups.start(host, backup, run.recovery.server, superposition)
            return None
        except backup_errors.ServerNotEligible as exc:
            return verdicts.StepVerdict(_ELSEWHERE, exc.format_message())
        except backup_errors.BackupError as exc:
            # Something of it may be left there.
            return verdicts.StepVerdict(verdicts.AGAIN, exc.format_message())
        except exception.Unreachable as exc:
            if silence.lasts() or run.now - began > _PATIENCE:
                return verdicts.StepVerdict(verdicts.AGAIN, str(exc))
        if found := run.over():
            return found
        run.pause(_PAUSE)

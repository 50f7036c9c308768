# SPDX-License-Identifier: Apache-2.0
"""Where a backup is to run, and what its disks are: found out side by side."""

from collections.abc import Sequence

from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import timeline
from specreds_nova.engine.recovery import verdict as verdicts

# Seconds between two looks for a host that may take another backup.
_FULL = 0.5


def destination(run: runs.Run) -> verdicts.StepVerdict:
    """Choose the host of the backup, unless that was done already; it is the verdict's why."""
    if found := run.resumed() or run.over():
        return found
    if run.recovery.destination:
        return verdicts.StepVerdict(verdicts.STARTED, run.recovery.destination)
    return choose(run)


def choose(run: runs.Run) -> verdicts.StepVerdict:
    """Choose a host, another one than before if there is one."""
    server = run.server(anew=bool(run.chosen()))
    if server is None:
        return verdicts.StepVerdict(verdicts.ABORTED, 'the server is deleted')
    host = _unused(run.recovery)
    if host is None:
        if len(run.chosen()) >= run.options.max_attempts:
            return verdicts.StepVerdict(verdicts.EVACUATE,
                                    f'{len(run.chosen())} backups of it came to nothing')
        with run.step(timeline.DESTINATION) as detail:
            found = _look(run, server)
            if isinstance(found, verdicts.StepVerdict):
                detail['none'] = found.why
                return found
            host, others = found
            detail.update(host=host, candidates=others)
    return verdicts.StepVerdict(verdicts.STARTED, host)


def _unused(recovery: model.Recovery) -> str | None:
    """Give the host that was chosen last, if nothing has been begun there."""
    for step in reversed(recovery.steps):
        if step.name in (timeline.START, timeline.WITHDRAW):
            return None
        if step.name == timeline.DESTINATION and step.ended and step.detail.get('host'):
            return str(step.detail['host'])
    return None


def _look(run: runs.Run, server: model.Server) -> tuple[str, int] | verdicts.StepVerdict:
    """Look for a host until there is one that may take another backup."""
    avoid = run.chosen()
    while True:
        candidates = heard(run, run.insist(run.context.compute.candidates, server))
        if not candidates:
            return verdicts.StepVerdict(verdicts.EVACUATE, 'no other host has room for it')
        host = run.insist(run.context.destinations.choose, run.id, candidates, avoid)
        if host is not None:
            return host, len(candidates)
        if found := run.over():
            return found
        run.pause(_FULL)


def heard(run: runs.Run, candidates: Sequence[str]) -> list[str]:
    """Leave out those that are not heard, if any host is."""
    healthy = set(run.context.suspects.healthy())
    return [host for host in candidates if not healthy or host in healthy]

# SPDX-License-Identifier: Apache-2.0
"""Step ``destination``: a host is chosen for the backup."""

from collections.abc import Sequence

from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import timeline
from specreds_nova.engine.recovery import verdict as verdicts

# Seconds until candidates that are all at their limits are asked for again.
_PAUSE = 0.5


def destination(run: runs.Run) -> verdicts.StepVerdict:
    """Return the host of the backup as the verdict's ``why``; choose it if none is recorded."""
    if verdict := run.resumed() or run.over():
        return verdict
    if run.recovery.destination:
        return verdicts.StepVerdict(verdicts.STARTED, run.recovery.destination)
    return choose(run)


def choose(run: runs.Run) -> verdicts.StepVerdict:
    """Choose a host, preferably one that had no backup of this recovery."""
    server = run.server(anew=bool(run.chosen()))
    if server is None:
        return verdicts.StepVerdict(verdicts.ABORTED, 'the server is deleted')
    host = _unused(run.recovery)
    if host is None:
        if len(run.chosen()) >= run.options.max_attempts:
            return verdicts.StepVerdict(
                verdicts.EVACUATE, f'{len(run.chosen())} backups of it have failed')
        with run.step(timeline.DESTINATION) as detail:
            choice = _search(run, server)
            if isinstance(choice, verdicts.StepVerdict):
                detail['none'] = choice.why
                return choice
            host, candidates = choice
            detail.update(host=host, candidates=candidates)
    return verdicts.StepVerdict(verdicts.STARTED, host)


def _unused(recovery: model.Recovery) -> str | None:
    """Return the host that was chosen last, if no backup was started on it."""
    for step in reversed(recovery.steps):
        if step.name in (timeline.START, timeline.WITHDRAW):
            return None
        if step.name == timeline.DESTINATION and step.ended and step.detail.get('host'):
            return str(step.detail['host'])
    return None


def _search(run: runs.Run, server: model.Server) -> tuple[str, int] | verdicts.StepVerdict:
    """Return a host, once one may take another backup, and how many candidates there are."""
    avoid = run.chosen()
    while True:
        candidates = heard(run, run.insist(run.context.compute.candidates, server))
        if not candidates:
            return verdicts.StepVerdict(verdicts.EVACUATE, 'no other host has room for it')
        host = run.insist(run.context.destinations.choose, run.id, candidates, avoid)
        if host is not None:
            return host, len(candidates)
        if over := run.over():
            return over
        run.pause(_PAUSE)


def heard(run: runs.Run, candidates: Sequence[str]) -> list[str]:
    """Return the candidates that this engine hears; all of them if it hears no host at all."""
    healthy = set(run.context.suspects.healthy())
    return [host for host in candidates if not healthy or host in healthy]

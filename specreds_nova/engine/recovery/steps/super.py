# SPDX-License-Identifier: Apache-2.0
"""Step ``super``: Cinder puts the server's volumes into superposition."""

from specreds_nova.engine import exception
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import timeline
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.recovery.steps import shut_out

# Seconds until Cinder is asked again after it did not answer.
_PAUSE = 0.5


def superpose(run: runs.Run) -> verdicts.StepVerdict:
    """Put the server's volumes into superposition, unless they are; its id is the why."""
    if verdict := run.resumed() or run.over():
        return verdict
    if known := run.superposition():
        return verdicts.StepVerdict(verdicts.STARTED, known)
    server = run.server()
    if server is None:
        return verdicts.StepVerdict(verdicts.ABORTED, 'the server is deleted')
    with run.step(timeline.SUPER) as detail:
        while True:
            try:
                superposition = run.context.volumes.superpose(
                    server, run.id, f'host {run.recovery.host} is suspected')
                break
            except exception.Merging as exc:
                detail['refused'] = str(exc)
                return verdicts.StepVerdict(verdicts.MERGING, str(exc))
            except exception.Refused as exc:
                detail['refused'] = str(exc)
                shut_out.observe(run)
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

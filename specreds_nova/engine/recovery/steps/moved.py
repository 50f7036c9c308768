# SPDX-License-Identifier: Apache-2.0
"""Wait until the other host of a move says that it does not run the server.

Nova shows one host of a server that it moves or resizes. If that host is dead, the other one may
run the server already, or may have no part of it. A dead host may also not have begun with the
move: it would find the request in its queue when it is back, and begin then.
"""

from specreds_nova.engine import model
from specreds_nova.engine.recovery import left
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts

_PAUSE = 2.0


def elsewhere(run: runs.Run) -> verdicts.StepVerdict | None:
    """Return why a server that was being moved must not be evacuated; None if it may be."""
    until = run.now + run.settings.evacuate_timeout
    while run.left:
        server = run.server(anew=True)
        if server is None:
            return verdicts.StepVerdict(verdicts.ABORTED, 'the server is deleted')
        moving = left.is_moving(server)
        # A failed evacuation has made it active, and left Nova's record of the move.
        move = run.insist(run.context.compute.move, server) if moving or left.was_moving(
            run.recovery) else None
        if not moving and move is None:
            return _runs_elsewhere(run, server)
        why = _obstacle(run, server, move)
        if why is None:
            return None
        run.fresh()
        if verdict := run.spared():
            return verdict
        # Nova's conductor names the other host late. If it gives up, it ends the move by itself.
        if (move is not None and not move.begun) or run.now >= until:
            return verdicts.failed(
                f'it is {server.status}, and {why}',
                f'look there before you make it active: {verdicts.make_active(server.id)}')
        run.pause(_PAUSE)
    return None


def _runs_elsewhere(run: runs.Run, server: model.Server) -> verdicts.StepVerdict | None:
    """Return a verdict if another host reports the guest of a server, as after a failed move."""
    suspects = run.context.suspects
    for host in sorted(suspects.healthy()):
        if host != run.recovery.host and suspects.running(host, server.id):
            return verdicts.failed(
                f'it is {server.status}, and its guest runs on {host}',
                f'look there. To have it evacuated, end it there: virsh destroy {server.id}')
    return None


def _obstacle(run: runs.Run, server: model.Server, move: model.Move | None) -> str | None:
    """Return why a server may run on another host, now or later; None if it does not."""
    if move is None:
        return 'Nova does not say which other host takes part'
    if not move.begun:
        return f'{server.host} begins to move it to {move.host} when it is back'
    suspects = run.context.suspects
    if not suspects.is_well(move.host):
        return f'{move.host}, which takes part, is silent'
    runs_there = suspects.running(move.host, server.id)
    return None if runs_there is False else f'it may run on {move.host}'

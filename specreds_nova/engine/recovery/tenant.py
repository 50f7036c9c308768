# SPDX-License-Identifier: Apache-2.0
"""What a server's users have asked Nova for since its recovery began: it is not overridden.

Nova takes requests while a host is only suspected, and notes a request to stop a server even if
the host is dead. So the server is read once more between the readiness of its backup and the
decision. Its state alone does not say what users want: Nova itself stops a server whose domain it
misses.
"""

import threading

from oslo_log import log as logging

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts

LOG = logging.getLogger(__name__)

# Seconds for which an answer of Nova is good.
_GOOD = 1.0
# Seconds for which Nova may not answer before the decision is taken without it. Who cannot reach
# Nova cannot ask for anything either, and the server does not serve meanwhile.
_PATIENCE = 10.0
# Seconds between two looks whether the thread that reads has an answer.
_LOOK = 0.01
# What Nova may be doing with a server that is to run: its backup serves this as well.
_HARMLESS = ('reboot', 'powering-on', 'image_', 'updating_password')
_STOPPING = 'powering-off'
# States that a server has although nobody has asked for them.
_UNASKED = ('ACTIVE', 'ERROR', 'REBOOT', 'HARD_REBOOT', 'UNKNOWN')
_STOPPED = 'SHUTOFF'


class Reading:
    """Reads a server once, beside whatever is done meanwhile."""

    def __init__(self, run: runs.Run) -> None:
        self._run = run
        self._taken = threading.Lock()
        self._read = threading.Event()
        # When it was read, and as what; None until Nova has answered.
        self._answer: tuple[float, model.Server | None] | None = None

    def begin(self) -> None:
        """Begin to read, if a thread is free for that."""
        self._run.context.in_background(self._take)

    def verdict(self) -> verdicts.StepVerdict | None:
        """Return why the backup is not to be promoted; None if nothing is against it."""
        run = self._run
        self._take()
        while not self._read.is_set():
            run.pause(_LOOK)
        if self._answer is None or run.now - self._answer[0] > _GOOD:
            return verdict(run)
        return _judged(run, self._answer[1])

    def _take(self) -> None:
        # Whoever is the first reads; nobody waits for a thread that is busy elsewhere.
        if not self._taken.acquire(blocking=False):
            return
        try:
            began = self._run.now
            self._answer = began, self._run.context.compute.server(self._run.recovery.server)
        except exception.Unreachable as exc:
            LOG.info('recovery %s: %s', self._run.id, exc)
        finally:
            self._read.set()


def verdict(run: runs.Run) -> verdicts.StepVerdict | None:
    """Read a server, and return why it is not to run elsewhere; None if nothing is against it."""
    try:
        server = run.insist(run.context.compute.server, run.recovery.server,
                            until=run.now + _PATIENCE)
    except exception.Unreachable as exc:
        _warn(run, exc)
        return None
    return _judged(run, server)


def _judged(run: runs.Run, server: model.Server | None) -> verdicts.StepVerdict | None:
    try:
        return _judge(run, server)
    except exception.Unreachable as exc:
        _warn(run, exc)
        return None


def _warn(run: runs.Run, exc: exception.Unreachable) -> None:
    LOG.warning('recovery %s continues although Nova does not say whether users have asked for '
                'anything else: %s', run.id, exc)


def _judge(run: runs.Run, server: model.Server | None) -> verdicts.StepVerdict | None:
    if server is None:
        return verdicts.StepVerdict(verdicts.ABORTED, 'the server is deleted')
    if server.host != run.recovery.host:
        return verdicts.StepVerdict(verdicts.ABORTED, f'the server is on {server.host} now')
    if run.insisting():
        # The primary may be fenced already.
        return None
    if why := _asked(run, server):
        return verdicts.StepVerdict(verdicts.ABORTED, f'{why} since the recovery began')
    if why := _other_volumes(run, server):
        return verdicts.StepVerdict(verdicts.AGAIN, why)
    return None


def _asked(run: runs.Run, server: model.Server) -> str | None:
    """Return what a user has asked for that a promoted backup would undo."""
    if server.task == _STOPPING or (server.task is None and server.status == _STOPPED):
        by_itself = run.insist(run.context.compute.stopped_by_itself, server.id,
                               until=run.now + _PATIENCE)
        return None if by_itself else 'a user has stopped the server'
    if server.task is not None:
        return None if server.task.startswith(_HARMLESS) else \
            f'a user has asked Nova for something else: the server is {server.task}'
    if server.status not in _UNASKED:
        return f'a user has changed its state: the server is {server.status}'
    return None


def _other_volumes(run: runs.Run, server: model.Server) -> str | None:
    """Return how the volumes differ from those that are in superposition."""
    superposed = run.superposed()
    if superposed is None:
        return None
    attached, detached = set(server.volumes) - superposed, superposed - set(server.volumes)
    changes = [f'{words} {", ".join(sorted(volumes))}'
               for words, volumes in (('attached:', attached), ('detached:', detached)) if volumes]
    return f'its volumes have changed, {"; ".join(changes)}' if changes else None

# SPDX-License-Identifier: Apache-2.0
"""Requests of a server's users since its recovery began, which the engine never overrides.

Nova takes requests while a host is only suspected, and notes a request to stop a server even if
the host is dead. So the server is read now and then during the race, and once more between the
readiness of its backup and the decision. Its state alone does not say what users want: Nova itself
stops a server whose domain it misses.
"""

from collections.abc import Sequence
import threading

from oslo_log import log as logging

from specreds_nova import tasks
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import left
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts

LOG = logging.getLogger(__name__)

# Seconds for which an answer of Nova is valid.
_GOOD = 1.0
# Seconds without an answer of Nova after which the engine decides without it. Users cannot reach
# Nova either then, and the server does not serve meanwhile.
_PATIENCE = 10.0
# Seconds between two looks at the reading thread.
_LOOK = 0.01
# Tasks of Nova after which the server runs: its backup serves as well.
_HARMLESS = ('reboot', 'powering-on', 'image_', 'updating_password')
# States of a server that no user has requested.
_UNASKED = ('ACTIVE', 'ERROR', 'REBOOT', 'HARD_REBOOT', 'UNKNOWN')
STOPPED = 'SHUTOFF'
DELETED = 'a user has deleted the server'


class Reading:
    """Reads a server once, in the background."""

    def __init__(self, run: runs.Run) -> None:
        self._run = run
        self._taken = threading.Lock()
        self._read = threading.Event()
        # Time and result of the reading; None until Nova has answered.
        self._answer: tuple[float, model.Server | None] | None = None

    def begin(self) -> None:
        """Begin to read if a thread is free."""
        self._run.context.in_background(self._take)

    def verdict(self) -> verdicts.StepVerdict | None:
        """Return why the backup must not be promoted; None if it may be."""
        run = self._run
        self._take()
        while not self._read.is_set():
            run.pause(_LOOK)
        if self._answer is None or run.now - self._answer[0] > _GOOD:
            return verdict(run)
        return _judged(run, self._answer[1])

    def _take(self) -> None:
        # The first caller reads; no caller waits for a busy thread.
        if not self._taken.acquire(blocking=False):
            return
        try:
            began = self._run.now
            self._answer = began, self._run.context.compute.server(self._run.recovery.server)
        except exception.Unreachable as exc:
            LOG.info('recovery %s: %s', self._run.id, exc)
        finally:
            self._read.set()


def objection(run: runs.Run) -> verdicts.StepVerdict | None:
    """Return why a primary must not be fenced: it lives, or a user has asked for something else.

    A deletion is no such reason: Nova carries it out once the primary is fenced.
    Nova may take long to answer, and the host may be back by then.
    """
    objecting = run.spared() or verdict(run)
    if objecting is not None and objecting.kind == verdicts.EVACUATE:
        # A primary that is fenced cannot write to what a deletion detaches.
        objecting = None
    return objecting or run.lives()


def verdict(run: runs.Run) -> verdicts.StepVerdict | None:
    """Read a server, and return why it must not run elsewhere; None if it may."""
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
    if verdict := request(run, server):
        return verdict
    if server is None or run.insisting():
        return None
    if why := _other_devices(run, server):
        return verdicts.StepVerdict(verdicts.AGAIN, why)
    return None


def request(run: runs.Run, server: model.Server | None) -> verdicts.StepVerdict | None:
    """Return a verdict if a user has asked for something that a backup would override.

    :param server: the server as Nova shows it; None if it is deleted
    :raises exception.Unreachable: Nova does not answer
    """
    if server is None:
        return verdicts.StepVerdict(verdicts.ABORTED, 'the server is deleted')
    if server.host != run.recovery.host:
        return verdicts.StepVerdict(verdicts.ABORTED, f'the server is on {server.host} now')
    if run.insisting():
        # The primary may have been fenced already.
        return None
    if server.deleting:
        # A dead host does not do it, and the server needs no backup in any case.
        return verdicts.StepVerdict(verdicts.EVACUATE, DELETED)
    if why := _asked(run, server):
        return verdicts.StepVerdict(verdicts.ABORTED, f'{why} since the recovery began')
    return None


def _asked(run: runs.Run, server: model.Server) -> str | None:
    """Return the request of a user that a promoted backup would override."""
    if left.is_as_left(run.recovery, server):
        return None
    if server.task == tasks.STOPPING or (server.task is None and server.status == STOPPED):
        by_itself = run.insist(run.context.compute.stopped_by_itself, server.id,
                               until=run.now + _PATIENCE)
        return None if by_itself else 'a user has stopped the server'
    if server.task is not None:
        return None if server.task.startswith(_HARMLESS) else \
            f'a user has asked Nova for something else: the server is {server.task}'
    if server.status not in _UNASKED:
        return f'a user has changed its state: the server is {server.status}'
    return None


def _other_devices(run: runs.Run, server: model.Server) -> str | None:
    """Return how volumes or ports differ from those that the backup was started with."""
    superposed = run.superposed()
    return (_differences('volumes', superposed.get('volumes'), server.volumes)
            or _differences('ports', superposed.get('macs'), server.macs))


def _differences(what: str, recorded: Sequence[str] | None, present: Sequence[str]) -> str | None:
    """Return how devices differ from those that were recorded; None if none were."""
    if recorded is None:
        return None
    attached, detached = set(present) - set(recorded), set(recorded) - set(present)
    changes = [f'{verb} {", ".join(sorted(devices))}'
               for verb, devices in (('attached:', attached), ('detached:', detached)) if devices]
    return f'its {what} have changed, {"; ".join(changes)}' if changes else None

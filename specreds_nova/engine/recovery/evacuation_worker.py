# SPDX-License-Identifier: Apache-2.0
"""The nova-compute that works on an evacuation: whether it has ended, or is about to be done."""

from oslo_log import log as logging

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs

LOG = logging.getLogger(__name__)

# Seconds for which the engine has seen Nova's claim before it asks the host for its uptime.
_ASK_HOST = 10.0
# How wrong the start of nova-compute may be by the engine's clock: at once, and by which share of
# the time since that look. And seconds by which the engine's clock and Nova's differ at most.
_WRONG, _DRIFT, _APART = 1.0, 0.02, 10.0
# Seconds for which a nova-compute may wait for its resource tracker.
_FINISHES = 60.0


class Worker:
    """The nova-compute of the destination that has claimed an evacuation."""

    def __init__(self, run: runs.Run) -> None:
        self._run = run
        # The destination that has begun to work, the time at which that was seen, and the id of
        # its nova-compute after that time.
        self._claimed: tuple[str, float] | None = None
        self._id: str | None = None
        # Since when Nova has no task for the server, although the evacuation is under way.
        self._without_task: float | None = None

    def forget(self) -> None:
        """Forget what was seen of an evacuation, since another one is requested."""
        self._claimed = self._without_task = None

    def ended(self, moving: model.Evacuation) -> bool:
        """Return whether the nova-compute that was at work on the evacuation has ended.

        Nova does not continue what such an end has interrupted. A beat after Nova's record of the
        claim is one of the process that made the claim, or of a later one. If another process
        beats after that beat, the former one is gone: it saves and starts nothing, and a reset is
        safe, unless it has started the guest. It may also be gone before that beat: then the
        process that beats has started after the engine saw the claim, or after the last note of
        the former one in Nova's record.
        """
        suspects, host = self._run.context.suspects, moving.host
        if not moving.claimed:
            self._claimed = None
        elif self._claimed is None or self._claimed[0] != host:
            self._claimed, self._id = (host, self._run.now), None
        if self._claimed is None or not suspects.heard_after(*self._claimed):
            return False
        boot = suspects.boot(host)
        self._id = self._id or boot
        if suspects.running(host, self._run.recovery.server) is not False:
            return False
        return boot != self._id or self._started_since(moving, self._claimed[1])

    def _started_since(self, moving: model.Evacuation, seen: float) -> bool:
        """Return whether the nova-compute of a destination has started since its claim.

        The age of the process counts from before the question, so that it is not too low however
        long the answer takes, or the clock of the engine has stood still meanwhile.

        :param seen: when the engine saw the claim first, by its own clock
        """
        run, now = self._run, self._run.now
        if now - seen < _ASK_HOST:
            return False
        wall = run.context.clock.wall()
        try:
            answer = run.context.backups.boot(moving.host)
        except (backup_errors.BackupError, exception.Unreachable) as exc:
            LOG.debug('recovery %s: host %s does not report its uptime: %s',
                      run.id, moving.host, exc)
            return False
        uptime = float(answer['service_uptime'])
        return (now - uptime > seen + _WRONG + _DRIFT * (now - seen)
                or 0.0 < moving.updated < wall - uptime - _APART)

    def is_left(self, moving: model.Evacuation) -> bool:
        """Return whether the record of a request or a claim is left from an earlier accident.

        Nova's API evacuates no server whose host is heard, as this one was after that.
        """
        return 0.0 < moving.updated < self._run.recovery.suspected - _APART

    def finishes(self, moving: model.Evacuation, adopted: bool) -> bool:
        """Return whether a claimed evacuation without a task may note the new host yet.

        Nova ends the task as soon as the guest runs, and notes the host once nobody else uses the
        resource tracker of the destination (``ResourceTracker.finish_evacuation``), which may take
        seconds there. If it fails to, the adoption of a backup may be requested again, but another
        guest must not be evacuated while it may run.

        :param adopted: the backup of the server runs on the destination
        """
        if self._without_task is None:
            self._without_task = self._run.now
        return self._run.now - self._without_task < _FINISHES or not (
            adopted or self._run.context.suspects.running(
                moving.host, self._run.recovery.server) is False)

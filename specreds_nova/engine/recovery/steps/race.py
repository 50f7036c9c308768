# SPDX-License-Identifier: Apache-2.0
"""Step ``race``: wait until the backup is ready, or the primary is found to live."""

from collections.abc import Mapping
from typing import Any

from oslo_log import log as logging

from specreds_cinder.superposition.truth import states
from specreds_nova import exception as backup_errors
from specreds_nova.beats import message
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.placing import kinds
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import tenant
from specreds_nova.engine.recovery import verdict as verdicts

LOG = logging.getLogger(__name__)

# Seconds between two reads of the record, in which operators abort recoveries.
_READ_INTERVAL = 1.0
# A check for writes of the primary reads all objects of the volumes. The pause before the next
# check is this multiple of the duration of the last one, up to a number of seconds.
_REST, _LONGEST_REST = 10.0, 30.0
# Seconds between two questions to Nova what users have asked for. Nova works on a request for a
# server whose host lives, and that server's network is complete only without a backup.
_SELDOM = 10.0
# Seconds by which status_interval and dirty_interval grow with each recovery that races.
_SHARE = 0.005
# Seconds since the last beat of a host that any engine has heard, before which no first frame
# decides: a host that stalls for less keeps its servers. The lease on the network is over then.
NOT_BEFORE = 5.0
# Phases of a backup that its host reports.
_RUNS = ('running', 'hardened')
_DECIDED = ('promoted', 'adopted', 'merged')
_ALIVE = ('running', 'paused')
# Consecutive reports without a domain after which the backup is lost.
_MISSING = 3


def race(run: runs.Run, started: verdicts.StepVerdict) -> verdicts.StepVerdict:
    """Wait until it is clear whether the primary or the backup wins."""
    if started.kind != verdicts.STARTED:
        return started
    if run.recovery.destination is None or run.recovery.superposition is None:
        return verdicts.StepVerdict(verdicts.AGAIN, 'its backup is gone')
    with run.step(runs.RACE) as detail:
        began = run.now
        waiting = _Race(run)
        verdict = waiting.wait()
        detail.update(won=verdict.kind, why=verdict.why)
        if waiting.early:
            detail['early'] = True
        if waiting.frame is not None:
            detail.update(first_frame_s=round(waiting.frame - began, 3),
                          held_s=round(waiting.held, 3))
    return verdict


class _Race:
    """The checks that are repeated during a race, each at its own pace."""

    def __init__(self, run: runs.Run) -> None:
        self._run = run
        self._host = str(run.recovery.destination)
        self._backup = run.backup_id
        self._began = _began(run)
        self._read = run.now
        share = _SHARE * run.context.capacity.count()
        self._status_interval = run.settings.status_interval + share
        self._dirty_interval = run.settings.dirty_interval + share
        self._sweep = run.now + self._dirty_interval
        self._asked = run.now
        self._unanswered = runs.UnansweredSince(run, self._host)
        self._missing = 0
        # What the host may still report without a request.
        self._signs = [message.first_frame(self._backup), self._backup]
        # Whether the first frame of the guest decides, and in how many seconds it may.
        self.early = False
        self._left = float('inf')
        # When the first frame was known, and the seconds in which it was too early to decide.
        self.frame: float | None = None
        self.held = 0.0
        server = run.server()
        self._timeout = _metadata_seconds(
            server.metadata if server else {}, 'specreds:ready_timeout',
            run.settings.ready_timeout)
        self._longest = float(run.settings.ready_timeout_max)

    def wait(self) -> verdicts.StepVerdict:
        """Repeat the checks until one of them has a verdict."""
        while True:
            verdict = (self._over() or self._status() or self._dirty_if_due() or self._late()
                       or self._request())
            if verdict is not None:
                return verdict
            self._pause()

    def _pause(self) -> None:
        """Wait, but not longer than until the host reports that the backup is ready.

        A first frame is reported, too.
        """
        run, seconds = self._run, min(self._status_interval, self._left)
        self._left = float('inf')
        if not self._signs:
            # One report is enough: the status of the backup is requested after it.
            run.pause(seconds)
        elif run.wait(run.context.suspects.await_ready, self._host, self._signs, seconds):
            del self._signs[0]

    def _over(self) -> verdicts.StepVerdict | None:
        run = self._run
        if run.now - self._read >= _READ_INTERVAL:
            self._read = run.now
            if run.insist(run.context.revocations.concern, run.recovery):
                run.fresh()
        return run.over()

    def _dirty_if_due(self) -> verdicts.StepVerdict | None:
        """Check for writes of the primary, if that is due.

        The status of the backup is requested before: the decision checks for writes anyway.
        """
        run = self._run
        began = run.now
        if began < self._sweep or run.drill:
            return None
        try:
            return self._dirty()
        finally:
            rest = min(_REST * (run.now - began), _LONGEST_REST)
            self._sweep = run.now + max(self._dirty_interval, rest)

    def _dirty(self) -> verdicts.StepVerdict | None:
        run = self._run
        superposition = str(run.recovery.superposition)
        try:
            if run.context.volumes.dirty(superposition):
                return verdicts.StepVerdict(verdicts.PRIMARY, 'it has written')
        except exception.Unreachable:
            return None
        except exception.Refused as exc:
            state = run.insist(run.context.volumes.state, superposition)
            if state is None:
                return verdicts.StepVerdict(verdicts.AGAIN, f'its superposition is gone: {exc}')
            if state in states.DECIDED:
                return verdicts.StepVerdict(verdicts.DECIDING, f'its superposition is {state}')
        return None

    def _status(self) -> verdicts.StepVerdict | None:
        run = self._run
        why = f'{self._host} is silent'
        if not run.silent(self._host):
            status, run.answer = run.answer, None
            try:
                status = status or run.context.backups.status(self._host, self._backup)
            except exception.Unreachable as exc:
                why = str(exc)
            except backup_errors.BackupError as exc:
                return verdicts.StepVerdict(verdicts.AGAIN, exc.format_message())
            else:
                self._unanswered.ends()
                return self._judge(status)
        return verdicts.StepVerdict(verdicts.AGAIN, why) if self._unanswered.lasts() else None

    def _judge(self, status: Mapping[str, Any]) -> verdicts.StepVerdict | None:
        phase = status['phase']
        # The host's value includes the property of the image.
        self._timeout = status.get('ready_timeout') or self._timeout
        if phase in _DECIDED:
            return verdicts.StepVerdict(verdicts.DECIDING, f'its backup is {phase}')
        if phase not in _RUNS:
            return verdicts.StepVerdict(
                verdicts.AGAIN, f'its backup is {phase}: {status.get("error")}')
        if verdict := self._run.second_opinion(status):
            return verdict
        domain = status.get('domain') or {}
        self._missing = 0 if domain.get('state') in _ALIVE else self._missing + 1
        if self._missing >= _MISSING:
            return verdicts.StepVerdict(verdicts.AGAIN, 'its backup has stopped')
        if self._missing:
            return None
        if status['ready']:
            self._learn(self._run.now - self._began)
            return verdicts.StepVerdict(verdicts.READY, str(status.get('ready_detail') or ''))
        if status.get('first_frame') and self.frame is None:
            self.frame = self._run.now
        if status.get('first_frame') and self._nothing_is_heard(status):
            self.early = True
            LOG.info('recovery %s: its guest has sent its first frame', self._run.id)
            return verdicts.StepVerdict(
                verdicts.READY, f'it has sent its first frame, and nothing is heard of '
                                f'{self._run.recovery.host}')
        return None

    def _nothing_is_heard(self, status: Mapping[str, Any]) -> bool:
        """Return whether the primary's host has been silent everywhere for long enough.

        Its sentinel has looked at the servers until then, was asked in storage, and did not answer
        in time. Whatever is not known speaks for the primary: its backup gets ready first. So a
        question that could not be asked decides nothing.
        """
        run = self._run
        if not status.get('primary_silent') or status.get('primary_runs') is not None:
            return False
        host = run.insist(run.context.store.host, run.recovery.host)
        silence = run.context.leases.silence(host, run.now)
        if (silence is None or host.sentinel != model.LIVE
                or not run.context.suspects.lost(host.name)):
            return False
        self._left = NOT_BEFORE - silence
        self.held = max(self.held, self._left)
        return self._left <= 0

    def _learn(self, seconds: float) -> None:
        run = self._run
        server = run.server()
        if server is not None:
            run.insist(kinds.learn, run.context.store, server, seconds)

    def _request(self) -> verdicts.StepVerdict | None:
        """Return a verdict if a user has asked Nova for something else during the race."""
        run = self._run
        if run.now - self._asked < _SELDOM:
            return None
        self._asked = run.now
        run.fresh()
        try:
            return tenant.request(run, run.context.compute.server(run.recovery.server))
        except exception.Unreachable:
            return None

    def _late(self) -> verdicts.StepVerdict | None:
        timeout = min(self._timeout, self._longest)
        if self._run.now - self._began < timeout:
            return None
        why = f'its backup was not ready in {timeout:g} s'
        LOG.warning('recovery %s: %s', self._run.id, why)
        # Its application may be up although its conditions do not hold.
        return verdicts.StepVerdict(
            verdicts.AGAIN if self._run.drill else verdicts.READY, why)


def _began(run: runs.Run) -> float:
    """Return the time at which the backup was started, by this engine's own clock."""
    if run.started is not None:
        return run.started
    ended = [step.ended for step in run.recovery.steps
             if step.name == runs.START and step.ended is not None]
    # The clock of the engine that has started it may differ.
    return run.now - max(run.context.clock.wall() - ended[-1], 0.0) if ended else run.now


def _metadata_seconds(metadata: Mapping[str, str], key: str, default: float) -> float:
    """Return a number of seconds in a server's metadata, or the default."""
    try:
        return max(0.0, float(metadata[key]))
    except (KeyError, ValueError):
        return default

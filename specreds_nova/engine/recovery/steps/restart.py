# SPDX-License-Identifier: Apache-2.0
"""Step ``restart``: Nova reboots a server whose domain has crashed on a host that is well.

This is the only step of such a recovery. There is no race: the crash is certain, and no other copy
of the server can write. The server is not moved either: Nova evacuates only from hosts that are
down, and to force a host down because of one server would take its other servers from their users
and from everything that evacuates on its own.

A server that a user has stopped, or that runs again, has not crashed. The host reports whether the
domain runs, and Nova whether Nova itself has stopped the server, as it does some time after the
domain has gone.

If an evacuation that has failed has made a server active which did not run when its host died, the
server is stopped.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from oslo_log import log as logging

from specreds_nova import tasks
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import left
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.suspicion import evidence

LOG = logging.getLogger(__name__)

_PAUSE = 0.5
# Seconds after which the recovery fails; requests to Nova within them, and seconds between two.
_PATIENCE = 300.0
_TIMES = 3
_ASK_AGAIN = 10.0
# The outcomes if Nova has not been asked to reboot the server.
_OUTCOMES = {verdicts.PRIMARY: model.PRIMARY, verdicts.ABORTED: model.ABORTED,
             verdicts.FAILED: model.FAILED, runs.RESTART: model.RESTARTED}


def concerns(recovery: model.Recovery) -> bool:
    """Return whether a recovery concerns a single server that has crashed."""
    return any(fact.get('kind') == evidence.CRASH for fact in recovery.why)


def by_itself(why: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a server has crashed by itself, and not with its host."""
    return all(fact.get('kind') == evidence.CRASH for fact in why)


def attempt(run: runs.Run) -> str:
    """Have Nova reboot a server that has crashed; return the outcome.

    :raises exception.Superseded: another engine has taken over the recovery
    :raises exception.Interrupted: the engine is being stopped
    """
    # This recovery needs no room on another host.
    run.free()
    with run.step(runs.RESTART) as detail:
        verdict = _Restart(run, detail).wait()
        detail['outcome'] = verdict.kind
    outcome = _OUTCOMES[verdict.kind]
    run.change(state=model.ENDED, outcome=outcome, error=verdict.why[:255] or None)
    LOG.info('recovery %s of server %s, which had crashed on %s: %s%s', run.id,
             run.recovery.server, run.recovery.host, outcome,
             f', {verdict.why}' if verdict.why else '')
    return outcome


class _Restart:
    """The state of one restart."""

    def __init__(self, run: runs.Run, detail: dict[str, Any]) -> None:
        self._run = run
        self._detail = detail
        self._requests = 0
        self._requested = float('-inf')

    def wait(self) -> verdicts.StepVerdict:
        """Check host and server until the restart has succeeded, failed or become needless."""
        run = self._run
        until = run.now + _PATIENCE
        while True:
            run.fresh()
            try:
                verdict = self._over() or self._check()
            except (exception.Unreachable, exception.Refused, exception.NotFound) as exc:
                self._detail['waited'] = str(exc)
                verdict = None
            if verdict is not None:
                return self._certain(verdict)
            if run.now >= until:
                return verdicts.failed(f'Nova has not started it again in {_PATIENCE:g} s',
                                       self._by_hand)
            run.pause(_PAUSE)

    def _certain(self, verdict: verdicts.StepVerdict) -> verdicts.StepVerdict:
        """Return the verdict, or what it means after Nova was asked to reboot the server."""
        if runs.before_commit(self._run.recovery) or verdict.kind in (
                runs.RESTART, verdicts.FAILED):
            return verdict
        if verdict.kind == verdicts.PRIMARY:
            return verdicts.StepVerdict(runs.RESTART)
        return verdicts.failed(verdict.why, verdicts.NOTHING)

    @property
    def _by_hand(self) -> str:
        return f'openstack server reboot --hard {self._run.recovery.server}'

    def _over(self) -> verdicts.StepVerdict | None:
        """Return a verdict if an operator or the state of the host ends the restart."""
        run = self._run
        if run.recovery.abort:
            return verdicts.StepVerdict(verdicts.ABORTED, run.recovery.abort)
        host = run.recovery.host
        if runs.before_commit(run.recovery) and (
                mode := run.context.modes.of(host)) != model.ACT:
            return verdicts.StepVerdict(verdicts.ABORTED, f'the mode of {host} is {mode}')
        if run.context.store.host(run.recovery.host).state == model.TRUSTED or self._returned():
            return None
        # The recoveries of the host include this server once this recovery has ended.
        if not runs.before_commit(run.recovery):
            server = run.context.compute.server(run.recovery.server)
            if server is not None and tasks.is_reboot(server.task):
                # The reboot that Nova was asked for would prevent an evacuation.
                run.context.compute.reset(server.id)
        return verdicts.failed(f'{run.recovery.host} is suspected as well', verdicts.AGAIN_LATER)

    def _returned(self) -> bool:
        """Return whether the whole host had failed, and is well again."""
        why = self._run.recovery.why
        return (any(fact.get('kind') not in (evidence.CRASH, evidence.BOOT, left.KIND)
                    for fact in why)
                and self._run.context.suspects.is_well(self._run.recovery.host))

    def _check(self) -> verdicts.StepVerdict | None:
        """Read the server from Nova, and ask Nova to reboot it if that is due."""
        run, compute = self._run, self._run.context.compute
        server = compute.server(run.recovery.server)
        if server is None:
            return verdicts.StepVerdict(verdicts.ABORTED, 'the server is deleted')
        if server.host != run.recovery.host:
            return verdicts.StepVerdict(verdicts.ABORTED, f'the server is on {server.host} now')
        if server.task is not None:
            return None
        if server.status == 'SHUTOFF' and not compute.stopped_by_itself(server.id):
            return verdicts.StepVerdict(verdicts.ABORTED, 'somebody has stopped it')
        if server.status not in ('ACTIVE', 'SHUTOFF', 'ERROR') or (
                server.status == 'ERROR' and runs.before_commit(run.recovery)):
            return verdicts.StepVerdict(verdicts.ABORTED, f'it is {server.status}')
        if server.status == 'ACTIVE' and compute.runs(server.id):
            return verdicts.StepVerdict(verdicts.PRIMARY, 'it runs')
        if left.of(run.recovery):
            if server.status == 'ACTIVE':
                compute.stop(server.id)
            return verdicts.StepVerdict(
                runs.RESTART, 'it did not run when its host died, and is stopped')
        return self._ask(server)

    def _ask(self, server: model.Server) -> verdicts.StepVerdict | None:
        run = self._run
        if run.now - self._requested < _ASK_AGAIN or not run.context.suspects.is_well(server.host):
            return None
        if self._requests >= _TIMES:
            return verdicts.failed(
                f'Nova was asked {_TIMES} times to start it again: it is {server.status}, and '
                f'does not run', self._by_hand)
        if runs.before_commit(run.recovery):
            # Before the request, so that another engine knows that it may have been sent.
            began = run.now
            run.change(state=model.COMMITTED)
            if run.now - began >= _PAUSE:
                # The server may run again.
                return None
        self._requests += 1
        self._requested = run.now
        self._detail['asked'] = self._requests
        run.context.compute.reboot(server.id)
        return None

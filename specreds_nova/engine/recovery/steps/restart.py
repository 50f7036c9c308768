# SPDX-License-Identifier: Apache-2.0
"""A server whose domain has crashed on a host that is well is started again there, by Nova.

There is no race, as there is nobody to race with: the crash is certain, and no other copy of the
server is there that could write. Nor is it moved. Nova evacuates from hosts only that are down,
and a host that is declared to be down for the sake of one server is down for its other servers
too: nobody could stop, snapshot or migrate them, and everything that evacuates by itself would
take them for lost. A hard reboot needs none of that, and Nova stays in charge of all of it.

What must never be taken for a crash: a server that somebody has stopped, or that runs (again).
Nova's own host is asked whether it runs, and Nova whether it has stopped it by itself, as it does
a while after its domain is gone.
"""

from typing import Any

from oslo_log import log as logging

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.detection import evidence
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import timeline
from specreds_nova.engine.recovery import verdict as verdicts

LOG = logging.getLogger(__name__)

_PAUSE = 0.5
# Seconds after which it has not worked, and how often Nova is asked within them, at which pace.
_PATIENCE = 300.0
_TIMES = 3
_ASK_AGAIN = 10.0
# The outcome, unless Nova was asked already.
_OUTCOMES = {verdicts.PRIMARY: model.PRIMARY, verdicts.ABORTED: model.ABORTED,
             verdicts.FAILED: model.FAILED, timeline.RESTART: model.RESTARTED}


def concerns(recovery: model.Recovery) -> bool:
    """Tell whether a recovery is of a single server that has crashed."""
    return any(one.get('kind') == evidence.CRASH for one in recovery.why)


def attempt(run: runs.Run) -> str:
    """Have a server started again, from wherever it is; gives the outcome.

    :raises exception.Superseded: another engine has taken the recovery over
    :raises run.Interrupted: the engine is being stopped
    """
    # It needs no room anywhere.
    run.context.destinations.leave(run.id)
    with run.step(timeline.RESTART) as detail:
        found = _Restart(run, detail).wait()
        detail['outcome'] = found.kind
    outcome = _OUTCOMES[found.kind]
    run.change(state=model.ENDED, outcome=outcome, error=found.why[:255] or None)
    run.context.observer.serves(run.id)
    LOG.info('recovery %s of server %s on %s, which had crashed: %s%s', run.id,
             run.recovery.server, run.recovery.host, outcome,
             f', {found.why}' if found.why else '')
    return outcome


class _Restart:
    """What is known of it while it lasts."""

    def __init__(self, run: runs.Run, detail: dict[str, Any]) -> None:
        self._run = run
        self._detail = detail
        self._times = 0
        self._asked = float('-inf')

    def wait(self) -> verdicts.StepVerdict:
        """Look until there is something to tell."""
        run = self._run
        until = run.now + _PATIENCE
        while True:
            run.fresh()
            try:
                found = self._over() or self._look()
            except (exception.Unreachable, exception.Refused, exception.NotFound) as exc:
                self._detail['waited'] = str(exc)
                found = None
            if found is not None:
                return self._certain(found)
            if run.now >= until:
                return verdicts.StepVerdict(
                    verdicts.FAILED, f'Nova has not started it again in {_PATIENCE:g} s')
            run.pause(_PAUSE)

    def _certain(self, found: verdicts.StepVerdict) -> verdicts.StepVerdict:
        """Give what can be told of it: after Nova was asked nobody can say it did nothing."""
        if runs.before_commit(self._run.recovery) or found.kind == timeline.RESTART:
            return found
        if found.kind == verdicts.PRIMARY:
            return verdicts.StepVerdict(timeline.RESTART)
        return verdicts.StepVerdict(verdicts.FAILED, found.why)

    def _over(self) -> verdicts.StepVerdict | None:
        """Say why nothing is to be done, if nothing is."""
        run = self._run
        if run.recovery.abort:
            return verdicts.StepVerdict(verdicts.ABORTED, 'an operator wants it to end')
        if run.context.store.host(run.recovery.host).state == model.TRUSTED or self._returned():
            return None
        # Whatever is done about the host is done about this server, too, once this is over.
        if not runs.before_commit(run.recovery):
            server = run.context.compute.server(run.recovery.server)
            if server is not None and (server.task or '').startswith('reboot'):
                # What Nova was asked for here keeps it from being moved.
                run.context.compute.reset(server.id)
        return verdicts.StepVerdict(verdicts.FAILED, f'{run.recovery.host} is suspected as well')

    def _returned(self) -> bool:
        """Return whether it is the host that had failed, and that is well again."""
        why = self._run.recovery.why
        return (any(one.get('kind') != evidence.CRASH for one in why)
                and self._run.context.suspects.is_well(self._run.recovery.host))

    def _look(self) -> verdicts.StepVerdict | None:
        """Look once at what Nova says of it, and ask Nova to start it if that is due."""
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
        return self._ask(server)

    def _ask(self, server: model.Server) -> verdicts.StepVerdict | None:
        run = self._run
        if run.now - self._asked < _ASK_AGAIN or not run.context.suspects.is_well(server.host):
            return None
        if self._times >= _TIMES:
            return verdicts.StepVerdict(
                verdicts.FAILED, f'Nova was asked {_TIMES} times to start it again: it is '
                                 f'{server.status}, and does not run')
        if runs.before_commit(run.recovery):
            # Before anything can come of it, so that whoever goes on knows.
            run.change(state=model.COMMITTED)
        self._times += 1
        self._asked = run.now
        self._detail['asked'] = self._times
        run.context.compute.reboot(server.id)
        return None

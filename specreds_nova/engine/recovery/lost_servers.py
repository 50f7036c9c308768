# SPDX-License-Identifier: Apache-2.0
"""Servers that ended with their host, named by Nova.

A host that lost power lists after its boot which domains run, but not which ones are lost. The
list from before the boot may be old: the broker may have lost later ones, or the engine may have
heard none. A server that Nova takes for active, and whose domain does not run, is lost; so is one
that Nova itself has marked as stopped after the boot of the host, because its domain does not run.
One that Nova has stopped before the boot was shut down by its user, from within.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oslo_log import log as logging

from specreds_nova import exception as backup_errors
from specreds_nova.engine import model
from specreds_nova.engine.clients import backups as backup_clients
from specreds_nova.engine.clients import clock as clocks
from specreds_nova.engine.clients import compute as nova_clients
from specreds_nova.engine.suspicion import evidence
from specreds_nova.engine.suspicion import suspects as all_suspects

LOG = logging.getLogger(__name__)

Why = Sequence[Mapping[str, Any]]
Act = Callable[[str, str, Why], str | None]
Told = tuple[Mapping[str, Any], ...]
Tell = Callable[[str, str, Told], object]

_RUNS, _STOPPED = 'ACTIVE', 'SHUTOFF'


class LostServers:
    """Names the servers of crashes that concern any server of a host.

    :param act: acts on the crash of one server: Dispatcher.crashed
    :param tell: receives the crash of each server that is lost
    """

    def __init__(self, act: Act, tell: Tell, compute: nova_clients.Compute,
                 suspects: all_suspects.Suspects, hosts: backup_clients.Backups,
                 clock: clocks.Clock) -> None:
        self._act = act
        self._tell = tell
        self._compute = compute
        self._suspects = suspects
        self._hosts = hosts
        self._clock = clock

    def crashed(self, host: str, server: str, why: Why) -> str | None:
        """Act on the crash of a server, or name the servers that are lost.

        This reads the servers from Nova at once, even if their crashes have to wait: Nova soon
        shows them as stopped, like servers that users have shut down from within.

        :returns: why the crash has to wait; None if the engine has acted on it, or need not
        :raises exception.Unreachable: Nova, the host or the database does not answer: call again
        """
        if server != model.ANY_SERVER:
            return self._act(host, server, why)
        statuses = {known.id: known.status for known in self._compute.servers(host)
                    if known.status in (_RUNS, _STOPPED)}
        runs = {name: self._suspects.running(host, name) for name in statuses}
        if None in runs.values():
            return f'{host} has not listed its domains'
        missing = [name for name in statuses if not runs[name]]
        stopped = [name for name in missing if statuses[name] == _STOPPED]
        marked = self._marked(host, stopped)
        for name in missing:
            if statuses[name] == _RUNS or name in marked:
                self._tell(host, name, _about(name, why))
        return None

    def _marked(self, host: str, stopped: Sequence[str]) -> frozenset[str]:
        """Return the stopped servers that Nova has marked so after the boot of their host."""
        if not stopped:
            return frozenset()
        try:
            booted = self._clock.wall() - float(self._hosts.boot(host)['uptime'])
        except backup_errors.BackupError as exc:
            LOG.warning('servers of %s that Nova has marked as stopped since its boot stay '
                        'stopped, as the host does not report its uptime: %s', host, exc)
            return frozenset()
        return frozenset(name for name in stopped
                         if self._compute.stopped_by_itself(name, booted))


def _about(server: str, why: Why) -> Told:
    """Return evidence about a server instead of that about any server."""
    return tuple(evidence.of(evidence.CRASH, server, float(fact['at'])).told()
                 if fact.get('kind') == evidence.CRASH else fact for fact in why)

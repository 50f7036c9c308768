# SPDX-License-Identifier: Apache-2.0
"""The backups on the hosts, as an engine calls them."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from specreds_cinder.superposition.truth import states
from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from testing.simulation import clients
from testing.simulation import cloud as clouds
from testing.simulation import hub as hubs
from testing.simulation import parts

_T = TypeVar('_T')

# Seconds for which a host watches a backup until it is ready.
_LATE = 60.0


class Backups:
    """The backups on the hosts."""

    def __init__(self, line: clients.Line, hub: hubs.Hub, cloud: clouds.Cloud) -> None:
        self._line = line
        self._hub = hub
        self._cloud = cloud

    def check(self, host: str, server_id: str) -> Mapping[str, Any]:
        """Return that a host can run a backup, and whether Nova would evacuate the server."""
        del host
        server = self._cloud.servers.get(server_id)
        if server is None:
            raise backup_errors.ServerNotEligible(reason=f'there is no server {server_id}')
        return {'eligible': True, 'reasons': [], 'immovable': server.immovable or None}

    def start(self, host: str, backup_id: str, server_id: str, superposition_id: str
              ) -> Mapping[str, Any]:
        """Start a backup on a host."""
        def act(there: parts.Host) -> dict[str, Any]:
            backup = there.backups.get(backup_id)
            if backup is None:
                if not there.plugged or server_id not in self._cloud.servers:
                    raise backup_errors.ServerNotEligible(reason=f'{host} cannot run it')
                rivals = [rival.id for rival in there.backups.values() if rival.server == server_id
                          and rival.phase not in ('aborted', 'failed', 'merged', 'adopted')]
                if rivals:
                    raise backup_errors.BackupConflict(reason=f'{rivals} is here')
                record = self._cloud.superpositions.get(superposition_id)
                if record is None or record.state != 'superposed':
                    raise backup_errors.StartFailed(reason=f'{superposition_id} is gone')
                backup = parts.Backup(backup_id, server_id, superposition_id, host)
                there.backups[backup_id] = backup
                self._cloud.expect_answers(server_id, host)
                self._hub.wait(self._hub.spawn('cloud', lambda: self._boot(there, backup)))
                if backup.phase in ('aborted', 'failed'):
                    raise backup_errors.StartFailed(reason=f'{backup_id} is {backup.phase}')
            elif backup.phase in ('aborted', 'failed'):
                raise backup_errors.BackupConflict(reason=f'{backup_id} is over')
            elif backup.superposition != superposition_id:
                raise backup_errors.BackupConflict(reason=f'{backup_id} is another')
            return self._status(backup)
        return self._call_host(host, 'start', act)

    def begin(self, host: str, backup_id: str, server_id: str, superposition_id: str
              ) -> None:
        """Have a host start a backup, without waiting for it."""
        self._hub.spawn('network', lambda: self.start(host, backup_id, server_id,
                                                      superposition_id))

    def _boot(self, host: parts.Host, backup: parts.Backup) -> None:
        self._hub.latency(0.2, 1.0)
        record = self._cloud.superpositions.get(backup.superposition)
        if backup.phase != 'starting' or record is None:
            backup.phase = 'failed'
            return
        self._cloud.start_backup(host, backup)

    def status(self, host: str, backup_id: str) -> Mapping[str, Any]:
        """Return the state of a backup."""
        return self._call_host(host, 'status',
                               lambda there: self._status(_get(there, backup_id)))

    def harden(self, host: str, backup_id: str) -> Mapping[str, Any]:
        """Make the writes of a backup durable."""
        def act(there: parts.Host) -> dict[str, Any]:
            backup = _get(there, backup_id)
            if backup.phase in ('running', 'hardened'):
                if not backup.runs:
                    raise backup_errors.BackupLost(reason='it does not run')
                backup.phase, backup.durable = 'hardened', True
            elif backup.phase not in ('promoted', 'adopted', 'merged'):
                raise backup_errors.BackupConflict(reason=f'it is {backup.phase}')
            return self._status(backup)
        return self._call_host(host, 'harden', act)

    def release(self, host: str, backup_id: str) -> None:
        """Release the claim of a backup."""
        self._call_host(host, 'release', lambda there: self._status(_get(there, backup_id)))

    def promote(self, host: str, backup_id: str) -> Mapping[str, Any]:
        """Open the box of a backup."""
        def act(there: parts.Host) -> dict[str, Any]:
            backup = _get(there, backup_id)
            if backup.phase in ('running', 'hardened'):
                record = self._cloud.superpositions.get(backup.superposition)
                if record is None or record.state not in states.DECIDED:
                    raise backup_errors.BackupConflict(reason='Cinder has not promoted it')
                if not backup.runs:
                    backup.phase = 'failed'
                    raise backup_errors.BackupLost(reason='it does not run')
                backup.durable = True
                self._cloud.connect(backup)
            elif backup.phase not in ('promoted', 'adopted', 'merged'):
                raise backup_errors.BackupConflict(reason=f'it is {backup.phase}')
            return self._status(backup)
        return self._call_host(host, 'promote', act)

    def abort(self, host: str, backup_id: str) -> Mapping[str, Any]:
        """Remove a backup."""
        def act(there: parts.Host) -> dict[str, Any]:
            backup = there.backups.get(backup_id)
            if backup is None or backup.phase in ('aborted', 'failed'):
                return {'phase': 'aborted'}
            record = self._cloud.superpositions.get(backup.superposition)
            if backup.phase not in ('starting', 'running', 'hardened') or (
                    record is not None and record.state in states.DECIDED):
                raise backup_errors.BackupConflict(reason='it was promoted')
            if self._hub.random.random() < 0.1:
                raise backup_errors.UndoIncomplete(reason='not everything is removed')
            backup.phase, backup.runs = 'aborted', False
            return self._status(backup)
        return self._call_host(host, 'abort', act)

    def returned(self, host: str) -> Mapping[str, Any]:
        """Clean a host that has returned of what runs elsewhere."""
        def act(there: parts.Host) -> dict[str, Any]:
            if self._hub.random.random() < 0.5:
                self._cloud.clean(there)
            left = self._cloud.stale(host)
            if not left:
                self._cloud.cleaned[host] = self._hub.now()
            return {'clean': not left, 'left': ['something'] if left else []}
        return self._call_host(host, 'returned', act)

    def boot(self, host: str) -> Mapping[str, Any]:
        """Return for how long the nova-compute of a host runs."""
        return self._call_host(host, 'boot', lambda there: {
            'uptime': self._hub.now() - there.booted,
            'service_uptime': self._hub.now() - there.started})

    def _status(self, backup: parts.Backup) -> dict[str, Any]:
        server = self._cloud.servers.get(backup.server)
        boot = server.boot if server else -1.0
        frame = server.frame if server else -1.0
        age = self._hub.now() - backup.began
        ready = backup.runs and 0 <= boot <= age
        return {'backup_id': backup.id, 'phase': backup.phase, 'ready': ready,
                'ready_detail': '', 'error': None,
                'ready_late': not ready and age > _LATE,
                'first_frame': backup.runs and 0 <= frame <= age,
                'domain': {'pid': 1, 'state': 'running'} if backup.runs else None,
                'primary_runs': self._cloud.primary_runs(server, backup.host),
                'primary_silent': self._cloud.is_silent(server, backup.host),
                'primary_asked': self._cloud.second_opinion}

    def _call_host(self, host: str, name: str, act: Callable[[parts.Host], _T]) -> _T:
        there = self._cloud.hosts[host]

        def reach() -> _T:
            if not there.reached or 'broker' in self._cloud.unreachable:
                self._hub.sleep(clients.TIMEOUT)
                raise exception.Unreachable(f'{host} does not answer')
            answer = act(there)
            if not there.reached:
                self._hub.sleep(clients.TIMEOUT)
                raise exception.Unreachable(f'{host} has not answered {name}')
            return answer
        return self._line.call('host', name, reach)


def _get(host: parts.Host, backup_id: str) -> parts.Backup:
    backup = host.backups.get(backup_id)
    if backup is None:
        raise backup_errors.BackupNotFound(reason=f'{host.name} knows nothing of it')
    return backup

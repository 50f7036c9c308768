# SPDX-License-Identifier: Apache-2.0
"""An engine's clients: calls that take time, fail, and can be cut off at any point."""

from collections.abc import Callable, Collection, Mapping, Sequence
import dataclasses
from typing import Any, TypeVar

from specreds_cinder.superposition import states
from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import model
from testing.simulation import cloud as clouds
from testing.simulation import hub as hubs
from testing.simulation import store as stores

_T = TypeVar('_T')

# Seconds of silence after which a host is suspected, and of beats after which it is trusted.
_SUSPECTED = 0.8
_CLEARED = 0.6
# Seconds until a host that is heard (again) reports its running servers.
_REPORTED = 0.8
# Seconds between two heartbeats.
_BEAT = 0.2
# Seconds for which Ceph may not answer a host before engines suspect it.
_STORAGE = 5.0
# Seconds for which an engine listens before it suspects any host.
_SETTLE = 2.0
_TIMEOUT = 2.0


@dataclasses.dataclass
class Faults:
    """Faults of an engine's calls.

    :ivar kill_at: number of the call, from 1 on, at which the engine's process is killed
    :ivar after: the process is killed after the effect of that call, not before it
    :ivar unanswered: share of the calls without an answer, which may have an effect nevertheless
    """

    kill_at: int | None = None
    after: bool = False
    unanswered: float = 0.0


class Line:
    """The way of an engine's calls to the services.

    :ivar calls: the number of calls so far
    :ivar names: service and name of each call
    """

    def __init__(self, hub: hubs.Hub, cloud: clouds.Cloud, faults: Faults) -> None:
        self._hub = hub
        self._cloud = cloud
        self._faults = faults
        self.calls = 0
        self.names: list[str] = []

    def call(self, service: str, name: str, act: Callable[[], _T], least: float = 0.005,
             most: float = 0.05) -> _T:
        """Make a call.

        :raises exception.Unreachable: the call is not answered
        """
        self.calls += 1
        self.names.append(f'{service}.{name}')
        fatal = self.calls == self._faults.kill_at
        if fatal and not self._faults.after:
            self._hub.die()
        lost = (service != 'store' and self._faults.unanswered
                and self._hub.random.random() < self._faults.unanswered)
        self._hub.latency(least, most)
        if service in self._cloud.unreachable:
            self._hub.sleep(_TIMEOUT)
            raise exception.Unreachable(f'{service} is away')
        if lost and self._hub.random.random() < 0.5:
            self._hub.sleep(_TIMEOUT)
            raise exception.Unreachable(f'{service} did not get {name}')
        answer = act()
        if fatal:
            self._hub.die()
        self._hub.latency(least, most)
        if lost:
            raise exception.Unreachable(f'{service} did not answer {name}')
        return answer


class Clock:
    """The simulated clock."""

    def __init__(self, hub: hubs.Hub) -> None:
        self.now = hub.now
        self.sleep = hub.sleep


class Suspects:
    """The heartbeats that an engine has received since its start."""

    def __init__(self, hub: hubs.Hub, cloud: clouds.Cloud) -> None:
        self._hub = hub
        self._cloud = cloud
        self._since = hub.now()

    def suspected(self, name: str) -> bool:
        """Return whether a host is silent, or has been heard again for a moment only."""
        host = self._cloud.hosts[name]
        if host.word or self._stuck(host):
            return True
        if 'broker' in self._cloud.unreachable:
            # Silence proves nothing without the broker: the verdict stays.
            return host.silent > host.since
        if host.beats:
            return self._hub.now() - max(host.since, self._since) < _CLEARED
        return self._hub.now() - max(host.silent, self._since + _SETTLE) > _SUSPECTED or (
            host.silent < self._since)

    def seems_dead(self, name: str) -> bool:
        """Return whether the engine should start recoveries."""
        host = self._cloud.hosts[name]
        return host.word or (
            self._hub.now() - self._since > _SETTLE and (not host.beats or self._stuck(host))
            and 'broker' not in self._cloud.unreachable and self.suspected(name))

    def _stuck(self, host: clouds.Host) -> bool:
        """Return whether a host has reported for long enough that Ceph does not answer."""
        return not host.storage and self._hub.now() - host.deaf > _STORAGE

    def answerable(self) -> list[tuple[str, str, int]]:
        """Return the hosts whose heartbeats may be answered, with the number of the latest."""
        return [(name, '', int(self._hub.now() / _BEAT)) for name, host in
                self._cloud.hosts.items() if host.beats and not self.suspected(name)]

    def heard(self, name: str) -> float | None:
        """Return the time of a host's last heartbeat, None if there was none."""
        host = self._cloud.hosts[name]
        if host.beats:
            return self._hub.now()
        return host.silent if host.silent >= self._since else None

    def heard_after(self, name: str, at: float) -> bool:
        """Return whether a host was heard after a time."""
        heard = self.heard(name)
        return heard is not None and heard > at

    def is_well(self, name: str) -> bool:
        """Return whether a host is heard and has been for long enough."""
        host = self._cloud.hosts[name]
        return ('broker' not in self._cloud.unreachable and host.beats and host.storage
                and self._hub.now() - max(host.since, self._since) >= _CLEARED)

    def flaps(self, name: str) -> int:
        """Return 0: flapping is not counted."""
        del name
        return 0

    def running(self, name: str, server: str) -> bool | None:
        """Return whether a server's domain runs on a host, None right after its return."""
        host = self._cloud.hosts[name]
        if self._hub.now() - max(host.since, self._since) < _REPORTED:
            return None
        known = self._cloud.servers.get(server)
        return known is not None and any(
            copy.host == name and copy.runs for copy in known.copies)

    def healthy(self) -> list[str]:
        """Return the hosts that are well."""
        return [name for name in self._cloud.hosts
                if self.is_well(name) and not self.suspected(name)]

    def await_ready(self, name: str, backup_id: str, seconds: float) -> bool:
        """Wait for a host's report that a backup is ready, which now and then does not arrive."""
        backup = self._cloud.hosts[name].backups.get(backup_id)
        server = backup and self._cloud.servers.get(backup.server)
        if backup and server and backup.runs and server.boot >= 0:
            left = max(0.0, backup.began + server.boot - self._hub.now()) + _BEAT
            if left < seconds and self._hub.random.random() < 0.9:
                self._hub.sleep(left)
                return self.is_well(name)
        self._hub.sleep(seconds)
        return False


class Answers:
    """The way of an engine's answers to hosts."""

    def __init__(self, cloud: clouds.Cloud) -> None:
        self._cloud = cloud

    def send(self, host: str, arguments: dict[str, Any]) -> None:
        """Answer a heartbeat of a host."""
        del arguments
        self._cloud.renew(host)

    def close(self) -> None:
        """Do nothing."""


class Compute:
    """Nova and Placement."""

    def __init__(self, line: Line, cloud: clouds.Cloud) -> None:
        self._line = line
        self._cloud = cloud

    def servers(self, host: str) -> list[model.Server]:
        """Return the servers of a host."""
        return self._line.call('nova', 'servers', lambda: [
            self._cloud.view(server) for server in self._cloud.servers.values()
            if server.host == host])

    def server(self, server_id: str) -> model.Server | None:
        """Return a server, None if it does not exist."""
        def act() -> model.Server | None:
            server = self._cloud.servers.get(server_id)
            return None if server is None else self._cloud.view(server)
        return self._line.call('nova', 'server', act)

    def candidates(self, server: model.Server, placed: Mapping[str, str] | None = None,
                   avoid: Collection[str] = ()) -> list[str]:
        """Return the hosts to which a server may go."""
        del placed, avoid
        return self._line.call('nova', 'candidates',
                               lambda: self._cloud.candidates(server.host))

    def suits_group(self, server: model.Server, host: str, placed: Mapping[str, str]) -> bool:
        """Return that every host suits."""
        del server, host, placed
        return True

    def permits(self, server: model.Server, host: str) -> bool:
        """Return that every host is allowed."""
        del server, host
        return True

    def immovable(self, server: model.Server) -> str | None:
        """Return that Nova evacuates every server."""
        del server
        return None

    def force_down(self, host: str, down: bool) -> bool:
        """Force a host down or up, and return whether that was allowed."""
        def act() -> bool:
            if not down and self._cloud.stale(host):
                return False
            self._cloud.hosts[host].forced_down = down
            return True
        return self._line.call('nova', 'force_down', act)

    def service(self, host: str) -> Mapping[str, Any]:
        """Return the state of a nova-compute."""
        return self._line.call('nova', 'service', lambda: {
            'up': not self._cloud.hosts[host].forced_down, 'enabled': True,
            'forced_down': self._cloud.hosts[host].forced_down, 'updated': 0.0})

    def evacuate(self, server_id: str, host: str | None, force: bool = False) -> None:
        """Begin the evacuation of a server."""
        del force

        def act() -> None:
            server = self._server(server_id)
            if server.task is not None:
                raise exception.Refused(f'{server_id} is {server.task}')
            if not self._cloud.hosts[server.host].forced_down:
                raise exception.Refused(f'{server.host} is up')
            self._cloud.evacuate(server, host)
        self._line.call('nova', 'evacuate', act)

    def evacuating_to(self, server_id: str) -> str | None:
        """Return the destination of an evacuation under way."""
        return self._line.call('nova', 'migrations', lambda: self._server(server_id).target)

    def reset(self, server_id: str) -> None:
        """Reset a server to active, without a task."""
        def act() -> None:
            server = self._server(server_id)
            server.status, server.task, server.target = 'ACTIVE', None, None
        self._line.call('nova', 'reset', act)

    def _server(self, server_id: str) -> clouds.Server:
        if server_id not in self._cloud.servers:
            raise exception.Refused(f'there is no {server_id}')
        return self._cloud.servers[server_id]

    def reboot(self, server_id: str) -> None:
        """Begin a reboot of a server."""
        def act() -> None:
            server = self._server(server_id)
            if server.task is not None:
                raise exception.Refused(f'{server_id} is {server.task}')
            self._cloud.reboot(server)
        self._line.call('nova', 'reboot', act)

    def runs(self, server_id: str) -> bool:
        """Return whether a server runs."""
        def act() -> bool:
            primary = self._server(server_id).primary
            return primary is not None and primary.runs
        return self._line.call('nova', 'runs', act)

    def stopped_by_itself(self, server_id: str) -> bool:
        """Return whether a server stopped without an action of its owner."""
        return self._line.call('nova', 'actions',
                               lambda: not self._server(server_id).stopped_by_owner)


class Volumes:
    """Cinder."""

    def __init__(self, line: Line, hub: hubs.Hub, cloud: clouds.Cloud,
                 check: Callable[[str], None]) -> None:
        self._line = line
        self._hub = hub
        self._cloud = cloud
        self._check = check

    def superpose(self, server: model.Server, recovery_id: str, reason: str) -> str:
        """Superpose the volumes of a server, and return the id of the superposition."""
        del reason

        def act() -> str:
            known = self._cloud.servers.get(server.id)
            if known is None:
                raise exception.Refused(f'{server.id} has no volumes')
            if known.refused:
                raise exception.Refused(known.refused)
            record = self._cloud.superpositions.get(known.superposition or '')
            if record is None:
                return self._cloud.superpose(server.id, recovery_id, server.volumes)
            if record.state in states.DECIDED:
                raise exception.Merging(f'{record.id} is {record.state}')
            if record.reason == recovery_id and record.state == 'superposed':
                return record.id
            self._cloud.drop(record.id)
            raise exception.Unreachable(f'{record.id} is being dropped')
        return self._line.call('cinder', 'superpose', act, 0.03, 0.2)

    def state(self, superposition_id: str) -> str | None:
        """Return the state of a superposition, None if it does not exist."""
        def act() -> str | None:
            record = self._cloud.superpositions.get(superposition_id)
            return None if record is None else record.state
        return self._line.call('cinder', 'state', act)

    def dirty(self, superposition_id: str) -> bool:
        """Return whether the primary has written since the cut."""
        def act() -> bool:
            record = self._cloud.superpositions.get(superposition_id)
            if record is None or record.state in states.DECIDED:
                raise exception.Refused(f'{superposition_id} is decided')
            return record.dirty
        return self._line.call('cinder', 'dirty', act)

    def collapse(self, superposition_id: str) -> str:
        """Decide a superposition; Cinder continues even when the caller has died."""
        def act() -> str:
            self._check(superposition_id)
            return str(self._hub.wait(self._cloud.collapse(superposition_id)))
        return self._line.call('cinder', 'collapse', act)

    def drop(self, superposition_id: str) -> None:
        """Drop a superposition."""
        def act() -> None:
            if not self._cloud.drop(superposition_id):
                raise exception.Refused(f'{superposition_id} is decided')
        self._line.call('cinder', 'drop', act)

    def written(self, superposition_id: str) -> int | None:
        """Return the number of bytes that the backup has written."""
        return self._line.call('cinder', 'written', lambda: (
            1 if superposition_id in self._cloud.superpositions else None))

    def ours(self) -> Mapping[str, str]:
        """Return the reason of each undecided superposition by id."""
        return self._line.call('cinder', 'ours', lambda: {
            record.id: record.reason for record in self._cloud.superpositions.values()
            if record.state == 'superposed'})

    def observe(self, server: model.Server, host: str, recovery_id: str) -> None:
        """Note the clients of a server, which the simulation knows anyway."""
        del host, recovery_id
        self._line.call('cinder', 'observe', lambda: self._fenceable(server.id))

    def fence(self, server: model.Server, host: str, recovery_id: str) -> int:
        """Fence a host's copies of a server."""
        del recovery_id

        def act() -> int:
            self._fenceable(server.id)
            return self._cloud.fence(server.id, host)
        return self._line.call('cinder', 'fence', act)

    def _fenceable(self, server_id: str) -> None:
        known = self._cloud.servers.get(server_id)
        if known is None or known.unfenceable:
            raise exception.Refused(known.unfenceable if known else f'there is no {server_id}')

    def eligibility(self, volumes: Sequence[str]) -> Mapping[str, list[str]]:
        """Return that every volume can be superposed."""
        return {volume: [] for volume in volumes}


class Backups:
    """The backups on the hosts."""

    def __init__(self, line: Line, hub: hubs.Hub, cloud: clouds.Cloud) -> None:
        self._line = line
        self._hub = hub
        self._cloud = cloud

    def check(self, host: str, server_id: str) -> Mapping[str, Any]:
        """Return that a host can run a backup."""
        del host, server_id
        return {'eligible': True, 'reasons': []}

    def start(self, host: str, backup_id: str, server_id: str,
              superposition_id: str) -> Mapping[str, Any]:
        """Start a backup on a host."""
        def act(there: clouds.Host) -> dict[str, Any]:
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
                backup = clouds.Backup(backup_id, server_id, superposition_id, host)
                there.backups[backup_id] = backup
                self._hub.wait(self._hub.spawn('cloud', lambda: self._boot(there, backup)))
                if backup.phase in ('aborted', 'failed'):
                    raise backup_errors.StartFailed(reason=f'{backup_id} is {backup.phase}')
            elif backup.phase in ('aborted', 'failed'):
                raise backup_errors.BackupConflict(reason=f'{backup_id} is over')
            elif backup.superposition != superposition_id:
                raise backup_errors.BackupConflict(reason=f'{backup_id} is another')
            return self._status(backup)
        return self._call_host(host, 'start', act)

    def begin(self, host: str, backup_id: str, server_id: str, superposition_id: str) -> None:
        """Have a host start a backup, without waiting for it."""
        self._hub.spawn('network', lambda: self.start(host, backup_id, server_id,
                                                      superposition_id))

    def _boot(self, host: clouds.Host, backup: clouds.Backup) -> None:
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
        def act(there: clouds.Host) -> dict[str, Any]:
            backup = _get(there, backup_id)
            if backup.phase in ('running', 'hardened'):
                if not backup.runs:
                    raise backup_errors.BackupLost(reason='it does not run')
                backup.phase, backup.durable = 'hardened', True
            elif backup.phase not in ('promoted', 'adopted', 'merging', 'merged'):
                raise backup_errors.BackupConflict(reason=f'it is {backup.phase}')
            return self._status(backup)
        return self._call_host(host, 'harden', act)

    def release(self, host: str, backup_id: str) -> None:
        """Release the claim of a backup."""
        self._call_host(host, 'release', lambda there: self._status(_get(there, backup_id)))

    def promote(self, host: str, backup_id: str) -> Mapping[str, Any]:
        """Open the box of a backup."""
        def act(there: clouds.Host) -> dict[str, Any]:
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
            elif backup.phase not in ('promoted', 'adopted', 'merging', 'merged'):
                raise backup_errors.BackupConflict(reason=f'it is {backup.phase}')
            return self._status(backup)
        return self._call_host(host, 'promote', act)

    def abort(self, host: str, backup_id: str) -> Mapping[str, Any]:
        """Remove a backup."""
        def act(there: clouds.Host) -> dict[str, Any]:
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
        def act(there: clouds.Host) -> dict[str, Any]:
            if self._hub.random.random() < 0.5:
                self._cloud.clean(there)
            left = self._cloud.stale(host)
            return {'clean': not left, 'left': ['something'] if left else []}
        return self._call_host(host, 'returned', act)

    def _status(self, backup: clouds.Backup) -> dict[str, Any]:
        server = self._cloud.servers.get(backup.server)
        boot = server.boot if server else -1.0
        ready = backup.runs and 0 <= boot <= self._hub.now() - backup.began
        return {'backup_id': backup.id, 'phase': backup.phase, 'ready': ready,
                'ready_detail': '', 'error': None,
                'domain': {'pid': 1, 'state': 'running'} if backup.runs else None,
                'primary_runs': self._cloud.primary_runs(server)}

    def _call_host(self, host: str, name: str, act: Callable[[clouds.Host], _T]) -> _T:
        there = self._cloud.hosts[host]

        def reach() -> _T:
            if not there.reached or 'broker' in self._cloud.unreachable:
                self._hub.sleep(_TIMEOUT)
                raise exception.Unreachable(f'{host} does not answer')
            answer = act(there)
            if not there.reached:
                self._hub.sleep(_TIMEOUT)
                raise exception.Unreachable(f'{host} has not answered {name}')
            return answer
        return self._line.call('host', name, reach)


class Store:
    """The database."""

    def __init__(self, line: Line, store: stores.Store) -> None:
        self._line = line
        self._store = store

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._store, name)

        def call(*arguments: Any, **values: Any) -> Any:
            return self._line.call('store', name, lambda: method(*arguments, **values),
                                   0.001, 0.004)
        return call


def _get(host: clouds.Host, backup_id: str) -> clouds.Backup:
    backup = host.backups.get(backup_id)
    if backup is None:
        raise backup_errors.BackupNotFound(reason=f'{host.name} knows nothing of it')
    return backup

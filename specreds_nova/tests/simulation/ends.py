# SPDX-License-Identifier: Apache-2.0
"""What one engine has of the world: calls that take their time, fail, and are cut off anywhere."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
from typing import Any, TypeVar

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.tests.simulation import cloud as clouds
from specreds_nova.tests.simulation import hub as hubs
from specreds_nova.tests.simulation import store as stores

_T = TypeVar('_T')

# Seconds of silence after which a host is suspected, and of beats after which it is not.
_SUSPECTED = 0.8
_CLEARED = 0.6
# Seconds until a host that is heard (again) says what runs on it.
_SAID = 0.8
# Seconds between two beats.
_BEAT = 0.2
# Seconds for which the engine hears before it suspects anybody.
_SETTLE = 2.0
_TIMEOUT = 2.0


@dataclasses.dataclass
class Faults:
    """What goes wrong with an engine's calls.

    :ivar kill_at: its process is killed at the call with this number, from 1 on
    :ivar after: not before the call has its effect, but after
    :ivar unanswered: share of the calls that are not answered, though they may be heeded
    """

    kill_at: int | None = None
    after: bool = False
    unanswered: float = 0.0


class Line:
    """How an engine's calls get through.

    :ivar calls: how many there were
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

        :raises exception.Unreachable: it is not answered
        """
        self.calls += 1
        self.names.append(f'{service}.{name}')
        mine = self.calls == self._faults.kill_at
        if mine and not self._faults.after:
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
        found = act()
        if mine:
            self._hub.die()
        self._hub.latency(least, most)
        if lost:
            raise exception.Unreachable(f'{service} did not answer {name}')
        return found


class Clock:
    """Time."""

    def __init__(self, hub: hubs.Hub) -> None:
        self.now = hub.now
        self.sleep = hub.sleep


class Suspects:
    """What an engine hears since it was started."""

    def __init__(self, hub: hubs.Hub, cloud: clouds.Cloud) -> None:
        self._hub = hub
        self._cloud = cloud
        self._since = hub.now()

    def suspected(self, name: str) -> bool:
        """Tell whether nobody hears a host, or hears it again for a moment only."""
        host = self._cloud.hosts[name]
        if host.word:
            return True
        if 'broker' in self._cloud.unreachable:
            # Silence says nothing then: it stays what it was.
            return host.silent > host.since
        if host.beats:
            return self._hub.now() - max(host.since, self._since) < _CLEARED
        return self._hub.now() - max(host.silent, self._since + _SETTLE) > _SUSPECTED or (
            host.silent < self._since)

    def seems_dead(self, name: str) -> bool:
        """Tell whether to act."""
        host = self._cloud.hosts[name]
        return host.word or (
            self._hub.now() - self._since > _SETTLE and not host.beats
            and 'broker' not in self._cloud.unreachable and self.suspected(name))

    def heard(self, name: str) -> float | None:
        """Give when a host was heard last; None if it never was."""
        host = self._cloud.hosts[name]
        if host.beats:
            return self._hub.now()
        return host.silent if host.silent >= self._since else None

    def beats(self, name: str) -> bool:
        """Tell whether a host is well."""
        host = self._cloud.hosts[name]
        return ('broker' not in self._cloud.unreachable and host.beats
                and self._hub.now() - max(host.since, self._since) >= _CLEARED)

    def flaps(self, name: str) -> int:
        """Say that it is not counted."""
        del name
        return 0

    def running(self, name: str, server: str) -> bool | None:
        """Return whether a server's domain runs on a host, None right after its return."""
        host = self._cloud.hosts[name]
        if self._hub.now() - max(host.since, self._since) < _SAID:
            return None
        found = self._cloud.servers.get(server)
        return found is not None and any(
            copy.host == name and copy.runs for copy in found.copies)

    def healthy(self) -> list[str]:
        """Give the hosts that are well."""
        return [name for name in self._cloud.hosts
                if self.beats(name) and not self.suspected(name)]

    def await_ready(self, name: str, backup: str, seconds: float) -> bool:
        """Wait until a host says that a backup is ready: mostly it does, and may say it late."""
        found = self._cloud.hosts[name].backups.get(backup)
        server = found and self._cloud.servers.get(found.server)
        if found and server and found.runs and server.boot >= 0:
            left = max(0.0, found.began + server.boot - self._hub.now()) + _BEAT
            if left < seconds and self._hub.random.random() < 0.9:
                self._hub.sleep(left)
                return self.beats(name)
        self._hub.sleep(seconds)
        return False


class Compute:
    """Nova and Placement."""

    def __init__(self, line: Line, cloud: clouds.Cloud) -> None:
        self._line = line
        self._cloud = cloud

    def servers(self, host: str) -> list[model.Server]:
        """Give the servers of a host."""
        return self._line.call('nova', 'servers', lambda: [
            self._cloud.view(one) for one in self._cloud.servers.values() if one.host == host])

    def server(self, server_id: str) -> model.Server | None:
        """Give one."""
        def act() -> model.Server | None:
            found = self._cloud.servers.get(server_id)
            return None if found is None else self._cloud.view(found)
        return self._line.call('nova', 'server', act)

    def candidates(self, server: model.Server) -> list[str]:
        """Give where it may be."""
        return self._line.call('nova', 'candidates',
                               lambda: self._cloud.candidates(server.host))

    def force_down(self, host: str, down: bool) -> bool:
        """Take a host for down, or not."""
        def act() -> bool:
            if not down and self._cloud.stale(host):
                return False
            self._cloud.hosts[host].forced_down = down
            return True
        return self._line.call('nova', 'force_down', act)

    def service(self, host: str) -> Mapping[str, Any]:
        """Describe a nova-compute."""
        return self._line.call('nova', 'service', lambda: {
            'up': not self._cloud.hosts[host].forced_down, 'enabled': True,
            'forced_down': self._cloud.hosts[host].forced_down, 'updated': 0.0})

    def evacuate(self, server_id: str, host: str | None, force: bool = False) -> None:
        """Evacuate."""
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
        """Give where to."""
        return self._line.call('nova', 'migrations', lambda: self._server(server_id).target)

    def reset(self, server_id: str) -> None:
        """Reset."""
        def act() -> None:
            server = self._server(server_id)
            server.status, server.task, server.target = 'ACTIVE', None, None
        self._line.call('nova', 'reset', act)

    def _server(self, server_id: str) -> clouds.Server:
        if server_id not in self._cloud.servers:
            raise exception.Refused(f'there is no {server_id}')
        return self._cloud.servers[server_id]

    def reboot(self, server_id: str) -> None:
        """Reboot."""
        def act() -> None:
            server = self._server(server_id)
            if server.task is not None:
                raise exception.Refused(f'{server_id} is {server.task}')
            self._cloud.reboot(server)
        self._line.call('nova', 'reboot', act)

    def runs(self, server_id: str) -> bool:
        """Tell whether it runs."""
        def act() -> bool:
            primary = self._server(server_id).primary
            return primary is not None and primary.runs
        return self._line.call('nova', 'runs', act)

    def stopped_by_itself(self, server_id: str) -> bool:
        """Tell whether nobody has stopped it."""
        return self._line.call('nova', 'actions', lambda: not self._server(server_id).asked)


class Volumes:
    """Cinder."""

    def __init__(self, line: Line, hub: hubs.Hub, cloud: clouds.Cloud,
                 check: Callable[[str], None]) -> None:
        self._line = line
        self._hub = hub
        self._cloud = cloud
        self._check = check

    def superpose(self, server: model.Server, recovery_id: str, reason: str) -> str:
        """Superpose."""
        del reason

        def act() -> str:
            known = self._cloud.servers.get(server.id)
            if known is None:
                raise exception.Refused(f'{server.id} has no volumes')
            if known.refused:
                raise exception.Refused(known.refused)
            found = self._cloud.superpositions.get(known.superposition or '')
            if found is None:
                return self._cloud.superpose(server.id, recovery_id)
            if found.state in clouds.DECIDED:
                raise exception.Merging(f'{found.id} is {found.state}')
            if found.reason == recovery_id and found.state == 'superposed':
                return found.id
            self._cloud.drop(found.id)
            raise exception.Unreachable(f'{found.id} is being dropped')
        return self._line.call('cinder', 'superpose', act, 0.03, 0.2)

    def state(self, superposition_id: str) -> str | None:
        """Give its state."""
        def act() -> str | None:
            found = self._cloud.superpositions.get(superposition_id)
            return None if found is None else found.state
        return self._line.call('cinder', 'state', act)

    def dirty(self, superposition_id: str) -> bool:
        """Check."""
        def act() -> bool:
            found = self._cloud.superpositions.get(superposition_id)
            if found is None or found.state in clouds.DECIDED:
                raise exception.Refused(f'{superposition_id} is decided')
            return found.dirty
        return self._line.call('cinder', 'dirty', act)

    def collapse(self, superposition_id: str) -> str:
        """Decide; Cinder goes on if nobody waits for it any more."""
        def act() -> str:
            self._check(superposition_id)
            return str(self._hub.wait(self._cloud.collapse(superposition_id)))
        return self._line.call('cinder', 'collapse', act)

    def drop(self, superposition_id: str) -> None:
        """Drop."""
        def act() -> None:
            if not self._cloud.drop(superposition_id):
                raise exception.Refused(f'{superposition_id} is decided')
        self._line.call('cinder', 'drop', act)

    def written(self, superposition_id: str) -> int | None:
        """Give a size."""
        return self._line.call('cinder', 'written', lambda: (
            1 if superposition_id in self._cloud.superpositions else None))

    def ours(self) -> Mapping[str, str]:
        """Give what is superposed."""
        return self._line.call('cinder', 'ours', lambda: {
            one.id: one.reason for one in self._cloud.superpositions.values()
            if one.state == 'superposed'})

    def eligibility(self, volumes: Sequence[str]) -> Mapping[str, list[str]]:
        """Say that all can."""
        return {volume: [] for volume in volumes}


class Backups:
    """The hosts."""

    def __init__(self, line: Line, hub: hubs.Hub, cloud: clouds.Cloud) -> None:
        self._line = line
        self._hub = hub
        self._cloud = cloud

    def check(self, host: str, server_id: str) -> Mapping[str, Any]:
        """Say yes."""
        del host, server_id
        return {'eligible': True, 'reasons': []}

    def start(self, host: str, recovery_id: str, server_id: str,
              superposition_id: str) -> Mapping[str, Any]:
        """Start."""
        def begin(there: clouds.Host) -> dict[str, Any]:
            backup = there.backups.get(recovery_id)
            if backup is None:
                if not there.plugged or server_id not in self._cloud.servers:
                    raise backup_errors.ServerNotEligible(reason=f'{host} cannot run it')
                other = [one.id for one in there.backups.values() if one.server == server_id
                         and one.phase not in ('aborted', 'failed', 'merged', 'adopted')]
                if other:
                    raise backup_errors.RecoveryConflict(reason=f'{other} is here')
                found = self._cloud.superpositions.get(superposition_id)
                if found is None or found.state != 'superposed':
                    raise backup_errors.StartFailed(reason=f'{superposition_id} is gone')
                backup = clouds.Backup(recovery_id, server_id, superposition_id, host)
                there.backups[recovery_id] = backup
                self._hub.wait(self._hub.spawn('cloud', lambda: self._boot(there, backup)))
                if backup.phase in ('aborted', 'failed'):
                    raise backup_errors.StartFailed(reason=f'{recovery_id} is {backup.phase}')
            elif backup.phase in ('aborted', 'failed'):
                raise backup_errors.RecoveryConflict(reason=f'{recovery_id} is over')
            elif backup.superposition != superposition_id:
                raise backup_errors.RecoveryConflict(reason=f'{recovery_id} is another')
            return self._status(backup)
        return self._ask(host, 'start', begin)

    def _boot(self, host: clouds.Host, backup: clouds.Backup) -> None:
        self._hub.latency(0.2, 1.0)
        found = self._cloud.superpositions.get(backup.superposition)
        if backup.phase != 'starting' or found is None:
            backup.phase = 'failed'
            return
        self._cloud.start_backup(host, backup)

    def status(self, host: str, recovery_id: str) -> Mapping[str, Any]:
        """Tell."""
        return self._ask(host, 'status', lambda there: self._status(_get(there, recovery_id)))

    def harden(self, host: str, recovery_id: str) -> Mapping[str, Any]:
        """Make durable."""
        def act(there: clouds.Host) -> dict[str, Any]:
            backup = _get(there, recovery_id)
            if backup.phase in ('running', 'hardened'):
                if not backup.runs:
                    raise backup_errors.BackupLost(reason='it does not run')
                backup.phase, backup.durable = 'hardened', True
            elif backup.phase not in ('promoted', 'adopted', 'merging', 'merged'):
                raise backup_errors.RecoveryConflict(reason=f'it is {backup.phase}')
            return self._status(backup)
        return self._ask(host, 'harden', act)

    def promote(self, host: str, recovery_id: str) -> Mapping[str, Any]:
        """Let out."""
        def act(there: clouds.Host) -> dict[str, Any]:
            backup = _get(there, recovery_id)
            if backup.phase in ('running', 'hardened'):
                found = self._cloud.superpositions.get(backup.superposition)
                if found is None or found.state not in clouds.DECIDED:
                    raise backup_errors.RecoveryConflict(reason='Cinder has not promoted it')
                if not backup.runs:
                    backup.phase = 'failed'
                    raise backup_errors.BackupLost(reason='it does not run')
                backup.durable = True
                self._cloud.let_out(backup)
            elif backup.phase not in ('promoted', 'adopted', 'merging', 'merged'):
                raise backup_errors.RecoveryConflict(reason=f'it is {backup.phase}')
            return self._status(backup)
        return self._ask(host, 'promote', act)

    def abort(self, host: str, recovery_id: str) -> Mapping[str, Any]:
        """Remove."""
        def act(there: clouds.Host) -> dict[str, Any]:
            backup = there.backups.get(recovery_id)
            if backup is None or backup.phase in ('aborted', 'failed'):
                return {'phase': 'aborted'}
            found = self._cloud.superpositions.get(backup.superposition)
            if backup.phase not in ('starting', 'running', 'hardened') or (
                    found is not None and found.state in clouds.DECIDED):
                raise backup_errors.RecoveryConflict(reason='it is what counts')
            if self._hub.random.random() < 0.1:
                raise backup_errors.UndoIncomplete(reason='something is left')
            backup.phase, backup.runs = 'aborted', False
            return self._status(backup)
        return self._ask(host, 'abort', act)

    def returned(self, host: str) -> Mapping[str, Any]:
        """Clean."""
        def act(there: clouds.Host) -> dict[str, Any]:
            if self._hub.random.random() < 0.5:
                self._cloud.clean(there)
            left = self._cloud.stale(host)
            return {'clean': not left, 'left': ['something'] if left else []}
        return self._ask(host, 'returned', act)

    def _status(self, backup: clouds.Backup) -> dict[str, Any]:
        server = self._cloud.servers.get(backup.server)
        boot = server.boot if server else -1.0
        ready = backup.runs and 0 <= boot <= self._hub.now() - backup.began
        return {'recovery_id': backup.id, 'phase': backup.phase, 'ready': ready,
                'ready_detail': '', 'error': None,
                'domain': {'pid': 1, 'state': 'running'} if backup.runs else None}

    def _ask(self, host: str, name: str, act: Callable[[clouds.Host], _T]) -> _T:
        there = self._cloud.hosts[host]

        def reach() -> _T:
            if not there.reached or 'broker' in self._cloud.unreachable:
                self._hub.sleep(_TIMEOUT)
                raise exception.Unreachable(f'{host} does not answer')
            found = act(there)
            if not there.reached:
                self._hub.sleep(_TIMEOUT)
                raise exception.Unreachable(f'{host} has not answered {name}')
            return found
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


def _get(host: clouds.Host, recovery_id: str) -> clouds.Backup:
    backup = host.backups.get(recovery_id)
    if backup is None:
        raise backup_errors.RecoveryNotFound(reason=f'{host.name} knows nothing of it')
    return backup

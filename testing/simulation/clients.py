# SPDX-License-Identifier: Apache-2.0
"""An engine's clients: calls that take time, fail, and can be cut off at any point."""

from collections.abc import Callable, Collection, Iterable, Mapping
import dataclasses
from typing import Any, TypeVar

from specreds_cinder.superposition.truth import states
from specreds_nova.engine import exception
from specreds_nova.engine import model
from testing.simulation import cloud as clouds
from testing.simulation import hub as hubs
from testing.simulation import parts
from testing.simulation import store as stores
from testing.simulation import volumes

_T = TypeVar('_T')

# Seconds after which a call counts as not answered.
TIMEOUT = 2.0
# Seconds for which an engine relies on what it knows of Nova's services.
_REMEMBERED = 2.0


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

    def now(self) -> float:
        """Return the simulated time."""
        return self._hub.now()

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
            self._hub.sleep(TIMEOUT)
            raise exception.Unreachable(f'{service} is away')
        if lost and self._hub.random.random() < 0.5:
            self._hub.sleep(TIMEOUT)
            raise exception.Unreachable(f'{service} did not get {name}')
        answer = act()
        if fatal:
            self._hub.die()
        self._hub.latency(least, most)
        if lost:
            raise exception.Unreachable(f'{service} did not answer {name}')
        return answer

    def answer_at_once(self, service: str, act: Callable[[], _T]) -> _T:
        """Make a call that takes no time.

        :raises exception.Unreachable: the service is away
        """
        if service in self._cloud.unreachable:
            raise exception.Unreachable(f'{service} is away')
        return act()


class Clock:
    """The simulated clock."""

    def __init__(self, hub: hubs.Hub) -> None:
        self.now = self.wall = hub.now
        self.sleep = hub.sleep


class Answers:
    """The way of an engine's answers to hosts."""

    def __init__(self, cloud: clouds.Cloud) -> None:
        self._cloud = cloud

    def send_all(self, answers: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Answer heartbeats of hosts."""
        for host, _ in answers:
            self._cloud.renew(host)

    def close(self) -> None:
        """Do nothing."""


class Compute:
    """Nova and Placement."""

    def __init__(self, line: Line, cloud: clouds.Cloud) -> None:
        self._line = line
        self._cloud = cloud
        # By host: when this engine has forced it down last, which it remembers for a while.
        self._forced_down: dict[str, float] = {}

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
        now = self._line.now()
        if down and now - self._forced_down.get(host, float('-inf')) < _REMEMBERED:
            return True

        def act() -> bool:
            if not down and self._cloud.stale(host):
                return False
            self._cloud.hosts[host].forced_down = down
            return True
        done = self._line.call('nova', 'force_down', act)
        self._forced_down[host] = self._line.now() if down and done else float('-inf')
        return done

    def service(self, host: str) -> Mapping[str, Any]:
        """Return the state of a nova-compute."""
        return self._line.call('nova', 'service', lambda: {
            'up': not self._cloud.hosts[host].forced_down, 'enabled': True,
            'forced_down': self._cloud.hosts[host].forced_down, 'updated': 0.0})

    def service_at_hand(self, host: str) -> Mapping[str, Any]:
        """Return the same by a list that is at hand."""
        return {'up': not self._cloud.hosts[host].forced_down}

    def evacuate(self, server_id: str, host: str | None, force: bool = False) -> None:
        """Begin the evacuation of a server."""
        del force

        def act() -> None:
            server = self._server(server_id)
            if server.task is not None:
                raise exception.Refused(f'{server_id} is {server.task}')
            if server.host == host:
                raise exception.Refused(f'{server_id} is on {host} already')
            if not self._cloud.hosts[server.host].forced_down:
                raise exception.Refused(f'{server.host} is up')
            if server.status not in ('ACTIVE', 'SHUTOFF', 'ERROR'):
                raise exception.Refused(f"Cannot 'evacuate' instance {server_id} while it is in "
                                        f'vm_state {server.status.lower()}')
            if server.immovable:
                raise exception.Refused(server.immovable)
            self._cloud.evacuate(server, host)
        self._line.call('nova', 'evacuate', act)

    def evacuation(self, server_id: str) -> model.Evacuation | None:
        """Return the evacuation of a server that is under way."""
        def act() -> model.Evacuation | None:
            # Nova lists the migrations of servers that it does not know, too: there are none.
            server = self._cloud.servers.get(server_id)
            if server is None or server.target is None:
                return None
            return model.Evacuation(server.target, server.claimed, server.noted)
        return self._line.call('nova', 'migrations', act)

    def move(self, server: model.Server) -> model.Move | None:
        """Return the migration or resize of a server that is under way."""
        def act() -> model.Move | None:
            moving = self._server(server.id).moving
            return None if moving is None else model.Move(*moving)
        return self._line.call('nova', 'migrations', act)

    def evacuation_request(self, server_id: str) -> str | None:
        """Return what has become of the latest request for an evacuation."""
        def act() -> str | None:
            server = self._cloud.servers.get(server_id)
            if server is None or not server.evacuations:
                return None
            return (model.GIVEN_UP if server.given_up == server.evacuations else model.PENDING)
        return self._line.call('nova', 'actions', act)

    def reset(self, server_id: str) -> None:
        """Reset a server to active, without a task."""
        def act() -> None:
            server = self._server(server_id)
            # Nova's record of the evacuation stays as it is.
            server.status, server.task = 'ACTIVE', None
        self._line.call('nova', 'reset', act)

    def _server(self, server_id: str) -> parts.Server:
        if server_id not in self._cloud.servers:
            raise exception.Refused(f'there is no {server_id}')
        return self._cloud.servers[server_id]

    def reboot(self, server_id: str) -> None:
        """Begin a reboot of a server."""
        def act() -> None:
            server = self._server(server_id)
            if server.task is not None:
                raise exception.Refused(f'{server_id} is {server.task}')
            self._reboot(server)
        self._line.call('nova', 'reboot', act)

    def _reboot(self, server: parts.Server) -> None:
        self._cloud.reboot(server)

    def stop(self, server_id: str) -> None:
        """Stop a server for its owner."""
        self._line.call('nova', 'stop', lambda: self._cloud.stop(server_id))

    def pause(self, server_id: str) -> None:
        """Pause a server."""
        def act() -> None:
            self._server(server_id).status = 'PAUSED'
        self._line.call('nova', 'pause', act)

    def delete(self, server_id: str) -> None:
        """Delete a server for its owner."""
        def act() -> None:
            if server_id in self._cloud.servers:
                if self._cloud.servers[server_id].task != 'deleting':
                    raise parts.Wrong(f'{server_id} is deleted by an engine alone')
                self._cloud.delete(server_id)
        self._line.call('nova', 'delete', act)

    def runs(self, server_id: str) -> bool:
        """Return whether a server runs."""
        def act() -> bool:
            primary = self._server(server_id).primary
            return primary is not None and primary.runs
        return self._line.call('nova', 'runs', act)

    def stopped_by_itself(self, server_id: str, since: float | None = None) -> bool:
        """Return whether a server stopped without an action of its owner."""
        def act() -> bool:
            server = self._cloud.servers.get(server_id)
            return (server is not None and not server.stopped_by_owner
                    and (since is None or server.marked_at > since))
        return self._line.call('nova', 'actions', act)


class Volumes:
    """Cinder."""

    def __init__(self, line: Line, hub: hubs.Hub, cloud: clouds.Cloud,
                 check: Callable[[str], None]) -> None:
        self._line = line
        self._hub = hub
        self._cloud = cloud
        self._check = check

    def superpose(self, server: model.Server, recovery_id: str, reason: str,
                  dead_host: str | None = None) -> str:
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
                for volume, each in self._eligible(server).items():
                    if each.reasons:
                        raise exception.Refused(f'{volume}: {each.reasons[0]}')
                return self._cloud.superpose(server.id, recovery_id, server.volumes, dead_host)
            if record.state in states.DECIDED:
                promoted = record.state == states.PROMOTED
                raise exception.Merging(f'{record.id} is {record.state}',
                                        record.reason if promoted else None)
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
        def act() -> int:
            if superposition_id not in self._cloud.superpositions:
                raise exception.NotFound(superposition_id)
            return 1
        return self._line.call('cinder', 'written', act)

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

    def eligibility(self, server: model.Server) -> Mapping[str, model.Eligibility]:
        """Return what can be done with the volumes of a server."""
        return self._eligible(server)

    def _eligible(self, server: model.Server) -> Mapping[str, model.Eligibility]:
        known = self._cloud.servers.get(server.id)
        return volumes.eligibility(known.states if known else {}, server.volumes)


class Store:
    """The database."""

    def __init__(self, line: Line, store: stores.Store) -> None:
        self._line = line
        self._store = store

    def modes(self) -> list[model.Mode]:
        """Return the modes at once: all recoveries of an engine share each reading."""
        return self._line.answer_at_once('store', self._store.modes)

    def showing(self) -> dict[str, int]:
        """Return the hosts that may hide no server at once, as each engine asks each second."""
        return self._line.answer_at_once('store', self._store.showing)

    def silent(self) -> frozenset[str]:
        """Return the silent hosts at once, as each engine asks every two seconds."""
        return self._line.answer_at_once('store', self._store.silent)

    def silence(self, since: Mapping[str, float | None]) -> None:
        """Record silent hosts at once: only operators read them."""
        self._line.answer_at_once('store', lambda: self._store.silence(since))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._store, name)

        def call(*arguments: Any, **values: Any) -> Any:
            return self._line.call('store', name, lambda: method(*arguments, **values),
                                   0.001, 0.004)
        return call


class _DirectQueries:
    """Questions to Nova about a host that are asked when an answer is needed."""

    def __init__(self, compute: Any) -> None:
        self._compute = compute

    def begin(self, host: str, since: float) -> None:
        """Do nothing: the answers are requested later."""

    def service(self, host: str, since: float) -> Any:
        """Return Nova's current description of a host's nova-compute."""
        del since
        return self._compute.service(host)

    def servers(self, host: str, since: float) -> Any:
        """Return the current servers of a host."""
        del since
        return self._compute.servers(host)


def direct_queries(compute: Any) -> Any:
    """Return a :class:`nova_prefetch.NovaPrefetch` without threads."""
    return _DirectQueries(compute)

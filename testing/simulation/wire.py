# SPDX-License-Identifier: Apache-2.0
"""The way of an engine's calls to services, which are late, fail, or take effect twice."""

from collections.abc import Callable, Mapping
import dataclasses
from typing import Any, TypeVar

from specreds_nova.engine import exception
from testing.simulation import clients
from testing.simulation import cloud as clouds
from testing.simulation import hub as hubs
from testing.simulation import parts
from testing.simulation import world as worlds

_T = TypeVar('_T')
_TIMEOUT = 2.0
# Seconds until the effect of a call of which nobody waits for the answer any more.
_LATE = (2.0, 12.0)
# Services that are asked again by their clients, or whose answers are never lost half-way.
_ATOMIC = ('store',)


@dataclasses.dataclass
class Trouble:
    """The trouble with a service.

    :ivar slow: factor of its time to answer
    :ivar lost: share of calls of which request or answer is lost
    :ivar late: share of calls that take effect long after their client gave up
    :ivar twice: share of calls that take effect a second time, later
    :ivar refused: share of calls that end in an error
    """

    slow: float = 1.0
    lost: float = 0.0
    late: float = 0.0
    twice: float = 0.0
    refused: float = 0.0


class Services:
    """The state of all services: `nova`, `cinder`, `host` and `store`.

    :ivar away: services that do not answer, and pairs of engine and service
    """

    def __init__(self) -> None:
        self.away: set[str | tuple[str, str]] = set()
        self.troubles: dict[str, list[Trouble]] = {}

    def troubled(self, *services: str) -> bool:
        """Return whether services do not always answer at once; without names, any of them."""
        away = {entry if isinstance(entry, str) else entry[1] for entry in self.away}
        away.update(service for service, troubles in self.troubles.items() if troubles)
        return bool(away.intersection(services) if services else away)

    def trouble(self, service: str) -> Trouble | None:
        """Return the latest trouble of a service."""
        troubles = self.troubles.get(service)
        return troubles[-1] if troubles else None


class Wire(clients.Line):
    """The calls of one engine."""

    def __init__(self, hub: hubs.Hub, cloud: clouds.Cloud, engine: str,
                 services: Services) -> None:
        super().__init__(hub, cloud, clients.Faults())
        self._engine = engine
        self._services = services
        # By service: when a call of this engine was not answered last.
        self.unanswered: dict[str, float] = {}

    def call(self, service: str, name: str, act: Callable[[], _T], least: float = 0.005,
             most: float = 0.05) -> _T:
        """Make a call.

        :raises exception.Unreachable: the call is not answered
        """
        try:
            return self._ask(service, name, act, least, most)
        except exception.Unreachable:
            self.unanswered[service] = self._hub.now()
            raise

    def answer_at_once(self, service: str, act: Callable[[], _T]) -> _T:
        """Make a call that takes no time.

        :raises exception.Unreachable: the service is away
        """
        if service in self._services.away or (self._engine, service) in self._services.away:
            raise exception.Unreachable(f'{service} is away')
        return act()

    def _ask(self, service: str, name: str, act: Callable[[], _T], least: float, most: float
             ) -> _T:
        hub, services = self._hub, self._services
        if service in services.away or (self._engine, service) in services.away:
            hub.sleep(_TIMEOUT)
            raise exception.Unreachable(f'{service} is away')
        trouble = services.trouble(service)
        if trouble is None:
            hub.sleep(hub.random.uniform(least, most))
            answer = self._act(act)
            if hub.random.random() < 0.25:
                hub.sleep(hub.random.uniform(least, most))
            return answer
        return self._troubled(trouble, service, name, act, hub.random.uniform(least, most))

    def _troubled(self, trouble: Trouble, service: str, name: str, act: Callable[[], _T],
                  seconds: float) -> _T:
        hub, chance = self._hub, self._hub.random.random()
        hub.sleep(min(seconds * trouble.slow, _TIMEOUT * 0.9))
        if chance < trouble.lost:
            if service not in _ATOMIC and chance < trouble.lost / 2:
                self._act(act)
            hub.sleep(_TIMEOUT)
            raise exception.Unanswered(f'{service} has not answered {name}')
        chance -= trouble.lost
        if service in _ATOMIC:
            return self._act(act)
        if chance < trouble.late:
            self._later(act)
            hub.sleep(_TIMEOUT)
            raise exception.Unanswered(f'{service} has not answered {name} in time')
        chance -= trouble.late
        if chance < trouble.twice:
            self._later(act)
        elif chance - trouble.twice < trouble.refused:
            raise exception.Unreachable(f'{service} has failed with an internal error')
        return self._act(act)

    def _later(self, act: Callable[[], object]) -> None:
        """Let a call take effect later, whoever made it."""
        def late() -> None:
            try:
                self._act(act)
            except parts.Wrong:
                raise
            except Exception:
                # Nobody gets the answer.
                return
        self._hub.spawn('network', late, self._hub.random.uniform(*_LATE))

    def _act(self, act: Callable[[], _T]) -> _T:
        try:
            return act()
        except parts.Wrong as exc:
            # The engine would take it for an answer.
            self._hub.failures.append(exc)
            raise


class Compute(clients.Compute):
    """Nova and Placement.

    :param check: receives the server of each reboot, when Nova takes it
    """

    def __init__(self, line: Wire, cloud: worlds.World, check: Callable[[str], None]
                 ) -> None:
        super().__init__(line, cloud)
        self._check = check
        self._places = cloud.places

    def _reboot(self, server: parts.Server) -> None:
        self._check(server.name)
        super()._reboot(server)

    def services(self) -> Mapping[str, Mapping[str, Any]]:
        """Return all services nova-compute by host."""
        return self._line.call('nova', 'services', lambda: {
            host.name: {'state': 'up' if host.reached else 'down', 'status': 'enabled',
                        'forced_down': host.forced_down, 'updated_at': None}
            for host in self._cloud.hosts.values()})

    def aggregates(self, _host: str) -> tuple[Mapping[str, Any], ...]:
        """Return the aggregates of a host: none."""
        return ()

    def places(self, host: str) -> tuple[str, ...]:
        """Return what a host has in common with others, in words."""
        return self._places.get(host, ())

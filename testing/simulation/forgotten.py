# SPDX-License-Identifier: Apache-2.0
"""Servers that serve nowhere for a while: each needs a recovery, or a reason that is shown.

Faults may never end, so the end of a simulation proves too little: while a server is dead, and
engines can act, a recovery is under way, or its latest one has said why it failed, or the host is
held by a gate that needs an operator or somebody who hears the host. A gate that has promised to
open soon is no reason for long.
"""

from collections.abc import Iterator, Mapping
import dataclasses
from typing import Any

from specreds_nova.beats import message
from specreds_nova.engine import model
from specreds_nova.engine import modes
from specreds_nova.engine.recovery import dispatch
from specreds_nova.engine.suspicion import gates
from testing.simulation import hub as hubs
from testing.simulation import parts
from testing.simulation import store as stores
from testing.simulation import wire as wires
from testing.simulation import world as worlds

# Seconds after which a dead server has a recovery or a reason: its host is suspected within 15 s,
# the reasons that hold it back are recorded within 15 s, and servers that are left in their state
# have an outcome after evacuate_after and 15 s.
BOUND = 90.0
# Seconds after which the next recovery of a server begins at the latest.
_AGAIN = 300.0 + 20.0
# Gates that open by themselves within BOUND.
_SOON = (gates.Correlated, gates.Flapping)


class Forgotten:
    """Looks for servers that are dead and have neither a recovery nor a reason.

    :param engines: the latest process of each engine, by name
    """

    def __init__(self, hub: hubs.Hub, world: worlds.World, store: stores.Store,
                 services: wires.Services, engines: Mapping[str, Any]) -> None:
        self._hub = hub
        self._world = world
        self._store = store
        self._services = services
        self._engines = engines
        # By server: since when it serves nowhere.
        self._dead: dict[str, float] = {}
        # Since when engines can act.
        self._able: float | None = None

    def look(self) -> None:
        """Record each server that is forgotten. To be called every few seconds."""
        now = self._hub.now()
        if self._services.troubled() or not any(
                engine.listens() for engine in self._engines.values()):
            self._able = None
        elif self._able is None:
            self._able = now
        for server in self._world.servers.values():
            if server.stopped_by_owner or self.serves(server):
                self._dead.pop(server.name, None)
                continue
            since = self._dead.setdefault(server.name, now)
            if self._able is not None and now - max(since, self._able) > BOUND and (
                    not self.reason(server, since)):
                host = self._store.host(server.host)
                self._world.fail(
                    f'{server.name} is dead on {server.host} for {now - since:.0f} s, and has '
                    f'neither a recovery nor a reason; its host is {host.state}, held by '
                    f'{host.held}')

    def since(self, server: str) -> float:
        """Return since when a server serves nowhere."""
        return self._dead.get(server, self._hub.now())

    def serves(self, server: parts.Server) -> bool:
        """Return whether tenants reach a server that can write."""
        return any(self._world.visible(copy) and not copy.fenced
                   and self._world.hosts[copy.host].storage
                   and not self._world.hosts[copy.host].stalled for copy in server.copies)

    def reason(self, server: parts.Server, since: float) -> str:
        """Return why a server is dead, as engines show it; empty if they do not."""
        return next(self._reasons(server, since), '')

    def _reasons(self, server: parts.Server, since: float) -> Iterator[str]:
        host, now = self._store.host(server.host), self._hub.now()
        if server.task == 'deleting':
            yield 'it is being deleted'
        for recovery in self._store.history.values():
            if recovery.server != server.name:
                continue
            if recovery.state != model.ENDED:
                yield 'it is being recovered'
            elif (recovery.ended or 0.0) > since and recovery.error and (
                    server.status != 'ACTIVE' or server.task):
                yield f'its recovery has {recovery.outcome}: {recovery.error}'
            elif now - (recovery.ended or 0.0) < _AGAIN:
                yield 'its next recovery is not due'
        if any(crash.server in (server.name, model.ANY_SERVER) and crash.host == server.host
               for crash in self._store.crashes()):
            yield 'it waits to be started on its host'
        end = self._world.ends.get(server.name)
        if end is not None and end.lives == server.lives and (end.over or end.kernel is None):
            # The end of a simulation shows whether it may stay down on its host.
            yield 'its host is back'
        if host.state == model.TRUSTED and host.goodbye is not None:
            grace = 3600.0 if host.goodbye == message.SERVICE else worlds.GRACE + 20.0
            if now - max(host.goodbye_at or 0.0, self._world.unheard) < grace:
                yield 'its host has said goodbye'
        if self._mode(host.name) != model.ACT or host.word == model.CLEAR:
            yield 'an operator looks after its host'
        if not self._world.hosts[server.host].tenant:
            yield 'its network is away, which no engine hears'
        if host.held or host.state != model.TRUSTED:
            yield from self._held(server.host, host)

    def _mode(self, host: str) -> str:
        return modes.mode(self._store.modes(), host, (), self._hub.now())

    def _held(self, name: str, host: model.Host) -> Iterator[str]:
        """Yield what holds back every engine now, and does not only for a moment."""
        service = {'up': self._world.hosts[name].reached, 'enabled': True}
        for engine in self._engines.values():
            if engine.engine is None or not engine.listens():
                continue
            facts = dataclasses.replace(
                engine.engine._monitor.facts(name, service), mode=self._mode(name),
                hearing=engine.engine._votes.holding(name), sentinel=host.sentinel,
                shows=host.shows)
            dispatcher: dispatch.Dispatcher = engine.engine._dispatcher
            for gate in dispatcher._host_gates._gates:
                if not isinstance(gate, _SOON) and (reason := gate.reason(facts)):
                    yield reason

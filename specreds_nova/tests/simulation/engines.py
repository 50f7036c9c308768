# SPDX-License-Identifier: Apache-2.0
"""Engines as simulated processes: their own dispatcher, janitor and worker."""

from collections.abc import Callable
import contextlib
from typing import Any

from specreds_nova.beats import answering
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine import modes
from specreds_nova.engine.placing import capacity
from specreds_nova.engine.recovery import context as contexts
from specreds_nova.engine.recovery import dispatch
from specreds_nova.engine.recovery import janitor
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import worker as workers
from specreds_nova.engine.suspicion import conf as detection_conf
from specreds_nova.engine.suspicion import gates
from specreds_nova.engine.suspicion import servers
from testing.simulation import backups
from testing.simulation import clients
from testing.simulation import cloud as clouds
from testing.simulation import hub as hubs
from testing.simulation import store as stores
from testing.simulation import suspects

_LEASE, _REPEAT = 0.8, 0.2
# Seconds between two answers to a host.
_ANSWER = 1.0
_WHY = ({'kind': 'silence'},)
# Seconds for which a host reports a crash, and for which an engine tries to handle it.
_REPORTED = 10.0
_HANDLED = 60.0


class Engine:
    """An engine as a simulated process."""

    def __init__(self, name: str, hub: hubs.Hub, cloud: clouds.Cloud, store: stores.Store,
                 leases: dict[str, float], settings: Any, faults: clients.Faults, watch: Any,
                 attempt: Callable[[runs.Run], object]) -> None:
        self.name = name
        self._hub = hub
        self._cloud = cloud
        self._store = store
        self._leases = leases
        self._running: set[str] = set()
        hub.strict.add(name)
        self.line = clients.Line(hub, cloud, faults)
        self.suspects = suspects.Suspects(hub, cloud)
        clock: Any = clients.Clock(hub)
        database: Any = clients.Store(self.line, store)
        simulated: Any = {
            'compute': clients.Compute(self.line, cloud),
            'backups': backups.Backups(self.line, hub, cloud),
            'volumes': clients.Volumes(self.line, hub, cloud, watch(self)),
            'suspects': self.suspects}
        context = contexts.Context(
            **simulated, clock=clock,
            store=database, options=settings, settings=settings,
            capacity=capacity.Capacity(
                clock, database, servers.Limits(
                    settings.max_backups, settings.max_backups_per_host)),
            revocations=contexts.Revocations(clock, database),
            modes=modes.Modes(clock, database),
            in_background=lambda act: hub.spawn(name, act))
        self.context = context
        self._worker = workers.RecoveryWorker(context, attempt)
        work: Any = self
        self._dispatcher = dispatch.Dispatcher(
            context, lambda host, service: gates.Facts(host, known=9, service=service or {}),
            detection_conf.host_gates(settings), detection_conf.server_gates(settings),
            work, name, detection_conf.crash_gates(), nova=clients.direct_queries(context.compute))
        self._janitor = janitor.Janitor(context, self._dispatcher, self._heed, 1e9)
        # It reads the database as it is: the time that takes is another matter than its order.
        raw: Any = store
        bus: Any = clients.Answers(cloud)
        heard: Any = self.suspects
        self._answers = answering.Answers(bus, heard, raw, clock, context.leases,
                                          settings.sentinel_network_lease, context.modes)
        cloud.lease = settings.sentinel_network_lease
        self._renew()
        for act in (self._dispatch, self._crashes, self._conduct, self._look_after, self._keep,
                    self._answer):
            hub.spawn(name, act, hub.random.uniform(0.0, 0.2))

    # The interface of the conductor that the dispatcher uses

    def reserve(self, recovery: model.Recovery) -> bool:
        """Reserve a slot for a recovery, or leave it to whichever engine takes it.

        Without the slot this engine would take over what it is about to begin, and each of its
        two works would supersede the other one for ever.
        """
        if self._hub.random.random() >= 0.5:
            return False
        self._running.add(recovery.id)
        return True

    def release(self, recovery_id: str) -> None:
        """Free the slot of a recovery that was not created."""
        self._running.discard(recovery_id)

    def begin(self, recovery: model.Recovery, server: model.Server | None = None) -> None:
        """Work on a recovery if this engine owns it."""
        if recovery.epoch:
            self._begin(recovery, server, ours=True)

    def _heed(self, host: str, word: str | None, reason: str) -> None:
        del reason
        self._cloud.hosts[host].word = word == model.SUSPECT

    def _dispatch(self) -> None:
        suspected: set[str] = set()
        while True:
            self._hub.sleep(0.05)
            for host in self._cloud.hosts:
                if not self.suspects.seems_dead(host):
                    suspected.discard(host)
                elif host not in suspected:
                    try:
                        heard = self.suspects.heard(host)
                        well = None if self._cloud.hosts[host].word else heard
                        [held] = self._dispatcher.suspect_all(
                            [dispatch.Suspicion(host, _WHY, heard, well)])
                        if isinstance(held, Exception):
                            raise held
                        if not held:
                            suspected.add(host)
                    except exception.Unreachable:
                        self._hub.sleep(0.2)

    def _crashes(self) -> None:
        """Receive reported crashes, and handle them as the service does."""
        deadlines: dict[tuple[str, str, float], float] = {}
        while True:
            self._hub.sleep(0.2)
            now = self._hub.now()
            for crash in self._cloud.crashes:
                host, server, at = crash
                if crash not in deadlines and now - at < _REPORTED and (
                        self._cloud.hosts[host].beats):
                    deadlines[crash] = now + _HANDLED
            for crash, until in list(deadlines.items()):
                host, server, _ = crash
                if now >= until:
                    continue
                try:
                    if self._dispatcher.crashed(host, server, (
                            {'kind': 'crash', 'words': '', 'at': until - _HANDLED},)) is None:
                        deadlines[crash] = 0.0
                except exception.Unreachable:
                    continue

    def _conduct(self) -> None:
        while True:
            self._hub.sleep(0.2)
            ended = {name for name, at in self._leases.items()
                     if name == self.name or self._hub.now() - at >= _LEASE}
            for recovery in sorted(self._store.free(ended), key=lambda free: -free.priority):
                if recovery.id not in self._running:
                    self._begin(recovery)

    def _begin(self, recovery: model.Recovery, server: model.Server | None = None, *,
               ours: bool = False) -> None:
        """Work on a recovery, which is claimed unless it is ours."""
        def work() -> None:
            with contextlib.suppress(exception.Superseded, exception.Unreachable):
                self._worker.bring_to_end(recovery if ours else self.context.store.take_over(
                    recovery, self.name), server)
            self.context.capacity.leave(recovery.id)
            self._running.discard(recovery.id)
        self.context.capacity.enter(recovery.id)
        self._running.add(recovery.id)
        self._hub.spawn(self.name, work)

    def _look_after(self) -> None:
        while True:
            self._hub.sleep(self.context.settings.janitor_interval)
            self._janitor.look()

    def _answer(self) -> None:
        while self.context.settings.sentinel_network_lease:
            self._answers.beat()
            self._hub.sleep(_ANSWER)

    def _keep(self) -> None:
        while True:
            self._renew()
            self._hub.sleep(_REPEAT)

    def _renew(self) -> None:
        self._store.vote(model.Vote(self.name))
        self._leases[self.name] = self._hub.now()

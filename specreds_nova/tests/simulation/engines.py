# SPDX-License-Identifier: Apache-2.0
"""Engines as simulated processes: their own dispatcher, janitor and worker, on a fake board."""

from collections.abc import Callable, Sequence
from typing import Any

from specreds_nova.engine import exception
from specreds_nova.engine import janitor
from specreds_nova.engine import model
from specreds_nova.engine.detection import answering
from specreds_nova.engine.detection import conf as detection_conf
from specreds_nova.engine.detection import gates
from specreds_nova.engine.detection import servers
from specreds_nova.engine.recovery import capacity
from specreds_nova.engine.recovery import context as contexts
from specreds_nova.engine.recovery import dispatch
from specreds_nova.engine.recovery import revocations
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import worker as workers
from testing.simulation import backups
from testing.simulation import clients
from testing.simulation import cloud as clouds
from testing.simulation import hub as hubs
from testing.simulation import store as stores
from testing.simulation import suspects

_LEASE = 4.0
# Seconds between two answers to a host.
_ANSWER = 1.0
_WHY = ({'kind': 'silence'},)
# Seconds for which a host reports a crash, and for which an engine tries to handle it.
_REPORTED = 10.0
_HANDLED = 60.0


class Board:
    """The board of jobs, where a claim expires after the death of its engine."""

    def __init__(self, hub: hubs.Hub) -> None:
        self._hub = hub
        self.jobs: dict[str, model.Recovery] = {}
        self._claims: dict[str, tuple[str, float]] = {}
        self.away = False

    def post(self, recovery: model.Recovery) -> None:
        """Post a job."""
        self._answer()
        self.jobs[recovery.id] = recovery

    def known(self) -> set[str]:
        """Return the ids of all jobs."""
        self._answer()
        return set(self.jobs)

    def claim(self, engine: str) -> str | None:
        """Claim the most urgent free job, and return its id."""
        self._answer()
        for recovery_id, _ in sorted(self.jobs.items(), key=lambda job: -job[1].priority):
            holder = self._claims.get(recovery_id)
            if holder is not None and self._hub.now() - holder[1] < _LEASE:
                continue
            self._claims[recovery_id] = (engine, self._hub.now())
            return recovery_id
        return None

    def hold(self, recovery_id: str, engine: str) -> None:
        """Claim a job."""
        self._claims[recovery_id] = (engine, self._hub.now())

    def keep(self, engine: str) -> None:
        """Renew the claims of an engine."""
        for recovery_id, (holder, _) in self._claims.items():
            if holder == engine:
                self._claims[recovery_id] = (engine, self._hub.now())

    def let_go(self, recovery_id: str, engine: str, *, done: bool) -> None:
        """Finish a job or release it, unless another engine has claimed it."""
        if self._claims.get(recovery_id, ('', 0.0))[0] != engine:
            return
        del self._claims[recovery_id]
        if done:
            self.jobs.pop(recovery_id, None)

    def _answer(self) -> None:
        if self.away:
            raise exception.Unreachable('the board is away')


class Engine:
    """An engine as a simulated process."""

    def __init__(self, name: str, hub: hubs.Hub, cloud: clouds.Cloud, store: stores.Store,
                 board: Board, settings: Any, faults: clients.Faults, watch: Any,
                 attempt: Callable[[runs.Run], object]) -> None:
        self.name = name
        self._hub = hub
        self._cloud = cloud
        self._board = board
        hub.strict.add(name)
        self.line = clients.Line(hub, cloud, faults)
        self.suspects = suspects.Suspects(hub, cloud)
        clock = clients.Clock(hub)
        database: Any = clients.Store(self.line, store)
        context = contexts.Context(
            clock=clock, compute=clients.Compute(self.line, cloud),
            backups=backups.Backups(self.line, hub, cloud),
            volumes=clients.Volumes(self.line, hub, cloud, watch(self)), suspects=self.suspects,
            store=database, options=settings, settings=settings,
            capacity=capacity.Capacity(
                clock, database, servers.Limits(
                    settings.max_backups, settings.max_backups_per_host)),
            revocations=revocations.Revocations(clock, database),
            in_background=lambda act: hub.spawn(name, act))
        self._context = context
        self._worker = workers.RecoveryWorker(context, attempt, name)
        self._dispatcher = dispatch.Dispatcher(
            context, lambda host, service: gates.Facts(host, known=9, service=service or {}),
            detection_conf.host_gates(settings), detection_conf.server_gates(settings),
            self, name, detection_conf.crash_gates(), nova=clients.direct_queries(context.compute))
        self._janitor = janitor.Janitor(
            context, self._dispatcher, board.known, board.post,
            self._heed, 1e9)
        # It reads the database as it is: the time that takes is another matter than its order.
        raw: Any = store
        bus: Any = clients.Answers(cloud)
        heard: Any = self.suspects
        self._answers = answering.Answers(bus, heard, raw, clock, context.leases,
                                          settings.sentinel_network_lease)
        cloud.lease = settings.sentinel_network_lease
        for act in (self._dispatch, self._crashes, self._conduct, self._look_after, self._keep,
                    self._answer):
            hub.spawn(name, act, hub.random.uniform(0.0, 0.2))

    # The interface of the conductor that the dispatcher uses

    def expect(self, recoveries: Sequence[model.Recovery]) -> None:
        """Do nothing: this conductor prepares nothing."""

    def reserve(self, recovery: model.Recovery) -> bool:
        """Return whether this engine works on a recovery."""
        del recovery
        return self._hub.random.random() < 0.5

    def release(self, recovery_id: str) -> None:
        """Do nothing: a reservation occupies nothing."""

    def begin(self, recovery: model.Recovery, server: model.Server | None = None) -> None:
        """Post a recovery, and work on it if this engine owns it."""
        if recovery.epoch == 0:
            self._board.post(recovery)
            return
        try:
            self._board.post(recovery)
            self._board.hold(recovery.id, self.name)
        except exception.Unreachable:
            pass
        self._begin(recovery.id, recovery, server)

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
                        if not self._dispatcher.suspect(host, _WHY, heard, well):
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
            try:
                while (recovery_id := self._board.claim(self.name)) is not None:
                    self._begin(recovery_id)
            except exception.Unreachable:
                continue

    def _begin(self, recovery_id: str, begun: model.Recovery | None = None,
               server: model.Server | None = None) -> None:
        def work() -> None:
            done = False
            try:
                self._worker.bring_to_end(recovery_id, begun, server)
                done = True
            except exception.Superseded:
                done = False
            self._context.capacity.leave(recovery_id)
            self._board.let_go(recovery_id, self.name, done=done)
        self._context.capacity.enter(recovery_id)
        self._hub.spawn(self.name, work)

    def _look_after(self) -> None:
        while True:
            self._hub.sleep(self._context.settings.janitor_interval)
            self._janitor.look()

    def _answer(self) -> None:
        while self._context.settings.sentinel_network_lease:
            self._answers.beat()
            self._hub.sleep(_ANSWER)

    def _keep(self) -> None:
        while True:
            self._board.keep(self.name)
            self._hub.sleep(_LEASE / 3)

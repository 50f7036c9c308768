# SPDX-License-Identifier: Apache-2.0
"""An engine as a simulated process: :class:`specreds_nova.engine.service.Engine` itself.

Its threads, queues, pools and clocks come from :mod:`concurrency`, and its clients from
:mod:`wire`; everything else is the code that runs in production. Its fibers run in a simulated
thread. The store of the simulation takes the place of the database and has the same rules.
"""

import collections
from collections.abc import Collection, Iterable, Iterator, Mapping
import contextlib
import dataclasses
import types
from typing import Any
from unittest import mock

from specreds_nova.beats import answering
from specreds_nova.beats import listening
from specreds_nova.beats import pulse
from specreds_nova.beats import voice
from specreds_nova.beats import voices as all_voices
from specreds_nova.engine import event_loop
from specreds_nova.engine import exception
from specreds_nova.engine import fibers
from specreds_nova.engine import model
from specreds_nova.engine import service
from specreds_nova.engine import threads
from specreds_nova.engine.clients import clock as clocks
from specreds_nova.engine.placing import conductor
from specreds_nova.engine.placing import preparation_limit
from specreds_nova.engine.recovery import crashes
from specreds_nova.engine.recovery import dispatch
from specreds_nova.engine.recovery import left
from specreds_nova.engine.recovery import nova_prefetch
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import tenant
from specreds_nova.engine.suspicion import conf as detection_conf
from specreds_nova.engine.suspicion import due
from specreds_nova.engine.suspicion import evidence
from specreds_nova.engine.suspicion import suspects
from specreds_nova.engine.suspicion import votes
from specreds_nova.engine.suspicion import watcher
from testing.simulation import backups
from testing.simulation import broker as brokers
from testing.simulation import clients
from testing.simulation import concurrency
from testing.simulation import forgotten
from testing.simulation import hub as hubs
from testing.simulation import silence
from testing.simulation import store as stores
from testing.simulation import truth
from testing.simulation import voices
from testing.simulation import wire as wires
from testing.simulation import world as worlds

# By module of the engine: the modules of the standard library that are simulated there.
_SIMULATED: dict[Any, tuple[str, ...]] = {
    service: ('threading', 'futures'), event_loop: ('queue',), watcher: ('queue',),
    conductor: ('threading', 'time'), crashes: ('threading', 'queue'),
    threads: ('threading', 'time'), nova_prefetch: ('threading', 'futures'),
    preparation_limit: ('threading',), tenant: ('threading',),
    fibers: ('threading', 'queue', 'futures', 'time'),
    clocks: ('threading', 'time'), dispatch: ('uuid',), due: ('threading',)}
# Seconds after the return of a host in which an engine may still decide against the host.
_GRACE = 10.0
# Seconds after the stop of a server by its owner in which an engine may still decide against its
# host: it asks Nova before, for a while.
_ASKED = 20.0
# Seconds until a restart has ended after the suspicion of its host, or after an operator's wish.
_HEEDED = 20.0
# Seconds after an answer of the database that was missing until an engine has voted again.
_SAID = 3.0
# Seconds by which the clocks of engines differ at most.
_APART = 2.5
# Seconds between two looks of threads that poll: fewer looks make a simulation faster.
_POLLS: dict[tuple[Any, str], float] = {
    (service, '_TICK'): 0.2, (event_loop, '_HELD'): 0.5, (suspects, '_LOOK'): 0.25,
    (tenant, '_LOOK'): 0.05, (conductor, '_LOOK'): 0.1, (conductor, '_INTERVAL'): 1.0,
    (votes, '_LOOK'): 0.2, (voice, 'NONCE_S'): voices.NONCE_S,
    **{(all_voices, name): seconds for name, seconds in voices.SLOWER.items()}}


class _Nothing:
    """Has every attribute, none of which does anything: metrics, notifications and the like."""

    def __init__(self, *arguments: Any) -> None:
        del arguments

    def __getattr__(self, name: str) -> Any:
        if name.startswith('__'):
            raise AttributeError(name)
        return self

    def __call__(self, *arguments: Any, **values: Any) -> '_Nothing':
        """Do nothing; what is returned does nothing either, as a labelled metric."""
        del arguments, values
        return self

    def labels(self, *names: Any) -> '_Nothing':
        """Return the metric with labels, which does nothing either."""
        del names
        return self


class Listener(_Nothing):
    """Connects the monitor of an engine to the broker."""

    def __init__(self, conf: Any, engine: str, monitor: Any, *_more: Any) -> None:
        super().__init__()
        self._conf = conf
        self._engine = engine
        self._monitor = monitor

    @property
    def broker(self) -> str:
        """The node that the engine is connected to."""
        return str(self._conf.process.broker.node(self._engine))

    def start(self) -> None:
        """Begin."""
        self._conf.process.broker.listen(self._engine, self._monitor, self._monitor._clock.now)


class _Bus:
    """Brings an engine's answers to hosts."""

    def __init__(self, process: 'Process') -> None:
        self._process = process

    def send_all(self, answers: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Answer hosts."""
        for host, arguments in answers:
            self._process.broker.answer(self._process.name, host, **arguments)

    def close(self) -> None:
        """Do nothing."""


class _Clients:
    """An engine's clients."""

    def __init__(self, conf: Any) -> None:
        process = conf.process
        wire, hub, world = process.wire, process.hub, process.world
        self.compute = wires.Compute(wire, world, process.check_reboot)
        self.volumes = clients.Volumes(wire, hub, world, process.check_decision)
        self.backups = backups.Backups(wire, hub, world)

    def warm_up(self) -> None:
        """Do nothing: every service is connected."""

    def close(self) -> None:
        """Do nothing."""


def _answers(conf: Any, monitor: Any, store: Any, clock: Any, leases: Any, modes: Any,
             receiver: Any) -> answering.Answers:
    bus: Any = _Bus(conf.process)
    return answering.Answers(bus, monitor, store, clock, leases,
                             conf.engine.sentinel_network_lease, modes, receiver)


def _receiver(conf: Any, heard: all_voices.Voices, _clock: Any, _local: Any) -> voices.Receiver:
    return voices.Receiver(conf.process.network, conf.process.name, heard)


_FACTORIES: dict[str, Any] = {
    'connect': types.SimpleNamespace(Clients=_Clients),
    'coverage': types.SimpleNamespace(
        of=lambda *_all, **_more: types.SimpleNamespace(sums=collections.Counter)),
    'stores': types.SimpleNamespace(from_conf=lambda conf: conf.process.store),
    'voice_receiver': types.SimpleNamespace(of=_receiver),
    'listener': types.SimpleNamespace(of=Listener),
    'echo': types.SimpleNamespace(Echo=_Nothing, Echoed=_Nothing),
    'counted': types.SimpleNamespace(Metrics=_Nothing),
    'notify': types.SimpleNamespace(from_conf=_Nothing),
    'answering': types.SimpleNamespace(of=_answers),
}


_wait = fibers.Fibers.wait


def _at_least(self: fibers.Fibers, wait: Any, seconds: float | None) -> None:
    """Let a fiber wait; simulated time does not pass by itself."""
    _wait(self, wait, None if seconds is None else max(concurrency.LEAST, seconds))


@contextlib.contextmanager
def simulated() -> Iterator[None]:
    """Let engines that are made within run on the simulated hub."""
    with contextlib.ExitStack() as stack:
        for module, names in _SIMULATED.items():
            for name in names:
                stack.enter_context(mock.patch.object(module, name, concurrency.module(name)))
        for (module, name), seconds in _POLLS.items():
            stack.enter_context(mock.patch.object(module, name, seconds))
        for name, factory in _FACTORIES.items():
            stack.enter_context(mock.patch.object(service, name, factory))
        stack.enter_context(mock.patch.object(fibers.Fibers, 'wait', _at_least))
        stack.enter_context(mock.patch.object(pulse, 'native', concurrency.module))
        yield


class Cloud:
    """What all engines share.

    :ivar options: of all engines, group ``[engine]`` without the name
    :ivar link: settings of the link of all engines
    :ivar engines: the latest process of each engine, by name
    :ivar clocks: by engine: rate of its clock, and seconds that its system clock is ahead
    :ivar ahead: by engine: seconds that its system clock is ahead since it was set
    """

    def __init__(self, hub: hubs.Hub, world: worlds.World, broker: brokers.Broker,
                 services: wires.Services, options: Any, link: listening.Settings,
                 clocks: Mapping[str, tuple[float, float]], network: voices.Network) -> None:
        self.hub = hub
        self.network = network
        self.world = world
        self.broker = broker
        self.services = services
        self.options = options
        self.link = link
        self.clocks = clocks
        self.ahead: dict[str, float] = {}
        self.engines: dict[str, Process] = {}
        self.truth = truth.Truth(hub, world, lambda: self.store, self.engines, network)
        self._silence = silence.Silence(hub, world, broker, services, self.engines, options,
                                        network)
        self.store = stores.Store(lambda: hub.now() + hub.clock().ahead, self._trusted,
                                  self._check_creation)
        self.store.set_mode(stores.ACTING)

        self.forgotten = forgotten.Forgotten(hub, world, self.store, services, self.engines)

    def _check_creation(self, recovery: model.Recovery) -> None:
        self.truth.check_creation(self.hub.owner, recovery)
        self._silence.check_creation(recovery)

    def _trusted(self, host: model.Host) -> None:
        """Record a host that is trusted, but was not cleaned since servers have left it."""
        left = host.state == model.FENCED or any(
            step.name == runs.ADOPT and step.began >= host.since
            for recovery in self.store.history.values() if recovery.host == host.name
            for step in recovery.steps)
        if left and self.world.cleaned.get(host.name, 0.0) < host.since - _APART:
            self.world.fail(f'host {host.name} is trusted, and was not cleaned')


class Process:
    """One process of an engine.

    :ivar engine: the engine; None until it has started
    """

    def __init__(self, name: str, number: int, cloud: Cloud) -> None:
        self.name = name
        self.owner = f'{name}#{number}'
        self.hub, self.world, self.broker = cloud.hub, cloud.world, cloud.broker
        self.network = cloud.network
        self.engine: service.Engine | None = None
        self._truth, self._services = cloud.truth, cloud.services
        self._clocks, self._ahead = cloud.clocks, cloud.ahead
        self.wire = wires.Wire(self.hub, self.world, name, cloud.services)
        self.store = clients.Store(self.wire, cloud.store)
        self._cloud_store, self._history = cloud.store, cloud.store.history
        options = types.SimpleNamespace(**{**vars(cloud.options), 'name': name})
        self._conf: Any = types.SimpleNamespace(engine=options, process=self)
        self._settings = dataclasses.replace(detection_conf.monitor_settings(options),
                                             link=cloud.link)
        self.hub.strict.add(self.owner)

    def set_clock(self) -> None:
        """Set the clocks of the process."""
        rate, ahead = self._clocks.get(self.name, (1.0, 0.0))
        self.hub.set_clock(self.owner, rate, self._ahead.get(self.name, ahead))

    def start(self) -> None:
        """Start the engine; if a service does not answer, again after a while."""
        self.set_clock()
        self.hub.spawn(self.owner, self._start)

    def _start(self) -> None:
        while True:
            try:
                engine = service.Engine(self._conf, self._settings, self._conf.engine)
                engine.start()
            except exception.EngineError:
                self.hub.sleep(2.0)
            else:
                self.engine = engine
                return

    def kill(self) -> None:
        """Kill the process."""
        self.hub.kill(self.owner)
        self.engine = None

    def listens(self) -> bool:
        """Return whether silence means something to the engine."""
        return (self.engine is not None and not self.hub.frozen(self.owner)
                and self.engine._monitor.trouble() is None)

    def suspects(self, host: str) -> bool:
        """Return whether the engine suspects a host that it has heard."""
        return self.engine is not None and host in self.engine._monitor.all_suspected()

    def answers(self, host: str) -> bool:
        """Return whether the engine should answer a host: it hears the host, which is trusted."""
        if self.engine is None or not self.listens() or self._services.troubled('store'):
            return False
        view = self.engine._monitor.look(host)
        return (view is not None and view.heard is not None and not view.leaving
                and view.silence < view.patience
                and self._cloud_store.host(host).state == model.TRUSTED)

    def hears(self, host: str) -> bool:
        """Return whether the engine hears a host, does not suspect it, and can say so.

        It says so in the database. What it says counts for two seconds.
        """
        if self.engine is None or not self.listens():
            return False
        view = self.engine._monitor.look(host)
        return (view is not None and view.heard is not None and not view.suspected
                and not view.leaving and view.silence < view.patience
                and self.hub.now() - self.wire.unanswered.get('store', 0.0) > _SAID)

    def check_decision(self, superposition: str) -> None:
        """Record a decision that is begun against what the engine knows or can read.

        That is a primary that runs, or one whose owner has stopped it. A host that is cut off is
        well only by the old word of an engine that stood still, which may come at any moment.
        """
        record = self.world.superpositions.get(superposition)
        engine = self.engine
        if engine is None or record is None or record.state != 'superposed':
            return
        recovery = self._history[record.reason]
        suspects = engine._conductor._context.suspects
        host = self.world.hosts[recovery.host]
        unknown = any(step.detail.get('outcome') == 'gone' for step in recovery.steps)
        if (not unknown and host.reached and suspects.is_well(recovery.host)
                and suspects.running(recovery.host, recovery.server)
                and self.hub.now() - max(host.since, self.world.mended.get(
                    recovery.host, 0.0)) > _GRACE):
            self.world.fail(f'{recovery.server} is decided against though {host.name} is well')
        self._truth.check_decision(self, recovery, record.base)
        server = self.world.servers.get(recovery.server)
        # One that was stopped when its host died is evacuated, and ends stopped.
        if (not unknown and server is not None and server.stopped_by_owner
                and left.of(recovery) is None
                and self.hub.now() - max(server.stopped_at, self.wire.unanswered.get('nova', 0.0))
                > _ASKED):
            self.world.fail(f'{server.name} is promoted though its owner has stopped it')

    def check_reboot(self, server: str) -> None:
        """Record a reboot by a restart that an operator or the state of the host has ended."""
        for recovery in self._cloud_store.active(servers=(server,)):
            if any(fact.get('kind') not in (evidence.CRASH, evidence.BOOT)
                   for fact in recovery.why):
                continue
            now, host = self.hub.now(), self._cloud_store.host(recovery.host)
            if host.state != model.TRUSTED and now - (host.since or now) > _HEEDED:
                self.world.fail(f'{server} is rebooted on {host.name}, which is {host.state}')
            if now - self.world.aborted.get(recovery.id, now) > _HEEDED:
                self.world.fail(f'{server} is rebooted though an operator has ended its recovery')

    def occupied(self, left: Collection[str] = ()) -> list[str]:
        """Return what the engine still holds for recoveries.

        :param left: the recoveries that wait for an operator
        """
        engine = self.engine
        if engine is None:
            return []
        work, context = engine._conductor, engine._conductor._context
        held = {'slots': sorted(context.capacity.held()),
                'recoveries': sorted(work._running.difference(left)),
                'preparations': sorted(context.preparations._held)}
        return [f'{self.name} holds {what} of {recoveries}'
                for what, recoveries in held.items() if recoveries]

    def crowded(self) -> str | None:
        """Return how more slots are held than there are; None if they are not."""
        engine = self.engine
        if engine is None:
            return None
        work = engine._conductor
        racing = work._capacity.held()
        if len(racing) > self._conf.engine.slots or not racing <= work._running:
            return f'{self.name} holds the slots of {sorted(racing)}, of {self._conf.engine.slots}'
        return None


def unfinished(recoveries: list[model.Recovery]) -> list[str]:
    """Return the recoveries that have not ended, as text."""
    return [f'recovery {recovery.id[:8]} of {recovery.server} has not ended: {recovery.state}, '
            f'last steps {[step.name for step in recovery.steps][-3:]}'
            for recovery in recoveries if recovery.state != model.ENDED]

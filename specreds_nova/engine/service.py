# SPDX-License-Identifier: Apache-2.0
"""One engine: its detector, its dispatcher and its conductor, and their threads."""

import collections
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
import contextlib
import dataclasses
import threading
from typing import Any, Protocol

from oslo_config import cfg
from oslo_log import log as logging

from specreds_nova import protected
from specreds_nova.beats import answering
from specreds_nova.beats import echo
from specreds_nova.beats import listener
from specreds_nova.beats import overload
from specreds_nova.beats import rejections
from specreds_nova.beats import voice_receiver
from specreds_nova.beats import voices
from specreds_nova.engine import event_loop
from specreds_nova.engine import events
from specreds_nova.engine import exception
from specreds_nova.engine import fibers
from specreds_nova.engine import metrics as counted
from specreds_nova.engine import model
from specreds_nova.engine import notify
from specreds_nova.engine import threads
from specreds_nova.engine import timing
from specreds_nova.engine.clients import clock as clocks
from specreds_nova.engine.clients import compute
from specreds_nova.engine.clients import connect
from specreds_nova.engine.clients import facts
from specreds_nova.engine.placing import conductor as conductors
from specreds_nova.engine.recovery import boots
from specreds_nova.engine.recovery import context as contexts
from specreds_nova.engine.recovery import crashes
from specreds_nova.engine.recovery import dispatch
from specreds_nova.engine.recovery import janitor as janitors
from specreds_nova.engine.recovery import nova_prefetch
from specreds_nova.engine.recovery import power
from specreds_nova.engine.recovery import settings as recovery_settings
from specreds_nova.engine.store import store as stores
from specreds_nova.engine.suspicion import conf as detection_conf
from specreds_nova.engine.suspicion import decommissioned
from specreds_nova.engine.suspicion import evidence
from specreds_nova.engine.suspicion import gates
from specreds_nova.engine.suspicion import monitor as monitors
from specreds_nova.engine.suspicion import sentinels
from specreds_nova.engine.suspicion import settings as monitoring
from specreds_nova.engine.suspicion import suspects
from specreds_nova.engine.suspicion import votes
from specreds_nova.engine.suspicion import watcher
from specreds_nova.preflight import coverage
from specreds_nova.preflight import report

LOG = logging.getLogger(__name__)

# Seconds between two ticks of the detector.
_TICK = 0.05
# Seconds between two looks for hosts to power off.
_POWER = 2.0
# Seconds between two looks for hosts that have booted.
_BOOTS = 5.0
# Seconds between two requests that keep the token in the caches of other services, which keep it
# for 300 s by default (token_cache_time of keystonemiddleware).
_WARM = 120.0
# Seconds between two looks at what all servers would get.
_COVERAGE = 900.0
# Hosts that the janitor looks at together.
_ASKERS = 2
# Seconds for which the database keeps recoveries that have ended: a month.
_KEPT = 30 * 86400.0
# Seconds that each part has to stop.
_PATIENCE = 5.0

# Threads that call services and hosts for recoveries.
CALLERS = 25
# Seconds after which a thread hangs that waits for nothing, and one that asks other services.
_HANGS, _HANGS_ASKING = 10.0, 600.0


class Watched(Protocol):
    """A part of an engine with threads of its own."""

    def problems(self) -> list[str]:
        """Return the threads that have failed or hang."""


class Engine:
    """An engine with all its parts.

    :param conf: the global configuration, with the options of :mod:`specreds_nova.engine.conf`
    :param settings: of the monitor, if they are not those that follow from the configuration
    :param recovering: settings of recoveries, if they are not the defaults
    :ivar failed: set when a thread fails too often; ``on_failure`` is called then
    :raises exception.EngineError: the configuration is incomplete, or a service does not answer
    """

    def __init__(self, conf: cfg.ConfigOpts, settings: monitoring.Settings | None = None,
                 recovering: recovery_settings.Settings | None = None) -> None:
        options = conf.engine
        settings = settings or detection_conf.monitor_settings(options)
        self._stopping = threading.Event()
        self._fibers = fibers.Fibers(CALLERS)
        self._clock = clocks.FiberClock(self._fibers, self._stopping)
        self._metrics = counted.Metrics()
        self._watcher = watcher.Watcher(self._metrics)
        self._overload = overload.Overload(self._clock)
        self._observer = events.Observer(self._metrics, notify.from_conf(conf, options.name))
        self._rejections, echoed = rejections.Rejections(), echo.Echoed()
        self._voices = voices.Voices(self._clock.now, (), self._rejections)
        self._monitor = monitors.Monitor(
            self._clock, self._watcher, settings, lambda: self._listener.broker,
            self._rejections, self._voices)
        self._listener = listener.of(conf, options.name, self._monitor, echoed.take,
                                     self._rejections)
        self._receiver = voice_receiver.of(conf, self._voices, self._clock,
                                           lambda: self._listener.address)
        self._echo = echo.Echo(conf, options.name, self._clock, self._monitor.due_in, echoed)
        self._clients = connect.Clients(conf)
        self._store = stores.from_conf(conf)
        self._votes = votes.Votes(options.name, self._monitor, self._store, self._clock)
        context = contexts.in_fibers(
            self._fibers, self._clock, self._clients, self._store, options,
            suspects=suspects.Suspects(self._monitor, self._clock, self._votes,
                                       detection_conf.host_gates(options)),
            stopping=self._stopping.is_set, observer=self._observer, settings=recovering,
            places=self._monitor.places)
        self._modes = context.modes
        self._sentinels = sentinels.Sentinels(
            self._monitor.sentinels, self._monitor.hides, self._modes, self._store, self._clock,
            self._monitor.voices, self._monitor.silences, self._votes.hearing)
        self._decommissioned = decommissioned.Decommissioned(
            self._store, self._monitor, self._clock)
        self._answers = answering.of(conf, self._monitor, self._store, self._clock, context.leases,
                                     self._modes, self._receiver)
        self._prefetch = nova_prefetch.NovaPrefetch(self._clients.compute, self._clock)
        self._watcher.doubt = self._prefetch.doubt
        self._conductor = conductors.Conductor(
            context, self._fibers, options.name, options.slots, self._votes.ended)
        self._dispatcher = dispatch.Dispatcher(
            context, self._facts, detection_conf.host_gates(options),
            detection_conf.server_gates(options), self._conductor, options.name,
            detection_conf.crash_gates(), nova=self._prefetch)
        self._events = event_loop.EventLoop(
            self._watcher.news, self._monitor, self._dispatcher, self._store, self._clock)
        lost = crashes.LostServers(
            self._dispatcher.crashed, self._watcher.crashed, self._clients.compute,
            context.suspects, self._clients.backups, self._clock)
        self._crashes = crashes.Crashes(lost.crashed, self._clock, self._store)
        self._watcher.crash = self._crashes.tell
        self._watcher.boot = self._crashes.booted
        self._janitor = janitors.Janitor(
            context, self._dispatcher, self._monitor.word, _KEPT, self._together)
        self._askers = futures.ThreadPoolExecutor(_ASKERS, 'janitor')
        self._power_off = (power.PowerOff(context, power.Redfish(options), options.name)
                           if options.redfish_systems else None)
        self._boots = boots.Boots(self._monitor.kernels, self._clients.backups,
                                  self._clients.volumes, self._clock, options.release_interval)
        self._coverage = coverage.of(conf, self._store, self._clients, pairs=False)
        self._options, self._settings = options, context.settings
        # When Nova was asked last which services are down.
        self._asked = float('-inf')
        self.failed = threading.Event()
        self.on_failure: Callable[[], None] = lambda: None
        self._threads = threads.Threads(self._stopping, self._fail)

    def start(self) -> None:
        """Start all parts."""
        self._clients.warm_up()
        self._votes.start()
        hosts = self._store.hosts()
        self._monitor.expect(host.name for host in hosts)
        self._sentinels.know(hosts)
        for host in hosts:
            if host.goodbye is not None:
                self._monitor.left(host.name, host.goodbye, host.goodbye_at or 0.0)
            if host.kernel is not None:
                self._monitor.booted(host.name, host.kernel)
        if self._options.metrics_port:
            self._metrics.serve(self._options.metrics_port, self._options.metrics_host,
                                self.problems)
        self._receiver.start()
        self._listener.start()
        self._echo.start()
        self._answers.start()
        self._conductor.start()
        self._crashes.start()
        self._threads.begin('detector', self._tick, _HANGS)
        self._threads.begin('dispatcher', self._dispatch, _HANGS_ASKING)
        self._threads.every(self._settings.janitor_interval, 'janitor', self._look_after,
                            _HANGS_ASKING)
        # Operators are heeded however long hosts take to answer the janitor.
        self._threads.every(self._settings.janitor_interval, 'words', self._janitor.heed,
                            _HANGS_ASKING)
        self._threads.every(_WARM, 'warmer', self._clients.warm_up)
        # The engine needs it for nothing else, so that it is neither watched nor waited for.
        threading.Thread(target=self._cover, name='coverage', daemon=True).start()
        if self._power_off is not None:
            self._threads.every(_POWER, 'power-off', self._power_off.look, _HANGS_ASKING)
        if self._options.release_interval:
            self._threads.every(_BOOTS, 'boots', self._boots.look, _HANGS_ASKING)
        LOG.info('engine %s has started', self._options.name)

    def stop(self) -> bool:
        """Stop, and leave recoveries to other engines; return False if a step still waits."""
        LOG.info('engine %s stops', self._options.name)
        self._stopping.set()
        self._events.stop()
        self._crashes.stop(_PATIENCE)
        calm = self._conductor.stop(_PATIENCE)
        # Other engines take its recoveries once its lease is over.
        self._votes.stop(_PATIENCE)
        self._echo.stop(_PATIENCE)
        self._answers.stop(_PATIENCE)
        self._listener.stop()
        self._receiver.stop(_PATIENCE)
        self._threads.join(_PATIENCE)
        if self._power_off is not None:
            self._power_off.close()
        self._prefetch.close()
        self._askers.shutdown(wait=False, cancel_futures=True)
        self._clients.close()
        try:
            self._store.flush()
        except exception.Unreachable as exc:
            LOG.warning('durations of backups are lost: %s', exc)
        self._store.close()
        return calm

    def problems(self) -> list[str]:
        """Return the problems of this engine: its faults, or a broker that is lost."""
        trouble = self._monitor.trouble()
        return [*self.faults(), *([trouble] if trouble else [])]

    def faults(self) -> list[str]:
        """Return the threads that have failed or hang, which a restart of the process mends."""
        if self._stopping.is_set():
            return []
        parts: tuple[Watched, ...] = (
            self._threads, self._fibers, self._conductor, self._listener, self._receiver,
            self._votes, self._echo, self._answers, self._crashes)
        return [problem for part in parts for problem in part.problems()]

    def _facts(self, host: str, service: Mapping[str, Any] | None) -> gates.Facts:
        """Return what the gates examine, with what the other engines hear at this moment.

        :raises exception.Unreachable: the database does not answer
        """
        self._votes.read()
        return dataclasses.replace(self._monitor.facts(host, service),
                                   hearing=self._votes.holding(host))

    def _fail(self) -> None:
        """End the process, which its supervisor starts again."""
        self.failed.set()
        self.on_failure()

    # Threads

    def _tick(self) -> None:
        while not self._stopping.is_set():
            self._monitor.pause(_TICK)
            self._monitor.tick()
            self._threads.progress('detector')
            self._metrics.beats.inc(self._monitor.counted())
            self._metrics.dropped.inc(self._monitor.dropped())
            self._metrics.overload.set(self._overload.look(self._monitor.lateness()))
            for reason, count in self._rejections.taken().items():
                self._metrics.rejected.labels(reason).inc(count)

    def _cover(self) -> None:
        """Note what all servers would get, unless servers are being recovered."""
        while not self._stopping.is_set():
            try:
                if not self._store.active_states():
                    counts = self._coverage.sums()
                    self._metrics.servers.set(counts)
                    self._metrics.roomless.set(counts[report.ROOM[0]])
            except exception.EngineError as exc:
                LOG.info('what all servers would get is looked at later: %s', exc)
            except Exception:
                LOG.exception('what all servers would get is not known')
            self._stopping.wait(_COVERAGE)

    def _dispatch(self) -> None:
        """Act on the events of the detector."""
        self._events.run(self._stopping.is_set, lambda: self._threads.progress('dispatcher'))

    def _look_after(self) -> None:
        self._janitor.look()
        self._sentinels.look()
        self._count()
        if self._clock.now() - self._asked >= timing.ASK_NOVA:
            self._asked = self._clock.now()
            self._ask_nova()

    def _together(self, looks: Sequence[Callable[[], None]]) -> None:
        """Take looks at hosts, some at a time."""
        for done in [self._askers.submit(look) for look in looks]:
            done.result()

    def _ask_nova(self) -> None:
        """Pass the services that Nova takes for down to the detector as evidence."""
        try:
            services = self._clients.compute.services()
            self._monitor.listed(services)
            self._decommissioned.look(services)
            # A host whose cell does not answer stays where it was.
            self._monitor.place({name: self._clients.compute.places(name)
                                 for name, service in services.items() if facts.known(service)})
            self._answers.protects = {
                name: protected.word(self._clients.compute.aggregates(name),
                                     self._options.protect_by_default) for name in services}
            self._janitor.lift(services)
        except exception.EngineError:
            return
        except Exception:
            # The janitor's other work does not depend on Nova's answer.
            LOG.exception("Nova's services are not taken as evidence")
            return
        watched = set(self._monitor.names())
        for name, service in services.items():
            if name not in watched:
                continue
            down = (service.get('state') == 'down' and compute.enabled(service)
                    and not service.get('forced_down'))
            if down:
                self._monitor.note(name, evidence.NOVA, service.get('updated_at'),
                                   seen=compute.updated(service))
            else:
                self._monitor.withdraw(name, evidence.NOVA)

    def _count(self) -> None:
        try:
            count = self._store.host_count()
            hosts = [host.shown for host in self._store.notable_hosts()]
            active = self._store.active_states()
            known_sentinels, known_voices = self._store.sentinels(), self._store.voices()
        except exception.EngineError:
            return
        hosts += [model.TRUSTED] * (count - len(hosts))
        self._metrics.hosts.set(collections.Counter(hosts))
        self._metrics.sentinels.set(known_sentinels)
        self._metrics.voices.set(known_voices)
        self._metrics.active.set(active)
        self._metrics.backups.set(active.get(model.RACING, 0))
        with contextlib.suppress(exception.EngineError):
            self._metrics.modes.set(collections.Counter(
                self._modes.of(name) for name in self._monitor.names()))

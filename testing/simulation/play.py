# SPDX-License-Identifier: Apache-2.0
"""One simulation: a schedule is played, and invariants are checked all the time."""

import dataclasses
import functools
import gc
import logging
import math
from typing import Any

from specreds_nova.beats import listening
from testing.simulation import broker as brokers
from testing.simulation import concurrency
from testing.simulation import faults as all_faults
from testing.simulation import forgotten
from testing.simulation import hub as hubs
from testing.simulation import invariants
from testing.simulation import process as processes
from testing.simulation import schedule as schedules
from testing.simulation import settings
from testing.simulation import voices
from testing.simulation import wire as wires
from testing.simulation import world as worlds

# Seconds between two beats of a host, and between two echoes of an engine.
_BEAT, _ECHO = 1.0, 0.5
# Seconds after the last fault within which everything has to be settled, and for how long.
BOUND, _SETTLED = 420.0, 4.0
_OPTIONS: dict[str, Any] = {
    'adopt_patience': 3.0, 'abort_timeout': 10.0, 'adopt_timeout': 200.0,
    'evacuate_timeout': 120.0, 'goodbye_grace_system': worlds.GRACE, 'metrics_port': 0}
_MAX_ERRORS = 6
_LINK = listening.Settings(echo=_ECHO, pause=1.5, outage=2.0, settle=3.0)
_LOGGER = logging.getLogger('specreds_nova')


@functools.cache
def _defaults() -> dict[str, Any]:
    values: dict[str, Any] = vars(settings.options(**_OPTIONS))
    return values


@dataclasses.dataclass
class Result:
    """The end of a simulation.

    :ivar wrong: the violations; none if all is well
    :ivar timeline: time and text of what happened, if that was asked for
    :ivar outcomes: outcomes of the recoveries of each server
    :ivar seconds: simulated time that it took
    """

    seed: int
    wrong: list[str]
    timeline: list[tuple[float, str]]
    outcomes: dict[str, list[str]]
    seconds: float

    @property
    def kind(self) -> str:
        """The first violation without its names and numbers, to compare failures with."""
        return invariants.kind(self.wrong[0]) if self.wrong else ''


class _Log(logging.Handler):
    """Collects what engines log: errors that nobody expected are violations."""

    def __init__(self, hub: hubs.Hub, timeline: list[tuple[float, str]] | None) -> None:
        super().__init__()
        self._hub = hub
        self._timeline = timeline
        self.unexpected: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record."""
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            self.unexpected.append(
                f'unexpected error: {record.getMessage()}: {type(error).__name__}: {error}')
        if self._timeline is not None:
            self._timeline.append((self._hub.now(),
                                   f'{self._hub.owner:6} {record.getMessage()}'))


class Play:
    """One simulation.

    :param show: keep a timeline
    """

    def __init__(self, schedule: schedules.Schedule, *, show: bool = False) -> None:
        self._schedule = schedule
        self._timeline: list[tuple[float, str]] | None = [] if show else None
        self._hub = hubs.Hub(schedule.seed)
        concurrency.use(self._hub)
        options: Any = settings.Options(
            {**_defaults(), 'max_errors': _MAX_ERRORS, **schedule.options})
        world = worlds.World(self._hub, options.sentinel_network_lease)
        world.second_opinion = schedule.second_opinion
        world.reports = schedule.second_opinion or any(
            fault.kind in ('mode', schedules.SENTINEL) for fault in schedule.faults)
        world.evacuate_after = options.evacuate_after
        world.places = {host: (f'availability zone {zone}',)
                        for host, zone in schedule.zones.items()}
        broker = brokers.Broker(self._hub, world, schedule.nodes, _BEAT, _ECHO)
        network = voices.Network(self._hub, world, broker.cut, on=schedule.voices)
        self._cloud = processes.Cloud(self._hub, world, broker, wires.Services(), options,
                                      _LINK, schedule.clocks, network)
        self._log = _Log(self._hub, self._timeline)
        self._engines = self._cloud.engines
        self._count = 0
        self._quiet_since: float | None = None
        self._over = False
        self._left: list[str] = []

    def run(self) -> Result:
        """Play the schedule to its end."""
        _LOGGER.handlers, _LOGGER.propagate = [self._log], False
        _LOGGER.setLevel(logging.INFO if self._timeline is not None else logging.ERROR)
        collecting = gc.isenabled()
        gc.disable()
        try:
            with processes.simulated():
                self._begin()
                self._hub.run(max([schedules.END, *(
                    fault.at + fault.lasts for fault in self._schedule.faults
                    if math.isfinite(fault.lasts))]) + BOUND, self._ends)
                result = self._result()
                self._hub.close()
        finally:
            if collecting:
                gc.enable()
        return result

    def _ends(self) -> bool:
        return self._over or bool(self._hub.failures) or bool(self._log.unexpected)

    def _begin(self) -> None:
        schedule, cloud = self._schedule, self._cloud
        for name in schedule.hosts:
            cloud.world.add_host(name, rate=schedule.rates.get(name, 1.0))
            cloud.broker.add_host(name)
            cloud.network.add_host(name)
        for name, (host, period, boot) in schedule.servers.items():
            cloud.world.add_server(name, host, period=period, boot=boot,
                                   frame=schedule.frames.get(name, -1.0))
            cloud.world.servers[name].metadata.update(schedule.metadata.get(name, {}))
        for name in schedule.engines:
            self._start_engine(name)
        faults = all_faults.Faults(cloud, self._engines, self._start_engine)
        for fault in schedule.faults:
            self._hub.call(fault.at, functools.partial(self._do, faults.begin, fault, ''))
            if math.isfinite(fault.lasts):
                self._hub.call(fault.at + fault.lasts,
                               functools.partial(self._do, faults.end, fault, 'end of '))
        self._hub.call(1.0, self._look)

    def _do(self, act: Any, fault: schedules.Fault, words: str) -> None:
        if self._timeline is not None:
            self._timeline.append((self._hub.now(), f'*****  {words}{fault.kind} {fault.target} '
                                                    f'{fault.detail}'))
        act(fault)

    def _start_engine(self, name: str) -> None:
        before = self._engines.get(name)
        if before is not None and self._hub.alive(before.owner):
            return
        self._count += 1
        process = processes.Process(name, self._count, self._cloud)
        self._engines[name] = process
        process.start()

    def _look(self) -> None:
        """Check the invariants, and whether everything is settled."""
        for process in self._engines.values():
            if process.engine is not None and process.engine.failed.is_set():
                process.kill()
                self._start_engine(process.name)
            elif crowded := process.crowded():
                self._cloud.world.fail(crowded)
        if not any(process.listens() for process in self._engines.values()):
            self._cloud.world.unheard = self._hub.now()
        self._cloud.truth.look()
        self._cloud.forgotten.look()
        now = self._hub.now() - hubs.START
        last = max((fault.at + (fault.lasts if math.isfinite(fault.lasts) else forgotten.BOUND)
                    for fault in self._schedule.faults), default=0.0)
        if now > last + 5.0:
            self._left = invariants.unsettled(
                self._cloud, self._engines.values(), self._schedule.endless)
            if self._left:
                self._quiet_since = None
            elif self._quiet_since is None:
                self._quiet_since = now
            elif now - self._quiet_since >= _SETTLED:
                self._over = True
        self._hub.call(1.0 if now < 150.0 else 5.0, self._look)

    def _result(self) -> Result:
        wrong = [str(failure) or repr(failure) for failure in self._hub.failures]
        wrong += self._log.unexpected
        if not wrong and not self._over:
            wrong = self._left or ['nothing is left, but the simulation did not end']
        outcomes: dict[str, list[str]] = {}
        for recovery in self._cloud.store.history.values():
            outcomes.setdefault(recovery.server, []).append(
                recovery.outcome or recovery.state)
        return Result(self._schedule.seed, wrong, self._timeline or [], outcomes,
                      self._hub.now() - hubs.START)


def play(schedule: schedules.Schedule, *, show: bool = False) -> Result:
    """Play a schedule."""
    return Play(schedule, show=show).run()


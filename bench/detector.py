# SPDX-License-Identifier: Apache-2.0
"""Measure how soon a dead host is suspected, how often a living one, and what 1,000 hosts cost.

The first two are simulated. Beats are held up on their way, and hosts pause, by distributions with
heavy tails:

*even*
    delays of 2 ms in the median and 20 ms in one of a hundred; a host pauses 20 times a day for
    50 ms or more (Pareto, α = 1.5: 1 in 90 of them for longer than a second), and loses 1 beat
    in 100,000.
*loaded*
    The same, but it pauses 200 times a day, and loses 1 beat in 10,000.
*overloaded*
    Delays of 20 ms and 200 ms; it pauses 3,000 times a day, and loses 1 beat in 500.

No detector that suspects a dead host within a second can tell it from one that pauses for longer.

What a thousand hosts cost is measured with beats of simulated hosts at their real rate, sent
through a RabbitMQ if there is one.
"""

import dataclasses
import gc
import multiprocessing
import time
from typing import Any

import numpy
from oslo_config import cfg
import oslo_messaging as messaging

from bench import amqp_frames
from bench import clock as clocks
from bench import progress
from bench import stats
from bench.scale import voices
from specreds_nova.beats import frames
from specreds_nova.beats import listener
from specreds_nova.beats import message
from specreds_nova.beats import rabbit
from specreds_nova.engine import main
from specreds_nova.engine.clients import clock as engine_clocks
from specreds_nova.engine.suspicion import accrual
from specreds_nova.engine.suspicion import conf as options
from specreds_nova.engine.suspicion import monitor as monitors
from specreds_nova.engine.suspicion import watcher

HOSTS = 1000
INTERVAL = 0.2
_RATE = HOSTS / INTERVAL
_ECHO = 0.1
_TICK = 0.05
_DAY = 86400.0
# Seconds that the engine settles at its start, and in which it learns the rhythm of its hosts.
_SETTLE = 6.0
# Of measuring with a broker.
_WARM_UP = 8.0
_SLICE = 0.01
# Among the numbers of hosts.
_IS_ECHO, _IS_TICK = -1, -2
# Of a connection to a broker; bytes of the names in the frame that announces a message.
_CHANNEL, _NAMES = 1, 60


@dataclasses.dataclass(frozen=True)
class Profile:
    """Distributions of the beats of hosts.

    :ivar delay: of a beat on its way, in seconds: the median
    :ivar spread: of its logarithm
    :ivar pauses: of a host, per day
    :ivar lost: share of the beats
    """

    name: str
    delay: float
    spread: float
    pauses: float
    lost: float

    def arrivals(self, chance: numpy.random.Generator, count: int) -> Any:
        """Return the times at which beats are heard, in order, in seconds from the first one."""
        rate = self.pauses * INTERVAL / _DAY
        pauses = numpy.where(chance.random(count) < rate, self._pause(chance, count), 0.0)
        due = numpy.arange(count) * INTERVAL
        # The sender skips the beats that were due meanwhile.
        awake = numpy.maximum.accumulate(due + pauses)
        sent = awake[(awake == due + pauses) | (due >= awake)]
        heard = sent + self.delay * chance.lognormal(0.0, self.spread, sent.size)
        kept = heard[chance.random(sent.size) >= self.lost]
        # A connection keeps their order.
        return numpy.maximum.accumulate(kept)

    def _pause(self, chance: numpy.random.Generator, count: int) -> Any:
        return numpy.minimum(0.05 * (1.0 + chance.pareto(1.5, count)), 60.0)


EVEN = Profile('even', 0.002, 1.0, 20.0, 0.00001)
LOADED = Profile('loaded', 0.002, 1.0, 200.0, 0.0001)
OVERLOADED = Profile('overloaded', 0.02, 1.0, 3000.0, 0.002)


class _Witness(watcher.Watcher):
    """Records when hosts were first suspected."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self.at: dict[str, float] = {}

    def suspected(self, host: str, why: Any) -> None:
        """Record the first suspicion of a host."""
        del why
        self.at.setdefault(host, self._clock.now())

    def appeared(self, host: str, kernel: str) -> None:
        """Ignore it."""

    def doubted(self, host: str) -> None:
        """Ignore it."""

    def left(self, host: str, goodbye: str | None, at: float | None) -> None:
        """Ignore it."""

    def cleared(self, host: str) -> None:
        """Forget a suspicion that was wrong."""
        self.at.pop(host, None)

    def crashed(self, host: str, server: str, why: Any) -> None:
        """Ignore it."""

    def booted(self, host: str, kernel: str) -> None:
        """Ignore it."""


def time_to_suspicion(profile: Profile, count: int, seed: int = 1) -> list[float]:
    """Seconds from the death of a host to its suspicion, as one monitor sees many of them.

    :param count: how many hosts die
    """
    chance = numpy.random.default_rng(seed)
    clock = clocks.SimulatedClock()
    witness = _Witness(clock)
    monitor = monitors.Monitor(clock, witness)
    deaths = _SETTLE + 20.0 + 20.0 * chance.random(count)
    heard, hosts = [], []
    for number in range(count):
        times = INTERVAL * chance.random() + profile.arrivals(chance, 300)
        times = times[times < deaths[number]]
        heard.append(times)
        hosts.append(numpy.full(times.size, number))
    end = float(deaths.max()) + 6.0
    for kind, step in ((_IS_ECHO, _ECHO), (_IS_TICK, _TICK)):
        times = chance.random() * step + numpy.arange(0.0, end, step)
        heard.append(times)
        hosts.append(numpy.full(times.size, kind))
    when, who = numpy.concatenate(heard), numpy.concatenate(hosts)
    numbers = [0] * count
    for index in numpy.argsort(when, kind='stable'):
        clock.time, host = float(when[index]), int(who[index])
        if host == _IS_ECHO:
            monitor.echo(clock.time)
        elif host == _IS_TICK:
            monitor.tick()
        else:
            monitor.heard(message.Beat(str(host), 'b', numbers[host], INTERVAL))
            numbers[host] += 1
    return [witness.at[str(number)] - float(deaths[number]) for number in range(count)]


@dataclasses.dataclass(frozen=True)
class Wrong:
    """How often hosts that live were suspected, per host and day.

    :ivar adaptive: by the detector
    :ivar fixed: by a timeout that never changes, as long as the detector's with an even host
    """

    adaptive: float
    fixed: float


def wrong_suspicions(profile: Profile, days: float, seed: int = 2) -> Wrong:
    """Count wrong suspicions of living hosts.

    :param days: simulated host-days
    """
    chance = numpy.random.default_rng(seed)
    beats_per_day = round(_DAY / INTERVAL)
    settings = accrual.Settings()
    adaptive = fixed = 0
    # In pieces: a day of beats, and its random numbers, fit into memory.
    for day in range(round(days)):
        del day
        arrivals = profile.arrivals(chance, beats_per_day).tolist()
        detector = accrual.Accrual(settings, arrivals[0], INTERVAL)
        timeout = detector.deadline - detector.last
        for moment in arrivals[1:]:
            adaptive += moment >= detector.deadline
            fixed += moment >= detector.last + timeout
            detector.heard(moment, INTERVAL)
    return Wrong(adaptive / days, fixed / days)


def judging(seconds: float) -> float:
    """Share of a core that the monitor takes of 1,000 hosts, without how it hears of them."""
    clock = clocks.SimulatedClock()
    monitor = monitors.Monitor(clock, _Witness(clock))
    rounds = round(seconds / INTERVAL)
    spent = 0.0
    for number in range(rounds):
        beats = [message.Beat(f'cn{host}', 'b', number, INTERVAL, 0.3, 0.2)
                 for host in range(HOSTS)]
        began = time.process_time()
        for index, beat in enumerate(beats):
            clock.time = number * INTERVAL + index * INTERVAL / HOSTS
            monitor.heard(beat)
            if index % round(HOSTS * _TICK / INTERVAL) == 0:
                monitor.tick()
            if index % round(HOSTS * _ECHO / INTERVAL) == 0:
                monitor.echo(clock.time)
        spent += time.process_time() - began
    return spent / seconds


def reading(seconds: float, hosts: int = HOSTS) -> float:
    """Share of a core that it takes to make beats of what a broker sends, and to judge them."""
    before = gc.get_threshold()
    main.collect_rarely()
    try:
        return _reading(seconds, hosts)
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


def _reading(seconds: float, hosts: int) -> float:
    clock = clocks.SimulatedClock()
    monitor = monitors.Monitor(clock, _Witness(clock))
    ears, split = listener.Ears('e', monitor), frames.Frames()
    rounds, together = round(seconds / INTERVAL), round(hosts * listener.COLLECT / INTERVAL)
    spent = 0.0
    for number in range(rounds):
        received = [b''.join(_delivered(_body(host, number))
                             for host in range(first, min(first + together, hosts)))
                    for first in range(0, hosts, together)]
        began = time.process_time()
        for turn, piece in enumerate(received):
            clock.time = number * INTERVAL + turn * together * INTERVAL / hosts
            ears.hear(split.bodies(piece))
            for due, act in ((_TICK, monitor.tick), (_ECHO, lambda: monitor.echo(clock.time))):
                if clock.time % due < listener.COLLECT:
                    act()
        spent += time.process_time() - began
    return spent / seconds


def hearing(url: str, seconds: float) -> tuple[float, float]:
    """Share of a core that it takes to hear 1,000 hosts through a broker, and to judge them.

    :param url: transport URL of a RabbitMQ
    :return: the share, as if all had been heard, and how many messages per second were
    """
    conf = cfg.CONF
    conf([], default_config_files=[])
    conf.register_opts(options.OPTIONS, 'engine')
    # Makes the option known.
    messaging.TransportURL.parse(conf, url)
    messaging.get_rpc_transport(conf, url).cleanup()
    conf.set_override('transport_url', url)
    wall = engine_clocks.Clock()
    monitor = monitors.Monitor(wall, _Witness(wall))
    heard = listener.of(conf, 'bench', monitor)
    load = multiprocessing.get_context('spawn').Process(
        target=_load, args=(url, _WARM_UP + seconds + 5.0), daemon=True)
    heard.start()
    load.start()
    try:
        _tick(monitor, _WARM_UP)
        before = _total(monitor)
        cpu, began = time.process_time(), time.monotonic()
        _tick(monitor, seconds)
        spent, took = time.process_time() - cpu, time.monotonic() - began
        rate = (_total(monitor) - before) / took
    finally:
        load.kill()
        load.join()
        heard.stop()
        conf.clear_override('transport_url')
    if not rate:
        raise RuntimeError('nothing of what was sent through the broker was heard')
    return spent / took * _RATE / rate, rate


def run(tell: progress.Progress, url: str | None = None, quick: bool = False
        ) -> dict[str, float]:
    """Measure, and return the figures by their keys.

    :param url: transport URL of a RabbitMQ; None leaves out what needs one
    """
    tell.section('detector', 8 if url else 7)
    figures: dict[str, float] = {}
    for profile in (EVEN, LOADED, OVERLOADED):
        suffix = '' if profile is EVEN else f'_{profile.name}'
        tell.step(f'hosts that die, {profile.name}')
        times = time_to_suspicion(profile, 1000 if quick else 3000)
        figures |= stats.summary(times).entries(f'detector.suspicion_s{suffix}')
        figures[f'detector.suspicion_s{suffix}.p99'] = float(numpy.percentile(times, 99))
        figures[f'detector.suspicion_s{suffix}.max'] = max(times)
        tell.say(f'suspected after {figures[f"detector.suspicion_s{suffix}"]:.2f} s, 99 % within '
                 f'{figures[f"detector.suspicion_s{suffix}.p99"]:.2f} s, all within '
                 f'{max(times):.2f} s')
        days = 10 if quick else 50
        tell.step(f'{days} days of hosts that live, {profile.name}')
        wrong = wrong_suspicions(profile, days)
        figures[f'detector.false_per_host_day{suffix}'] = wrong.adaptive
        figures[f'detector.false_per_host_day{suffix}.fixed_timeout'] = wrong.fixed
        tell.say(f'{wrong.adaptive:.2f} wrong suspicions per host and day; {wrong.fixed:.2f} by a '
                 f'timeout that does not adapt')
    seconds = 5.0 if quick else 20.0
    tell.step('1,000 hosts, judged')
    figures['scale.thousand_hosts_cpu.judging'] = judging(seconds)
    figures['scale.thousand_hosts_cpu.reading'] = reading(seconds)
    figures['scale.thousand_hosts_cpu'] = figures['scale.thousand_hosts_cpu.reading']
    if url:
        tell.step('1,000 hosts, heard through RabbitMQ')
        share, rate = hearing(url, 2 * seconds)
        figures['scale.thousand_hosts_cpu'] = share
        figures['scale.thousand_hosts_cpu.messages_per_s'] = rate
    tell.say(_limits(figures, bool(url)))
    tell.step('10,000 sentinels, heard by UDP')
    figures |= voices.run()
    tell.say(f'10,000 sentinels take {figures["scale.voices.cores"]:.2f} cores, '
             f'{figures["scale.voices.us_per_beat"]:.1f} µs for each beat')
    return figures


def _limits(figures: dict[str, float], bus: bool) -> str:
    """Report which parts take most of the time."""
    whole = figures['scale.thousand_hosts_cpu']
    judged = figures['scale.thousand_hosts_cpu.judging']
    read = figures['scale.thousand_hosts_cpu.reading']
    received = f', {whole - read:.1%} to receive them from RabbitMQ' if bus else ''
    return (f'1,000 hosts take {whole:.1%} of a core: {judged:.1%} to judge them, '
            f'{read - judged:.1%} to make beats of JSON{received}')


def _body(host: int, number: int) -> bytes:
    """A beat as oslo.messaging puts it on the bus."""
    beat = message.Beat(f'cn{host}', f'{host:016x}', number, INTERVAL, 0.312, 0.207,
                      kernel=f'{host:036x}', running=f'{host:016x}')
    return message.wrap('beat', {'beat': message.encode(beat)})


def _delivered(body: bytes) -> bytes:
    """Return a message as the frames in which a broker sends it."""
    # Names of consumer, exchange and key, and the number of the message.
    return (amqp_frames.method(_CHANNEL, amqp_frames.DELIVER, bytes(_NAMES))
            + amqp_frames.content(_CHANNEL, body))


def _tick(monitor: monitors.Monitor, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        monitor.echo(time.time())
        monitor.tick()
        time.sleep(_TICK)


def _total(monitor: monitors.Monitor) -> int:
    """How many beats of all hosts were heard."""
    numbers = (monitor.number(f'cn{host}') for host in range(HOSTS))
    return sum(number + 1 for number in numbers if number is not None)


def _load(url: str, seconds: float) -> None:
    """Send the beats of all hosts, evenly, in a process of its own."""
    parsed = messaging.TransportURL.parse(cfg.CONF, url)
    messaging.get_rpc_transport(cfg.CONF, url).cleanup()
    with rabbit.Brokers(cfg.CONF, parsed).connected() as connection:
        _publish(connection.default_channel, seconds)


def _publish(channel: Any, seconds: float) -> None:
    began, sent = time.monotonic(), 0
    while (passed := time.monotonic() - began) < seconds:
        while sent < passed * _RATE:
            channel.basic_publish(channel.prepare_message(_body(sent % HOSTS, sent // HOSTS)),
                                  exchange=rabbit.EXCHANGE)
            sent += 1
        time.sleep(_SLICE)

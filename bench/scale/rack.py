# SPDX-License-Identifier: Apache-2.0
"""Measure the failure of a rack: 40 of 10,000 hosts with 100 servers each fail at once.

A real engine runs with a RabbitMQ and a MariaDB. Two other processes simulate the cloud:
one answers for Keystone, Nova, Placement and Cinder, each with the latencies of the real service
without load, and with a few workers; the other one simulates the hosts.
"""

from collections.abc import Callable, Mapping
import time
from typing import Any

import requests

from bench import detector
from bench import options
from bench import progress
from bench import stats
from bench.scale import engine
from bench.scale import mix
from bench.scale import process
from bench.scale import takeover
from bench.scale.simulated import inventory as inventories
from cloud import commands

NAME = options.SCALE
_HOSTS, _DEAD, _SERVERS = 10_000, 40, 100
_QUICK_DEAD, _QUICK_SERVERS = 4, 25
# Seconds between two beats of a host by default, and on a machine that runs all hosts.
_DEFAULT_INTERVAL, _INTERVAL = 0.2, 1.0
# Longest duration of the benchmark, of which a part that does not end leaves its own figures out,
# and pause between two looks, in seconds.
_LONGEST, _PAUSE = 840.0, 0.5
# Seconds in which the engine learns the rhythm of its hosts, and in which they only beat.
_WARM_UP, _BEATS, _QUICK_BEATS = 15.0, 30.0, 10.0
# Seconds of beats whose messages are read without a broker.
_READING = 2.0
_BEATING = f'{NAME}.ten_thousand_hosts.cpu'
_FAILURES = (commands.CloudError, OSError, ValueError, requests.RequestException)


def run(tell: progress.Progress, quick: bool, port: int,
        keep: Callable[[dict[str, float]], None] = lambda figures: None) -> dict[str, float]:
    """Measure, and return the figures by their keys.

    A part that fails is named, and the others are measured.

    :param keep: called with all figures after each part
    """
    until = time.monotonic() + _LONGEST
    dead, servers = (_QUICK_DEAD, _QUICK_SERVERS) if quick else (_DEAD, _SERVERS)
    tell.section(NAME, 4 if quick else 5)
    figures: dict[str, float] = {}

    def part(text: str, measure: Callable[[], dict[str, float]]) -> None:
        tell.step(text)
        try:
            figures.update(measure())
        except _FAILURES as exc:
            tell.say(f'not measured: {text}: {exc}')
        keep(figures)

    part('60 servers of one simulated host', engine.run)
    part('an engine that is killed, and one that takes over its recoveries',
         lambda: stats.summary(takeover.run(quick)).entries(f'{NAME}.takeover_s'))
    inventory = inventories.Inventory(_HOSTS - dead, dead, servers)
    try:
        with process.stage(inventory, _INTERVAL, port) as stage:
            time.sleep(_WARM_UP)
            part(f'{_HOSTS:,} hosts that beat',
                 lambda: hear(stage, _QUICK_BEATS if quick else _BEATS))
            part(f'{dead} of {_HOSTS:,} hosts with {servers} servers each',
                 lambda: fail(stage, until, tell.say, figures.get(_BEATING, 0.0)))
    except _FAILURES as exc:
        tell.say(f'not measured: hosts that beat, and hosts that fail: {exc}')
    if not quick:
        part('short recoveries beside long ones, by order', lambda: mix.run(port))
    return figures


def hear(stage: process.Stage, seconds: float) -> dict[str, float]:
    """Return the processor time that the engine uses for the beats of all hosts."""
    cpu, beats, began = stage.engine.cpu, stage.engine.beats(), time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    cpu, rate = (stage.engine.cpu - cpu) / took, (stage.engine.beats() - beats) / took
    if not rate:
        raise commands.CloudError('the engine hears no host')
    hosts = len(stage.inventory.all_hosts)
    message = detector.reading(_READING, hosts) * _DEFAULT_INTERVAL / hosts
    return {_BEATING: round(cpu, 3),
            f'{NAME}.ten_thousand_hosts.messages_per_s': round(rate, 1),
            f'{NAME}.ten_thousand_hosts_cpu': round(
                cpu + message * (hosts / _DEFAULT_INTERVAL - rate), 3)}


def fail(stage: process.Stage, until: float, say: Callable[[str], None], beating: float = 0.0
         ) -> dict[str, float]:
    """Let hosts die, and return how their servers are recovered.

    The figures of what has not ended in time are left out, and named.

    :param until: end of the time, as :func:`time.monotonic` measures it
    :param beating: share of a core that the beats of all hosts take
    """
    count = stage.inventory.dead * stage.inventory.servers
    counts = stage.counts()
    cpu, began = stage.engine.cpu, stage.hosts.say('die')['now']
    figures: dict[str, float] = {}
    report: dict[str, Any] = {}

    def all_are(word: str) -> bool:
        report.update(stage.hosts.say('report'))
        return bool(report[word] == count)

    if _wait(lambda: all_are('started'), until):
        figures[f'{NAME}.rack.started_cpu_s'] = round(stage.engine.cpu - cpu, 2)
        figures[f'{NAME}.rack.last_started_s'] = round(report['last_started'] - began, 2)
    if _wait(lambda: all_are('served'), until):
        figures[f'{NAME}.rack.cpu_s'] = round(stage.engine.cpu - cpu, 2)
        figures[f'{NAME}.rack.last_served_s'] = round(report['last_served'] - began, 2)
    if report['served']:
        spent = stage.engine.cpu - cpu - beating * (time.monotonic() - began)
        figures[f'{NAME}.rack.recovery_cpu_ms'] = round(1000 * spent / report['served'], 2)
    if _wait(lambda: not stage.store.active(), until):
        took = time.monotonic() - began
        figures[f'{NAME}.rack.last_ended_s'] = round(took, 2)
        figures[f'{NAME}.rack.ended_cpu_ms'] = round(
            1000 * (stage.engine.cpu - cpu - beating * took) / count, 2)
        for name, number in stage.counts().items():
            figures[f'{NAME}.rack.recovery_{name}'] = round((number - counts[name]) / count, 1)
    else:
        say(f'of {count} servers {report["started"]} have started, {report["served"]} serve, and '
            f'{len(stage.store.active())} recoveries have not ended after '
            f'{time.monotonic() - began:.0f} s')
    if report['served'] < count:
        for host, servers in stage.hosts.say('unserved').items():
            say(f'{len(servers)} servers of {host} are not served, such as {servers[0]}; the '
                f'engine has {host} as {stage.store.host(host).shown}')
    stage.engine.stop()
    return figures | {f'{NAME}.rack.servers': count,
                      f'{NAME}.rack.started': report['started'],
                      f'{NAME}.rack.served': report['served'],
                      f'{NAME}.rack.threads': stage.engine.threads,
                      f'{NAME}.memory_mib': round(stage.engine.memory, 1)}


def unserved(figures: Mapping[str, Any]) -> int:
    """Return how many servers of the rack are not served in the end."""
    return int(figures.get(f'{NAME}.rack.servers', 0) - figures.get(f'{NAME}.rack.served', 0))


def _wait(condition: Callable[[], bool], until: float) -> bool:
    """Wait for a condition, and return whether it came true in time."""
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(_PAUSE)
    return True

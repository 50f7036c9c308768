# SPDX-License-Identifier: Apache-2.0
"""Measure the failure of a rack: 40 of 10,000 hosts with 100 servers each fail at once.

A real engine runs with a RabbitMQ, a MariaDB and an etcd. Two other processes simulate the cloud:
one answers for Keystone, Nova, Placement and Cinder, with the latencies of real services without
load; the other one simulates the hosts.
"""

from collections.abc import Callable
import time
from typing import Any

from bench import detector
from bench import progress
from bench import stats
from bench.scale import engine
from bench.scale import process
from bench.scale import takeover
from bench.scale.simulated import inventory as inventories
from cloud import commands

NAME = 'scale'
_HOSTS, _DEAD, _SERVERS = 10_000, 40, 100
_QUICK_DEAD, _QUICK_SERVERS = 4, 25
# Seconds between two beats of a host by default, and on a machine that runs all hosts.
_DEFAULT_INTERVAL, _INTERVAL = 0.2, 1.0
# Longest duration of a part, and pause between two looks, in seconds.
_TIMEOUT, _PAUSE = 900.0, 0.5
# Seconds in which the engine learns the rhythm of its hosts, and in which they only beat.
_WARM_UP, _BEATS, _QUICK_BEATS = 15.0, 30.0, 10.0
# Seconds of beats whose messages are read without a broker.
_READING = 2.0


def run(tell: progress.Progress, quick: bool, port: int) -> dict[str, float]:
    """Measure, and return the figures by their keys."""
    dead, servers = (_QUICK_DEAD, _QUICK_SERVERS) if quick else (_DEAD, _SERVERS)
    tell.section(NAME, 4)
    tell.step('60 servers of one simulated host')
    figures = engine.run()
    tell.step('an engine that is killed, and one that takes over its recoveries')
    figures |= stats.summary(takeover.run(quick)).entries(f'{NAME}.takeover_s')
    inventory = inventories.Inventory(_HOSTS - dead, dead, servers)
    with process.stage(inventory, _INTERVAL, port) as stage:
        tell.step(f'{_HOSTS:,} hosts that beat')
        time.sleep(_WARM_UP)
        figures |= hear(stage, _QUICK_BEATS if quick else _BEATS)
        tell.step(f'{dead} of {_HOSTS:,} hosts with {servers} servers each')
        figures |= fail(stage)
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
    return {f'{NAME}.ten_thousand_hosts.cpu': round(cpu, 3),
            f'{NAME}.ten_thousand_hosts.messages_per_s': round(rate, 1),
            f'{NAME}.ten_thousand_hosts_cpu': round(
                cpu + message * (hosts / _DEFAULT_INTERVAL - rate), 3)}


def fail(stage: process.Stage) -> dict[str, float]:
    """Let hosts die, and return how their servers are recovered."""
    count = stage.inventory.dead * stage.inventory.servers
    cpu, began = stage.engine.cpu, stage.hosts.say('die')['now']

    def report() -> dict[str, Any]:
        return stage.hosts.say('report')

    _wait(lambda: report()['started'] == count, report, count)
    started = stage.engine.cpu - cpu
    _wait(lambda: report()['served'] == count, report, count)
    served, spent = report(), stage.engine.cpu - cpu
    _wait(lambda: not stage.store.active(), report, count)
    ended = time.monotonic() - began
    stage.engine.stop()
    return {f'{NAME}.rack.last_started_s': round(served['last_started'] - began, 2),
            f'{NAME}.rack.last_served_s': round(served['last_served'] - began, 2),
            f'{NAME}.rack.last_ended_s': round(ended, 2),
            f'{NAME}.rack.started_cpu_s': round(started, 2),
            f'{NAME}.rack.cpu_s': round(spent, 2),
            f'{NAME}.rack.threads': stage.engine.threads,
            f'{NAME}.memory_mib': round(stage.engine.memory, 1)}


def _wait(condition: Callable[[], bool], report: Callable[[], dict[str, Any]], count: int) -> None:
    until = time.monotonic() + _TIMEOUT
    while not condition():
        if time.monotonic() > until:
            raise commands.CloudError(
                f'of {count} servers {report()["served"]} serve after {_TIMEOUT:g} s')
        time.sleep(_PAUSE)

# SPDX-License-Identifier: Apache-2.0
"""Measure a rack that fails: 40 of 10,000 hosts with 100 servers each, at one moment.

The engine's dispatcher, board, conductor and fibers are real, and so are MariaDB and etcd. Nova,
Placement, Cinder and the hosts are simulated in the same process, with the latencies of the real
ones without load, until each server has been merged.
"""

from collections.abc import Collection, Mapping, Sequence
import random
import resource
import threading
import time
from typing import Any
import uuid

from bench import detector
from bench import progress
from bench import scale
from bench import stats
from bench import takeover
from cloud import commands
from specreds_nova.engine import model
from specreds_nova.engine.recovery import dispatch

NAME = 'scale'
_HOSTS, _DEAD, _SERVERS = 10_000, 40, 100
_QUICK_DEAD, _QUICK_SERVERS = 4, 25
# Seconds from the start of a guest until its backup is ready.
_READY = 5.0
# Candidates of Placement in one answer.
_CANDIDATES = 1000
# Longest duration of the whole benchmark, and pause between two looks, in seconds.
_TIMEOUT, _PAUSE = 900.0, 0.05
# Seconds for which the beats of all hosts are heard.
_BEATS, _QUICK_BEATS = 4.0, 1.0
_KIB = 1024.0


class Rack(scale.Cloud):
    """A cloud in which many hosts die."""

    def __init__(self, dead: int, servers: int) -> None:
        super().__init__(dead * servers, _HOSTS - dead)
        self._names = [f'host{number}' for number in range(self.hosts)]
        self._by_host: dict[str, list[model.Server]] = {
            f'dead{number}': [self._made(f'dead{number}', place) for place in range(servers)]
            for number in range(dead)}
        self._by_id = {server.id: server for servers in self._by_host.values()
                       for server in servers}
        # By backup: its server, and the time at which it is ready. By server: its new host.
        self._ready: dict[str, float] = {}
        self._moved: dict[str, str] = {}
        # By superposition: its server and its state.
        self._superposed: dict[str, str] = {}
        self._states: dict[str, str | None] = {}
        self.served: dict[str, float] = {}
        self._backup_of: dict[str, str] = {}
        self.threads = 0

    def _made(self, host: str, place: int) -> model.Server:
        return model.Server(
            id=str(uuid.uuid4()), name=f'{host}-{place}', project=f'p{place % 7}', host=host,
            status='ACTIVE', task=None, locked=False, zone='nova',
            flavor={'vcpus': 1, 'ram': 64, 'disk': 0}, volumes=(str(uuid.uuid4()),))

    @property
    def dead(self) -> list[str]:
        """The hosts that die."""
        return list(self._by_host)

    def watch(self) -> None:
        """Note how many threads there are."""
        self.threads = max(self.threads, threading.active_count())

    # Suspects

    def suspected(self, host: str) -> bool:
        """Return whether a host has died."""
        return host in self._by_host

    def is_well(self, host: str) -> bool:
        """Return whether a host lives."""
        return host not in self._by_host

    def healthy(self) -> list[str]:
        """Return the hosts that live."""
        return self._names

    def await_ready(self, host: str, backup: str, seconds: float) -> bool:
        """Wait for the report of a backup that is ready."""
        left = self._ready.get(backup, float('inf')) - time.monotonic()
        self.sleep(max(0.0, min(left, seconds)))
        return left <= seconds

    # Compute

    def servers(self, host: str) -> list[model.Server]:
        """Return the servers of a host."""
        self.takes(scale.LIST)
        return self._by_host[host]

    def server(self, server_id: str) -> model.Server | None:
        """Return a server, on its new host once Nova has evacuated it."""
        self.takes(scale.NOVA)
        server = self._by_id[server_id]
        moved = self._moved.get(server_id)
        return model.Server(**{**vars(server), 'host': moved}) if moved else server

    def candidates(self, server: model.Server, placed: Mapping[str, str] | None = None,
                   avoid: Collection[str] = ()) -> list[str]:
        """Return as many candidates as Placement does, in its random order."""
        self.takes(scale.NOVA)
        first = random.Random(server.id).randrange(len(self._names) - _CANDIDATES)
        return self._names[first:first + _CANDIDATES]

    def force_down(self, host: str, down: bool) -> bool:
        """Force a host down."""
        self.takes(scale.NOVA)
        return True

    def evacuate(self, server_id: str, host: str | None, force: bool) -> None:
        """Evacuate a server to its backup."""
        self.takes(scale.NOVA)
        self._moved[server_id] = str(host)

    # Volumes

    def superpose(self, server: model.Server, recovery_id: str, reason: str) -> str:
        """Superpose the volumes of a server."""
        superposition = super().superpose(server, recovery_id, reason)
        self._superposed[superposition] = server.id
        self._states[superposition] = 'superposed'
        return superposition

    def state(self, superposition_id: str) -> str | None:
        """Return the state of a superposition; None once it is merged."""
        self.takes(scale.NOVA)
        return self._states[superposition_id]

    def collapse(self, superposition_id: str) -> str:
        """Promote the backup."""
        self.takes(scale.SUPER)
        self._states[superposition_id] = 'promoted'
        return 'promoted'

    def written(self, superposition_id: str) -> int | None:
        """Report that the volumes are merged."""
        self.takes(scale.NOVA)
        self._states[superposition_id] = None
        return None

    # Backups

    def start(self, host: str, backup_id: str, server_id: str,
              superposition_id: str) -> Mapping[str, Any]:
        """Start a backup."""
        self.watch()
        status = super().start(host, backup_id, server_id, superposition_id)
        self._backup_of[backup_id] = server_id
        self._ready.setdefault(backup_id, time.monotonic() + _READY)
        return status

    def begin(self, host: str, backup_id: str, server_id: str, superposition_id: str) -> None:
        """Begin to start a backup."""
        super().begin(host, backup_id, server_id, superposition_id)
        self._backup_of[backup_id] = server_id
        self._ready[backup_id] = self._until[backup_id] + _READY

    def status(self, host: str, backup_id: str) -> Mapping[str, Any]:
        """Return whether a backup is ready."""
        ready = time.monotonic() >= self._ready.get(backup_id, float('inf'))
        return {**super().status(host, backup_id), 'ready': ready}

    def harden(self, host: str, backup_id: str) -> Mapping[str, Any]:
        """Harden a backup."""
        self.takes(scale.RPC)
        return {}

    def promote(self, host: str, backup_id: str) -> Mapping[str, Any]:
        """Open the box of a backup."""
        self.takes(scale.RPC)
        self.served[self._backup_of[backup_id]] = time.monotonic()
        return {}

    def release(self, host: str, backup_id: str) -> None:
        """Release the claim of a backup."""
        self.takes(scale.RPC)


def run(tell: progress.Progress, quick: bool) -> dict[str, float]:
    """Measure, and return the figures by their keys."""
    dead, servers = (_QUICK_DEAD, _QUICK_SERVERS) if quick else (_DEAD, _SERVERS)
    tell.section(NAME, 4)
    tell.step('60 servers of one simulated host')
    figures = scale.run()
    tell.step(f'{dead} of {_HOSTS:,} hosts with {servers} servers each')
    figures |= fail(Rack(dead, servers))
    tell.step('an engine that is killed, and one that takes over its recoveries')
    figures |= stats.summary(takeover.run(quick)).entries(f'{NAME}.takeover_s')
    tell.step(f'{_HOSTS:,} hosts that beat, without a broker')
    figures[f'{NAME}.ten_thousand_hosts_cpu'] = round(
        detector.reading(_QUICK_BEATS if quick else _BEATS, _HOSTS), 3)
    figures[f'{NAME}.memory_mib'] = round(
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB, 1)
    return figures


def fail(cloud: Rack) -> dict[str, float]:
    with (scale.services() as (url, port),
          scale.Simulation(cloud, url, port) as simulation):
        cpu, began = time.process_time(), time.monotonic()
        heard = simulation.clock.now()
        results = simulation.dispatcher.suspect_all(
            [dispatch.Suspicion(host, scale.WHY, heard) for host in cloud.dead])
        refused = [result for result in results if result]
        if refused:
            raise commands.CloudError(f'the engine does not act: {refused[0]}')
        last_started = cloud.started(_TIMEOUT) - began
        _wait(lambda: len(cloud.served) == cloud.servers_there, cloud, cloud.served)
        last_served = max(cloud.served.values()) - began
        spent = time.process_time() - cpu
        cloud.watch()
        _wait(lambda: not simulation.store.active(), cloud, cloud.served)
        ended = time.monotonic() - began
    return {f'{NAME}.rack.last_started_s': round(last_started, 2),
            f'{NAME}.rack.last_served_s': round(last_served, 2),
            f'{NAME}.rack.last_ended_s': round(ended, 2),
            f'{NAME}.rack.cpu_s': round(spent, 2),
            f'{NAME}.rack.threads': cloud.threads}


def _wait(condition: Any, cloud: Rack, served: Sequence[Any] | Mapping[str, Any]) -> None:
    until = time.monotonic() + _TIMEOUT
    while not condition():
        if time.monotonic() > until:
            raise commands.CloudError(
                f'{len(served)} of {cloud.servers_there} servers serve after {_TIMEOUT:g} s')
        time.sleep(10 * _PAUSE)

# SPDX-License-Identifier: Apache-2.0
"""What would happen if hosts failed now: order, destinations and seconds. Nothing is begun."""

from collections.abc import Collection, Mapping
import dataclasses
import heapq
import statistics
from typing import Any

from specreds_nova.engine import model
from specreds_nova.engine.placing import judgement
from specreds_nova.engine.placing import kinds
from specreds_nova.engine.placing import order
from specreds_nova.engine.recovery import left
from specreds_nova.engine.recovery import settings
from specreds_nova.engine.store import store as stores
from specreds_nova.engine.suspicion import servers as limits
from specreds_nova.preflight import judging
from specreds_nova.preflight import reading
from specreds_nova.preflight import room

# Ended evacuations whose times are taken.
_EVACUATIONS = 100


@dataclasses.dataclass(frozen=True)
class Forecast:
    """What would become of a server. Seconds count from the suspicion of its host.

    :ivar destination: an estimate; None if no host has room, or if it is not recovered
    :ivar begins: when its backup is started, or when it may be evacuated
    :ivar seconds: when it serves again; None if nothing like it was measured yet
    """

    id: str
    name: str
    project: str
    host: str
    recovery: str
    destination: str | None
    begins: float | None
    seconds: float | None
    reasons: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Measured:
    """What earlier recoveries took.

    :ivar expected: seconds until a backup is ready, by server
    :ivar evacuation: seconds from the suspicion of a host until Nova has evacuated a server
    :ivar evacuate_after: seconds for which a host is suspected before that begins
    """

    expected: Mapping[str, float]
    evacuation: float | None
    evacuate_after: float


def measured(store: stores.Store, servers: Collection[model.Server], evacuate_after: float
             ) -> Measured:
    """Return what earlier recoveries took.

    :raises exception.Unreachable: the database does not answer
    """
    evacuated = [recovery.ended - recovery.suspected for recovery in store.recoveries(
        {'outcome': model.EVACUATED}, _EVACUATIONS) if recovery.ended is not None]
    return Measured(kinds.expected(store, [*servers]),
                    statistics.median(evacuated) if evacuated else None, evacuate_after)


def forecast(cloud: reading.Cloud, judged: Collection[judging.Judged], available: room.Room,
             hosts: Collection[str], known: Measured) -> list[Forecast]:
    """Return what would become of the servers of some hosts that fail together, in order.

    :param available: the room for them
    """
    servers = {server.id: server for server in cloud.servers}
    its = {each.id: each for each in judged if each.host in hosts}
    raced = [recovery.server for recovery in order.ordered(
        (model.Recovery(each.id, each.id, each.name, each.project, each.host, 0.0,
                        priority=order.priority(servers[each.id],
                                                settings.Settings.tenant_priority_max),
                        expected=known.expected.get(each.id))
         for each in its.values() if each.recovery == judgement.SPECULATIVE),
        settings.Settings.tenant_priority_max, 0.0)]
    # Servers that can have no backup wait until their host has been silent for long.
    waiting = sorted((each.id for each in its.values() if each.recovery == judgement.EVACUATED),
                     key=lambda server: its[server].name)
    placed = available.place((servers[server] for server in (*raced, *waiting)), hosts)
    begins = _begins(raced, placed, known.expected, len(available.hosts - {*hosts}))
    shown = []
    for each in (its[server] for server in (*raced, *waiting)):
        if placed[each.id] is None:
            begin = seconds = None
        elif each.recovery == judgement.EVACUATED:
            begin = left.evacuated_after(servers[each.id], known.evacuate_after)
            seconds = known.evacuation
        else:
            begin, took = begins[each.id], known.expected.get(each.id)
            seconds = None if took is None else begin + took
        shown.append(_shown(each, placed[each.id], begin, seconds))
    return shown + [_shown(each) for each in its.values() if each.id not in placed]


def _begins(raced: Collection[str], placed: Mapping[str, str | None],
            expected: Mapping[str, float], healthy: int) -> dict[str, float]:
    """Return when backups are started, as few of them may race at once, in all and on one host."""
    usual = statistics.median(expected.values()) if expected else 0.0
    most = limits.scaled(settings.Settings.max_backups, healthy)
    free = [0.0] * most
    there: dict[str, list[float]] = {}
    begins = {}
    for server in raced:
        host = placed[server]
        if host is None:
            continue
        its = there.setdefault(host, [0.0] * settings.Settings.max_backups_per_host)
        begins[server] = max(heapq.heappop(free), heapq.heappop(its))
        ends = begins[server] + expected.get(server, usual)
        heapq.heappush(free, ends)
        heapq.heappush(its, ends)
    return begins


def _shown(judged: judging.Judged, destination: str | None = None, begins: float | None = None,
           seconds: float | None = None) -> Forecast:
    moved = judged.recovery in judging.MOVED
    return Forecast(
        judged.id, judged.name, judged.project, judged.host, judged.recovery, destination,
        begins, seconds,
        (*judged.reasons, 'no host has room for it') if moved and destination is None
        else judged.reasons)


def data(forecasts: Collection[Forecast]) -> list[dict[str, Any]]:
    """Return forecasts as data."""
    return [dataclasses.asdict(each) for each in forecasts]

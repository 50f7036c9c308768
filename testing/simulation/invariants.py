# SPDX-License-Identifier: Apache-2.0
"""What has to hold when all faults are mended and everything is settled."""

from collections.abc import Iterable, Iterator
import re

from specreds_nova.engine import model
from testing.simulation import cloud as clouds
from testing.simulation import process as processes

# Seconds by which the clocks of engines may differ.
_APART = 5.0
# Phases of a backup that a recovery still needs.
_NEEDED = ('starting', 'running', 'hardened')


def kind(wrong: str) -> str:
    """Return a violation without names and numbers."""
    return re.sub(r'\b[0-9a-f]{8}\b[-0-9a-f]*|\b[hsebh]\d+\b|\d+', '_', wrong)[:80]


def unsettled(cloud: processes.Cloud, engines: Iterable[processes.Process]) -> list[str]:
    """Return what is not as it should be when all faults are mended."""
    return [*processes.unfinished(list(cloud.store.history.values())), *_hosts(cloud),
            *_servers(cloud), *_backups(cloud),
            *(held for engine in engines for held in engine.occupied()),
            *(f'the job of recovery {posted.recovery[:8]} is left'
              for posted in cloud.etcd.jobs.values())]


def _hosts(cloud: processes.Cloud) -> Iterator[str]:
    """Yield the hosts that are not used again."""
    for name, host in cloud.world.hosts.items():
        recorded = cloud.store.host(name)
        if recorded.state != model.TRUSTED:
            yield f'host {name} is back, and still {recorded.state}'
        elif recorded.held:
            yield f'host {name} is still held: {recorded.held}'
        if host.forced_down:
            yield f'host {name} is back, and still forced down in Nova'
        if cloud.world.stale(name):
            yield f'host {name} still runs servers that are elsewhere'


def _servers(cloud: processes.Cloud) -> Iterator[str]:
    """Yield the servers that do not serve, or not where Nova knows them."""
    for server in cloud.world.servers.values():
        if server.stopped_by_owner:
            continue
        if server.task is not None:
            yield f'Nova is still at work on {server.name}: {server.task}'
            continue
        seen = cloud.world.seen(server)
        if len(seen) > 1:
            yield f'{server.name} runs on {" and ".join(seen)}'
        elif seen and seen != [server.host]:
            yield f'{server.name} runs on {seen[0]}, and Nova knows it on {server.host}'
        elif not seen:
            yield from _dead(cloud, server)
        elif server.failed:
            yield f'{server.name}: {server.failed}'


def _dead(cloud: processes.Cloud, server: clouds.Server) -> Iterator[str]:
    """Yield a server that serves nowhere without a reason that its operator knows.

    Whoever reboots a host in good order stops its servers, which is no failure.
    """
    recoveries = [recovery for recovery in cloud.store.history.values()
                  if recovery.server == server.name]
    last = recoveries[-1].outcome if recoveries else None
    rebooted = cloud.world.rebooted.get(server.host)
    if rebooted is not None and all((recovery.ended or rebooted) < rebooted - _APART
                                    for recovery in recoveries):
        return
    if last == model.PRIMARY:
        yield f'{server.name} is dead, and its recovery ended {last}'
    elif last in (model.RECOVERED, model.EVACUATED, model.RESTARTED):
        yield f'{server.name} is dead after it was {last}'
    elif last is None:
        yield f'{server.name} is dead without a recovery'


def _backups(cloud: processes.Cloud) -> Iterator[str]:
    """Yield what recoveries have left in Cinder and on hosts."""
    world = cloud.world
    world.drop_claims()
    for record in world.superpositions.values():
        yield f'{record.id} of {record.server} is still {record.state}'
    for host in world.hosts.values():
        for backup in host.backups.values():
            if backup.runs and backup.phase in _NEEDED:
                yield f'a backup of {backup.server} on {host.name} is still {backup.phase}'
            elif backup.claim and not backup.runs:
                yield f'a backup of {backup.server} on {host.name} keeps its claim'

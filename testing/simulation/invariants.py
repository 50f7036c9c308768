# SPDX-License-Identifier: Apache-2.0
"""What has to hold when all faults are mended and everything is settled."""

from collections.abc import Collection, Iterable, Iterator
import re

from specreds_nova.beats import message
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery.steps import restart
from specreds_nova.engine.suspicion import settings as monitoring
from testing.simulation import broker as brokers
from testing.simulation import parts
from testing.simulation import process as processes
from testing.simulation import world as worlds

# Seconds by which the clocks of engines differ at most.
_APART = 2.5
# What an operator does about a failed recovery, or that it is nothing.
_REMEDY = re.compile('; .*(openstack [a-z]+ |virsh destroy |[Ss]tart |no action is needed)')
# Phases of a backup that a recovery still needs.
_NEEDED = ('starting', 'running', 'hardened')


def kind(wrong: str) -> str:
    """Return a violation without names and numbers."""
    return re.sub(r'\b[0-9a-f]{8}\b[-0-9a-f]*|\b[hsebh]\d+\b|\d+', '_', wrong)[:80]


def unsettled(cloud: processes.Cloud, engines: Iterable[processes.Process],
              endless: Collection[str] = ()) -> list[str]:
    """Return what is not as it should be when all faults are mended that end.

    :param endless: the hosts of faults that never end
    """
    engines = list(engines)
    # An operator has to act, as their errors say: nova-compute of the host of a backup that is
    # promoted, and may serve, never returns.
    left = [recovery for recovery in cloud.store.history.values()
            if recovery.state == model.COMMITTED and recovery.destination in endless
            and 'start nova-compute there' in (recovery.error or '')]
    endless = {*endless, *(recovery.host for recovery in left)}
    servers = {recovery.server for recovery in left}
    return [*processes.unfinished([recovery for recovery in cloud.store.history.values()
                                   if recovery not in left]), *_hosts(cloud, endless),
            *without_remedy(cloud.store.history.values()),
            *_servers(cloud, {engine.owner for engine in engines}, endless, servers),
            *_backups(cloud, endless, servers),
            *(held for engine in engines
              for held in engine.occupied({recovery.id for recovery in left}))]


def without_remedy(recoveries: Iterable[model.Recovery]) -> list[str]:
    """Return the failed recoveries that name neither what helps, nor that nothing has to be done.

    A recovery whose adoption is late has an error, too, before it ends.
    """
    return [f'recovery {recovery.id} does not say what helps: {recovery.error}'
            for recovery in recoveries
            if (recovery.outcome == model.FAILED or (recovery.state == model.COMMITTED
                and recovery.error)) and not runs.is_drill(recovery)
            and not _REMEDY.search(recovery.error or '')]


def _hosts(cloud: processes.Cloud, endless: Collection[str]) -> Iterator[str]:
    """Yield the hosts that are not used again."""
    for name, host in cloud.world.hosts.items():
        if name in endless:
            continue
        recorded = cloud.store.host(name)
        if recorded.state != model.TRUSTED:
            yield f'host {name} is back, and still {recorded.state}'
        elif recorded.held:
            yield f'host {name} is still held: {recorded.held}'
        if host.forced_down:
            yield f'host {name} is back, and still forced down in Nova'
        if cloud.world.stale(name):
            yield f'host {name} still runs servers that are elsewhere'


def _servers(cloud: processes.Cloud, owners: Collection[str], endless: Collection[str],
             left: Collection[str]) -> Iterator[str]:
    """Yield the servers that do not serve, or not where Nova knows them.

    :param owners: the processes of engines
    :param left: the servers that are left to an operator
    """
    for server in cloud.world.servers.values():
        if server.stopped_by_owner or server.name in left:
            continue
        if server.host in endless and not cloud.forgotten.serves(server):
            # Its host never returns.
            since = cloud.forgotten.since(server.name)
            if not cloud.forgotten.reason(server, since):
                yield f'{server.name} is dead on a host that never returns, without a reason'
            continue
        seen = cloud.world.seen(server)
        if server.task is not None:
            yield f'Nova is still at work on {server.name}: {server.task}'
            continue
        if len(seen) > 1:
            yield f'{server.name} runs on {" and ".join(seen)}'
        elif seen and seen != [server.host]:
            yield f'{server.name} runs on {seen[0]}, and Nova knows it on {server.host}'
        elif not seen:
            yield from _dead(cloud, server, owners)
        elif server.failed:
            yield f'{server.name}: {server.failed}'


def _dead(cloud: processes.Cloud, server: parts.Server, owners: Collection[str]
          ) -> Iterator[str]:
    """Yield a server that serves nowhere without a reason that its operator knows."""
    if _excused(cloud, server, owners):
        return
    last = _outcome(cloud, server)
    if last == model.PRIMARY:
        yield f'{server.name} is dead, and its recovery ended {last}'
    elif last in (model.RECOVERED, model.EVACUATED, model.RESTARTED):
        yield f'{server.name} is dead after it was {last}'
    elif last is None:
        yield f'{server.name} is dead without a recovery'


def _outcome(cloud: processes.Cloud, server: parts.Server) -> str | None:
    """Return the outcome of the latest recovery of a server; None without one."""
    outcomes = [recovery.outcome for recovery in cloud.store.history.values()
                if recovery.server == server.name]
    return outcomes[-1] if outcomes else None


def _excused(cloud: processes.Cloud, server: parts.Server, owners: Collection[str]) -> bool:
    """Return whether no engine has to start a server again whose guest has ended.

    * An operator who reboots a host in good order stops its servers, unless the host was
      suspected, or is away for longer than the grace after its goodbye.
    * While the mode of a host is not to act, its operator looks after its servers: the gate
      ``Mode`` holds the engines back.
    * Engines compare the reports of a host. If no process has heard a crash or read of it, the
      server may stay down. Hosts report a crash for 10 s, and their list of domains does not
      tell a crash from a shutdown by the guest. A crash that has to wait is recorded. If the
      nova-compute of the host was away, its return counts.
    * A power failure is noticed by any engine that hears the host after it, whenever that is, if
      an engine has heard the host before.
    * A server that was not active for Nova, such as a paused one, stays down on its host.
    * A server that crashes by itself again and again is not restarted: after ``flap_count``
      recoveries.
    """
    end = cloud.world.ends.get(server.name)
    if end is None or end.lives != server.lives:
        return False
    if end.in_order or end.left or cloud.world.restrained.get(end.host, 0.0) >= end.at:
        return True
    if end.kernel is None and _flaps(cloud, server, end):
        return True
    if cloud.store.crashed.get((server.name, end.host), 0.0) >= end.at - _APART:
        return False
    if end.kernel is None:
        if end.back is not None and any(_hears(cloud, owner, end) for owner in owners):
            return False
        return all(cloud.broker.crashes.get((owner, server.name), 0.0) < end.at
                   for owner in owners)
    heard = set().union(*(cloud.broker.kernels.get((owner, end.host), set()) for owner in owners))
    return not (end.kernel in heard and max(heard) > end.kernel)


def _hears(cloud: processes.Cloud, owner: str, end: worlds.End) -> bool:
    """Return whether a process has heard a host since its nova-compute is back, without a gap."""
    key, back = (owner, end.host), end.back or 0.0
    return (back < cloud.broker.unbroken.get(key, 0.0) < back + brokers.GAP
            and cloud.broker.heard[key] > back + message.REPEATED)


def _flaps(cloud: processes.Cloud, server: parts.Server, end: worlds.End) -> bool:
    """Return whether a server has crashed too often before to be restarted."""
    count = int(cloud.options.flap_count)
    before = [recovery for recovery in cloud.store.history.values()
              if recovery.server == server.name and restart.by_itself(recovery.why)
              and recovery.created >= end.at - monitoring.Settings.flap_period]
    return 0 < count <= len(before)


def _backups(cloud: processes.Cloud, endless: Collection[str], left: Collection[str]
             ) -> Iterator[str]:
    """Yield what recoveries have left in Cinder and on hosts."""
    world = cloud.world
    world.drop_claims()
    for record in world.superpositions.values():
        if record.server in left:
            continue
        yield f'{record.id} of {record.server} is still {record.state}'
    for host in world.hosts.values():
        for backup in host.backups.values() if host.name not in endless else ():
            if backup.runs and backup.phase in _NEEDED:
                yield f'a backup of {backup.server} on {host.name} is still {backup.phase}'
            elif backup.claim and not backup.runs:
                yield f'a backup of {backup.server} on {host.name} keeps its claim'

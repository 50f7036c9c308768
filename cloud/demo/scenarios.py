# SPDX-License-Identifier: Apache-2.0
"""The scenarios of the demo: a host dies, or is only suspected.

*speculative*
    the host dies, and only the engine acts.
*timed*
    the host dies, and its servers are evacuated after a timeout, as REDS and Masakari do. Without
    a timeout this is the Oracle, which knows of the death at once.
*fastest*
    the host dies, and is known to be dead at once. It is shut out, and the backups of its servers
    are promoted as soon as they run. No sound recovery by this project can be faster.
*short*
    either of these with one small server, which is pinged, and which boots within seconds: its
    time without service is mostly the cost of the recovery itself.
*suspicion*
    the host is cut off from the control plane, and its guests hang for some seconds: the host
    looks dead, but is alive.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
import contextlib
import functools
import json
import os
import signal
import time
from typing import Any

import rados

from cloud import commands
from cloud import drill as drills
from cloud import shares
from cloud import users
from cloud.demo import outcome
from cloud.demo import recoveries
from cloud.demo import stage as stages

# Seconds that a database is used after it serves again, before its contents are read back.
_AFTER = 5.0
# Seconds that guests keep hanging once their backups boot.
_HANG = 2.0
# A client that does not give up: slow answers are no errors.
PATIENT = ('--timeout', '60')
# Seconds in which the kernel of a user without a limit has tried to connect again.
_SERVED = 140.0
# Seconds between two transactions of a paced client.
_PACE = '0.05'


def speculative(stage: stages.Stage, before: float, tell: Callable[[], None] = lambda: None,
                database: stages.Database = stages.SMALL) -> outcome.Outcome:
    """Kill the host, and let the engine recover its servers.

    :param before: seconds that the database is used before the accident
    :param tell: called at the host's death
    :param database: the kind of the database's server
    """
    wrong: list[str] = []
    with stage.servers(database=database) as pair, stage.callers(pair.database) as callers:
        stage.use(pair, before)
        event = stage.kill()
        tell()
        with stage.screen.busy('the engine recovers both servers'):
            stage.served(pair)
        measured, gap = settle(stage, pair, event, wrong, callers)
        with stage.screen.busy('Nova learns of it, and the disks are merged'):
            ended = [stage.ended(server) for server in pair.servers]
        for server, recovery in zip(pair.servers, ended, strict=True):
            wrong += _outcome(server, recovery, recoveries.RECOVERED)
            wrong += _once(stage, server)
            wrong += elsewhere(stage, server)
        _return(stage, wrong)
        wrong += [f'{server.name} runs on {stages.HOME} again' for server in pair.servers
                  if stage.drill.pid(server, stages.HOME) is not None]
        return outcome.Outcome(
            *_named('spec', 'SpecREDS', database), event, gap, steps=ended[0].steps,
            settled=ended[0].ended, wrong=tuple(wrong),
            phases=outcome.phases(event, gap, ended[0].suspected, ended[0].steps,
                                  outcome.reached(pair.client.events('failed'), event)),
            **measured)


def timed(stage: stages.Stage, before: float, timeout: float,
          database: stages.Database = stages.SMALL) -> outcome.Outcome:
    """Kill the host, and evacuate its servers after a timeout; no engine may run.

    :param before: seconds that the database is used before the accident
    :param timeout: seconds from the death to its detection
    :param database: the kind of the database's server
    """
    wrong: list[str] = []
    with (stage.servers(database=database) as pair, stage.callers(pair.database) as callers,
          contextlib.closing(Fence(stage)) as fence):
        stage.use(pair, before)
        fence.look(pair.servers)
        event = stage.kill()
        if timeout:
            with stage.screen.busy(f'nobody knows yet: the timeout is {timeout:g} s'):
                time.sleep(max(0.0, event + timeout - time.time()))
        detected = time.time() if timeout else event
        with stage.screen.busy('the host is fenced and its servers are evacuated'):
            evacuated = _evacuate(stage, fence, pair.servers)
            stage.served(pair)
        measured, gap = settle(stage, pair, event, wrong, callers)
        for server in pair.servers:
            wrong += elsewhere(stage, server)
    key, name = (f'reds{timeout:g}', f'REDS, {timeout:g} s') if timeout else ('oracle', 'Oracle')
    return outcome.Outcome(
        *_named(key, name, database), event, gap, wrong=tuple(wrong),
        phases=outcome.following(event, gap, [
            ('timeout', detected), ('evacuate', evacuated), ('race', gap.ended)]), **measured)


def fastest(stage: stages.Stage, before: float, database: stages.Database = stages.SMALL
            ) -> outcome.Outcome:
    """Kill the host, shut it out as a fact, and promote backups at once; no engine may run.

    :param before: seconds that the database is used before the accident
    :param database: the kind of the database's server
    """
    wrong: list[str] = []
    with stage.servers(database=database) as pair, stage.callers(pair.database) as callers:
        stage.use(pair, before)
        event = stage.kill()
        with (stage.screen.busy('the host is shut out and backups are promoted'),
              futures.ThreadPoolExecutor() as pool):
            replaced = list(pool.map(functools.partial(_replace, stage.drill), pair.servers))
            stage.served(pair)
        measured, gap = settle(stage, pair, event, wrong, callers)
        with stage.screen.busy('Nova learns of it, and the disks are merged'):
            for recovery, *_ in replaced:
                stage.drill.adopt(recovery)
                stage.drill.merged(recovery)
        for server in pair.servers:
            wrong += elsewhere(stage, server)
        _, superposed, started = replaced[0]
        return outcome.Outcome(
            *_named('fastest', 'Fastest start', database), event, gap, wrong=tuple(wrong),
            phases=outcome.following(event, gap, [
                ('super', superposed), ('start', started), ('race', gap.ended)]), **measured)


def short(stage: stages.Stage, before: float, timeout: float | None = None) -> outcome.Outcome:
    """Kill the host of a small server.

    :param before: seconds that the server is pinged before the accident
    :param timeout: seconds until the evacuation, for which no engine may run; None if the engine
        recovers the server
    """
    wrong: list[str] = []
    recovered: recoveries.Recovery | None = None
    with stage.small() as (server, pinger), contextlib.closing(Fence(stage)) as fence:
        time.sleep(before)
        fence.look([server])
        event = stage.kill()
        if timeout is None:
            with stage.screen.busy('the engine recovers the small server'):
                # No request to the engine before: it would take time from the booting guest.
                stage.pinged(pinger, event)
                recovered = stage.ended(server)
            wrong += _outcome(server, recovered, recoveries.RECOVERED) + _once(stage, server)
        else:
            with stage.screen.busy(f'it is evacuated after {timeout:g} s'):
                time.sleep(max(0.0, event + timeout - time.time()))
                _evacuate(stage, fence, [server])
                stage.pinged(pinger, event)
        gap = _outage(pinger.stop(), event)
        wrong += elsewhere(stage, server)
        if gap is None:
            raise commands.CloudError(f'{server.name} was answering all the time')
    if recovered is None:
        return outcome.Outcome(f'reds{timeout:g}', f'REDS, {timeout:g} s', event, gap,
                               wrong=tuple(wrong))
    return outcome.Outcome(
        'spec', 'SpecREDS', event, gap, wrong=tuple(wrong), steps=recovered.steps,
        phases=outcome.phases(event, gap, recovered.suspected, recovered.steps))


def suspicion(stage: stages.Stage, before: float, *, hang: bool = True) -> outcome.Outcome:
    """Make a live host look dead.

    :param before: seconds that the database is used before the suspicion
    :param hang: whether the guests hang until their backups have booted for a while; if not, the
        database's client is paced, to measure its throughput
    """
    wrong: list[str] = []
    with stage.servers(*PATIENT, *(() if hang else ('--interval', _PACE))) as pair, (
            contextlib.nullcontext() if hang else stage.cloud.alone(stages.HOME)):
        pids = {server: stage.drill.pid(server, stages.HOME) for server in pair.servers}
        if not hang:
            for pid in pids.values():
                shares.prefer(str(pid), shares.ALONE)
        stage.use(pair, before)
        who = stage.get(pair.web, '/who')
        event = time.time()
        stage.home.cut(control=True)
        stage.screen.say(f'{stages.HOME} is cut off from the control plane'
                         + (', and its guests hang' if hang else ''))
        with contextlib.ExitStack() as undo:
            undo.callback(stage.home.heal)
            if hang:
                for pid in pids.values():
                    _signal(pid, signal.SIGSTOP)
                    undo.callback(_signal, pid, signal.SIGCONT)
            with stage.screen.busy('the engine suspects it, and starts backups'):
                for server in pair.servers:
                    stage.begun(server)
                if hang:
                    time.sleep(_HANG)
        stage.screen.say('the guests go on, and the host is connected again')
        with stage.screen.busy('the primaries win, and the backups are removed'):
            ended = [stage.ended(server) for server in pair.servers]
            stage.trusted()
        measured, gap = settle(stage, pair, event, wrong)
        for server, recovery in zip(pair.servers, ended, strict=True):
            wrong += _outcome(server, recovery, recoveries.PRIMARY)
            shown = stage.drill.show(server.id)
            if shown['OS-EXT-SRV-ATTR:host'] != stages.HOME or shown['status'] != 'ACTIVE':
                wrong.append(f'{server.name} is {shown["status"]} on '
                             f'{shown["OS-EXT-SRV-ATTR:host"]}')
            if stage.drill.pid(server, stages.HOME) != pids[server]:
                wrong.append(f'{server.name} is not the guest that it was')
        if stage.get(pair.web, '/who') != who:
            wrong.append(f'{pair.web.name} has booted')
        wrong += [f'the client saw an error: {error}' for error in measured['errors']]
        return outcome.Outcome(
            'suspicion', 'only suspected', event, gap, steps=ended[0].steps,
            settled=ended[0].ended, wrong=tuple(wrong),
            phases=(outcome.Phase('detect', 0.0, ended[0].suspected - event),), **measured)


class Fence:
    """Blocks the clients of servers in Ceph, so that an evacuation need not wait for their locks.

    This is the best case of an evacuation: Nova itself waits the half minute after which Ceph
    forgets a dead client.
    """

    def __init__(self, stage: stages.Stage) -> None:
        self._backend = stage.cloud.backends[0]
        self._clients: list[str] = []
        # Connect before the accident, so that the evacuation does not wait for the connection.
        self._rados = rados.Rados(conffile=str(stage.cloud.ceph.admin_conf),
                                  name='client.admin')
        self._rados.connect(timeout=30)

    def look(self, servers: Sequence[drills.Server]) -> None:
        """Find the clients of servers that run."""
        for server in servers:
            for volume in server.volumes:
                status: dict[str, Any] = json.loads(commands.run(
                    ['rbd', '--conf', self._backend.conf, '--id', self._backend.user, 'status',
                     f'{self._backend.pool}/volume-{volume}', '--format', 'json']))
                self._clients += [watcher['address'] for watcher in status['watchers']]

    def close(self) -> None:
        """Block all clients concurrently, and disconnect."""
        with futures.ThreadPoolExecutor() as pool:
            list(pool.map(self._keep_away, self._clients))
        self._clients.clear()
        self._rados.shutdown()

    def _keep_away(self, client: str) -> None:
        code, _, said = self._rados.mon_command(json.dumps({
            'prefix': 'osd blocklist', 'blocklistop': 'add', 'addr': client}), b'')
        if code:
            raise commands.CloudError(f'client {client} cannot be kept from Ceph: {said}')


def _evacuate(stage: stages.Stage, fence: Fence, servers: Sequence[drills.Server]) -> float:
    """Fence the host and evacuate its servers; return when the first server is active."""
    with futures.ThreadPoolExecutor() as pool:
        fenced = pool.submit(fence.close)
        stage.drill.force_down(stages.HOME)
        # A guest that requests a lock from a dead client just before the client is blocked waits
        # half a minute for an answer.
        fenced.result()
        for server in servers:
            stage.drill.act(server.id, 'evacuate', {'host': stages.OTHER})
        stage.drill.active(servers[0].id, stages.OTHER)
        ended = time.time()
        for server in servers[1:]:
            stage.drill.active(server.id, stages.OTHER)
    return ended


def _replace(drill: drills.Drill, server: drills.Server) -> tuple[drills.Recovery, float, float]:
    """Start and promote the backup of a server whose host is dead.

    :returns: the recovery, and the times at which the host was shut out and the backup ran
    """
    superposition = drill.superpose(server, dead=True)
    superposed = time.time()
    recovery = drill.start(server, stages.OTHER, superposition)
    started = time.time()
    drill.promote(recovery)
    return recovery, superposed, started


def settle(stage: stages.Stage, pair: stages.Pair, event: float, wrong: list[str],
           callers: users.Callers | None = None) -> tuple[dict[str, Any], outcome.Gap]:
    """Use the servers for a while, and return what their users have measured.

    :param callers: further users of the database, for whom it is waited until they are served
    """
    stage.use(pair, _AFTER)
    summary, pings = stage.leave(pair)
    done = tuple(sorted(pair.client.ledger().values()))
    gap = outcome.longest(done, event)
    with stage.screen.busy(f'{len(done):,} acknowledged transactions are read back'):
        read = pair.client.verify()
    lost = len(read['missing']) + len(read['wrong'])
    if lost:
        wrong.append(f'{lost} acknowledged transactions are lost or not what was written')
    if pair.client.events('corrupt'):
        wrong.append('the client has read something else than it had written')
    stage.screen.say(f'not served for {gap.seconds:.2f} s; {lost} of {len(done):,} acknowledged '
                     'transactions are lost')
    errors = tuple(dict.fromkeys(error for outage in users.failed(summary)
                                 for error in outage['errors']))
    outage = _outage(pings, event)
    waits = () if callers is None else stage.drill.wait(
        'users who wait without a limit to be served',
        lambda: callers.waits(event, gap.ended), _SERVED)
    return {'waits': waits, 'done': done, 'lost': lost, 'errors': errors,
            'web_s': 0.0 if outage is None else outage.seconds}, gap


def _outage(summary: Mapping[str, Any], event: float) -> outcome.Gap | None:
    """Return the longest time without answers to pings since an accident."""
    return max((outcome.Gap(float(outage['began']), float(outage['ended']))
                for outage in summary['outages'] if outage['ended'] > event),
               key=lambda gap: gap.seconds, default=None)


def _return(stage: stages.Stage, wrong: list[str]) -> None:
    """Boot the host, and check that its return needs no operator."""
    try:
        stage.boot()
        stage.trusted()
    except commands.CloudError as exc:
        wrong.append(f'{stages.HOME} has not returned by itself: {exc}')


def _named(key: str, name: str, database: stages.Database) -> tuple[str, str]:
    """Return key and name of a scenario with a database of a kind."""
    if database == stages.ORDINARY:
        return f'ordinary_{key}', f'{name}, Debian'
    return key, name


def _outcome(server: drills.Server, recovery: recoveries.Recovery, wanted: str) -> list[str]:
    if recovery.outcome == wanted:
        return []
    return [f'the recovery of {server.name} ended {recovery.outcome}, not {wanted}: '
            f'{recovery.error}']


def _once(stage: stages.Stage, server: drills.Server) -> list[str]:
    count = len(stage.engine.ids(server.id))
    return [] if count == 1 else [f'{server.name} was recovered {count} times']


def elsewhere(stage: stages.Stage, server: drills.Server) -> list[str]:
    """Check that a server has left its first host, and runs only where Nova places it."""
    shown = stage.drill.show(server.id)
    host = shown['OS-EXT-SRV-ATTR:host']
    if host == stages.HOME or shown['status'] != 'ACTIVE':
        return [f'{server.name} is {shown["status"]} on {host}']
    running = stage.drill.running(server)
    return [] if running == [host] else [f'{server.name} runs on {running}, Nova says {host}']


def _signal(pid: int | None, number: int) -> None:
    if pid is not None:
        os.kill(pid, number)

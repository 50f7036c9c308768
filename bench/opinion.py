# SPDX-License-Identifier: Apache-2.0
"""Silence the host of idle guests, with and without a sentinel that gives a second opinion.

A guest that writes nothing cannot be told from a dead one by its volumes. In each drill a host
with several such guests falls silent, and all of them are recovered:

*silent*
    its sentinel and its nova-compute are killed: each guest is replaced by its backup, although it
    is alive.
*answered*
    it is cut off from the control network, and its sentinel answers by Ceph. Each guest has to
    stay as it is. Any other end of a recovery is a false promotion.
"""

from collections.abc import Callable, Sequence
import contextlib
import dataclasses

from keystoneauth1 import exceptions as keystone_exceptions

from bench import failover
from bench import options
from bench import progress
from bench import stats
from cloud import cloud as openstack_cloud
from cloud import drill as drills
from cloud.demo import recoveries
from cloud.demo import stage as stages
from cloud.hosts import host as cloud_hosts
from cloud.hosts import services

NAME = options.OPINION
# Drills that replace the guests, and the servers of each drill.
_REPLACED = 2
_SERVERS = 4
# Longest time until a recovery has ended, in seconds.
_TIMEOUT = 300.0


Silence = Callable[[cloud_hosts.Host], None]


def kill(host: cloud_hosts.Host) -> None:
    """Kill what speaks for a host."""
    for name in (services.SENTINEL, services.COMPUTE):
        host.kill_program(name)


def cut(host: cloud_hosts.Host) -> None:
    """Cut a host off from the engines, and leave Ceph to it."""
    host.cut(control=True)


@dataclasses.dataclass(frozen=True)
class End:
    """The end of one recovery of an idle guest that was alive.

    :ivar seconds: from the suspicion of the host to the end of the recovery
    :ivar outcome: outcome of the recovery
    :ivar same: the guest is the same as before, on the same host
    :ivar why: why the race ended, and the error of the recovery
    """

    seconds: float
    outcome: str
    same: bool
    why: str = ''

    @property
    def spared(self) -> bool:
        """Return whether the guest was left as it was."""
        return self.same and self.outcome == recoveries.PRIMARY


class Drills:
    """Performs drills with the idle servers of one host.

    :param servers: number of servers in each drill
    """

    def __init__(self, stage: stages.Stage, servers: int = _SERVERS) -> None:
        self._stage = stage
        self._count = servers
        self._number = 0
        self._servers: list[drills.Server] = []

    def once(self, silence: Silence) -> list[End]:
        """Silence the host, and return how the recoveries of its servers end."""
        stage = self._stage
        with stage.screen.busy('idle servers boot'):
            self._fill()
            known = {server.id: set(stage.engine.ids(server.id)) for server in self._servers}
            guests = {server.id: stage.get(server, '/who') for server in self._servers}
        with stage.screen.busy(f'{stage.home.name} falls silent, {self._count} servers alive'):
            silence(stage.home)
            ended = [(server, self._ended(server, known[server.id]))
                     for server in self._servers]
        with stage.screen.busy('the host returns'):
            stage.home.heal()
            stage.home.boot()
            stage.cloud.wait_ready()
            stage.trusted()
            return [self._end(server, recovery, guests[server.id])
                    for server, recovery in ended]

    def close(self) -> None:
        """Delete the servers."""
        self._stage.mend()
        while self._servers:
            self._stage.drill.delete(self._servers.pop().id)

    def _fill(self) -> None:
        """Have the full number of servers on the host, without those that have left it."""
        here = [server for server in self._servers
                if self._stage.drill.active(server.id).host == stages.HOME]
        for server in self._servers:
            if server not in here:
                self._stage.drill.delete(server.id)
        self._servers = here
        made = []
        for _ in range(self._count - len(here)):
            self._number += 1
            made.append(self._stage.drill.boot_later(
                f'idle-{self._number}', stages.HOME, metadata=drills.READY['g1']))
        self._servers += map(self._stage.drill.active, made)
        for server in self._servers:
            self._stage.answers(server)

    def _ended(self, server: drills.Server, known: set[str]) -> recoveries.Recovery:
        """Wait until the new recovery of a server has ended, and return it."""
        engine = self._stage.engine

        def over() -> recoveries.Recovery | None:
            try:
                fresh = [engine.recovery(recovery) for recovery in engine.ids(server.id)
                         if recovery not in known]
            except keystone_exceptions.ClientException:
                return None
            return next((recovery for recovery in fresh if recovery.over), None)
        ended: recoveries.Recovery = self._stage.drill.wait(
            f'the recovery of {server.name} to end', over, _TIMEOUT)
        return ended

    def _end(self, server: drills.Server, recovery: recoveries.Recovery, guest: str) -> End:
        """Return the end of a recovery.

        :param guest: the name of the guest before
        """
        assert recovery.ended is not None
        self._stage.answers(server)
        same = (self._stage.get(server, '/who') == guest
                and self._stage.drill.running(server) == [server.host])
        why = [step.why for step in recovery.steps if step.why] + [recovery.error or '']
        return End(recovery.ended - recovery.suspected, str(recovery.outcome), same,
                   '; '.join(filter(None, why)))


def run(cloud: openstack_cloud.Cloud, tell: progress.Progress, count: int) -> dict[str, float]:
    """Perform all drills, and return the figures by their keys.

    :param cloud: with compute hosts and engines
    :param count: number of drills in which the sentinel answers
    """
    tell.section(NAME, _REPLACED + count)
    silent = _drills(cloud, tell, _REPLACED, kill)
    return figures(silent, _drills(cloud, tell, count, cut), count)


def _drills(cloud: openstack_cloud.Cloud, tell: progress.Progress, count: int,
            silence: Silence) -> list[End]:
    """Perform drills of one kind, and return how their recoveries end."""
    ends = []
    with failover.staged(cloud) as stage, contextlib.closing(Drills(stage)) as drill:
        for _ in range(count):
            tell.step('sentinel and nova-compute are killed' if silence is kill else
                      'the host is cut off, and the sentinel answers')
            ended = drill.once(silence)
            tell.say(', '.join(f'{end.outcome} after {end.seconds:.1f} s' for end in ended))
            for end in ended:
                if silence is cut and not end.spared:
                    tell.say(f'WRONG: {end}')
            ends += ended
    return ends


def figures(silent: Sequence[End], answered: Sequence[End], count: int) -> dict[str, float]:
    """Return the figures of the recoveries of all drills, by the kind of drill.

    :param count: number of drills in which the sentinel answers
    """
    measured: dict[str, float] = {
        'opinion.drills': count, 'opinion.recoveries': len(answered),
        'opinion.false_promotions': sum(not end.spared for end in answered),
        'opinion.silent.recoveries': len(silent),
        'opinion.silent.false_promotions': sum(not end.spared for end in silent)}
    medians = {}
    for key, ends in (('silent', silent), ('answered', answered)):
        summary = stats.summary([end.seconds for end in ends])
        measured |= summary.entries(f'opinion.{key}_s')
        medians[key] = summary.median
    return measured | {'opinion.answered_over_silent': medians['answered'] / medians['silent']}

# SPDX-License-Identifier: Apache-2.0
"""Let a whole host stand still for a while, and then go on: who keeps its servers?

Every process of the host is frozen, and none of its addresses answers. The stall ends, as
if memory, bus or hypervisor of the host had been stuck for seconds. If the stall is shorter than
the time that engines leave a primary, the primary has to win. They leave it the time until the
first frame of its backup's guest, and at least :data:`race.NOT_BEFORE`. If its owner has set a
condition of readiness, they leave it the time until its backup is ready.

The servers are a database and a small server with conditions, and a small one without.
"""

from collections.abc import Sequence
import contextlib
import dataclasses
import time

from bench import failover
from bench import options
from bench import progress
from cloud import cloud as openstack_cloud
from cloud import drill as drills
from cloud.demo import recoveries
from cloud.demo import scenarios
from cloud.demo import stage as stages
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery.steps import race

NAME = options.STALL
# Seconds for which the host stands still.
STALLS = (3.0, 5.0, 10.0, 20.0)
_QUICK_ROUNDS, _FULL_ROUNDS = 1, 5
# Seconds that the database is used before.
_BEFORE = 8.0
# The timeout that every stall is compared with, in seconds.
_TIMEOUT = 5.0


@dataclasses.dataclass(frozen=True)
class End:
    """What a stall of its host has done to a server.

    :ivar stalled: seconds for which the host stood still
    :ivar limit: seconds that the primary had for its return; None if its backup has not won
    :ivar wrong: what is not as it should be, in words
    """

    stalled: float
    limit: float | None
    wrong: tuple[str, ...] = ()

    @property
    def robbed(self) -> bool:
        """Return whether the primary had time left, and has lost."""
        return self.limit is not None and self.stalled < self.limit


def run(cloud: openstack_cloud.Cloud, tell: progress.Progress, quick: bool) -> dict[str, float]:
    """Perform all drills, and return the figures by their keys.

    :param cloud: with compute hosts and engines
    :param quick: perform one drill of each length
    """
    rounds = _QUICK_ROUNDS if quick else _FULL_ROUNDS
    tell.section(NAME, rounds * len(STALLS))
    ends: list[End] = []
    with failover.staged(cloud) as stage:
        for seconds in STALLS * rounds:
            tell.step(f'a host stands still for {seconds:g} s')
            fresh = drill(stage, seconds)
            tell.say(', '.join('the primary has won' if end.limit is None else
                               f'the backup has won after {end.limit:.1f} s' for end in fresh))
            for end in fresh:
                for words in end.wrong:
                    tell.say(f'WRONG: {words}')
            ends += fresh
    return figures(ends)


def figures(ends: Sequence[End]) -> dict[str, float]:
    """Return the figures of all drills."""
    measured: dict[str, float] = {
        'stall.servers': len(ends), 'stall.robbed': sum(end.robbed for end in ends),
        'stall.wrong': sum(bool(end.wrong) for end in ends),
        'stall.restarted': sum(end.limit is not None for end in ends),
        'stall.timeout_restarted': sum(end.stalled >= _TIMEOUT for end in ends)}
    for seconds in STALLS:
        measured[f'stall.restarted_{seconds:g}s'] = sum(
            end.limit is not None for end in ends if end.stalled == seconds)
    return measured


def drill(stage: stages.Stage, seconds: float) -> list[End]:
    """Let the host of new servers stand still, and return what has become of each server."""
    with (stage.servers(*scenarios.PATIENT) as pair, stage.small(ready=False) as (plain, pinger)):
        servers = (*pair.servers, plain)
        stage.use(pair, _BEFORE)
        pids = {server.id: stage.drill.pid(server, stages.HOME) for server in servers}
        with contextlib.ExitStack() as undo:
            event = time.time()
            stage.home.cut(control=True, storage=True, tenant=True)
            undo.callback(stage.home.heal)
            stage.home.hang()
            undo.callback(stage.home.resume)
            with stage.screen.busy(f'{stages.HOME} stands still for {seconds:g} s'):
                time.sleep(max(0.0, event + seconds - time.time()))
        with stage.screen.busy(f'{stages.HOME} goes on'):
            stage.trusted()
            ended = [stage.ended(server) for server in servers]
            for server in servers:
                stage.answers(stage.drill.active(server.id))
        pinger.stop()
        wrong: list[str] = []
        measured, _ = scenarios.settle(stage, pair, event, wrong)
        first = stage.drill.active(pair.database.id).host == stages.HOME
        wrong += [f'the client saw an error: {error}' for error in measured['errors'] if first]
        ends = []
        for server, recovery in zip(servers, ended, strict=True):
            ends.append(_end(stage, server, recovery, event, seconds, pids[server.id], wrong))
            # The database is the first one, and the client is the database's.
            wrong = []
    return ends


def limit(recovery: recoveries.Recovery, event: float) -> float:
    """Return the seconds that a primary had for its return, whose backup has won.

    :param event: since when its host stands still
    """
    raced = next(step for step in reversed(recovery.steps) if step.name == runs.RACE)
    until = raced.frame if raced.frame is not None else raced.ended
    assert until is not None
    return max(until - event, race.NOT_BEFORE)


def _end(stage: stages.Stage, server: drills.Server, recovery: recoveries.Recovery, event: float,
         seconds: float, pid: int | None, wrong: Sequence[str]) -> End:
    """Return what has become of a server.

    :param pid: its guest's process before
    :param wrong: what its client has found
    """
    faults = [f'{server.name}: {words}' for words in wrong]
    if recovery.outcome == recoveries.RECOVERED:
        had = limit(recovery, event)
        if seconds < had:
            faults.append(f'{server.name} had {had:.1f} s, stood still for {seconds:g} s, and '
                          'lost')
        faults += scenarios.elsewhere(stage, server)
        return End(seconds, had, tuple(faults))
    if recovery.outcome != recoveries.PRIMARY:
        faults.append(f'the recovery of {server.name} ended {recovery.outcome}: {recovery.error}')
    if stage.drill.running(server) != [stages.HOME] or stage.drill.pid(server, stages.HOME) != pid:
        faults.append(f'{server.name} is not the guest that it was')
    return End(seconds, None, tuple(faults))

# SPDX-License-Identifier: Apache-2.0
"""Let the host of a database with much WAL die: decided at its first frame, or when it is ready.

A database whose backup is decided early redoes its log on a promoted disk, whose every flush
reaches the cluster; one whose owner has set a condition of readiness redoes it on the speculative
disk, and its clients wait meanwhile. Guest, load and log are the same; both kinds die in turn.
"""

from collections.abc import Sequence

from bench import failover
from bench import options
from bench import progress
from bench import stats
from cloud import cloud as openstack_cloud
from cloud.demo import outcome
from cloud.demo import scenarios
from cloud.demo import stage as stages

NAME = options.WAL
_QUICK_ROUNDS, _FULL_ROUNDS = 1, 3
# Characters that each transaction writes, and seconds for which a client writes them as fast as it
# can: more than the guest's log has room for between two checkpoints.
_PAYLOAD, _BEFORE = 50_000, 60.0
KINDS = {'ready': stages.Database(payload=_PAYLOAD),
         'frame': stages.Database(payload=_PAYLOAD, ready=False)}


def run(cloud: openstack_cloud.Cloud, tell: progress.Progress, quick: bool) -> dict[str, float]:
    """Measure, and return the figures by their keys.

    :param cloud: with compute hosts and engines
    :param quick: let each kind of database die once
    """
    rounds = _QUICK_ROUNDS if quick else _FULL_ROUNDS
    tell.section(NAME, rounds * len(KINDS))
    deaths: dict[str, list[outcome.Outcome]] = {kind: [] for kind in KINDS}
    with failover.staged(cloud) as stage:
        for number in range(rounds):
            for kind in list(KINDS)[::1 if number % 2 else -1]:
                tell.step(f'much WAL, decided by {kind}, round {number + 1} of {rounds}')
                deaths[kind].append(failover.right(tell, scenarios.speculative(
                    stage, _BEFORE, database=KINDS[kind])))
    return figures(deaths['ready'], deaths['frame'])


def figures(ready: Sequence[outcome.Outcome], frame: Sequence[outcome.Outcome]
            ) -> dict[str, float]:
    """Return the figures of deaths, which are decided by readiness or by the first frame."""
    measured: dict[str, float] = {
        'wal.lost': float(sum(death.lost for death in (*ready, *frame))),
        'wal.early_share': sum(death.frame_to_open_s is not None for death in frame) / len(frame)}
    for kind, deaths in (('ready', ready), ('frame', frame)):
        measured |= stats.summary([death.unavailable_s for death in deaths]).entries(
            f'wal.{kind}_s')
        measured |= failover.medians(f'wal.{kind}.', deaths)
    return measured | stats.ratios([death.unavailable_s for death in frame],
                                   [death.unavailable_s for death in ready]).entries(
        'wal.frame_over_ready')

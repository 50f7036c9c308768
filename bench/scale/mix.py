# SPDX-License-Identifier: Apache-2.0
"""Measure how long short recoveries wait beside long ones in a real engine, by its order.

The mix is as in ``./run bench dispatch``: one server in five is long, and holds a slot for sixty
times as long as a short one. Its seconds are scaled down, and so are the slots. The engine knows
the time of each flavor from the database, as if servers of both had been recovered before.
"""

from collections.abc import Callable
import dataclasses
import statistics
import time

from bench import orders
from bench.scale import process
from bench.scale.simulated import inventory as inventories
from cloud import commands
from specreds_nova.engine import model
from specreds_nova.engine.placing import kinds

_NAME = 'scale'
_PROGRAMS = {orders.FIFO: 'bench.scale.first_come', orders.OWN: 'bench.scale.placed'}
_INTERVAL, _WARM_UP, _PAUSE = 0.2, 10.0, 0.5


@dataclasses.dataclass(frozen=True)
class Mix:
    """Hosts that fail at once.

    :ivar slots: slots of the engine
    :ivar longest: seconds after which the measurement is given up
    """

    inventory: inventories.Inventory
    slots: int
    longest: float


# A short recovery holds a slot for 1.5 s, of which its guest takes 0.5 s to be ready.
MIX = Mix(inventories.Inventory(50, 5, 20, 0.5, 90.0), 10, 330.0)


def run(port: int) -> dict[str, float]:
    """Measure, and return the figures by their keys.

    :param port: first of the ports of a cloud
    :raises CloudError: short recoveries have not started in time
    """
    return figures_of({policy: waits_of(MIX, policy, port) for policy in _PROGRAMS})


def figures_of(waits: dict[str, list[float]]) -> dict[str, float]:
    """Return the figures by their keys.

    :param waits: seconds that each short recovery waited, by order
    """
    figures: dict[str, float] = {}
    for policy, seconds in waits.items():
        cuts = statistics.quantiles(seconds, n=100, method='inclusive')
        figures[f'{_NAME}.mix.{policy}.short_wait_s_p50'] = round(cuts[49], 2)
        figures[f'{_NAME}.mix.{policy}.short_wait_s_p99'] = round(cuts[98], 2)
    figures[f'{_NAME}.short_wait_p99_own_over_fifo'] = round(
        figures[f'{_NAME}.mix.{orders.OWN}.short_wait_s_p99']
        / figures[f'{_NAME}.mix.{orders.FIFO}.short_wait_s_p99'], 4)
    return figures


def waits_of(mix: Mix, policy: str, port: int) -> list[float]:
    """Return the seconds from the request for the first backup to that for each short one.

    The time in which the engine finds out what has failed, the same in each order, is no wait.
    """
    with process.stage(mix.inventory, _INTERVAL, port, {'slots': str(mix.slots)},
                       _PROGRAMS[policy]) as stage:
        teach(mix.inventory, stage.store.learn)
        stage.store.flush()
        time.sleep(_WARM_UP)
        stage.hosts.say('die')
        short = {server for server in mix.inventory.failed
                 if not mix.inventory.is_long(server)}
        until = time.monotonic() + mix.longest
        while True:
            requests = stage.hosts.say('asked')
            if short <= requests.keys():
                began = min(requests.values())
                return [requests[server] - began for server in short]
            if time.monotonic() > until:
                raise commands.CloudError(
                    f'{len(short & requests.keys())} of {len(short)} short backups were requested '
                    f'by {policy} in {mix.longest:g} s')
            time.sleep(_PAUSE)


def teach(inventory: inventories.Inventory, learn: Callable[[str, float], None]) -> None:
    """Let the engine learn how long servers of each flavor take."""
    for server_id, server in inventory.failed.items():
        learn(kinds.kind(model.Server(
            id=server_id, name='', project='', host='', status='ACTIVE', task=None, locked=False,
            zone=None, flavor=server['flavor'], volumes=())), inventory.ready(server_id))

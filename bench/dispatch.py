# SPDX-License-Identifier: Apache-2.0
"""Measure how long recoveries wait for a slot, by the order in which they get one.

The clock is simulated. ``own`` is the engine's own order, the others are baselines.

The mixes come from Demoulin et al., *When Idling is Ideal* (SOSP 2021), in seconds instead of
microseconds, with its 14 workers as slots. Recoveries come at random times, at a given share of
what the slots can do. The slowdown of one is the time from its arrival to its end ÷ the time that
it takes. Everything is seeded: the same version gives the same figures on any machine.
"""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import heapq
import pathlib
import random
import statistics

from bench import options
from bench import orders
from bench import plots
from bench import stats
from specreds_nova.engine import model

NAME = options.DISPATCH
_COLOURS = dict(zip(orders.ORDERS, ('#8c8c8c', '#4c72b0', '#c44e52'), strict=True))
_SLOTS, _LOAD, _HOSTS = 14, 0.85, 7
_COUNT, _QUICK_COUNT = 40_000, 8_000
_SEED = 1
# Recoveries that arrived by then met an engine with idle slots.
_WARM_UP = 0.1
_PERCENTILES = {'p50': 500, 'p99': 990, 'p99_9': 999}
_TENANT_MAX = 100

# Of each type: seconds, and share of all recoveries.
MIXES: dict[str, dict[str, tuple[float, float]]] = {
    'bimodal': {'short': (1.0, 0.5), 'long': (100.0, 0.5)},
    'extreme': {'short': (0.5, 0.995), 'long': (500.0, 0.005)},
    'tpcc': {'payment': (5.7, 0.44), 'order_status': (6.0, 0.04), 'new_order': (20.0, 0.44),
             'delivery': (88.0, 0.04), 'stock_level': (100.0, 0.04)},
}
# A rack fails: hosts, their servers, and how many recoveries an engine works on.
_RACK_HOSTS, _RACK_SLOTS = 40, 100
_RACK = {'short': (5.0, 80), 'long': (300.0, 20)}


@dataclasses.dataclass(frozen=True)
class Recovery:
    """A recovery of the simulation."""

    kind: str
    at: float
    seconds: float
    host: str


@dataclasses.dataclass(frozen=True)
class Served:
    """A recovery with its wait."""

    recovery: Recovery
    wait: float

    @property
    def slowdown(self) -> float:
        """Return how many times as long as alone it took."""
        return (self.wait + self.recovery.seconds) / self.recovery.seconds


def run(quick: bool, figures: pathlib.Path) -> dict[str, float]:
    """Play all mixes in each order, draw them, and return the figures for the JSON."""
    results: dict[str, float] = {}
    for mix, kinds in MIXES.items():
        wanted = arrivals(kinds, _QUICK_COUNT if quick else _COUNT)
        skipped = int(_WARM_UP * len(wanted))
        for policy in orders.ORDERS:
            served = play(policy, wanted, _SLOTS)[skipped:]
            for kind in kinds:
                results |= _named(f'{NAME}.{mix}.{policy}.{kind}.slowdown', [
                    outcome.slowdown for outcome in served if outcome.recovery.kind == kind])
    for policy in orders.ORDERS:
        served = play(policy, rack(), _RACK_SLOTS)
        for kind in _RACK:
            results |= _named(f'{NAME}.rack.{policy}.{kind}.wait_s', [
                outcome.wait for outcome in served if outcome.recovery.kind == kind])
        results[f'{NAME}.rack.{policy}.makespan_s'] = max(
            outcome.recovery.at + outcome.wait + outcome.recovery.seconds for outcome in served)
    results |= _compared(results)
    figures.mkdir(parents=True, exist_ok=True)
    _draw(figures / f'{NAME}.png', results)
    return results


def arrivals(kinds: Mapping[str, tuple[float, float]], count: int) -> list[Recovery]:
    """Return recoveries at random times, as many as the load has it on average."""
    dice = random.Random(_SEED)
    mean = sum(seconds * share for seconds, share in kinds.values())
    rate, now, made = _LOAD * _SLOTS / mean, 0.0, []
    names, weights = list(kinds), [share for _, share in kinds.values()]
    for kind in dice.choices(names, weights, k=count):
        now += dice.expovariate(rate)
        made.append(Recovery(kind, now, kinds[kind][0], f'h{dice.randrange(_HOSTS)}'))
    return made


def rack() -> list[Recovery]:
    """Return the recoveries of all servers of a rack, in random order, at one moment."""
    made = [Recovery(kind, 0.0, seconds, f'h{host}') for host in range(_RACK_HOSTS)
            for kind, (seconds, count) in _RACK.items() for _ in range(count)]
    random.Random(_SEED).shuffle(made)
    return made


def play(policy: str, wanted: Sequence[Recovery], slots: int) -> list[Served]:
    """Return the recoveries with their waits, each in an engine with this order.

    :param wanted: in the order of their arrival
    """
    arranged = orders.OF[policy]
    waiting: dict[str, model.Recovery] = {}
    ends: list[tuple[float, str]] = []
    began: dict[str, float] = {}
    by_id = {f'{number:06d}': recovery for number, recovery in enumerate(wanted)}
    coming = iter([*((recovery.at, name) for name, recovery in by_id.items()), (float('inf'), '')])
    next_at, name = next(coming)
    while name or ends:
        now = min(next_at, ends[0][0] if ends else next_at)
        while ends and ends[0][0] <= now:
            heapq.heappop(ends)
        while name and next_at <= now:
            waiting[name] = _waiting(name, by_id[name])
            next_at, name = next(coming)
        free = slots - len(ends)
        if not free:
            continue
        for recovery in arranged(waiting.values(), _TENANT_MAX, now)[:free]:
            began[recovery.id] = now
            heapq.heappush(ends, (now + by_id[recovery.id].seconds, recovery.id))
            del waiting[recovery.id]
    return [Served(recovery, began[name] - recovery.at) for name, recovery in by_id.items()]


def _waiting(name: str, recovery: Recovery) -> model.Recovery:
    return model.Recovery(name, name, '', 'p', recovery.host, recovery.at,
                          expected=recovery.seconds, created=recovery.at)


def _named(key: str, values: Iterable[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values, n=1000, method='inclusive')
    return {f'{key}_{name}': round(cuts[place - 1], 3) for name, place in _PERCENTILES.items()}


def _compared(figures: Mapping[str, float]) -> dict[str, float]:
    """Return the figures that have a bar, except for one policy alone."""
    def ratio(what: str, first: str, other: str) -> float:
        return round(figures[what.format(first)] / figures[what.format(other)], 4)
    return {
        f'{NAME}.rack.short_wait_p99_own_over_fifo':
            ratio(f'{NAME}.rack.{{}}.short.wait_s_p99', orders.OWN, orders.FIFO),
        f'{NAME}.rack.makespan_own_over_cfcfs':
            ratio(f'{NAME}.rack.{{}}.makespan_s', orders.OWN, orders.CFCFS),
    }


def _draw(path: pathlib.Path, figures: Mapping[str, float]) -> None:
    note = f'{_SLOTS} slots, load {_LOAD:g}, simulated clock; lower is better'
    with plots.drawing(path, 'Slowdown of recoveries by type (p99.9)', note, panels=3) as panels:
        for plot, (mix, kinds) in zip(panels, MIXES.items(), strict=True):
            series = [plots.Series(policy, _COLOURS[policy], {
                place: stats.summary([figures[f'{NAME}.{mix}.{policy}.{kind}.slowdown_p99_9']])
                for place, kind in enumerate(kinds)}) for policy in orders.ORDERS]
            plots.groups(plot, series, {place: f'{kind}\n{seconds:g} s' for place, (
                kind, (seconds, _)) in enumerate(kinds.items())})
            plots.label(plot, mix, 'slowdown (logarithmic)', log=True, room=4.0)

# SPDX-License-Identifier: Apache-2.0
"""A schedule that fails is reduced to the faults that it needs to fail (delta debugging)."""

from collections.abc import Callable
import dataclasses
import math
from typing import Any

from testing.simulation import schedule as schedules

# A part of a second is rounded away where that does not matter.
_LENGTHS = (5.0, 15.0)


def shrink(schedule: schedules.Schedule, fails: Callable[[schedules.Schedule], bool]
           ) -> schedules.Schedule:
    """Return a smaller schedule that still fails.

    :param fails: returns whether a schedule fails as the first one did
    """
    schedule = schedule.with_faults(_fewer(schedule, fails))
    schedule = _smaller_cloud(schedule, fails)
    return schedule.with_faults(_shorter(schedule, fails))


def _fewer(schedule: schedules.Schedule, fails: Callable[[schedules.Schedule], bool]
           ) -> list[schedules.Fault]:
    """Return the faults without those that are not needed, as ddmin does."""
    faults, size = list(schedule.faults), max(1, len(schedule.faults) // 2)
    while size:
        begin = 0
        while begin < len(faults):
            fewer = faults[:begin] + faults[begin + size:]
            if fails(schedule.with_faults(fewer)):
                faults = fewer
            else:
                begin += size
        size //= 2
    return faults


def _smaller_cloud(schedule: schedules.Schedule, fails: Callable[[schedules.Schedule], bool]
                   ) -> schedules.Schedule:
    """Return the schedule without servers, engines and clocks that are not needed."""
    targets = {fault.target for fault in schedule.faults}
    for name in [server for server in schedule.servers if server not in targets]:
        others = {server: values for server, values in schedule.servers.items() if server != name}
        fewer = dataclasses.replace(schedule, servers=others)
        if others and fails(fewer):
            schedule = fewer
    for name in [engine for engine in schedule.engines[1:] if engine not in targets]:
        fewer = dataclasses.replace(schedule, engines=tuple(
            engine for engine in schedule.engines if engine != name))
        if fails(fewer):
            schedule = fewer
    changes: tuple[dict[str, Any], ...] = (
        {'clocks': {}}, {'rates': {}}, {'nodes': 1}, {'options': {}})
    for change in changes:
        simpler = dataclasses.replace(schedule, **change)
        if simpler != schedule and fails(simpler):
            schedule = simpler
    return schedule


def _shorter(schedule: schedules.Schedule, fails: Callable[[schedules.Schedule], bool]
             ) -> list[schedules.Fault]:
    """Return the faults with round lengths where that is enough."""
    faults = list(schedule.faults)
    for number, fault in enumerate(faults):
        for seconds in _LENGTHS:
            shorter = dataclasses.replace(fault, lasts=seconds)
            changed = [*faults[:number], shorter, *faults[number + 1:]]
            if math.inf > fault.lasts > seconds and fails(schedule.with_faults(changed)):
                faults = changed
                break
    return faults

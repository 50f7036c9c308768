# SPDX-License-Identifier: Apache-2.0
"""Measure how late heartbeats of a host become by what tenants write into servers' metadata.

One thread beats as ``nova-compute`` does, only faster; another one reads values of
``specreds:ready`` and looks for their patterns in a console of the greatest length. The control
does the same with a value that is harmless. Only time counts in which this process had a
processor: what other programs take of a busy machine is not the tenant's doing.
"""

import threading
import time
import types

from oslo_config import cfg

from bench import options
from specreds_nova import conf as specreds_conf
from specreds_nova.host.ready import conditions
from specreds_nova.host.ready import expressions
from testing import hostile_metadata

NAME = options.HOOK
# Seconds between two beats, and how late a beat may be.
_INTERVAL = 0.02
_LATE = 0.1
_HARMLESS = 'console:login: '


class Beats:
    """A thread that beats, and notes how late each beat is."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._longest = 0.0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def longest(self) -> float:
        """Return how late the latest beat since the last call was, in seconds."""
        longest, self._longest = self._longest, 0.0
        return longest

    def end(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        due, used = time.monotonic() + _INTERVAL, time.process_time()
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            now, now_used = time.monotonic(), time.process_time()
            self._longest = max(self._longest, min(now - due, now_used - used))
            due, used = now + _INTERVAL, now_used


def read(value: str) -> None:
    """Do what a host does with a value: read it, and look for its pattern."""
    server = types.SimpleNamespace(uuid='server', metadata={conditions.KEY: value},
                                   system_metadata={})
    try:
        condition = conditions.parse(server)
    except conditions.BadCondition:
        return
    if condition.kind is conditions.Kind.CONSOLE:
        expressions.Expression(condition.argument).search(hostile_metadata.CONSOLE)


def run() -> dict[str, float]:
    """Return the figures."""
    specreds_conf.register(cfg.CONF)
    hostile: list[float] = []
    control: list[float] = []
    beats = Beats()

    def measure(value: str, delays: list[float]) -> None:
        beats.longest()
        read(value)
        # At least one beat falls into the time, or has waited for its end.
        time.sleep(_INTERVAL)
        delays.append(beats.longest())

    try:
        hostile_metadata.each(lambda value: measure(value, hostile))
        for _ in hostile:
            measure(_HARMLESS, control)
    finally:
        beats.end()
    return {'hook.hostile_values': float(len(hostile)),
            'hook.hostile_late_share': sum(delay > _LATE for delay in hostile) / len(hostile),
            'hook.hostile_delay_max_ms': max(hostile) * 1e3,
            'hook.control_late_share': sum(delay > _LATE for delay in control) / len(control),
            'hook.control_delay_max_ms': max(control) * 1e3}

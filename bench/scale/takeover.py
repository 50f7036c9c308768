# SPDX-License-Identifier: Apache-2.0
"""Measure how long the recoveries of an engine that is killed wait for another one.

Both engines have their dispatcher, conductor, fibers and rows, on one MariaDB; hosts and services
are simulated as for :mod:`bench.scale.engine`. The first engine is a process of its own, which is
killed while its recoveries race.
"""

from collections.abc import Callable, Mapping
import contextlib
import subprocess
import sys
import threading
import time
from typing import Any

from bench.scale import cloud as clouds
from bench.scale import engine
from bench.scale import latency
from bench.scale import services
from cloud import commands
from specreds_nova.engine import model

_SERVERS = 20
_ROUNDS, _QUICK_ROUNDS = 5, 2
# Seconds between two reads of the database.
_POLL = 0.01
_TIMEOUT = 60.0
_FIRST, _SECOND = 'first', 'second'


class _Cloud(clouds.Cloud):
    """A cloud whose backups run, for each engine, and never become ready."""

    def status(self, host: str, backup_id: str) -> Mapping[str, Any]:
        """Report that a backup runs."""
        self.takes(latency.RPC)
        return {'phase': 'running', 'ready': False, 'domain': {'state': 'running'}}


def run(quick: bool) -> list[float]:
    """Kill engines, and return the seconds until all recoveries of each were taken over."""
    return [_round() for _ in range(_QUICK_ROUNDS if quick else _ROUNDS)]


def _round() -> float:
    with (services.database() as url, contextlib.ExitStack() as stack):
        second = engine.Simulation(_Cloud(_SERVERS), url, _SECOND)
        process = stack.enter_context(subprocess.Popen(
            [sys.executable, '-m', 'bench.scale.takeover', url]))
        stack.callback(process.kill)
        _wait(lambda: [recovery.engine for recovery in second.store.active()
                       if recovery.state == model.RACING] == [_FIRST] * _SERVERS)
        stack.enter_context(second)
        _wait(lambda: second.votes.hearing('dead') == (_FIRST,))
        process.kill()
        began = time.monotonic()
        _wait(lambda: all(recovery.engine == _SECOND for recovery in second.store.active()))
        return time.monotonic() - began


def _wait(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + _TIMEOUT
    while not condition():
        if time.monotonic() > until:
            raise commands.CloudError(f'no recovery was taken over in {_TIMEOUT:g} s')
        time.sleep(_POLL)


def main() -> None:
    """Run the engine that is killed."""
    [url] = sys.argv[1:]
    with engine.Simulation(_Cloud(_SERVERS), url, _FIRST) as simulation:
        simulation.last_started()
        threading.Event().wait()


if __name__ == '__main__':
    main()

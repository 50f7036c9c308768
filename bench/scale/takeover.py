# SPDX-License-Identifier: Apache-2.0
"""Measure how long the recoveries of an engine that is killed wait for another one.

Both engines have their dispatcher, board, conductor and fibers, on one MariaDB and one etcd; hosts
and services are simulated as for :mod:`bench.scale.engine`. The first engine is a process of its
own, which is killed while its recoveries race. Its echoes come through a pipe instead of a broker.
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
from specreds_nova.engine.detection import colleagues

_SERVERS = 20
_ROUNDS, _QUICK_ROUNDS = 5, 2
# Seconds between two echoes, and between two reads of the database.
_ECHO, _POLL = 0.1, 0.01
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
    with (services.services() as (url, port), contextlib.ExitStack() as stack):
        clock: list[colleagues.Colleagues] = []
        second = engine.Simulation(_Cloud(_SERVERS), url, port, _SECOND,
                                  lambda: clock[0].silent() if clock else frozenset())
        clock.append(colleagues.Colleagues(second.clock, _ECHO, lambda: None))
        process = stack.enter_context(subprocess.Popen(
            [sys.executable, '-m', 'bench.scale.takeover', url, str(port)],
            stdout=subprocess.PIPE))
        stack.callback(process.kill)
        threading.Thread(target=_listen, args=(process, clock[0]), daemon=True).start()
        _wait(lambda: [recovery.engine for recovery in second.store.active()
                       if recovery.state == model.RACING] == [_FIRST] * _SERVERS)
        stack.enter_context(second)
        process.kill()
        began = time.monotonic()
        _wait(lambda: all(recovery.engine == _SECOND for recovery in second.store.active()))
        return time.monotonic() - began


def _listen(process: 'subprocess.Popen[bytes]', heard: colleagues.Colleagues) -> None:
    assert process.stdout is not None
    for _ in process.stdout:
        heard.heard(_FIRST)


def _wait(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + _TIMEOUT
    while not condition():
        if time.monotonic() > until:
            raise commands.CloudError(f'no recovery was taken over in {_TIMEOUT:g} s')
        time.sleep(_POLL)


def main() -> None:
    """Run the engine that is killed."""
    url, port = sys.argv[1:]
    with engine.Simulation(_Cloud(_SERVERS), url, int(port), _FIRST) as simulation:
        threading.Thread(target=simulation.last_started, daemon=True).start()
        while True:
            print('echo', flush=True)
            time.sleep(_ECHO)


if __name__ == '__main__':
    main()

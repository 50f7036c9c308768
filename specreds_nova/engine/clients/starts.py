# SPDX-License-Identifier: Apache-2.0
"""Starts of backups that occupy no thread while a host works on them.

A start takes a host seconds. A few starts at a time are calls, which return as soon as a backup
runs. If a rack fails, thousands of them would need as many threads: then hosts are told to start
backups, and asked for the status until they have.
"""

from collections.abc import Mapping
from typing import Any

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import fibers as all_fibers
from specreds_nova.engine.clients import backups
from specreds_nova.engine.clients import clock as clocks

# Seconds until a host is asked for the first time, and between two requests for the status.
_FIRST, _LOOK = 1.0, 0.5
# Requests for the status of all starts per second: if each of thousands had its own pace, other
# starts would not be requested.
_LOOKS = 200.0
# Seconds within which a host that works on a start knows of it. After that it is called, and
# returns why it has not started the backup.
_UNKNOWN = 5.0
_STARTING = 'starting'
# Phases of a backup that runs.
_RUNS = ('running', 'hardened')


class Backups(all_fibers.Client):
    """The hosts' backups for fibers.

    :param calls: starts that may be calls at a time
    """

    def __init__(self, fibers: all_fibers.Fibers, client: backups.Backups, clock: clocks.Clock,
                 calls: int) -> None:
        super().__init__(fibers, client)
        self._backups = client
        self._clock = clock
        self._free = calls
        # Starts that hosts work on without a call.
        self._waiting = 0

    def start(self, host: str, backup_id: str, server_id: str, superposition_id: str
              ) -> Mapping[str, Any]:
        """Start a backup; it runs when this returns."""
        what = (host, backup_id, server_id, superposition_id)
        if self._free <= 0:
            self._fibers.call(self._backups.begin, *what)
            self._waiting += 1
            try:
                status = self._await(host, backup_id)
            finally:
                self._waiting -= 1
            if (status is not None and status['phase'] in _RUNS
                    and status['superposition_id'] == superposition_id):
                return status
        # A host that has not started the backup returns why.
        self._free -= 1
        try:
            return self._fibers.call(self._backups.start, *what)
        finally:
            self._free += 1

    def _await(self, host: str, backup_id: str) -> Mapping[str, Any] | None:
        """Wait until a host has ended the start of a backup, or does not know of it.

        :returns: the status of the backup; None without one
        :raises exception.Interrupted: the engine is being stopped
        """
        until = self._clock.now() + _UNKNOWN
        self._clock.sleep(self._pause(_FIRST))
        while True:
            if self._clock.stopping():
                # The engine that takes over asks the host, which goes on.
                raise exception.Interrupted
            try:
                status: Mapping[str, Any] = self._fibers.call(
                    self._backups.status, host, backup_id)
                if status['phase'] != _STARTING:
                    return status
            except backup_errors.BackupNotFound:
                if self._clock.now() >= until:
                    return None
            self._clock.sleep(self._pause(_LOOK))

    def _pause(self, seconds: float) -> float:
        return max(seconds, self._waiting / _LOOKS)

# SPDX-License-Identifier: Apache-2.0
"""The time since which a host has not answered."""

from specreds_nova.engine.recovery import run as runs


class UnansweredSince:
    """The time since which the host of a backup has left each call unanswered."""

    def __init__(self, run: runs.Run, host: str) -> None:
        self._run = run
        self._host = host
        self._since: float | None = None

    def lasts(self) -> bool:
        """Note an unanswered call, and return whether the host has to be given up."""
        if self._since is None:
            self._since = self._run.now
        return self._run.lost(self._host, self._since)

    def ends(self) -> None:
        """Note an answer."""
        self._since = None

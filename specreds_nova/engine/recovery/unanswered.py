# SPDX-License-Identifier: Apache-2.0
"""How long the host of a backup has not answered."""

from specreds_nova.engine.recovery import run as runs


class UnansweredSince:
    """For how long a backup's host has been asked for nothing.

    :param host: its name
    """

    def __init__(self, run: runs.Run, host: str) -> None:
        self._run = run
        self._host = host
        self._since: float | None = None

    def lasts(self) -> bool:
        """Note that it does not answer, and tell whether it is to be given up."""
        if self._since is None:
            self._since = self._run.now
        return self._run.lost(self._host, self._since)

    def ends(self) -> None:
        """Note that it has answered."""
        self._since = None

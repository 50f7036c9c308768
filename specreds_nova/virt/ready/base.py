# SPDX-License-Identifier: Apache-2.0
"""Base class of the probes of backups."""

import abc


class Probe(abc.ABC):
    """Checks one running backup.

    :ivar learned_marker: what the console showed at the end of the boot; None if that is unknown
    """

    # Seconds between two checks.
    interval = 0.1
    learned_marker: str | None = None

    @abc.abstractmethod
    def look(self) -> str | None:
        """Return what was observed, once the condition holds; None before."""

    def close(self) -> None:
        """Release resources."""
        return

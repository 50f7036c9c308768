# SPDX-License-Identifier: Apache-2.0
"""Base class of the probes of backups."""

import abc


class Probe(abc.ABC):
    """Checks one running backup."""

    # Seconds between two checks.
    interval = 0.1

    @abc.abstractmethod
    def look(self) -> str | None:
        """Return what was observed, once the condition holds; None before."""

    def close(self) -> None:
        """Release resources."""
        return

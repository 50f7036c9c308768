# SPDX-License-Identifier: Apache-2.0
"""Since when engines have ceased to renew the leases on the network of hosts."""

from collections.abc import Iterable
import threading
from typing import Any

from specreds_nova.engine import model

# Seconds after it was read for which an engine relies on what the database says of hosts.
FRESH = 0.5


class Leases:
    """What this engine has seen of it, by its own clock. For use by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By host: since when it is suspected, as the database has it, and when that was read.
        self._refused: dict[str, tuple[float, float]] = {}

    def note(self, hosts: Iterable[model.Host], at: float) -> None:
        """Take what was read of hosts.

        :param at: a moment after that, in seconds since the epoch
        """
        with self._lock:
            for host in hosts:
                if host.state == model.TRUSTED:
                    self._refused.pop(host.name, None)
                elif self._refused.get(host.name, (None,))[0] != host.since:
                    self._refused[host.name] = host.since, at

    def left(self, host: model.Host, now: float, options: Any) -> float:
        """Return the seconds until a host's lease is over, 0 for a host that is trusted.

        A host that is trusted is heard, so that its sentinel hears what is decided.

        :param host: as it was read just before
        :param options: group ``[engine]``
        """
        self.note([host], now)
        if host.state == model.TRUSTED or not options.sentinel_network_lease:
            return 0.0
        with self._lock:
            _, noted = self._refused[host.name]
        over = noted + FRESH + options.sentinel_network_lease + options.network_lease_margin
        return max(0.0, float(over) - now)

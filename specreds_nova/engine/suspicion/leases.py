# SPDX-License-Identifier: Apache-2.0
"""The time since which engines have stopped renewing the network leases of hosts."""

from collections.abc import Callable, Iterable, Sequence
import threading
from typing import Any

from specreds_nova.engine import model

# Seconds for which an engine relies on a reading of the hosts in the database.
FRESH = 0.5


class Leases:
    """The suspicions that this engine has read, by its own clock. Thread-safe.

    :param last_heard: returns a time after which no engine has heard a host; None if an engine has
        not said so since a time
    """

    def __init__(self, last_heard: Callable[[str, float], float | None] = lambda host, since: None
                 ) -> None:
        self._last_heard = last_heard
        self._lock = threading.Lock()
        # By host: time of the suspicion in the database, and time at which it was read.
        self._refused: dict[str, tuple[float, float]] = {}

    def note(self, hosts: Iterable[model.Host], at: float) -> None:
        """Take hosts as they were read from the database.

        :param at: a time after the reading, by the engine's clock
        """
        with self._lock:
            for host in hosts:
                if host.state == model.TRUSTED:
                    self._refused.pop(host.name, None)
                elif self._refused.get(host.name, (None,))[0] != host.since:
                    self._refused[host.name] = host.since, at

    def note_all(self, refused: Sequence[model.Host], at: float) -> None:
        """Take all hosts that are not trusted, as they were read from the database.

        :param at: a time after the reading, by the engine's clock
        """
        names = {host.name for host in refused}
        with self._lock:
            for name in self._refused.keys() - names:
                del self._refused[name]
        self.note(refused, at)

    def known(self, host: model.Host, now: float) -> float | None:
        """Return for how many seconds this engine has known a suspicion; None for a trusted host.

        No clock of a system is needed for that, which may be set meanwhile.

        :param host: as it was read just before
        """
        self.note([host], now)
        if host.state == model.TRUSTED:
            return None
        with self._lock:
            # Another thread may have read the hosts before this suspicion.
            _, noted = self._refused.get(host.name, (host.since, now))
        return max(0.0, now - noted)

    def silence(self, host: model.Host, now: float) -> float | None:
        """Return for how many seconds no engine has answered a beat of a host; None if trusted.

        Engines answer beats until ``FRESH`` seconds after the suspicion. An engine that votes
        after that tells when it has heard the host last, and it has answered no later beat.

        :param host: as it was read just before
        """
        known = self.known(host, now)
        if known is None:
            return None
        refused = now - known + FRESH
        last = self._last_heard(host.name, refused)
        return now - (refused if last is None else min(last, refused))

    def left(self, host: model.Host, now: float, settings: Any) -> float:
        """Return the seconds until a host's lease is over, 0 for a host that is trusted.

        A host that is trusted is heard, so that its sentinel hears what is decided.

        :param host: as it was read just before
        :param settings: of recoveries
        """
        silence = self.silence(host, now)
        if silence is None or not settings.sentinel_network_lease:
            return 0.0
        lease = settings.sentinel_network_lease + settings.network_lease_margin
        return max(0.0, float(lease) - silence)

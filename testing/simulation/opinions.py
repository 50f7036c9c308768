# SPDX-License-Identifier: Apache-2.0
"""The second opinion of simulated sentinels: which servers run, as they answer through Ceph."""

from testing.simulation import cloud as clouds
from testing.simulation import hub as hubs
from testing.simulation import parts

# Seconds until the first answer of a sentinel, for which answers count, and for which a host asks
# for more of them after a status was read, and after the start of a backup.
_FIRST, _FRESH, _INTERESTING, _STARTING = (0.05, 0.7), 3.0, 5.0, 120.0
# Seconds that a sentinel has to answer.
_TIMEOUT = 1.0


class Cloud(clouds.Cloud):
    """A cloud in which the hosts of backups ask the sentinels of primaries."""

    def __init__(self, hub: hubs.Hub) -> None:
        super().__init__(hub)
        # By host that asks and host that is asked: when the first answer comes, until when
        # it asks, and when which servers were running by the latest answer.
        self._opinions: dict[tuple[str, str], tuple[float, float]] = {}
        self._answers: dict[tuple[str, str], tuple[float, frozenset[str]]] = {}
        self._unanswered: dict[tuple[str, str], float] = {}

    def answers(self, name: str) -> bool:
        """Return whether the sentinel of a host answers through Ceph which servers run."""
        host = self.hosts[name]
        return self.second_opinion and host.alive and host.storage and host.sentinel and (
            not host.paused)

    def expect_answers(self, server_id: str, asker: str) -> None:
        """Have a host ask the sentinel of a primary, as a backup starts there."""
        server = self.servers.get(server_id)
        if self.second_opinion and server is not None and server.primary is not None:
            self._ask((asker, server.primary.host), _STARTING)

    def _ask(self, pair: tuple[str, str], seconds: float) -> float:
        """Have a host ask a sentinel, and return when it has the first answer."""
        now = self.hub.now()
        first, until = self._opinions.get(pair, (0.0, float('-inf')))
        if now > until:
            first = now + self.hub.random.uniform(*_FIRST)
            self._answers.pop(pair, None)
            self._unanswered.pop(pair, None)
        self._opinions[pair] = first, max(until, now + seconds)
        return first

    def primary_runs(self, server: parts.Server | None, asker: str) -> bool | None:
        """Return whether a server runs by the sentinel of its host; None without an answer."""
        if not self.second_opinion or server is None or server.primary is None:
            return None
        host, now = server.primary.host, self.hub.now()
        pair = asker, host
        first = self._ask(pair, _INTERESTING)
        if now >= first and self.hosts[asker].storage and self.answers(host):
            self._answers[pair] = now, frozenset(
                other.name for other in self.servers.values() for copy in other.copies
                if copy.host == host and copy.runs and not copy.fenced)
        elif now >= first + _TIMEOUT and self.hosts[asker].storage and self.hosts[host].sentinel:
            self._unanswered[pair] = now
        at, running = self._answers.get(pair, (float('-inf'), frozenset()))
        return server.name in running if now - at < _FRESH else None

    def is_silent(self, server: parts.Server | None, asker: str) -> bool:
        """Return whether the sentinel of a server was asked, and has not answered in time.

        One that does not run has no watch, and cannot be asked.
        """
        if server is None or server.primary is None:
            return False
        pair = asker, server.primary.host
        return self._unanswered.get(pair, float('-inf')) > self._answers.get(
            pair, (float('-inf'), None))[0]

# SPDX-License-Identifier: Apache-2.0
"""What Nova says of a host whose beat is late, asked before it is suspected.

From the first beat that is missing until the suspicion there is more time than Nova usually takes
to answer. What was asked for then is as good as what is asked later: a host that is silent does
nothing. If it has spoken since, or some seconds have passed, it is asked for anew.
"""

from collections.abc import Mapping
from concurrent import futures
import dataclasses
import threading
from typing import Any, Protocol

from specreds_nova.engine import interfaces
from specreds_nova.engine import model

# Seconds for which an answer is good.
_GOOD = 2.0
# Hosts of which it is asked ahead at once; with more it is rather the network.
_MOST = 4
_THREADS = 16


class HostQueries(Protocol):
    """Who is asked of hosts.

    :raises exception.Unreachable: of every method but the first, when Nova does not answer
    """

    def begin(self, host: str, since: float) -> None:
        """Ask, and do not wait for the answer.

        :param since: an answer to what was asked later is good, in seconds since the epoch
        """

    def service(self, host: str, since: float) -> Mapping[str, Any]:
        """Give what Nova says of a host's nova-compute."""

    def servers(self, host: str, since: float) -> list[model.Server]:
        """Give the servers of a host."""


class DirectQueries:
    """Asks when it is needed."""

    def __init__(self, compute: interfaces.Compute) -> None:
        self._compute = compute

    def begin(self, host: str, since: float) -> None:
        """Do nothing yet."""

    def service(self, host: str, since: float) -> Mapping[str, Any]:
        """Ask."""
        del since
        return self._compute.service(host)

    def servers(self, host: str, since: float) -> list[model.Server]:
        """Ask."""
        del since
        return self._compute.servers(host)


@dataclasses.dataclass(frozen=True)
class _Asked:
    at: float
    service: futures.Future[Mapping[str, Any]]
    servers: futures.Future[list[model.Server]]

    def done(self) -> bool:
        """Tell whether all is answered."""
        return self.service.done() and self.servers.done()


class NovaPrefetch:
    """Asks as soon as there is a doubt, for everything at once. May be used by several threads."""

    def __init__(self, compute: interfaces.Compute, clock: interfaces.Clock) -> None:
        self._compute = compute
        self._clock = clock
        self._lock = threading.Lock()
        self._asked: dict[str, _Asked] = {}
        self._pool = futures.ThreadPoolExecutor(_THREADS, 'ahead')

    def doubt(self, host: str) -> None:
        """A host may be about to be suspected. Returns at once."""
        with self._lock:
            self._tidy()
            if sum(not one.done() for one in self._asked.values()) < _MOST:
                self._ask(host)

    def begin(self, host: str, since: float) -> None:
        """Ask, unless that was done."""
        self._known(host, since)

    def service(self, host: str, since: float) -> Mapping[str, Any]:
        """Give what Nova says of a host's nova-compute."""
        return self._known(host, since).service.result()

    def servers(self, host: str, since: float) -> list[model.Server]:
        """Give the servers of a host."""
        return self._known(host, since).servers.result()

    def close(self) -> None:
        """Ask nothing any more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _known(self, host: str, since: float) -> _Asked:
        with self._lock:
            self._tidy()
            known = self._asked.get(host)
            if known is None or known.at < since or self._failed(known):
                known = self._ask(host)
            return known

    @staticmethod
    def _failed(known: _Asked) -> bool:
        return any(one.done() and one.exception() is not None
                   for one in (known.service, known.servers))

    def _ask(self, host: str) -> _Asked:
        asked = _Asked(self._clock.now(), self._pool.submit(self._compute.service, host),
                       self._pool.submit(self._compute.servers, host))
        self._asked[host] = asked
        return asked

    def _tidy(self) -> None:
        """Forget what is not good any more, but for what is waited for."""
        late = self._clock.now() - _GOOD
        self._asked = {host: one for host, one in self._asked.items() if one.at >= late}

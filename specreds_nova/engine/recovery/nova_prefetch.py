# SPDX-License-Identifier: Apache-2.0
"""Nova's answers about a host whose beat is late, requested before the host is suspected.

Nova usually answers within the time from the first missing beat to the suspicion. An early answer
is as good as a later one, because a silent host changes nothing. If the host was heard again, or
if the answer is some seconds old, Nova is asked again.
"""

from collections.abc import Mapping
from concurrent import futures
import dataclasses
import threading
from typing import Any

from specreds_nova.engine import model
from specreds_nova.engine.clients import clock as clocks
from specreds_nova.engine.clients import compute as nova_clients

# Seconds for which an answer is valid.
_GOOD = 2.0
# Hosts for which requests are sent ahead at once; if more are late, the network is the cause.
_MOST = 4
_THREADS = 6


@dataclasses.dataclass(frozen=True)
class _Request:
    at: float
    service: futures.Future[Mapping[str, Any]]
    servers: futures.Future[list[model.Server]]

    def done(self) -> bool:
        """Return whether both answers have come."""
        return self.service.done() and self.servers.done()


class NovaPrefetch:
    """Sends both requests as soon as a host is in doubt. May be used by several threads.

    :raises exception.Unreachable: :meth:`service` and :meth:`servers`, when Nova does not answer
    """

    def __init__(self, compute: nova_clients.Compute, clock: clocks.Clock) -> None:
        self._compute = compute
        self._clock = clock
        self._lock = threading.Lock()
        self._requests: dict[str, _Request] = {}
        self._pool = futures.ThreadPoolExecutor(_THREADS, 'nova-prefetch')

    def doubt(self, host: str) -> None:
        """Send requests about a host that may soon be suspected. Returns at once."""
        with self._lock:
            self._expire()
            if sum(not request.done() for request in self._requests.values()) < _MOST:
                self._ask(host)

    def begin(self, host: str, since: float) -> None:
        """Send the requests, unless valid answers exist; return before answers come.

        :param since: answers to requests after this time are valid, in seconds since the epoch
        """
        self._known(host, since)

    def service(self, host: str, since: float) -> Mapping[str, Any]:
        """Return Nova's description of a host's nova-compute."""
        return self._known(host, since).service.result()

    def servers(self, host: str, since: float) -> list[model.Server]:
        """Return the servers of a host."""
        return self._known(host, since).servers.result()

    def close(self) -> None:
        """Cancel the requests that have not been sent."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _known(self, host: str, since: float) -> _Request:
        with self._lock:
            self._expire()
            request = self._requests.get(host)
            if request is None or request.at < since or self._failed(request):
                request = self._ask(host)
            return request

    @staticmethod
    def _failed(request: _Request) -> bool:
        return any(answer.done() and answer.exception() is not None
                   for answer in (request.service, request.servers))

    def _ask(self, host: str) -> _Request:
        request = _Request(self._clock.now(), self._pool.submit(self._compute.service, host),
                       self._pool.submit(self._compute.servers, host))
        self._requests[host] = request
        return request

    def _expire(self) -> None:
        """Forget answers that are too old; callers that wait for one keep it."""
        late = self._clock.now() - _GOOD
        self._requests = {host: request for host, request in self._requests.items()
                          if request.at >= late}

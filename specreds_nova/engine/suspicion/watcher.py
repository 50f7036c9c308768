# SPDX-License-Identifier: Apache-2.0
"""The receiver of what the monitor of an engine notices."""

from collections.abc import Callable, Iterable, Mapping
import dataclasses
import queue
from typing import Any

from oslo_log import log as logging

from specreds_nova.engine import metrics as counted
from specreds_nova.engine import model

LOG = logging.getLogger(__name__)

Why = tuple[Mapping[str, Any], ...]
# A method of a watcher, and its arguments.
News = tuple[str, tuple[Any, ...]]


@dataclasses.dataclass(frozen=True)
class HostAppeared:
    """A host was heard for the first time."""

    host: str
    kernel: str


@dataclasses.dataclass(frozen=True)
class GoodbyeChanged:
    """A host said goodbye; or it is heard again, and ``goodbye`` is None."""

    host: str
    goodbye: str | None
    at: float | None


class Watcher:
    """Queues the events of the detector, so that the detector does not wait for others.

    The thread that ticks calls it, which must not wait. It may call the monitor.

    :ivar doubt: receives a host that may be suspected soon
    :ivar crash: receives the crash of a server
    :ivar boot: receives another boot of a host, after the crashes of servers that it has ended
    """

    def __init__(self, metrics: counted.Metrics) -> None:
        self.news: queue.Queue[Any] = queue.Queue()
        self.doubt: Callable[[str], None] = lambda host: None
        self.crash: Callable[[str, str, Why], None] = lambda *crash: None
        self.boot: Callable[[str, str], None] = lambda host, kernel: None
        self._metrics = metrics

    def appeared(self, host: str, kernel: str) -> None:
        """Receive a host that was heard for the first time."""
        LOG.info('host %s is heard for the first time', host)
        self.news.put(HostAppeared(host, kernel))

    def left(self, host: str, goodbye: str | None, at: float | None) -> None:
        """Receive the goodbye of a host, or its end."""
        if goodbye is not None:
            LOG.info('host %s says goodbye: %s', host, goodbye)
        self.news.put(GoodbyeChanged(host, goodbye, at))

    def doubted(self, host: str) -> None:
        """Receive a host that may be suspected soon."""
        self.doubt(host)

    def suspected(self, host: str, why: Why) -> None:
        """Receive a suspicion."""
        LOG.info('host %s seems to have failed: %s', host,
                 '; '.join(str(fact.get('words')) for fact in why))
        self._metrics.suspicions.inc()
        self.news.put(host)

    def cleared(self, host: str) -> None:
        """Receive the end of a suspicion."""
        LOG.info('host %s is well again', host)
        self._metrics.false_suspicions.inc()

    def crashed(self, host: str, server: str, why: Why) -> None:
        """Receive the crash of a server, or of any server, on a host that is well."""
        if server == model.ANY_SERVER:
            LOG.warning('host %s has booted, and not in good order: Nova names the servers that '
                        'it may have lost', host)
        else:
            LOG.warning('server %s on %s has crashed', server, host)
        self.crash(host, server, why)

    def booted(self, host: str, kernel: str) -> None:
        """Receive another boot of a host, after the crashes of the servers that it has ended."""
        self.boot(host, kernel)


def tell(watcher: Watcher, news: Iterable[News]) -> None:
    """Call a watcher, whatever it raises: an error of one host must not affect the others."""
    for name, arguments in news:
        try:
            getattr(watcher, name)(*arguments)
        except Exception:
            LOG.exception('%s: %s', name, arguments)

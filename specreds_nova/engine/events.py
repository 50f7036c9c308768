# SPDX-License-Identifier: Apache-2.0
"""Route detector and recovery events to metrics, notifications and callbacks."""

from collections.abc import Callable
import dataclasses
import queue
from typing import Any

from oslo_log import log as logging

from specreds_nova.engine import metrics as counted
from specreds_nova.engine import model
from specreds_nova.engine import notify
from specreds_nova.engine.detection import watcher
from specreds_nova.engine.recovery import observer

LOG = logging.getLogger(__name__)


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

    :ivar doubt: receives a host that may be suspected soon
    :ivar crash: receives the crash of a server
    :ivar boot: receives another boot of a host, after the crashes of servers that it has ended
    """

    def __init__(self, metrics: counted.Metrics) -> None:
        self.news: queue.Queue[Any] = queue.Queue()
        self.doubt: Callable[[str], None] = lambda host: None
        self.crash: Callable[[str, str, watcher.Why], None] = lambda *crash: None
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

    def suspected(self, host: str, why: watcher.Why) -> None:
        """Receive a suspicion."""
        LOG.info('host %s seems to have failed: %s', host,
                 '; '.join(str(fact.get('words')) for fact in why))
        self._metrics.suspected()
        self.news.put(host)

    def cleared(self, host: str) -> None:
        """Receive the end of a suspicion."""
        LOG.info('host %s is well again', host)
        self._metrics.cleared()

    def crashed(self, host: str, server: str, why: watcher.Why) -> None:
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


class Observer(observer.Observer):
    """Counts and notifies what happens to recoveries and hosts."""

    def __init__(self, metrics: counted.Metrics, notifications: notify.Notifications) -> None:
        self._metrics = metrics
        self._notifications = notifications

    def step(self, name: str, seconds: float) -> None:
        """Count a step."""
        self._metrics.step(name, seconds)

    def recovery(self, phase: observer.Phase, recovery: model.Recovery) -> None:
        """Count and notify the phase of a recovery."""
        if phase == 'end' and recovery.outcome is not None:
            self._metrics.ended(recovery.outcome)
        self._notifications.recovery(phase, recovery)

    def host(self, phase: observer.HostPhase, host: model.Host) -> None:
        """Count and notify the phase of a host."""
        if phase in ('hold', 'release'):
            self._metrics.held(ends=phase == 'release')
        self._notifications.host(phase, host)

# SPDX-License-Identifier: Apache-2.0
"""Who is told what, between the parts of an engine, and how it is counted and notified."""

from collections.abc import Callable
import dataclasses
import queue
from typing import Any

from oslo_log import log as logging

from specreds_nova.engine import metrics as counted
from specreds_nova.engine import model
from specreds_nova.engine import notify
from specreds_nova.engine.detection import monitor as monitors
from specreds_nova.engine.recovery import observer

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Appeared:
    """A host that was heard of for the first time."""

    host: str


@dataclasses.dataclass(frozen=True)
class Left:
    """A host that said goodbye, or that is heard again: then ``goodbye`` is None."""

    host: str
    goodbye: str | None
    at: float | None


class Watcher:
    """Passes on what the detector tells, so that it is not held up.

    :ivar doubt: takes a host that may be suspected soon
    :ivar crash: takes the crash of a server
    """

    def __init__(self, metrics: counted.Metrics) -> None:
        self.news: queue.Queue[Any] = queue.Queue()
        self.doubt: Callable[[str], None] = lambda host: None
        self.crash: Callable[[str, str, monitors.Why], None] = lambda *told: None
        self._metrics = metrics

    def appeared(self, host: str) -> None:
        """A host was heard of for the first time."""
        LOG.info('host %s is heard', host)
        self.news.put(Appeared(host))

    def left(self, host: str, goodbye: str | None, at: float | None) -> None:
        """A host said goodbye, or is heard again."""
        if goodbye is not None:
            LOG.info('host %s says goodbye: %s', host, goodbye)
        self.news.put(Left(host, goodbye, at))

    def doubted(self, host: str) -> None:
        """A host may be suspected soon."""
        self.doubt(host)

    def suspected(self, host: str, why: monitors.Why) -> None:
        """A host is suspected."""
        LOG.info('host %s seems to have failed: %s', host,
                 '; '.join(str(one.get('words')) for one in why))
        self._metrics.suspected()
        self.news.put(host)

    def cleared(self, host: str) -> None:
        """A host is not suspected any more."""
        LOG.info('host %s is well after all', host)
        self._metrics.cleared()

    def crashed(self, host: str, server: str, why: monitors.Why) -> None:
        """The domain of one server has crashed; its host is well."""
        LOG.warning('server %s on %s has crashed', server, host)
        self.crash(host, server, why)


class Observer(observer.Observer):
    """Counts and notifies.

    :ivar freed: told of recoveries that need no slot any more
    """

    def __init__(self, metrics: counted.Metrics, notifications: notify.Notifications) -> None:
        self._metrics = metrics
        self._notifications = notifications
        self.freed: Callable[[str], None] = lambda recovery_id: None

    def step(self, name: str, seconds: float) -> None:
        """A step has ended."""
        self._metrics.step(name, seconds)

    def recovery(self, phase: observer.Phase, recovery: model.Recovery) -> None:
        """A recovery has come so far."""
        if phase == 'end' and recovery.outcome is not None:
            self._metrics.ended(recovery.outcome)
        self._notifications.recovery(phase, recovery)

    def host(self, phase: observer.HostPhase, host: model.Host) -> None:
        """A host is suspected, or not any more, or a gate holds back what is to be done."""
        self._notifications.host(phase, host)

    def serves(self, recovery_id: str) -> None:
        """A recovery needs no slot any more."""
        self.freed(recovery_id)

# SPDX-License-Identifier: Apache-2.0
"""The loop that acts on the events of the detector: suspicions, new hosts and goodbyes."""

from collections.abc import Callable, Sequence
import contextlib
import queue
from typing import Any

from oslo_log import log as logging

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.clients import clock as clocks
from specreds_nova.engine.recovery import dispatch
from specreds_nova.engine.store import store as stores
from specreds_nova.engine.suspicion import holding
from specreds_nova.engine.suspicion import monitor as monitors
from specreds_nova.engine.suspicion import watcher

LOG = logging.getLogger(__name__)

# Seconds between two looks at hosts that are held back.
_HELD = 0.25
# Seconds for which more suspicions are gathered when several hosts are late.
_GATHER = 0.1
# Seconds for which the loop waits for events, to show that it does not hang.
_IDLE = 5.0
# Seconds between two looks for hosts that are suspected, and were overlooked.
_OVERLOOKED = 5.0
# Suspected hosts from which on the services are asked only about those that the engine would act
# on by what it hears alone.
_MANY = 100
# A timeout that is over at once.
_NOW = 1e-6
# Hosts that are recorded in one transaction.
_RECORDED = 500

_STOP = object()


class EventLoop:
    """Acts on events. For use by one thread, but for :meth:`stop`.

    :param news: the events of the detector
    """

    def __init__(self, news: 'queue.Queue[Any]', monitor: monitors.Monitor,
                 dispatcher: dispatch.Dispatcher, store: stores.Store,
                 clock: clocks.Clock) -> None:
        self._news = news
        self._monitor = monitor
        self._dispatcher = dispatcher
        self._store = store
        self._clock = clock

    def stop(self) -> None:
        """End the loop after the events that wait."""
        self._news.put(_STOP)

    def run(self, stopping: Callable[[], bool], progress: Callable[[], None]) -> None:
        """Act on events, and again on hosts that are held back, until the engine stops.

        :param progress: called at each turn, to show that this thread does not hang
        """
        held = holding.Holding(self._clock, self._dispatcher.hold)
        looked = float('-inf')
        while not stopping():
            progress()
            # Suspicions may be lost, with an earlier thread or by whatever else: what counts is
            # which hosts are suspected.
            if self._clock.now() - looked >= _OVERLOOKED:
                looked = self._clock.now()
                for name in self._overlooked(held):
                    self._news.put(name)
            news = self._next(_HELD if held.names() else _IDLE)
            if _STOP in news:
                return
            suspected = [name for name in news if isinstance(name, str)]
            if suspected or not news:
                self._act([*dict.fromkeys(suspected)] or held.names(), held)
            self._record([other for other in news if isinstance(other, watcher.HostAppeared)])
            for other in news:
                if isinstance(other, watcher.GoodbyeChanged):
                    self._record_goodbye(other)

    def _overlooked(self, held: holding.Holding) -> list[str]:
        """Return the hosts that are suspected, not held back, and trusted by the database."""
        suspected = {*self._monitor.all_suspected()}.difference(held.names())
        if not suspected:
            return []
        try:
            known = {host.name for host in self._store.notable_hosts()
                     if host.state != model.TRUSTED}
        except exception.EngineError as exc:
            LOG.warning('suspected hosts are looked up later: %s', exc)
            return []
        return sorted(suspected - known)

    def _next(self, seconds: float) -> list[Any]:
        """Return all waiting events of the detector; none if there are none for some seconds."""
        news: list[Any] = []
        with contextlib.suppress(queue.Empty):
            news.append(self._news.get(timeout=seconds))
            # Thousands of hosts may appear at once, and no suspicion waits for them.
            while True:
                news.append(self._news.get(timeout=_NOW))
        name = next((name for name in news if isinstance(name, str)), None)
        return news if name is None else news + self._more(name)

    def _more(self, name: str) -> list[Any]:
        """Return the news that follow a suspicion: hosts of a rack fail together."""
        others = self._monitor.facts(name).silent - {name}
        news: list[Any] = []
        with contextlib.suppress(queue.Empty):
            # Nothing is to be waited for while no other host is silent.
            until = self._clock.now() + (_GATHER if others else 0.0)
            while True:
                news.append(self._news.get(
                    timeout=max(0.0, until - self._clock.now()) or _NOW))
        return news

    def _record(self, hosts: Sequence[watcher.HostAppeared]) -> None:
        """Record hosts, for engines that start after their death."""
        try:
            for first in range(0, len(hosts), _RECORDED):
                self._store.record({host.host: host.kernel
                                    for host in hosts[first:first + _RECORDED]})
        except exception.EngineError as exc:
            LOG.warning('hosts %s are not recorded: %s',
                        ', '.join(host.host for host in hosts), exc)

    def _record_goodbye(self, news: watcher.GoodbyeChanged) -> None:
        """Record a goodbye, for engines that start after it."""
        try:
            self._store.leave(news.host, news.goodbye, news.at)
        except exception.EngineError as exc:
            LOG.warning('host %s: its goodbye is not recorded: %s', news.host, exc)

    def _act(self, names: Sequence[str], held: holding.Holding) -> None:
        """Act on hosts, or note the reasons that hold each back."""
        suspicions, kept = [], {}
        for name in names:
            heard = self._monitor.look(name)
            if heard is None or not heard.suspected:
                held.release(name)
                continue
            if len(names) > _MANY and (
                    reasons := self._dispatcher.shut(self._monitor.facts(name))):
                kept[name] = reasons
                continue
            # An operator's word counts once.
            suspicions.append(dispatch.Suspicion(
                name, heard.why, heard.heard, heard.well if heard.word is None else None))
        if kept:
            held.keep_all(kept)
        if not suspicions:
            return
        try:
            results = self._dispatcher.suspect_all(suspicions)
        except exception.EngineError as exc:
            results = [[str(exc)] for _ in suspicions]
        except Exception:
            LOG.exception('suspected hosts cannot be recovered; they are tried again')
            results = [['an unexpected error'] for _ in suspicions]
        for suspicion, result in zip(suspicions, results, strict=True):
            reasons = result if isinstance(result, list) else [str(result) or repr(result)]
            if reasons:
                held.keep(suspicion.name, reasons)
            else:
                held.release(suspicion.name)

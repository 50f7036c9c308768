# SPDX-License-Identifier: Apache-2.0
"""The metrics of one engine for Prometheus.

All engines show the same states of hosts, sentinels and recoveries, which they read from the
database. The handbook says how to combine the values of several engines.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
import functools
import socket
import socketserver
import threading
from typing import Any
from wsgiref import simple_server

import prometheus_client
from prometheus_client import registry

from specreds_nova.beats import rejections
from specreds_nova.engine import model
from specreds_nova.engine.placing import judgement

_RECOVERY_STATES = (model.QUEUED, model.RACING, model.COMMITTED, model.MERGING)
HOLDS = BEGUN, ENDED = 'begun', 'ended'
_HEALTH = '/health'
# Seconds, from a compare-and-swap to a merge of several minutes.
_STEP_BUCKETS = (.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800)


class _Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    """Answers each request in a thread of its own."""

    daemon_threads = True


class _Server6(_Server):
    """The server for IPv6 addresses."""

    address_family = socket.AF_INET6


class _Handler(simple_server.WSGIRequestHandler):
    """Logs no requests."""

    def log_message(self, format: str, *args: Any) -> None:
        """Do nothing."""


class ByState:
    """A gauge with one value for each state.

    :param states: all states; None stands for an unknown one
    """

    def __init__(self, gauge: prometheus_client.Gauge, states: Collection[str | None]) -> None:
        self._gauge = gauge
        self._states = states
        # Series exist from the start with the value 0, so that alerts can refer to them.
        self.set({})

    def set(self, counts: Mapping[Any, int]) -> None:
        """Note how many there are in each state; 0 for those that are left out."""
        for state in self._states:
            self._gauge.labels(state or 'unknown').set(counts.get(state, 0))


class Metrics:
    """All of them. May be used by several threads.

    :param collector: where they are registered
    """

    def __init__(self, collector: registry.CollectorRegistry | None = None) -> None:
        self._registry = collector or registry.CollectorRegistry()
        counter = functools.partial(prometheus_client.Counter, registry=self._registry)
        gauge = functools.partial(prometheus_client.Gauge, registry=self._registry)
        self.beats = counter('specreds_heartbeats', 'Heartbeats of hosts that were heard.')
        self.rejected = counter(
            'specreds_rejected_messages', 'Messages of hosts and engines that did not count, by '
            'reason.', ['reason'])
        self.dropped = counter(
            'specreds_dropped_heartbeats', 'Heartbeats that were not heard, as a later one of the '
            'same host had already come.')
        self.overload = gauge(
            'specreds_overload_seconds', 'Seconds by which the engine reads messages late, if '
            'that is too late to judge hosts; otherwise 0.')
        self.hosts = ByState(gauge('specreds_hosts', 'Hosts by their state.', ['state']),
                             model.HOST_STATES)
        self.modes = ByState(
            gauge('specreds_host_modes', 'Hosts that engines have heard, by their mode.',
                  ['mode']), model.MODES)
        self.sentinels = ByState(
            gauge('specreds_sentinels', 'Hosts by the state of their sentinels, as the hosts '
                  'report it.', ['state']), (*model.SENTINEL_STATES, None))
        self.voices = ByState(
            gauge('specreds_voices', 'Hosts by the voices of theirs that engines hear.',
                  ['state']), (*model.VOICES, None))
        self.suspicions = counter('specreds_suspicions', 'Suspicions of hosts.')
        self.false_suspicions = counter('specreds_false_suspicions',
                                        'Suspicions of hosts that were well.')
        self.holds = counter(
            'specreds_holds', 'Hosts that were held back by gates, by whether a hold has begun or '
            'ended.', ['phase'])
        self.unready = counter('specreds_unready',
                               'Promoted guests that were not ready in their time.')
        self.ended = counter('specreds_recoveries', 'Recoveries that have ended, by outcome.',
                             ['outcome'])
        self.active = ByState(
            gauge('specreds_active_recoveries', 'Recoveries that have not ended, by state.',
                  ['state']), _RECOVERY_STATES)
        self.steps = prometheus_client.Histogram(
            'specreds_step_seconds', 'Duration of the steps of recoveries.', ['step'],
            buckets=_STEP_BUCKETS, registry=self._registry)
        self.backups = gauge('specreds_backups_running',
                             'Backups that run and are not promoted.')
        self.servers = ByState(
            gauge('specreds_servers', 'Servers by what they would get if their host failed.',
                  ['recovery']), judgement.CLASSES)
        self.roomless = gauge(
            'specreds_servers_without_room', 'Servers for which no other host has room if their '
            'host fails, as Placement estimates.')
        for metric, labels in ((self.ended, model.OUTCOMES), (self.holds, HOLDS),
                               (self.rejected, rejections.REASONS)):
            for label in labels:
                metric.labels(label)

    def serve(self, port: int, host: str, problems: Callable[[], list[str]]) -> int:
        """Serve ``/metrics`` and ``/health`` from threads until the process ends.

        :param port: port to listen on; 0 for any free port
        :param problems: returns the problems of the process
        :returns: the port
        :raises OSError: the port is in use
        """
        metrics: Callable[[Any, Any], list[bytes]] = prometheus_client.make_wsgi_app(
            self._registry)

        def answer(environ: Any, start: Any) -> Iterable[bytes]:
            if environ.get('PATH_INFO') != _HEALTH:
                return metrics(environ, start)
            lines = problems()
            start('503 Service Unavailable' if lines else '200 OK',
                  [('Content-Type', 'text/plain; charset=utf-8')])
            return ['\n'.join([*(lines or ['ok']), '']).encode()]

        server = simple_server.make_server(
            host, port, answer, _Server6 if ':' in host else _Server, _Handler)
        threading.Thread(target=server.serve_forever, name='metrics', daemon=True).start()
        return server.server_port

    def text(self) -> str:
        """Return the metrics in the format of Prometheus."""
        return prometheus_client.generate_latest(self._registry).decode()

# SPDX-License-Identifier: Apache-2.0
"""The metrics of one engine for Prometheus.

All engines show the same states of hosts, sentinels and recoveries, which they read from the
database. The handbook says how to combine the values of several engines.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
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
_HOLDS = ('begun', 'ended')
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


class Metrics:
    """All of them. May be used by several threads.

    :param collector: where they are registered
    """

    def __init__(self, collector: registry.CollectorRegistry | None = None) -> None:
        self._registry = collector or registry.CollectorRegistry()
        self._beats = prometheus_client.Counter(
            'specreds_heartbeats', 'Heartbeats of hosts that were heard.',
            registry=self._registry)
        self._rejected = prometheus_client.Counter(
            'specreds_rejected_messages', 'Messages of hosts and engines that did not count, by '
            'reason.', ['reason'], registry=self._registry)
        self._dropped = prometheus_client.Counter(
            'specreds_dropped_heartbeats', 'Heartbeats that were not heard, as a later one of the '
            'same host had already come.', registry=self._registry)
        self._overload = prometheus_client.Gauge(
            'specreds_overload_seconds', 'Seconds by which the engine reads messages late, if '
            'that is too late to judge hosts; otherwise 0.', registry=self._registry)
        self._hosts = prometheus_client.Gauge(
            'specreds_hosts', 'Hosts by their state.', ['state'], registry=self._registry)
        self._modes = prometheus_client.Gauge(
            'specreds_host_modes', 'Hosts that engines have heard, by their mode.', ['mode'],
            registry=self._registry)
        self._sentinels = prometheus_client.Gauge(
            'specreds_sentinels', 'Hosts by the state of their sentinels, as the hosts report it.',
            ['state'], registry=self._registry)
        self._voices = prometheus_client.Gauge(
            'specreds_voices', 'Hosts by the voices of theirs that engines hear.', ['state'],
            registry=self._registry)
        self._suspicions = prometheus_client.Counter(
            'specreds_suspicions', 'Suspicions of hosts.', registry=self._registry)
        self._false = prometheus_client.Counter(
            'specreds_false_suspicions', 'Suspicions of hosts that were well.',
            registry=self._registry)
        self._holds = prometheus_client.Counter(
            'specreds_holds', 'Hosts that were held back by gates, by whether a hold has begun or '
            'ended.', ['phase'], registry=self._registry)
        self._unready = prometheus_client.Counter(
            'specreds_unready', 'Promoted guests that were not ready in their time.',
            registry=self._registry)
        self._ended = prometheus_client.Counter(
            'specreds_recoveries', 'Recoveries that have ended, by outcome.', ['outcome'],
            registry=self._registry)
        self._active = prometheus_client.Gauge(
            'specreds_active_recoveries', 'Recoveries that have not ended, by state.', ['state'],
            registry=self._registry)
        self._steps = prometheus_client.Histogram(
            'specreds_step_seconds', 'Duration of the steps of recoveries.', ['step'],
            buckets=_STEP_BUCKETS, registry=self._registry)
        self._backups = prometheus_client.Gauge(
            'specreds_backups_running', 'Backups that run and are not promoted.',
            registry=self._registry)
        self._servers = prometheus_client.Gauge(
            'specreds_servers', 'Servers by what they would get if their host failed.',
            ['recovery'], registry=self._registry)
        self._roomless = prometheus_client.Gauge(
            'specreds_servers_without_room', 'Servers for which no other host has room if their '
            'host fails, as Placement estimates.', registry=self._registry)
        # Series exist from the start with the value 0, so that alerts can refer to them.
        for outcome in model.OUTCOMES:
            self._ended.labels(outcome)
        for phase in _HOLDS:
            self._holds.labels(phase)
        for reason in rejections.REASONS:
            self._rejected.labels(reason)
        self.hosts({})
        self.modes(())
        self.sentinels({})
        self.voices({})
        self.active({})
        self.servers({}, 0)

    def heard(self, count: int = 1) -> None:
        """Count heartbeats."""
        self._beats.inc(count)

    def rejected(self, reason: str, count: int) -> None:
        """Count messages that did not count."""
        self._rejected.labels(reason).inc(count)

    def dropped(self, count: int) -> None:
        """Count heartbeats that a later one has made obsolete."""
        self._dropped.inc(count)

    def overload(self, seconds: float) -> None:
        """Note by how many seconds messages are read late."""
        self._overload.set(seconds)

    def hosts(self, states: Mapping[str, int]) -> None:
        """Note how many hosts there are in each state."""
        for state in model.HOST_STATES:
            self._hosts.labels(state).set(states.get(state, 0))

    def modes(self, modes: Collection[str]) -> None:
        """Note the modes of all hosts, one for each host."""
        for mode in model.MODES:
            self._modes.labels(mode).set(sum(each == mode for each in modes))

    def sentinels(self, states: Mapping[str | None, int]) -> None:
        """Note how many hosts have a sentinel in each state; None for unknown."""
        for state in model.SENTINEL_STATES:
            self._sentinels.labels(state).set(states.get(state, 0))
        self._sentinels.labels('unknown').set(states.get(None, 0))

    def voices(self, states: Mapping[str | None, int]) -> None:
        """Note of how many hosts which voices are heard; None for unknown."""
        for state in model.VOICES:
            self._voices.labels(state).set(states.get(state, 0))
        self._voices.labels('unknown').set(states.get(None, 0))

    def suspected(self) -> None:
        """Count a suspicion."""
        self._suspicions.inc()

    def cleared(self) -> None:
        """Count a false suspicion."""
        self._false.inc()

    def held(self, *, ends: bool) -> None:
        """Count the beginning or the end of a hold of a host."""
        self._holds.labels(_HOLDS[ends]).inc()

    def unready(self) -> None:
        """Count a promoted guest that was not ready in its time."""
        self._unready.inc()

    def ended(self, outcome: str) -> None:
        """Count a recovery that has ended."""
        self._ended.labels(outcome).inc()

    def active(self, states: Mapping[str, int]) -> None:
        """Note how many recoveries there are in each state before the end."""
        for state in _RECOVERY_STATES:
            self._active.labels(state).set(states.get(state, 0))

    def servers(self, classes: Mapping[str, int], without_room: int) -> None:
        """Note what servers would get, and how many of them would find no room."""
        for name in judgement.CLASSES:
            self._servers.labels(name).set(classes.get(name, 0))
        self._roomless.set(without_room)

    def step(self, name: str, seconds: float) -> None:
        """Note the duration of a step."""
        self._steps.labels(name).observe(seconds)

    def backups(self, running: int) -> None:
        """Note how many backups run."""
        self._backups.set(running)

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

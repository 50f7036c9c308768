# SPDX-License-Identifier: Apache-2.0
"""What one engine counts, for Prometheus. Sums over all engines are the cloud's."""

from collections.abc import Callable, Iterable, Mapping
import socket
import socketserver
import threading
from typing import Any
from wsgiref import simple_server

import prometheus_client
from prometheus_client import registry

from specreds_nova.engine import model

_RECOVERY_STATES = (model.QUEUED, model.RACING, model.COMMITTED, model.MERGING)
_HEALTH = '/health'
# From a compare-and-swap to a merge that takes minutes.
_STEP_BUCKETS = (.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800)


class _Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    """Answers each request in a thread of its own."""

    daemon_threads = True


class _Server6(_Server):
    """The same over IPv6."""

    address_family = socket.AF_INET6


class _Handler(simple_server.WSGIRequestHandler):
    """Logs no requests."""

    def log_message(self, format: str, *args: Any) -> None:
        """Do not."""


class Metrics:
    """All of them. May be used by several threads.

    :param collector: where they are registered
    """

    def __init__(self, collector: registry.CollectorRegistry | None = None) -> None:
        self._registry = collector or registry.CollectorRegistry()
        self._beats = prometheus_client.Counter(
            'specreds_heartbeats', 'Heartbeats of hosts that were heard.',
            registry=self._registry)
        self._hosts = prometheus_client.Gauge(
            'specreds_hosts', 'Hosts by their state.', ['state'], registry=self._registry)
        self._suspicions = prometheus_client.Counter(
            'specreds_suspicions', 'How often a host was suspected.', registry=self._registry)
        self._false = prometheus_client.Counter(
            'specreds_false_suspicions', 'How often a host that was suspected was well after all.',
            registry=self._registry)
        self._ended = prometheus_client.Counter(
            'specreds_recoveries', 'Recoveries that have ended, by outcome.', ['outcome'],
            registry=self._registry)
        self._active = prometheus_client.Gauge(
            'specreds_active_recoveries', 'Recoveries that have not ended, by state.', ['state'],
            registry=self._registry)
        self._steps = prometheus_client.Histogram(
            'specreds_step_seconds', 'What the steps of recoveries took.', ['step'],
            buckets=_STEP_BUCKETS, registry=self._registry)
        self._backups = prometheus_client.Gauge(
            'specreds_backups_running', 'Backups that run and are not promoted.',
            registry=self._registry)
        # What has not happened yet is 0, so that alerts can be on it.
        for outcome in model.OUTCOMES:
            self._ended.labels(outcome)
        self.hosts({})
        self.active({})

    def heard(self, count: int = 1) -> None:
        """Count heartbeats."""
        self._beats.inc(count)

    def hosts(self, states: Mapping[str, int]) -> None:
        """Note how many hosts there are in each state."""
        for state in model.HOST_STATES:
            self._hosts.labels(state).set(states.get(state, 0))

    def suspected(self) -> None:
        """Count a suspicion."""
        self._suspicions.inc()

    def cleared(self) -> None:
        """Count a suspicion that was false."""
        self._false.inc()

    def ended(self, outcome: str) -> None:
        """Count a recovery that has ended."""
        self._ended.labels(outcome).inc()

    def active(self, states: Mapping[str, int]) -> None:
        """Note how many recoveries there are in each state before the end."""
        for state in _RECOVERY_STATES:
            self._active.labels(state).set(states.get(state, 0))

    def step(self, name: str, seconds: float) -> None:
        """Note what a step took."""
        self._steps.labels(name).observe(seconds)

    def backups(self, running: int) -> None:
        """Note how many backups run."""
        self._backups.set(running)

    def serve(self, port: int, host: str, problems: Callable[[], list[str]]) -> int:
        """Answer ``/metrics`` and ``/health`` from threads, as long as the process runs.

        :param port: 0 for any that is free
        :param problems: returns what is wrong with the process
        :returns: the port
        :raises OSError: the port is in use
        """
        metrics: Callable[[Any, Any], list[bytes]] = prometheus_client.make_wsgi_app(
            self._registry)

        def answer(environ: Any, start: Any) -> Iterable[bytes]:
            if environ.get('PATH_INFO') != _HEALTH:
                return metrics(environ, start)
            found = problems()
            start('503 Service Unavailable' if found else '200 OK',
                  [('Content-Type', 'text/plain; charset=utf-8')])
            return ['\n'.join([*(found or ['ok']), '']).encode()]

        server = simple_server.make_server(
            host, port, answer, _Server6 if ':' in host else _Server, _Handler)
        threading.Thread(target=server.serve_forever, name='metrics', daemon=True).start()
        return server.server_port

    def text(self) -> str:
        """Give what Prometheus gets."""
        return prometheus_client.generate_latest(self._registry).decode()

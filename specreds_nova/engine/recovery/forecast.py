# SPDX-License-Identifier: Apache-2.0
"""Destinations of protected servers, requested from Nova's scheduler before any host fails."""

from collections.abc import Callable, Iterable
from typing import Protocol

from oslo_log import log as logging

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.detection import servers

LOG = logging.getLogger(__name__)


class Compute(Protocol):
    """The part of Nova that this module needs.

    :raises exception.Unreachable: every method, if Nova does not answer
    """

    def servers(self, host: str) -> list[model.Server]:
        """Return the servers of a host."""

    def forecast(self, server: model.Server) -> None:
        """Find the candidates of a server before its host fails."""


class Forecast:
    """Requests for the destinations of all protected servers.

    :param hosts: returns the hosts that are heard
    :param stopping: returns whether the engine stops
    """

    def __init__(self, compute: Compute, gates: servers.Gates,
                 hosts: Callable[[], Iterable[str]], stopping: Callable[[], bool]) -> None:
        self._compute = compute
        self._gates = gates
        self._hosts = hosts
        self._stopping = stopping

    def look(self) -> int:
        """Ask for the destinations of all servers; return for how many the scheduler answered."""
        answered = 0
        for host in self._hosts():
            try:
                for server in self._compute.servers(host):
                    if self._stopping():
                        return answered
                    if not self._gates.reasons(server):
                        self._compute.forecast(server)
                        answered += 1
            except exception.Unreachable as exc:
                LOG.info('destinations are not known ahead: %s', exc)
                return answered
            except exception.EngineError as exc:
                LOG.info('destinations of the servers of host %s are not known ahead: %s', host,
                         exc)
        return answered

# SPDX-License-Identifier: Apache-2.0
"""Servers that ended with their host before an engine had heard which servers the host runs.

A host lists its domains every few beats only. If it loses power before an engine has heard a list,
and is back before it is suspected, the engine cannot name the lost servers: Nova names them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from specreds_nova.engine import model
from specreds_nova.engine.detection import evidence

Why = Sequence[Mapping[str, Any]]
Act = Callable[[str, str, Why], str | None]


class Compute(Protocol):
    """The part of Nova that is needed."""

    def servers(self, host: str) -> list[model.Server]:
        """Return the servers of a host."""


class Suspects(Protocol):
    """The part of the detector that is needed."""

    def is_well(self, host: str) -> bool:
        """Return whether a host is heard and reports no problems."""

    def running(self, host: str, server: str) -> bool | None:
        """Return whether a server's domain runs on a host; None without a report of the host."""


class LostServers:
    """Names the servers of crashes that concern any server of a host.

    :param act: acts on the crash of one server: Dispatcher.crashed
    """

    def __init__(self, act: Act, compute: Compute, suspects: Suspects) -> None:
        self._act = act
        self._compute = compute
        self._suspects = suspects

    def crashed(self, host: str, server: str, why: Why) -> str | None:
        """Act on the crash of a server, or of each server that does not run on its host.

        :returns: why a crash has to wait; None if the engine has acted on all, or need not
        :raises exception.Unreachable: Nova or the database does not answer: call again
        """
        if server != model.ANY_SERVER:
            return self._act(host, server, why)
        if not self._suspects.is_well(host):
            return f'{host} is not known to be well'
        held = None
        for known in self._compute.servers(host):
            runs = self._suspects.running(host, known.id)
            if runs is None:
                held = f'{host} has not listed its domains'
            elif not runs:
                held = self._act(host, known.id, _about(known.id, why)) or held
        return held


def _about(server: str, why: Why) -> Why:
    """Return evidence about a server instead of that about any server."""
    return [evidence.of(evidence.CRASH, server, float(fact['at'])).told() for fact in why]

# SPDX-License-Identifier: Apache-2.0
"""Servers that ended with their host, named by Nova.

A host that lost power lists after its boot which domains run, but not which ones are lost. The
list from before the boot may be old: the broker may have lost later ones, or the engine may have
heard none. A server that Nova takes for active, and whose domain does not run, is lost.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from specreds_nova.engine import model
from specreds_nova.engine.detection import evidence

Why = Sequence[Mapping[str, Any]]
Act = Callable[[str, str, Why], str | None]
Told = tuple[Mapping[str, Any], ...]
Tell = Callable[[str, str, Told], object]

_RUNS = 'ACTIVE'


class Compute(Protocol):
    """The part of Nova that is needed."""

    def servers(self, host: str) -> list[model.Server]:
        """Return the servers of a host."""


class Suspects(Protocol):
    """The part of the detector that is needed."""

    def running(self, host: str, server: str) -> bool | None:
        """Return whether a server's domain runs on a host; None without a report of the host."""


class LostServers:
    """Names the servers of crashes that concern any server of a host.

    :param act: acts on the crash of one server: Dispatcher.crashed
    :param tell: receives the crash of each server that is lost
    """

    def __init__(self, act: Act, tell: Tell, compute: Compute, suspects: Suspects) -> None:
        self._act = act
        self._tell = tell
        self._compute = compute
        self._suspects = suspects

    def crashed(self, host: str, server: str, why: Why) -> str | None:
        """Act on the crash of a server, or name the servers that are lost.

        This reads the servers from Nova at once, even if their crashes have to wait: Nova soon
        shows them as stopped, like servers that users have shut down from within.

        :returns: why the crash has to wait; None if the engine has acted on it, or need not
        :raises exception.Unreachable: Nova or the database does not answer: call again
        """
        if server != model.ANY_SERVER:
            return self._act(host, server, why)
        active = [known.id for known in self._compute.servers(host) if known.status == _RUNS]
        runs = {name: self._suspects.running(host, name) for name in active}
        if None in runs.values():
            return f'{host} has not listed its domains'
        for name in active:
            if not runs[name]:
                self._tell(host, name, _about(name, why))
        return None


def _about(server: str, why: Why) -> Told:
    """Return evidence about a server instead of that about any server."""
    return tuple(evidence.of(evidence.CRASH, server, float(fact['at'])).told() for fact in why)

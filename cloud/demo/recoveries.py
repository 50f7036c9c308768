# SPDX-License-Identifier: Apache-2.0
"""What the engine says of hosts and recoveries, through its API."""

from collections.abc import Mapping
import dataclasses
import datetime
from typing import Any

from keystoneauth1 import adapter
from keystoneauth1 import session as keystone_session

TRUSTED = 'trusted'
ENDED = 'ended'
# How a recovery of which the primary is dead, or alive, should end.
RECOVERED, PRIMARY = 'recovered', 'primary'
# One of a single server that has crashed.
RESTARTED = 'restarted'


@dataclasses.dataclass(frozen=True)
class Step:
    """One step of a recovery, in seconds since the epoch.

    :ivar ended: None while it is under way, or if it was cut off
    :ivar opened: when users could reach the guest again, if it is the step that lets it out
    """

    name: str
    began: float
    ended: float | None
    engine: str
    opened: float | None = None


@dataclasses.dataclass(frozen=True)
class Recovery:
    """One recovery of a server, in seconds since the epoch.

    :ivar destination: the host of its backup
    :ivar steps: in the order in which they began
    """

    id: str
    state: str
    outcome: str | None
    error: str | None
    engine: str | None
    destination: str | None
    suspected: float
    ended: float | None
    steps: tuple[Step, ...]

    @property
    def over(self) -> bool:
        """Whether nothing more will happen."""
        return self.state == ENDED

    def begun(self, name: str) -> bool:
        """Whether a step has begun."""
        return any(step.name == name for step in self.steps)


class Engine:
    """Asks as the administrator.

    :param session: the administrator's, of a cloud with engines
    """

    def __init__(self, session: keystone_session.Session) -> None:
        self._api = adapter.Adapter(session, service_type='speculative-recovery',
                                    interface='public')

    def hosts(self) -> dict[str, str]:
        """The state of each host that the engines have ever heard of."""
        found = self._api.get('/v1/hosts').json()['hosts']
        return {str(host['name']): str(host['state']) for host in found}

    def ids(self, server_id: str | None = None) -> list[str]:
        """The recoveries of a server, or of all, the latest first."""
        query = {} if server_id is None else {'server': server_id}
        found = self._api.get('/v1/recoveries', params=query).json()['recoveries']
        return [str(one['id']) for one in found]

    def latest(self, server_id: str) -> Recovery | None:
        """The latest recovery of a server; None if there is none."""
        return next((self.recovery(one) for one in self.ids(server_id)), None)

    def recovery(self, recovery_id: str) -> Recovery:
        """One recovery, with its steps."""
        found: dict[str, Any] = self._api.get(
            f'/v1/recoveries/{recovery_id}').json()['recovery']
        return Recovery(
            found['id'], found['state'], found['outcome'], found['error'], found['engine'],
            found['destination'], _seconds(found['suspected_at']), _moment(found['ended_at']),
            tuple(sorted(map(_step, found['steps']), key=lambda step: step.began)))


def _step(found: Mapping[str, Any]) -> Step:
    ended, after = _moment(found['ended_at']), found.get('detail', {}).get('after_opening_s')
    opened = None if ended is None or after is None else ended - after
    return Step(found['name'], _seconds(found['began_at']), ended, found['engine'], opened)


def _moment(text: str | None) -> float | None:
    return None if text is None else _seconds(text)


def _seconds(text: str) -> float:
    return datetime.datetime.fromisoformat(text).timestamp()

# SPDX-License-Identifier: Apache-2.0
"""Hosts and recoveries, as the engine's API shows them."""

from collections.abc import Mapping
import dataclasses
import datetime
from typing import Any

from keystoneauth1 import adapter
from keystoneauth1 import session as keystone_session

TRUSTED = 'trusted'
ENDED = 'ended'
# The expected outcome of a recovery with a dead primary, and with a live one.
RECOVERED, PRIMARY, EVACUATED = 'recovered', 'primary', 'evacuated'
# The outcome for a single server that has crashed.
RESTARTED = 'restarted'
# The outcome for a server that the engine could not help.
FAILED = 'failed'


@dataclasses.dataclass(frozen=True)
class Step:
    """One step of a recovery, in seconds since the epoch.

    :ivar ended: None while the step runs, or if it was interrupted
    :ivar opened: when users could reach the guest again, of the step that opens the box
    :ivar why: why the race ended as it did, of the race
    :ivar first: when the first frame of the backup's guest was known, of the race that it has
        decided
    :ivar frame: when this frame could decide: not before the host was silent for long enough
    """

    name: str
    began: float
    ended: float | None
    engine: str
    opened: float | None = None
    why: str | None = None
    frame: float | None = None
    first: float | None = None


@dataclasses.dataclass(frozen=True)
class Recovery:
    """One recovery of a server, in seconds since the epoch.

    :ivar destination: the host of its backup
    :ivar steps: the steps in the order of their beginning
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
        """Report whether the recovery has ended."""
        return self.state == ENDED

    def begun(self, name: str) -> bool:
        """Report whether a step has begun."""
        return any(step.name == name for step in self.steps)


class Engine:
    """A client of the engine's API.

    :param session: a session of the administrator, on a cloud with engines
    """

    def __init__(self, session: keystone_session.Session) -> None:
        self._api = adapter.Adapter(session, service_type='speculative-recovery',
                                    interface='public')

    def hosts(self) -> dict[str, str]:
        """Return the state of each host that the engines have heard of, by name."""
        hosts = self._api.get('/v1/hosts').json()['hosts']
        return {str(host['name']): str(host['state']) for host in hosts}

    def promise(self, server_id: str) -> str:
        """Return the recovery that a server would get if its host failed."""
        answer = self._api.get(f'/v1/servers/{server_id}/protection').json()
        return str(answer['protection']['recovery'])

    def ids(self, server_id: str | None = None) -> list[str]:
        """Return the ids of the recoveries of one server or of all, the latest first."""
        query = {} if server_id is None else {'server_id': server_id}
        entries = self._api.get('/v1/recoveries', params=query).json()['recoveries']
        return [str(entry['id']) for entry in entries]

    def latest(self, server_id: str) -> Recovery | None:
        """Return the latest recovery of a server; None if there is none."""
        return next((self.recovery(recovery_id) for recovery_id in self.ids(server_id)), None)

    def recovery(self, recovery_id: str) -> Recovery:
        """Return a recovery with its steps."""
        answer: dict[str, Any] = self._api.get(
            f'/v1/recoveries/{recovery_id}').json()['recovery']
        return Recovery(
            answer['id'], answer['state'], answer['outcome'], answer['error'], answer['engine'],
            answer['destination'], _seconds(answer['suspected_at']), _moment(answer['ended_at']),
            tuple(sorted(map(_step, answer['steps']), key=lambda step: step.began)))


def _step(step: Mapping[str, Any]) -> Step:
    ended, detail = _moment(step['ended_at']), step.get('detail', {})
    after = detail.get('after_opening_s')
    opened = None if ended is None or after is None else ended - after
    began = _seconds(step['began_at'])
    first = (began + detail['first_frame_s']
             if detail.get('early') and 'first_frame_s' in detail else None)
    frame = None if first is None else first + detail['held_s']
    return Step(step['name'], began, ended, step['engine'], opened, detail.get('why'), frame,
                first)


def _moment(text: str | None) -> float | None:
    return None if text is None else _seconds(text)


def _seconds(text: str) -> float:
    return datetime.datetime.fromisoformat(text).timestamp()

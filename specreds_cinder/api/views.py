# SPDX-License-Identifier: Apache-2.0
"""A superposition as the API shows it, and its JSON views."""

from collections.abc import Mapping, Sequence
import dataclasses
from typing import Any

from cinder.api import common
from cinder.api.openstack import wsgi

from specreds_cinder import server_disks
from specreds_cinder.superposition.truth import states

COLLECTION = 'os-superpositions'

View = dict[str, Any]
# What a back end has answered.
Answer = Mapping[str, Any]

_SUMMARY = ('id', 'state', 'server_id', 'project_id', 'created_at')
_DETAILS = ('outcome', 'overlay_bytes', 'dirty', 'dirty_object', 'reason', 'user_id',
            'request_id', 'updated_at', 'age_seconds')
_COPIED = ('id', 'state', 'lead', 'outcome', 'created_at', 'updated_at', 'age_seconds', 'reason',
           'server_id', 'user_id', 'request_id', 'dirty', 'dirty_object')


@dataclasses.dataclass(frozen=True)
class Superposition:
    """A superposition.

    :param volumes: its volumes and disks of servers, each with ``id``, ``size_bytes`` and
        ``overlay_bytes``. A size is None if it is not requested or not known
    :param lead: the back end that decides
    :param members: the back ends of its volumes
    :param unreachable: the back ends that do not answer
    :param age_seconds: seconds since it was created
    """

    id: str
    state: str
    project_id: str | None
    volumes: tuple[Answer, ...]
    lead: str
    members: tuple[str, ...]
    unreachable: tuple[str, ...] = ()
    outcome: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    age_seconds: float | None = None
    reason: str | None = None
    server_id: str | None = None
    user_id: str | None = None
    request_id: str | None = None
    dirty: bool | None = None
    dirty_object: str | None = None

    @property
    def volume_ids(self) -> tuple[str, ...]:
        """Return the ids of its volumes in Cinder."""
        return tuple(volume['id'] for volume in self.volumes
                     if not server_disks.is_id(volume['id']))

    @property
    def disks(self) -> tuple[str, ...]:
        """Return the ids of its disks of servers."""
        return tuple(volume['id'] for volume in self.volumes if server_disks.is_id(volume['id']))

    @property
    def overlay_bytes(self) -> int | None:
        """Return the bytes that the second version takes; None if a volume's are unknown."""
        sizes = [volume['overlay_bytes'] for volume in self.volumes]
        return None if None in sizes else sum(sizes)


def of(superposition_id: str, view: Answer | None, silent: Mapping[str, Sequence[str]],
       project_id: str | None) -> Superposition:
    """Return a superposition.

    :param view: what a back end has answered; None if the state is unknown
    :param silent: volume ids by back end that does not answer
    :param project_id: the project of the volumes, used if no view names it
    """
    hosts = tuple(silent)
    if view is None:
        return Superposition(
            superposition_id, states.UNKNOWN, project_id, lead=hosts[0], members=hosts,
            unreachable=hosts, volumes=tuple(
                {'id': volume_id, 'size_bytes': None, 'overlay_bytes': None}
                for ids in silent.values() for volume_id in ids))
    return Superposition(
        **{field: view[field] for field in _COPIED}, project_id=view['project_id'] or project_id,
        volumes=tuple(view['volumes']), members=tuple(view['members']), unreachable=hosts)


def summary(superposition: Superposition) -> View:
    """Return the summary of a superposition."""
    return {**{field: getattr(superposition, field) for field in _SUMMARY},
            'volume_ids': list(superposition.volume_ids), 'disks': list(superposition.disks)}


def detail(superposition: Superposition, *, admin: bool,
           durations: Mapping[str, float] | None = None) -> View:
    """Return all fields of a superposition.

    :param admin: include the back ends
    :param durations: seconds that its creation took, by step; None unless just created
    """
    shown = {
        **summary(superposition),
        **{field: getattr(superposition, field) for field in _DETAILS},
        'volumes': list(superposition.volumes),
    }
    if durations is not None:
        shown['durations'] = durations
    if admin:
        shown['hosts'] = list(superposition.members)
        shown['unreachable_hosts'] = list(superposition.unreachable)
    return shown


class Links(common.ViewBuilder):
    """Links between the pages of a list."""

    def next(self, req: wsgi.Request, last: str, path: str) -> list[dict[str, str]]:
        """Return the link to the page that follows an id."""
        return [{'rel': 'next', 'href': self._get_next_link(req, last, path)}]


def page(req: wsgi.Request, shown: Sequence[View], *, more: bool, path: str,
         unreachable: Sequence[str] | None) -> View:
    """Return a page of a list.

    :param more: whether another page follows
    :param path: the path of the request, below the project
    :param unreachable: the back ends that do not answer; None if the caller may not see them
    """
    answer: View = {'superpositions': list(shown)}
    if more:
        answer['superpositions_links'] = Links().next(req, shown[-1]['id'], path)
    if unreachable is not None:
        answer['unreachable_hosts'] = list(unreachable)
    return answer

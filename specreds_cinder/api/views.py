# SPDX-License-Identifier: Apache-2.0
"""JSON views of superpositions."""

from collections.abc import Mapping, Sequence
from typing import Any

from cinder.api import common
from cinder.api.openstack import wsgi

from specreds_cinder.api import joined

COLLECTION = 'os-superpositions'

View = dict[str, Any]

_SUMMARY = ('id', 'state', 'server_id', 'project_id', 'created_at')
_DETAILS = ('outcome', 'overlay_bytes', 'dirty', 'dirty_object', 'reason', 'user_id',
            'request_id', 'updated_at', 'age_seconds')


def summary(superposition: joined.Superposition) -> View:
    """Return the summary of a superposition."""
    return {**{field: getattr(superposition, field) for field in _SUMMARY},
            'volume_ids': list(superposition.volume_ids), 'disks': list(superposition.disks)}


def detail(superposition: joined.Superposition, *, admin: bool,
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

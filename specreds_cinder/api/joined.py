# SPDX-License-Identifier: Apache-2.0
"""A superposition, joined from the views of its back ends: each has only its own volumes."""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
from typing import Any

from specreds_cinder import server_disks
from specreds_cinder.superposition import merge_rate
from specreds_cinder.superposition import states

UNKNOWN = states.UNKNOWN

View = Mapping[str, Any]

# Fields that the views of all back ends have alike, and the outcome, which the leader knows.
_OF_CREATION = ('outcome', 'reason', 'server_id', 'user_id', 'request_id')


@dataclasses.dataclass(frozen=True)
class Superposition:
    """A superposition, across all of its back ends.

    :param volumes: its volumes and disks of servers, each with ``id``, ``size_bytes`` and
        ``overlay_bytes``. A size is None if it is not requested or not known
    :param lead: the back end that decides
    :param members: the back ends that it was created on
    :param present: the members that still have a part of the superposition, or do not answer
    :param unreachable: the members that do not answer
    :param age_seconds: seconds since it was created
    :param merge_bytes_per_second: rate that each disk may be merged at, 0 for any; None unless its
        real version is read through overlays
    """

    id: str
    state: str
    project_id: str | None
    volumes: tuple[View, ...]
    lead: str
    members: tuple[str, ...]
    present: tuple[str, ...]
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
    merge_bytes_per_second: int | None = None

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


def join(superposition_id: str, views: Sequence[View], silent: Mapping[str, Sequence[str]],
         project_id: str | None) -> Superposition:
    """Join the views of a superposition's back ends.

    :param views: one per back end that answers
    :param silent: volume ids by back end that does not answer
    :param project_id: the project of the volumes, used if no view names it
    """
    absent = tuple({'id': volume_id, 'size_bytes': None, 'overlay_bytes': None}
                   for ids in silent.values() for volume_id in ids)
    if not views:
        hosts = tuple(silent)
        return Superposition(superposition_id, UNKNOWN, project_id, absent, lead=hosts[0],
                             members=hosts, present=hosts, unreachable=hosts)
    # The leading back end's view is preferred; any other has the same facts of the creation.
    first = next((view for view in views if view['host'] == view['lead']), views[0])
    dirty = [view['dirty'] for view in views] + [None] * len(silent)
    return Superposition(
        id=superposition_id, state=_state(first, views, silent),
        project_id=first['project_id'] or project_id,
        volumes=(*(volume for view in views for volume in view['volumes']), *absent),
        lead=first['lead'], members=tuple(first['members']),
        present=(*(view['host'] for view in views), *silent), unreachable=tuple(silent),
        created_at=min((view['created_at'] for view in views), default=None),
        updated_at=max((view['updated_at'] for view in views), default=None),
        age_seconds=max(view['age_seconds'] for view in views),
        **{field: first[field] for field in _OF_CREATION},
        dirty=True if True in dirty else None if None in dirty else False,
        dirty_object=next((view['dirty_object'] for view in views if view['dirty_object']), None),
        merge_bytes_per_second=_slowest(views))


def _slowest(views: Iterable[View]) -> int | None:
    """Return the rate that all back ends allow for a disk; None if none of them names a rate."""
    rates = [rate for view in views if (rate := view['merge_bytes_per_second']) is not None]
    return merge_rate.lowest(*rates) if rates else None


def _state(first: View, views: Sequence[View], silent: Iterable[str]) -> str:
    lead = first['lead']
    if lead in silent:
        # The leading back end may have taken a decision that the others do not know.
        return UNKNOWN
    if first['host'] == lead and first['state'] != states.MERGED:
        return str(first['state'])
    # The leading back end has finished, and waits for the slowest of the others.
    return str(min((view['state'] for view in views if view['host'] != lead),
                   key=states.STATES.index, default=first['state']))

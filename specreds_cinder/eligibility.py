# SPDX-License-Identifier: Apache-2.0
"""Whether Cinder lets volumes be superposed, and whether it is working on any of them."""

from collections.abc import Sequence

from cinder import context
from cinder import exception as cinder_exception
from cinder import objects

from specreds_cinder import exception
from specreds_cinder import hints
from specreds_cinder import releases

_STATUSES = ('available', 'in-use')
_MIGRATED = (None, 'success', 'error', 'none', 'deleting')
_SNAPSHOT_STATUSES = ('available', 'error', 'in-use')


def volumes(volume_ids: Sequence[str]) -> list[objects.Volume]:
    """Return the volumes with some ids, in the order of the ids.

    :raises VolumeNotFound: one of them does not exist
    """
    if not volume_ids:
        return []
    by_id = {volume.id: volume for volume in objects.VolumeList.get_all(
        context.get_admin_context(), filters={'id': list(volume_ids)})}
    for volume_id in volume_ids:
        if volume_id not in by_id:
            raise cinder_exception.VolumeNotFound(volume_id=volume_id)
    return [by_id[volume_id] for volume_id in volume_ids]


def reasons(volume: objects.Volume) -> list[str]:
    """Return the reasons why Cinder does not let a volume be superposed; none if it does."""
    against = []
    if volume.multiattach:
        against.append('it can be attached several times: there must be one primary')
    return against


def check(candidates: Sequence[objects.Volume], *, again: bool = False) -> None:
    """Make sure that volumes, whose locks the caller holds, can be superposed.

    :param again: they may be in a superposition, of which the storage says whether there can be
        another one over it
    :raises SuperpositionConflict: Cinder is working on a volume
    :raises VolumeSuperposed: a volume is in a superposition
    :raises VolumesNotEligible: a volume can never be superposed
    """
    for volume in candidates:
        if against := reasons(volume):
            raise exception.VolumesNotEligible(
                f'volume {volume.id} cannot be superposed: {"; ".join(against)}',
                reasons=tuple(against))
        holder = volume.admin_metadata.get(hints.AGAIN) or (
            None if again else volume.admin_metadata.get(hints.KEY))
        if holder is not None:
            raise exception.VolumeSuperposed(
                f'volume {volume.id} is in superposition {holder} already: collapse that one '
                f'first')
        if volume.status not in _STATUSES or volume.migration_status not in _MIGRATED:
            migration = (f', migration {volume.migration_status}' if volume.migration_status
                         else '')
            raise exception.SuperpositionConflict(
                f'volume {volume.id} is {volume.status}{migration}: it can be superposed when it '
                f'is {" or ".join(_STATUSES)}', state=volume.status)
    if busy := _under_way([volume.id for volume in candidates]):
        raise exception.SuperpositionConflict(f'wait until this is over: {"; ".join(busy)}')


def _under_way(volume_ids: Sequence[str]) -> list[str]:
    """Return the operations on volumes that do not show in the volumes' own status."""
    snapshot, clone = releases.models.Snapshot, releases.models.Volume
    with releases.main_context_manager.reader.using(context.get_admin_context()) as session:
        snapshots = session.query(snapshot.id, snapshot.status, snapshot.volume_id).filter(
            snapshot.volume_id.in_(volume_ids), snapshot.deleted.is_(False),
            snapshot.status.notin_(_SNAPSHOT_STATUSES)).all()
        clones = session.query(clone.id, clone.source_volid).filter(
            clone.source_volid.in_(volume_ids), clone.deleted.is_(False),
            clone.status == 'creating').all()
    return [*(f'snapshot {snapshot_id} of volume {volume_id} is {status}'
              for snapshot_id, status, volume_id in snapshots),
            *(f'volume {clone_id} is being cloned from volume {volume_id}'
              for clone_id, volume_id in clones)]

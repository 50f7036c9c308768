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
    """Read volumes, in this order.

    :raises VolumeNotFound: one of them does not exist
    """
    found = {volume.id: volume for volume in objects.VolumeList.get_all(
        context.get_admin_context(), filters={'id': list(volume_ids)})}
    for volume_id in volume_ids:
        if volume_id not in found:
            raise cinder_exception.VolumeNotFound(volume_id=volume_id)
    return [found[volume_id] for volume_id in volume_ids]


def reasons(volume: objects.Volume) -> list[str]:
    """Say why Cinder does not let a volume be superposed; nothing if it does."""
    found = []
    if volume.multiattach:
        found.append('it can be attached several times: there must be one primary')
    if volume.encryption_key_id:
        found.append('it is encrypted: the overlay would hold plain text')
    return found


def check(found: Sequence[objects.Volume]) -> None:
    """Make sure that nothing is under way with volumes. Their locks are held.

    :raises SuperpositionConflict: something is
    :raises VolumeSuperposed: one is in a superposition
    :raises VolumesNotEligible: one can never be superposed
    """
    for volume in found:
        if why := reasons(volume):
            raise exception.VolumesNotEligible(
                f'volume {volume.id} cannot be superposed: {"; ".join(why)}', reasons=tuple(why))
        held = volume.admin_metadata.get(hints.KEY)
        if held is not None:
            raise exception.VolumeSuperposed(
                f'volume {volume.id} is in superposition {held} already: collapse that one first')
        if volume.status not in _STATUSES or volume.migration_status not in _MIGRATED:
            migration = (f', migration {volume.migration_status}' if volume.migration_status
                         else '')
            raise exception.SuperpositionConflict(
                f'volume {volume.id} is {volume.status}{migration}: it can be superposed when it '
                f'is {" or ".join(_STATUSES)}', state=volume.status)
    if busy := _under_way([volume.id for volume in found]):
        raise exception.SuperpositionConflict(f'wait until this is over: {"; ".join(busy)}')


def _under_way(volume_ids: Sequence[str]) -> list[str]:
    """Say what is under way with volumes that does not show in their own status."""
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

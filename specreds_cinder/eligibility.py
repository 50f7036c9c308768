# SPDX-License-Identifier: Apache-2.0
"""Whether Cinder lets volumes be superposed, and whether it is working on any of them."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cinder import context
from cinder import exception as cinder_exception
from cinder import objects
from cinder.objects import fields
from oslo_log import log as logging

from specreds_cinder import exception
from specreds_cinder import hints
from specreds_cinder import releases

LOG = logging.getLogger(__name__)

_STATUSES = ('available', 'in-use')
# Statuses in which a volume stays if the host of its server dies, although nobody works on it any
# more, and the state of its attachment. Cinder lets Nova attach such a volume to no other host.
_LEFT = {'attaching': 'attaching', 'detaching': 'attached', 'error_extending': 'attached'}
# Statuses of an attached volume that a job of Cinder reads, by a client on another host. The fence
# that ends the primary ends that client, too.
_READ = ('backing-up', 'uploading')
# In which Cinder lets Nova attach a volume of a server to another host (_attachment_reserve).
_MOVABLE = (*_STATUSES, 'reserved', 'downloading')
_MIGRATED = (None, 'success', 'error', 'none', 'deleting')
_ATTACHED = fields.VolumeAttachStatus.ATTACHED
# A backup reads a snapshot through a clone. In the last two, nothing is being done.
_SNAPSHOT_STATUSES = ('available', 'in-use', 'backing-up', 'error', 'error_deleting')


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


class Objection(NamedTuple):
    """A reason why a volume cannot be superposed at the moment.

    :ivar reason: the reason, in which the volume is "it"
    :ivar error: the error of a request to superpose the volume
    """

    volume_id: str
    reason: str
    error: exception.SuperpositionConflict


def objections(candidates: Sequence[objects.Volume]) -> list[Objection]:
    """Return all reasons why Cinder does not let volumes be superposed; none if it does.

    The storage may have further reasons. Without the locks of the volumes, the answer may be old.
    """
    against = [Objection(volume.id, *objection) for volume in candidates
               for objection in _own(volume)]
    for volume_id, busy in _under_way([volume.id for volume in candidates]):
        reason = f'{busy}: wait until that is over'
        against.append(Objection(volume_id, f'its {reason}', exception.SuperpositionConflict(
            f'volume {volume_id}: its {reason}')))
    return against


def movable(volume: objects.Volume) -> bool:
    """Return whether Nova can attach a server's volume to another host at the moment."""
    return volume.status in _MOVABLE or _left(volume) or read(volume)


def read(volume: objects.Volume) -> bool:
    """Return whether a job of Cinder reads an attached volume, by a client of its own."""
    return volume.status in _READ and volume.attach_status == _ATTACHED


def images_read(candidates: Sequence[objects.Volume]) -> list[str]:
    """Return the names of the images that jobs of Cinder read, as :func:`read` says."""
    return [volume.name for volume in candidates if read(volume)]


def restore(candidates: Sequence[objects.Volume], *, fenced: bool = False) -> None:
    """Make volumes ``in-use`` that a dead host has left in another status.

    Their attachment is completed, and their detachment cancelled, as Nova does when a detachment
    fails.

    :param fenced: their clients are fenced, so that also the jobs that read the volumes have ended
    """
    for volume in candidates:
        if not (_left(volume) or (fenced and read(volume))):
            continue
        before = {'status': volume.status, 'attach_status': volume.attach_status}
        if volume.conditional_update({'status': 'in-use', 'attach_status': _ATTACHED}, before):
            LOG.info('volume %s was %s, and is in-use again: its server is recovered',
                     volume.id, before['status'])


def check(candidates: Sequence[objects.Volume]) -> None:
    """Make sure that volumes, whose locks the caller holds, can be superposed.

    :raises SuperpositionConflict: Cinder is working on a volume
    :raises VolumeSuperposed: a volume is in a superposition
    :raises VolumesNotEligible: a volume can never be superposed
    """
    for objection in objections(candidates):
        raise objection.error


def _own(volume: objects.Volume) -> Iterator[tuple[str, exception.SuperpositionConflict]]:
    """Yield the reasons that a volume's own fields are against a superposition, and the errors."""
    if volume.multiattach:
        reason = 'it can be attached several times: there must be one primary'
        yield reason, exception.VolumesNotEligible(
            f'volume {volume.id} cannot be superposed: {reason}', reasons=(reason,))
    holder = volume.admin_metadata.get(hints.KEY)
    if holder is not None:
        reason = f'is in superposition {holder} already'
        yield f'it {reason}', exception.VolumeSuperposed(
            f'volume {volume.id} {reason}: collapse that one first')
    at_rest = volume.status in _STATUSES or _left(volume) or read(volume)
    if not at_rest or volume.migration_status not in _MIGRATED:
        migration = f', migration {volume.migration_status}' if volume.migration_status else ''
        reason = (f'is {volume.status}{migration}: it can be superposed when it is '
                  f'{" or ".join(_STATUSES)}')
        if 'error' in volume.status and volume.attach_status == _ATTACHED:
            reason += ('; if its data is whole, run "openstack volume set --state in-use '
                       f'{volume.id}"')
        yield f'it {reason}', exception.SuperpositionConflict(
            f'volume {volume.id} {reason}', state=volume.status)


def _left(volume: objects.Volume) -> bool:
    return volume.status in _LEFT and volume.attach_status == _LEFT[volume.status]


def _under_way(volume_ids: Sequence[str]) -> list[tuple[str, str]]:
    """Return the operations on volumes that do not show in the volumes' own status."""
    snapshot, clone = releases.models.Snapshot, releases.models.Volume
    with releases.main_context_manager.reader.using(context.get_admin_context()) as session:
        snapshots = session.query(snapshot.id, snapshot.status, snapshot.volume_id).filter(
            snapshot.volume_id.in_(volume_ids), snapshot.deleted.is_(False),
            snapshot.status.notin_(_SNAPSHOT_STATUSES)).all()
        clones = session.query(clone.id, clone.source_volid).filter(
            clone.source_volid.in_(volume_ids), clone.deleted.is_(False),
            clone.status == 'creating').all()
    return [*((volume_id, f'snapshot {snapshot_id} is {status}')
              for snapshot_id, status, volume_id in snapshots),
            *((volume_id, f'clone {clone_id} is being made')
              for clone_id, volume_id in clones)]

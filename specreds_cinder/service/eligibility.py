# SPDX-License-Identifier: Apache-2.0
"""Whether Cinder lets volumes be superposed, and whether it is working on any of them."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cinder import context
from cinder import exception as cinder_exception
from cinder import objects
from oslo_log import log as logging

from specreds_cinder import exception
from specreds_cinder.service import at_rest
from specreds_cinder.service import hints
from specreds_cinder.service import releases

LOG = logging.getLogger(__name__)


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


def restore(candidates: Sequence[objects.Volume]) -> None:
    """Make volumes ``in-use``, whose clients are fenced, that are in another status.

    The attachment is completed, and a detachment cancelled, as Nova does when a detachment fails.
    A job of Cinder that read the volume has ended.
    """
    for volume in candidates:
        before = {'status': volume.status, 'attach_status': volume.attach_status}
        if at_rest.restorable(volume) and volume.conditional_update(
                dict(at_rest.ATTACHED), before):
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
    if not at_rest.superposable(volume):
        migration = f', migration {volume.migration_status}' if volume.migration_status else ''
        reason = (f'is {volume.status}{migration}: it can be superposed when it is '
                  f'{" or ".join(at_rest.STATUSES)}')
        if 'error' in volume.status and volume.attach_status == 'attached':
            reason += ('; if its data is whole, run "openstack volume set --state in-use '
                       f'{volume.id}"')
        elif volume.status in at_rest.STATUSES:
            reason += (' and its migration has ended; if nobody migrates it, run "cinder '
                       f'reset-state --reset-migration-status {volume.id}"')
        yield f'it {reason}', exception.SuperpositionConflict(
            f'volume {volume.id} {reason}', state=volume.status)


def _under_way(volume_ids: Sequence[str]) -> list[tuple[str, str]]:
    """Return the operations on volumes that do not show in the volumes' own status."""
    snapshot, clone = releases.models.Snapshot, releases.models.Volume
    with releases.main_context_manager.reader.using(context.get_admin_context()) as session:
        snapshots = session.query(snapshot.id, snapshot.status, snapshot.volume_id).filter(
            snapshot.volume_id.in_(volume_ids), snapshot.deleted.is_(False),
            snapshot.status.notin_(at_rest.SNAPSHOT_STATUSES)).all()
        clones = session.query(clone.id, clone.source_volid).filter(
            clone.source_volid.in_(volume_ids), clone.deleted.is_(False),
            clone.status == 'creating').all()
    return [*((volume_id, f'snapshot {snapshot_id} is {status}')
              for snapshot_id, status, volume_id in snapshots),
            *((volume_id, f'clone {clone_id} is being made')
              for clone_id, volume_id in clones)]

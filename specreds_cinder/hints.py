# SPDX-License-Identifier: Apache-2.0
"""A note in Cinder's database that a volume may be in superposition.

What counts is the record in Ceph. The note is written before that record exists and removed
after it is gone, so a volume without a note is in no superposition, and nobody needs to ask its
back end.
"""

from collections.abc import Iterable, Iterator
import contextlib

from cinder import context
from cinder import coordination
from cinder import exception
from cinder import objects
from cinder.db import api as db
from oslo_utils import timeutils

from specreds_cinder import releases

# The key in a volume's admin metadata; its value is the superposition's id.
KEY = 'superposition'


@contextlib.contextmanager
def lock(*volume_ids: str) -> Iterator[None]:
    """Keep the volumes from being superposed, or from being changed by others, meanwhile.

    The back end holds it while it writes the note and looks at the volume's status; the API holds
    it from its look at the note until Cinder has changed the volume's status.
    """
    with contextlib.ExitStack() as stack:
        # In the same order everywhere, so that nobody waits in a circle.
        for volume_id in sorted(set(volume_ids)):
            stack.enter_context(coordination.COORDINATOR.get_lock(f'superposition-{volume_id}'))
        yield


def of(volume_id: str) -> str | None:
    """Tell which superposition a volume may be in; None if it is in none, or does not exist."""
    try:
        noted = db.volume_admin_metadata_get(context.get_admin_context(), volume_id)
    except exception.VolumeNotFound:
        return None
    value: str | None = noted.get(KEY)
    return value


def volumes(superposition: str) -> list[objects.Volume]:
    """List the volumes that may be in a superposition."""
    # Cinder looks for this filter in the metadata that users may write, too.
    found = objects.VolumeList.get_all(context.get_admin_context(),
                                       filters={'metadata': {KEY: superposition}})
    return [volume for volume in found if volume.admin_metadata.get(KEY) == superposition]


def put(volume_ids: Iterable[str], superposition: str) -> None:
    """Note that volumes may be in a superposition, in place of what was noted before.

    All at once: one after the other they would take longer than the superposition itself.
    """
    note = releases.models.VolumeAdminMetadata
    wanted = set(volume_ids)
    with releases.main_context_manager.writer.using(context.get_admin_context()) as session:
        present = session.query(note).filter(
            note.volume_id.in_(wanted), note.key == KEY, note.deleted.is_(False)).all()
        for one in present:
            one.value = superposition
        for volume_id in wanted - {one.volume_id for one in present}:
            session.add(note(volume_id=volume_id, key=KEY, value=superposition))


def remove(volume_ids: Iterable[str], superposition: str) -> None:
    """Remove the notes that name a superposition; another one's stay."""
    note = releases.models.VolumeAdminMetadata
    with releases.main_context_manager.writer.using(context.get_admin_context()) as session:
        session.query(note).filter(
            note.volume_id.in_(set(volume_ids)), note.key == KEY, note.value == superposition,
            note.deleted.is_(False)).update(
            {'deleted': True, 'deleted_at': timeutils.utcnow()}, synchronize_session=False)


def on(host: str) -> dict[str, str]:
    """List the notes on the volumes of a back end, or of a cluster of them: by volume id.

    :param host: ``host@backend``, or ``cluster@backend``
    """
    return everywhere().get(host, {})


def everywhere() -> dict[str, dict[str, str]]:
    """List all notes: by back end, and by cluster, what :func:`on` gives."""
    admin = context.get_admin_context()
    with releases.main_context_manager.reader.using(admin) as session:
        note, volume = releases.models.VolumeAdminMetadata, releases.models.Volume
        found = session.query(note.volume_id, note.value, volume.host, volume.cluster_name).join(
            volume, volume.id == note.volume_id).filter(
            note.key == KEY, note.deleted.is_(False), volume.deleted.is_(False)).all()
    noted: dict[str, dict[str, str]] = {}
    for volume_id, value, *hosts in found:
        for host in {(name or '').split('#')[0] for name in hosts}:
            noted.setdefault(host, {})[volume_id] = value
    return noted

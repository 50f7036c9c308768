# SPDX-License-Identifier: Apache-2.0
"""A note in Cinder's database that a volume may be in superposition.

The record in Ceph is authoritative. The note is written before the record and removed after the
record: a volume without a note is in no superposition, and the API need not ask its back end.
"""

from collections.abc import Iterable, Iterator
import contextlib
from typing import Any

from cinder import context
from cinder import coordination
from cinder import exception
from cinder import objects
from cinder.db import api as db
from oslo_utils import timeutils

from specreds_cinder.service import releases

# The key in a volume's admin metadata; its value is the superposition's id.
KEY = 'superposition'


@contextlib.contextmanager
def lock(*volume_ids: str) -> Iterator[None]:
    """Keep others from superposing or changing the volumes while the context lasts.

    The back end holds the lock while it writes the note and reads the volume's status; the API
    holds the lock from reading the note until Cinder has changed the volume's status.
    """
    with contextlib.ExitStack() as stack:
        # Every caller locks in the same order, so that none waits in a circle.
        for volume_id in sorted(set(volume_ids)):
            stack.enter_context(coordination.COORDINATOR.get_lock(f'superposition-{volume_id}'))
        yield


def of(volume_id: str) -> str | None:
    """Return the id of the superposition that a volume may be in.

    None means that the volume is in no superposition, or does not exist.
    """
    try:
        noted = db.volume_admin_metadata_get(context.get_admin_context(), volume_id)
    except exception.VolumeNotFound:
        return None
    value: str | None = noted.get(KEY)
    return value


def volumes(superposition: str) -> list[objects.Volume]:
    """List the volumes that may be in a superposition."""
    admin = context.get_admin_context()
    note = releases.models.VolumeAdminMetadata
    with releases.main_context_manager.reader.using(admin) as session:
        noted = session.query(note.volume_id).filter(
            note.key == KEY, note.value == superposition, note.deleted.is_(False)).all()
    # Cinder's own filter for metadata looks at each volume of the cloud, and also at the metadata
    # that users may write.
    return list(objects.VolumeList.get_all(admin, filters={
        'id': [volume_id for volume_id, in noted]})) if noted else []


def put(volume_ids: Iterable[str], superposition: str) -> None:
    """Note that volumes may be in a superposition, and replace any other note of theirs.

    One transaction writes all notes: one per volume would take longer than the superposition.
    """
    note = releases.models.VolumeAdminMetadata
    wanted = set(volume_ids)
    if not wanted:
        return
    with releases.main_context_manager.writer.using(context.get_admin_context()) as session:
        present = session.query(note).filter(
            note.volume_id.in_(wanted), note.key == KEY, note.deleted.is_(False)).all()
        for row in present:
            row.value = superposition
        for volume_id in wanted - {row.volume_id for row in present}:
            session.add(note(volume_id=volume_id, key=KEY, value=superposition))


def remove(volume_ids: Iterable[str], superposition: str) -> None:
    """Remove the notes that name a superposition; the volumes' other notes stay."""
    note = releases.models.VolumeAdminMetadata
    with releases.main_context_manager.writer.using(context.get_admin_context()) as session:
        session.query(note).filter(
            note.volume_id.in_(set(volume_ids)), note.key == KEY, note.value == superposition,
            note.deleted.is_(False)).update(
            {'deleted': True, 'deleted_at': timeutils.utcnow()}, synchronize_session=False)


def on(host: str) -> dict[str, str]:
    """Return the notes on the volumes of a back end or a cluster, by volume id.

    :param host: ``host@backend``, or ``cluster@backend``
    """
    return everywhere().get(host, {})


def everywhere() -> dict[str, dict[str, str]]:
    """Return all notes: the result of :func:`on` by back end, and by cluster."""
    admin = context.get_admin_context()
    with releases.main_context_manager.reader.using(admin) as session:
        note, volume = releases.models.VolumeAdminMetadata, releases.models.Volume
        rows = _noted(session, note.volume_id, note.value, volume.host, volume.cluster_name).all()
    noted: dict[str, dict[str, str]] = {}
    for volume_id, value, *hosts in rows:
        for host in {(name or '').split('#')[0] for name in hosts}:
            noted.setdefault(host, {})[volume_id] = value
    return noted


def _noted(session: Any, *columns: Any) -> Any:
    """Return a query for columns of all notes and of their volumes."""
    note, volume = releases.models.VolumeAdminMetadata, releases.models.Volume
    return session.query(*columns).select_from(note).join(
        volume, volume.id == note.volume_id).filter(
        note.key == KEY, note.deleted.is_(False), volume.deleted.is_(False))

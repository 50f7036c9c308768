# SPDX-License-Identifier: Apache-2.0
"""Guard of volumes and their snapshots: refuses operations on superposed volumes.

Allowed are: attaching and detaching, which a superposition depends on; changing names and other
metadata; creating a volume from an existing snapshot, which reads nothing of the snapshot's
volume; and operations on a whole host.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from cinder.volume import api

from specreds_cinder.api.guards import check


def _volume(_api: Any, call: Mapping[str, Any]) -> Iterable[str]:
    return [call['volume'].id]


def _volumes(_api: Any, call: Mapping[str, Any]) -> Iterable[str]:
    return [volume.id for volume in call['volume_list']]


def _source(_api: Any, call: Mapping[str, Any]) -> Iterable[str]:
    source = call.get('source_volume')
    return [source.id] if source else []


def _snapshotted(_api: Any, call: Mapping[str, Any]) -> Iterable[str]:
    return [call['snapshot'].volume_id]


def _both(_api: Any, call: Mapping[str, Any]) -> Iterable[str]:
    return [call['volume'].id, call['new_volume'].id]


class VolumeAPI(api.API):
    """Cinder's class with methods that refuse superposed volumes."""

    accept_transfer = check.guarded(api.API.accept_transfer, 'transferred', _volume)
    copy_volume_to_image = check.guarded(api.API.copy_volume_to_image, 'uploaded', _volume)
    create = check.guarded(api.API.create, 'cloned', _source)
    create_snapshot = check.guarded(api.API.create_snapshot, 'snapshotted', _volume)
    create_snapshot_force = check.guarded(api.API.create_snapshot_force, 'snapshotted', _volume)
    create_snapshots_in_db = check.guarded(
        api.API.create_snapshots_in_db, 'snapshotted', _volumes)
    delete = check.guarded(api.API.delete, 'deleted or unmanaged', _volume)
    delete_snapshot = check.guarded(
        api.API.delete_snapshot, 'relieved of a snapshot', _snapshotted)
    extend = check.guarded(api.API.extend, 'extended', _volume)
    extend_attached_volume = check.guarded(api.API.extend_attached_volume, 'extended', _volume)
    manage_existing_snapshot = check.guarded(
        api.API.manage_existing_snapshot, 'given a snapshot', _volume)
    migrate_volume = check.guarded(api.API.migrate_volume, 'migrated', _volume)
    migrate_volume_completion = check.guarded(
        api.API.migrate_volume_completion, 'migrated', _both)
    reimage = check.guarded(api.API.reimage, 'overwritten by an image', _volume)
    retype = check.guarded(api.API.retype, 'retyped', _volume)
    revert_to_snapshot = check.guarded(
        api.API.revert_to_snapshot, 'reverted to a snapshot', _volume)
    update_readonly_flag = check.guarded(
        api.API.update_readonly_flag, 'made read-only or writable', _volume)

# SPDX-License-Identifier: Apache-2.0
"""Guard of volume groups: refuses operations that affect superposed volumes.

Creating a group from an existing group snapshot is allowed, as from any snapshot.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from cinder import objects
from cinder.group import api

from specreds_cinder.api.guards import check


def _of_group(call: Mapping[str, Any], group_id: str) -> Iterable[str]:
    return [volume.id for volume in objects.VolumeList.get_all_by_generic_group(
        call['context'].elevated(), group_id)]


def _members(_api: Any, call: Mapping[str, Any]) -> Iterable[str]:
    return _of_group(call, call['group'].id)


def _sources(_api: Any, call: Mapping[str, Any]) -> Iterable[str]:
    group_id = call.get('source_group_id')
    return _of_group(call, group_id) if group_id else []


def _moved(_api: Any, call: Mapping[str, Any]) -> Iterable[str]:
    return [volume_id for names in (call['add_volumes'], call['remove_volumes'])
            for volume_id in (names or '').split(',')]


def _snapshotted(_api: Any, call: Mapping[str, Any]) -> Iterable[str]:
    return [snapshot.volume_id for snapshot in objects.SnapshotList.get_all_for_group_snapshot(
        call['context'].elevated(), call['group_snapshot'].id)]


class GroupAPI(api.API):
    """Cinder's class with methods that refuse superposed volumes."""

    create_from_src = check.guarded(api.API.create_from_src, 'cloned', _sources)
    create_group_snapshot = check.guarded(
        api.API.create_group_snapshot, 'snapshotted', _members)
    delete = check.guarded(api.API.delete, 'deleted', _members)
    delete_group_snapshot = check.guarded(
        api.API.delete_group_snapshot, 'relieved of a snapshot', _snapshotted)
    disable_replication = check.guarded(api.API.disable_replication, 'replicated', _members)
    enable_replication = check.guarded(api.API.enable_replication, 'replicated', _members)
    failover_replication = check.guarded(
        api.API.failover_replication, 'failed over', _members)
    update = check.guarded(api.API.update, 'put into or out of a group', _moved)

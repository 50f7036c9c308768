# SPDX-License-Identifier: Apache-2.0
"""Backups of volumes, and restoring to them, as long as the volumes are not superposed."""

from collections.abc import Iterable, Mapping
from typing import Any

from cinder.backup import api

from specreds_cinder.api.guards import check


def _volume(_api: Any, call: Mapping[str, Any]) -> Iterable[str]:
    # Without a volume, a backup is restored to a new one.
    volume_id = call.get('volume_id')
    return [volume_id] if volume_id else []


class BackupAPI(api.API):
    """Cinder's class, which refuses what would break a superposition."""

    create = check.guarded(api.API.create, 'backed up', _volume)
    restore = check.guarded(api.API.restore, 'overwritten by a backup', _volume)

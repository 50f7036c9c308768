# SPDX-License-Identifier: Apache-2.0
"""Guard of volume backups: refuses to back up or restore to superposed volumes."""

from collections.abc import Iterable, Mapping
from typing import Any

from cinder.backup import api

from specreds_cinder.api.guards import check


def _volume(_api: Any, call: Mapping[str, Any]) -> Iterable[str]:
    # Without a volume id, Cinder restores the backup to a new volume.
    volume_id = call.get('volume_id')
    return [volume_id] if volume_id else []


class BackupAPI(api.API):
    """Cinder's class with methods that refuse superposed volumes."""

    create = check.guarded(api.API.create, 'backed up', _volume)
    restore = check.guarded(api.API.restore, 'overwritten by a backup', _volume)

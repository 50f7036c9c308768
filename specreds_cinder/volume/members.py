# SPDX-License-Identifier: Apache-2.0
"""The steps that a back end takes as a member of a set, on request of the set's leader."""

from collections.abc import Sequence
import contextlib
import time
from typing import Any

from specreds_cinder import eligibility
from specreds_cinder import exception
from specreds_cinder import hints
from specreds_cinder import rpcapi
from specreds_cinder.volume import base
from specreds_cinder.volume import encryption
from specreds_cinder.volume import reports


class Members(base.Base):
    """Superposes, checks and decides the volumes of this back end."""

    def member_create(self, ctxt: Any, superposition_id: str, volume_ids: Sequence[str],
                      members: Sequence[str], server_id: str | None, reason: str,
                      disks: Sequence[str] = ()) -> base.View:
        """Put the volumes of this back end into superposition.

        :param disks: ids of disks of servers
        """
        images = self._disk_images(disks)
        with hints.lock(*volume_ids):
            # Read under the lock: its last holder may have changed the volumes.
            volumes = eligibility.volumes(volume_ids)
            eligibility.check(volumes)
            eligibility.restore(volumes)
            hints.put(volume_ids, superposition_id)
            began = time.monotonic()
            try:
                shown = self._worker(
                    ctxt, 'super', superposition=superposition_id,
                    images=[*(volume.name for volume in volumes), *images],
                    encrypted=encryption.images(volumes),
                    read=eligibility.images_read(volumes), reason=reason, server_id=server_id,
                    joint=len(members) > 1, labels={
                        'volumes': {volume.name: volume.id for volume in volumes},
                        'members': list(members), 'user_id': ctxt.user_id,
                        'project_id': volumes[0].project_id if volumes else None,
                        'request_id': ctxt.request_id})
            except exception.SuperpositionUnavailable:
                # The superposition may exist: the next pass of the housekeeping finds out.
                raise
            except exception.SuperpositionError:
                hints.remove(volume_ids, superposition_id)
                raise
        return {**self._view(shown), 'storage_s': time.monotonic() - began}

    def member_check(self, ctxt: Any, superposition_id: str) -> base.View:
        """Sweep the volumes of this back end."""
        report = self._worker(ctxt, 'check', superposition=superposition_id)
        return {field: report[field]
                for field in ('dirty', 'unproven', 'first', 'objects', 'seconds')}

    def member_prepare(self, ctxt: Any, superposition_id: str, durable: bool) -> base.View:
        """Fence the primary's clients here, and sweep the volumes behind the fence."""
        return reports.collapse(self._worker(
            ctxt, 'prepare', superposition=superposition_id, durable=durable))

    def member_commit(self, ctxt: Any, superposition_id: str) -> None:
        """Decide for the backup, as the leader has."""
        # A superposition that is gone has been merged.
        with contextlib.suppress(exception.SuperpositionNotFound):
            self._worker(ctxt, 'commit', superposition=superposition_id)

    def member_drop(self, ctxt: Any, superposition_id: str, fenced: bool) -> None:
        """Decide for the primary, as the leader has.

        :param fenced: the primary was fenced on some back end
        """
        self._worker(ctxt, 'drop', superposition=superposition_id, fenced=fenced)
        hints.remove([volume.id for volume in hints.volumes(superposition_id)
                      if rpcapi.backend(volume) == self._host], superposition_id)

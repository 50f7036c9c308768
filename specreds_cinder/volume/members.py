# SPDX-License-Identifier: Apache-2.0
"""The steps that each back end of a set takes for its own volumes, as the set's leader says."""

from collections.abc import Sequence
import contextlib
import time
from typing import Any

from specreds_cinder import eligibility
from specreds_cinder import exception
from specreds_cinder import hints
from specreds_cinder import rpcapi
from specreds_cinder.volume import backend as backends
from specreds_cinder.volume import encryption


def superpose(backend: backends.Backend, ctxt: Any, superposition_id: str,
              volume_ids: Sequence[str],
              members: Sequence[str], server_id: str | None, reason: str,
              disks: Sequence[str] = ()) -> backends.View:
    """Put the volumes of this back end into superposition.

    :param disks: ids of disks of servers
    """
    images = backend.disk_images(disks)
    with hints.lock(*volume_ids):
        # Read under the lock: its last holder may have changed the volumes.
        volumes = eligibility.volumes(volume_ids)
        eligibility.check(volumes)
        hints.put(volume_ids, superposition_id)
        began = time.monotonic()
        try:
            shown = backend.call(
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
    return {**backend.view(shown), 'storage_s': time.monotonic() - began}


def check(backend: backends.Backend, ctxt: Any, superposition_id: str) -> backends.View:
    """Sweep the volumes of this back end."""
    report: backends.View = backend.call(ctxt, 'check', superposition=superposition_id)
    return report


def prepare(backend: backends.Backend, ctxt: Any, superposition_id: str,
            durable: bool) -> backends.View:
    """Fence the primary's clients here, and sweep the volumes behind the fence."""
    report: backends.View = backend.call(
        ctxt, 'prepare', superposition=superposition_id, durable=durable)
    return report


def commit(backend: backends.Backend, ctxt: Any, superposition_id: str) -> None:
    """Decide for the backup, as the leader has."""
    # A superposition that is gone has been merged.
    with contextlib.suppress(exception.SuperpositionNotFound):
        backend.call(ctxt, 'commit', superposition=superposition_id)


def drop(backend: backends.Backend, ctxt: Any, superposition_id: str, fenced: bool) -> None:
    """Decide for the primary, as the leader has.

    :param fenced: the primary was fenced on some back end
    """
    backend.call(ctxt, 'drop', superposition=superposition_id, fenced=fenced)
    hints.remove([volume.id for volume in hints.volumes(superposition_id)
                  if rpcapi.backend(volume) == backend.host], superposition_id)


# By name, as a leader calls them on other back ends.
STEPS = {step.__name__: step for step in (superpose, check, prepare, commit, drop)}

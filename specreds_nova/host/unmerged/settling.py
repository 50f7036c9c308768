# SPDX-License-Identifier: Apache-2.0
"""Waiting until Cinder has merged superpositions whose servers run nowhere.

Cinder merges by itself some time after the last client of an overlay is gone; a request makes it
do so at once. Ceph notices half a minute late that a client on a failed host is gone
(``osd_client_watch_timeout``), and at once that a backup was ended properly.
"""

from collections.abc import Iterable
import time

from oslo_log import log as logging

from specreds_nova import exception
from specreds_nova.host import cinder_api
from specreds_nova.host.disks import errors
from specreds_nova.host.merge import pivot

LOG = logging.getLogger(__name__)

# Seconds for the merge of what the server's backup had written. A host that died with the backup
# takes half a minute to be noticed by Ceph, and the rest is for the merge.
PATIENCE_S = 300
_POLL_S = 1.0
# Interval of requests: the overlay may still have been in use.
_AGAIN_S = 10.0


def settle(cinder: cinder_api.CinderAPI, instance_uuid: str,
           superpositions: Iterable[str]) -> None:
    """Wait until Cinder has merged superpositions whose overlays are not used.

    :raises NotHere: one is not merged in time, so its overlay may still be in use
    :raises VersionUnknown: Cinder does not report its state
    """
    deadline = time.monotonic() + PATIENCE_S
    for superposition_id in sorted(set(superpositions)):
        LOG.info('server %s waits for the merge of superposition %s', instance_uuid,
                 superposition_id)
        requested_at = -_AGAIN_S
        while not merged(cinder, instance_uuid, superposition_id):
            now = time.monotonic()
            if now > deadline:
                raise errors.NotHere(
                    f'superposition {superposition_id} of server {instance_uuid} is not merged '
                    f'within {PATIENCE_S} s: if its backup still runs on a '
                    f'host, evacuate the server to that host; if not, look at the superposition '
                    f'in Cinder')
            if now - requested_at >= _AGAIN_S:
                requested_at = now
                _request_merge(cinder, superposition_id)
            time.sleep(_POLL_S)


def merged(cinder: cinder_api.CinderAPI, instance_uuid: str, superposition_id: str) -> bool:
    """Return whether a server's volumes, and not its overlays, are the real version.

    :raises VersionUnknown: Cinder does not report it
    """
    try:
        return cinder.state(superposition_id) in pivot.ENDED
    except exception.BackupError as exc:
        raise errors.VersionUnknown(
            f'server {instance_uuid}: Cinder does not report whether superposition '
            f'{superposition_id} is merged ({exc}); try again when it does') from exc


def _request_merge(cinder: cinder_api.CinderAPI, superposition_id: str) -> None:
    try:
        cinder.merge(superposition_id, 'offline')
    except exception.BackupError as exc:
        # The merge may have just ended, or Cinder be busy: the next look at the state tells.
        LOG.info('cannot merge superposition %s yet: %s', superposition_id, exc)

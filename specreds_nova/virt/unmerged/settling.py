# SPDX-License-Identifier: Apache-2.0
"""Having Cinder merge, now, what runs nowhere any more, and waiting until it has.

Cinder does so by itself some time after the last user of an overlay is gone. Of a host that died
Ceph knows that half a minute later (``osd_client_watch_timeout``), and of one whose backup was
ended in order at once.
"""

from collections.abc import Iterable
import time

import nova.conf
from oslo_log import log as logging

from specreds_nova import conf
from specreds_nova import exception
from specreds_nova.virt.disks import errors
from specreds_nova.virt.merge import merger as mergers
from specreds_nova.virt.merge import pivot

CONF = nova.conf.CONF
conf.register(CONF)
LOG = logging.getLogger(__name__)

_POLL_S = 1.0
# Between two requests, in case that the overlay was still in use.
_AGAIN_S = 10.0


def settle(storage: mergers.Storage, instance_uuid: str, superpositions: Iterable[str]) -> None:
    """Have superpositions merged whose overlays nobody is to use any more.

    :raises NotHere: one is not merged in time: somebody may still use it
    :raises VersionUnknown: Cinder does not say
    """
    deadline = time.monotonic() + CONF.specreds.settle_timeout
    for superposition_id in sorted(set(superpositions)):
        LOG.info('server %s waits until what superposition %s has promoted is merged',
                 instance_uuid, superposition_id)
        asked = -_AGAIN_S
        while not merged(storage, instance_uuid, superposition_id):
            now = time.monotonic()
            if now > deadline:
                raise errors.NotHere(
                    f'superposition {superposition_id} of server {instance_uuid} is not merged '
                    f'within {CONF.specreds.settle_timeout} s: if its backup still runs '
                    f'somewhere, evacuate the server to there; if not, see what Cinder says of '
                    f'the superposition')
            if now - asked >= _AGAIN_S:
                asked = now
                _ask(storage, superposition_id)
            time.sleep(_POLL_S)


def merged(storage: mergers.Storage, instance_uuid: str, superposition_id: str) -> bool:
    """Tell whether a server's volumes, and not its overlays, are what counts.

    :raises VersionUnknown: Cinder does not say
    """
    try:
        return storage.state(superposition_id) in pivot.ENDED
    except exception.BackupError as exc:
        raise errors.VersionUnknown(
            f'server {instance_uuid}: Cinder does not say whether superposition '
            f'{superposition_id} is merged ({exc}); try again when it does') from exc


def _ask(storage: mergers.Storage, superposition_id: str) -> None:
    try:
        storage.merge(superposition_id, 'offline')
    except exception.BackupError as exc:
        # It may have ended just now, or Cinder be busy: the next look tells.
        LOG.info('superposition %s cannot be merged now: %s', superposition_id, exc)

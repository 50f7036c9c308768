# SPDX-License-Identifier: Apache-2.0
"""RPC server of nova-compute for backups: namespace ``specreds``, version 1.0.

Topic ``compute``, exchange ``nova``, server is the host.
Arguments and results are plain JSON.
"""

from typing import Any

import oslo_messaging as messaging
from oslo_utils import uuidutils

from specreds_nova import exception
from specreds_nova import rpcapi
from specreds_nova.beats import boot

_expected = messaging.expected_exceptions(*exception.EXPECTED)


class Endpoint:
    """Passes each call on to the backups of this host.

    :param backups: a backups.Backups
    :param returning: a stale.StaleServers
    """

    target = messaging.Target(namespace=rpcapi.NAMESPACE, version=rpcapi.VERSION)

    def __init__(self, backups: Any, returning: Any) -> None:
        self._backups = backups
        self._returning = returning

    @_expected
    def check(self, ctxt: Any, instance_uuid: str) -> dict[str, Any]:
        """Return whether this host can run a server's backup."""
        del ctxt
        return dict(self._backups.check(instance_uuid))

    @_expected
    def start(self, ctxt: Any, backup_id: str, instance_uuid: str,
              superposition_id: str) -> dict[str, Any]:
        """Start a backup, and return its status when it runs."""
        del ctxt
        _check_ids(backup_id=backup_id, instance_uuid=instance_uuid,
                   superposition_id=superposition_id)
        return dict(self._backups.start(backup_id, instance_uuid, superposition_id))

    @_expected
    def status(self, ctxt: Any, backup_id: str) -> dict[str, Any]:
        """Return the status of a backup."""
        del ctxt
        return dict(self._backups.status(backup_id))

    @_expected
    def harden(self, ctxt: Any, backup_id: str) -> dict[str, Any]:
        """Make durable what a backup has written, and all that it writes from here on."""
        del ctxt
        return dict(self._backups.harden(backup_id))

    @_expected
    def promote(self, ctxt: Any, backup_id: str, keep_claim: bool = False) -> dict[str, Any]:
        """Open the box of a backup whose volumes Cinder has promoted."""
        del ctxt
        return dict(self._backups.promote(backup_id, keep_claim=keep_claim))

    @_expected
    def release(self, ctxt: Any, backup_id: str) -> dict[str, Any]:
        """Release the claim of a promoted backup, right before the evacuation that adopts it."""
        del ctxt
        return dict(self._backups.release(backup_id))

    @_expected
    def abort(self, ctxt: Any, backup_id: str) -> dict[str, Any]:
        """Remove a backup without a trace."""
        del ctxt
        return dict(self._backups.abort(backup_id))

    @_expected
    def returned(self, ctxt: Any) -> dict[str, Any]:
        """Remove the servers that were evacuated from this host while it was away."""
        del ctxt
        return dict(self._returning.clean())

    @_expected
    def boot(self, ctxt: Any) -> dict[str, Any]:
        """Return which boot of this host runs, for how long, and the addresses of the host."""
        del ctxt
        return dict(boot.report())


def _check_ids(**ids: Any) -> None:
    """Check that ids are UUIDs: they become names of files and consumers in Placement.

    :raises BadRequest: one is not
    """
    for name, value in ids.items():
        if not uuidutils.is_uuid_like(value) or value != str(value).lower():
            raise exception.BadRequest(f'{name} {value!r} is not a UUID in lower case')

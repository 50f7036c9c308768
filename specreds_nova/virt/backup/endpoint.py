# SPDX-License-Identifier: Apache-2.0
"""What nova-compute answers over RPC: namespace ``specreds``, version 1.2.

1.1 added ``returned``; 1.2 added ``release`` and the argument ``keep_claim`` of ``promote``.

Topic ``compute``, exchange ``nova``, server is the host. Arguments and results are plain JSON.
"""

from typing import Any

import oslo_messaging as messaging
from oslo_utils import uuidutils

from specreds_nova import exception

NAMESPACE = 'specreds'
VERSION = '1.2'

_expected = messaging.expected_exceptions(*exception.EXPECTED)


class Endpoint:
    """Passes each call on to the backups of this host.

    :param backups: a backups.Backups
    :param returning: a returning.Returning
    """

    target = messaging.Target(namespace=NAMESPACE, version=VERSION)

    def __init__(self, backups: Any, returning: Any) -> None:
        self._backups = backups
        self._returning = returning

    @_expected
    def check(self, ctxt: Any, instance_uuid: str) -> dict[str, Any]:
        """Tell whether this host could run a server's backup."""
        del ctxt
        return dict(self._backups.check(instance_uuid))

    @_expected
    def start(self, ctxt: Any, recovery_id: str, instance_uuid: str,
              superposition_id: str) -> dict[str, Any]:
        """Start a backup, and answer when it runs."""
        del ctxt
        _check_ids(recovery_id=recovery_id, instance_uuid=instance_uuid,
                   superposition_id=superposition_id)
        return dict(self._backups.start(recovery_id, instance_uuid, superposition_id))

    @_expected
    def status(self, ctxt: Any, recovery_id: str) -> dict[str, Any]:
        """Tell how far a recovery is."""
        del ctxt
        return dict(self._backups.status(recovery_id))

    @_expected
    def list(self, ctxt: Any) -> list[dict[str, Any]]:
        """Tell of all recoveries that this host knows."""
        del ctxt
        return [dict(status) for status in self._backups.list()]

    @_expected
    def harden(self, ctxt: Any, recovery_id: str) -> dict[str, Any]:
        """Make what a backup has written durable, and from now on."""
        del ctxt
        return dict(self._backups.harden(recovery_id))

    @_expected
    def promote(self, ctxt: Any, recovery_id: str, keep_claim: bool = False) -> dict[str, Any]:
        """Let a backup out, of which Cinder says that it is promoted."""
        del ctxt
        return dict(self._backups.promote(recovery_id, keep_claim=keep_claim))

    @_expected
    def release(self, ctxt: Any, recovery_id: str) -> dict[str, Any]:
        """Release the claim of a promoted backup, right before the evacuation that adopts it."""
        del ctxt
        return dict(self._backups.release(recovery_id))

    @_expected
    def abort(self, ctxt: Any, recovery_id: str) -> dict[str, Any]:
        """Remove a backup without a trace."""
        del ctxt
        return dict(self._backups.abort(recovery_id))

    @_expected
    def cleanup(self, ctxt: Any, recovery_id: str) -> None:
        """Forget a recovery that has ended."""
        del ctxt
        self._backups.cleanup(recovery_id)

    @_expected
    def returned(self, ctxt: Any) -> dict[str, Any]:
        """Remove what was evacuated from this host while it was away."""
        del ctxt
        return dict(self._returning.clean())


def _check_ids(**ids: Any) -> None:
    """Make sure that ids are such: they become names of files, and of consumers.

    :raises BadRequest: one is none
    """
    for name, value in ids.items():
        if not uuidutils.is_uuid_like(value) or value != str(value).lower():
            raise exception.BadRequest(f'{name} is {value!r}: it has to be a UUID')

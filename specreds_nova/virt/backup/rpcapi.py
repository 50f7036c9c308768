# SPDX-License-Identifier: Apache-2.0
"""How the engine, and tests, reach the backups of a host."""

import builtins
from typing import Any

import oslo_messaging as messaging

from specreds_nova import exception
from specreds_nova.virt.backup import endpoint

# Exceptions of these modules come out of a call as they were raised in nova-compute.
ALLOWED_EXMODS = [exception.__name__, 'nova.exception']
Status = dict[str, Any]

_EXCHANGE = 'nova'
_TOPIC = 'compute'
# What the oldest hosts know; whatever came later asks for its own version.
_BASE = '1.0'


class BackupsAPI:
    """The client's side of :class:`endpoint.Endpoint`.

    Every method raises what the host answers, an ``exception.BackupError``, and

    :raises oslo_messaging.MessagingTimeout: the host does not answer

    :param transport: made with ``ALLOWED_EXMODS``
    :param serializer: of contexts; Nova's, or none for contexts that are dictionaries
    :param timeout: seconds that a host may take to answer
    """

    def __init__(self, transport: messaging.Transport,
                 serializer: messaging.Serializer | None = None, timeout: float = 60.0) -> None:
        target = messaging.Target(exchange=_EXCHANGE, topic=_TOPIC,
                                  namespace=endpoint.NAMESPACE, version=_BASE)
        self._client = messaging.get_rpc_client(transport, target, timeout=timeout,
                                                serializer=serializer)

    def check(self, ctxt: Any, host: str, instance_uuid: str) -> Status:
        """Tell whether a host could run a server's backup: ``eligible``, and ``reasons``."""
        return Status(self._call(ctxt, host, 'check', instance_uuid=instance_uuid))

    def start(self, ctxt: Any, host: str, recovery_id: str, instance_uuid: str,
              superposition_id: str) -> Status:
        """Start a backup, and give its status when it runs."""
        return Status(self._call(ctxt, host, 'start', recovery_id=recovery_id,
                          instance_uuid=instance_uuid, superposition_id=superposition_id))

    def status(self, ctxt: Any, host: str, recovery_id: str) -> Status:
        """Tell how far a recovery is."""
        return Status(self._call(ctxt, host, 'status', recovery_id=recovery_id))

    def list(self, ctxt: Any, host: str) -> builtins.list[Status]:
        """Tell of all recoveries that a host knows."""
        found: builtins.list[Status] = self._call(ctxt, host, 'list')
        return found

    def harden(self, ctxt: Any, host: str, recovery_id: str) -> Status:
        """Make what a backup has written durable: right before its volumes are promoted."""
        return Status(self._call(ctxt, host, 'harden', recovery_id=recovery_id))

    def promote(self, ctxt: Any, host: str, recovery_id: str, keep_claim: bool = False) -> Status:
        """Let a backup out, after Cinder has promoted its volumes.

        :param keep_claim: leave the claim to :meth:`release`, right before the evacuation
        """
        if not keep_claim:
            return Status(self._call(ctxt, host, 'promote', recovery_id=recovery_id))
        return Status(self._client.prepare(server=host, version='1.2').call(
            ctxt, 'promote', recovery_id=recovery_id, keep_claim=True))

    def release(self, ctxt: Any, host: str, recovery_id: str) -> Status:
        """Release the claim of a promoted backup: Nova's evacuation claims for the server."""
        return Status(self._client.prepare(server=host, version='1.2').call(
            ctxt, 'release', recovery_id=recovery_id))

    def abort(self, ctxt: Any, host: str, recovery_id: str) -> Status:
        """Remove a backup without a trace."""
        return Status(self._call(ctxt, host, 'abort', recovery_id=recovery_id))

    def cleanup(self, ctxt: Any, host: str, recovery_id: str) -> None:
        """Let a host forget a recovery that has ended."""
        self._call(ctxt, host, 'cleanup', recovery_id=recovery_id)

    def returned(self, ctxt: Any, host: str) -> Status:
        """Have a host that is back remove what was evacuated from it: ``clean``, ``left``."""
        return Status(self._client.prepare(server=host, version='1.1').call(ctxt, 'returned'))

    def _call(self, ctxt: Any, host: str, method: str, **arguments: Any) -> Any:
        return self._client.prepare(server=host).call(ctxt, method, **arguments)

# SPDX-License-Identifier: Apache-2.0
"""RPC client for the backups of a host."""

from typing import Any

import oslo_messaging as messaging

from specreds_nova import exception

# Exceptions of these modules are raised by the client as nova-compute raised them.
ALLOWED_EXMODS = [exception.__name__, 'nova.exception']
Status = dict[str, Any]

NAMESPACE = 'specreds'
VERSION = '1.0'
_EXCHANGE = 'nova'
_TOPIC = 'compute'


class BackupsAPI:
    """Client of ``host.backup.endpoint.Endpoint``.

    Every method raises the error that the host returns, an ``exception.BackupError``, and

    :raises oslo_messaging.MessagingTimeout: the host does not answer

    :param transport: made with ``ALLOWED_EXMODS``
    :param serializer: of contexts; Nova's, or none for contexts that are dictionaries
    :param timeout: seconds that a host may take to answer
    """

    def __init__(self, transport: messaging.Transport,
                 serializer: messaging.Serializer | None = None, timeout: float = 60.0) -> None:
        target = messaging.Target(exchange=_EXCHANGE, topic=_TOPIC,
                                  namespace=NAMESPACE, version=VERSION)
        self._client = messaging.get_rpc_client(transport, target, timeout=timeout,
                                                serializer=serializer)

    def check(self, ctxt: Any, host: str, instance_uuid: str) -> Status:
        """Return whether a host can run a server's backup: ``eligible``, and ``reasons``.

        Also ``immovable``: why Nova would refuse to evacuate the server, or None.
        """
        return Status(self._call(ctxt, host, 'check', instance_uuid=instance_uuid))

    def start(self, ctxt: Any, host: str, backup_id: str, instance_uuid: str,
              superposition_id: str) -> Status:
        """Start a backup, and return its status when it runs."""
        return Status(self._call(
            ctxt, host, 'start', backup_id=backup_id, instance_uuid=instance_uuid,
            superposition_id=superposition_id))

    def begin(self, ctxt: Any, host: str, backup_id: str, instance_uuid: str,
              superposition_id: str) -> None:
        """Have a host start a backup, without waiting for it."""
        self._client.prepare(server=host).cast(
            ctxt, 'start', backup_id=backup_id, instance_uuid=instance_uuid,
            superposition_id=superposition_id)

    def status(self, ctxt: Any, host: str, backup_id: str) -> Status:
        """Return the status of a backup."""
        return Status(self._call(ctxt, host, 'status', backup_id=backup_id))

    def harden(self, ctxt: Any, host: str, backup_id: str) -> Status:
        """Make durable what a backup has written, right before its volumes are promoted."""
        return Status(self._call(ctxt, host, 'harden', backup_id=backup_id))

    def promote(self, ctxt: Any, host: str, backup_id: str, keep_claim: bool = False) -> Status:
        """Open the box of a backup whose volumes Cinder has promoted.

        :param keep_claim: leave the claim to :meth:`release`, right before the evacuation
        """
        return Status(self._call(ctxt, host, 'promote', backup_id=backup_id,
                                 keep_claim=keep_claim))

    def release(self, ctxt: Any, host: str, backup_id: str) -> Status:
        """Release the claim of a promoted backup, right before Nova's evacuation claims."""
        return Status(self._call(ctxt, host, 'release', backup_id=backup_id))

    def abort(self, ctxt: Any, host: str, backup_id: str) -> Status:
        """Remove a backup without a trace."""
        return Status(self._call(ctxt, host, 'abort', backup_id=backup_id))

    def returned(self, ctxt: Any, host: str) -> Status:
        """Remove evacuated servers from a host that is back; return ``clean`` and ``left``."""
        return Status(self._call(ctxt, host, 'returned'))

    def boot(self, ctxt: Any, host: str) -> Status:
        """Return ``kernel``, ``uptime``, ``service_uptime`` and ``addresses`` of a host."""
        return Status(self._call(ctxt, host, 'boot'))

    def _call(self, ctxt: Any, host: str, method: str, **arguments: Any) -> Any:
        return self._client.prepare(server=host).call(ctxt, method, **arguments)

# SPDX-License-Identifier: Apache-2.0
"""Passphrases of encrypted volumes, as libvirt secrets like those that Nova defines."""

from collections.abc import Mapping
from typing import Any

from nova import context as nova_context
from nova import exception as nova_exception
import nova.conf
from nova.virt import block_device as driver_block_device
from oslo_log import log as logging

from specreds_cinder import keys
from specreds_nova import exception

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

_USAGE = 'volume'


class Secrets:
    """Defines and removes the secrets of volumes on this host.

    :param driver: Nova's libvirt driver
    """

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def define(self, context: Any, connection_info: Mapping[str, Any]) -> None:
        """Define the secret of a volume, if it is encrypted and has no secret on this host.

        :param context: context of an administrator, for Cinder
        :raises StartFailed: the key manager does not return the key, or QEMU cannot use it
        """
        if not connection_info['data'].get('encrypted'):
            return
        volume_id = driver_block_device.get_volume_id(connection_info)
        try:
            encryption = self._driver._get_volume_encryption(context, connection_info)
        except Exception as exc:
            raise exception.StartFailed(
                f'Cinder does not describe the encryption of volume {volume_id}: {exc}') from exc
        if not self._driver._allow_native_luksv1(encryption):
            raise exception.StartFailed(
                f'volume {volume_id} is encrypted by provider {encryption.get("provider")}: QEMU '
                f'itself opens only volumes of provider luks')
        try:
            keys.within_limit(lambda: self._driver._attach_encryptor(
                _credentials(), connection_info, encryption))
        except Exception as exc:
            # The text of the error comes from the key manager, and might contain a secret.
            raise exception.StartFailed(
                f'the key manager does not return the key of volume {volume_id} to this host '
                f'({type(exc).__name__}): let this host read the key, which an evacuation by Nova '
                f'needs, too') from exc

    def remove(self, volume_id: str) -> None:
        """Remove the secret of a volume; one that does not exist is no error."""
        if self._driver._host.find_secret(_USAGE, volume_id) is not None:
            self._driver._host.delete_secret(_USAGE, volume_id)


def _credentials() -> Any:
    """Return the credentials for requests to the key manager.

    Nova uses the credentials of a user's request, but a backup is started without one.
    """
    context = nova_context.get_admin_context()
    # New in Nova 2026.1.
    service_user = getattr(nova_context, 'get_nova_service_user_context', None)
    if service_user is not None:
        try:
            context = service_user()
        except nova_exception.InvalidConfiguration as exc:
            LOG.debug('requesting keys without a service user: %s', exc)
    return keys.credentials(CONF, context)

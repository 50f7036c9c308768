# SPDX-License-Identifier: Apache-2.0
"""Passphrases of encrypted volumes, which libvirt keeps as Nova has it do."""

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

        :param context: an administrator's, for Cinder
        :raises StartFailed: the key is not returned, or QEMU cannot open the volume with it
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
            self._driver._attach_encryptor(_credentials(), connection_info, encryption)
        except Exception as exc:
            # The text of the error comes from the key manager, and might be anything.
            raise exception.StartFailed(
                f'the key of volume {volume_id} cannot be had from the key manager '
                f'({type(exc).__name__}): let this host read it, as an evacuation by Nova '
                f'needs it, too') from exc

    def remove(self, volume_id: str) -> None:
        """Remove the secret of a volume; one that does not exist is no error."""
        if self._driver._host.find_secret(_USAGE, volume_id) is not None:
            self._driver._host.delete_secret(_USAGE, volume_id)


def _credentials() -> Any:
    """Return what the key manager is asked with.

    Nova uses the credentials of a user's request, but a backup is started without one.
    """
    context = nova_context.get_admin_context()
    # Nova has it since 2026.1.
    service_user = getattr(nova_context, 'get_nova_service_user_context', None)
    if service_user is not None:
        try:
            context = service_user()
        except nova_exception.InvalidConfiguration as exc:
            LOG.debug('the key manager is asked without a service user: %s', exc)
    return keys.credentials(CONF, context)

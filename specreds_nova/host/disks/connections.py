# SPDX-License-Identifier: Apache-2.0
"""Connections of a server's volumes, as Nova has noted them and as Cinder reports them.

Nova's block device mappings keep what Cinder reported when a volume was attached. Whether the
volume is opened by itself or through an overlay changes later: the record in Ceph decides.
"""

from collections.abc import Collection
from typing import Any

from nova import context as nova_context
from nova import objects
from nova.virt import driver as virt_driver
from nova.volume import cinder
from oslo_log import log as logging

from specreds_nova.host import protection
from specreds_nova.host.disks import errors
from specreds_nova.host.disks import volume_driver

LOG = logging.getLogger(__name__)

BlockDeviceInfo = dict[str, Any]


def refresh(driver: Any, instance: Any, block_device_info: BlockDeviceInfo | None, *,
            anywhere: bool = False) -> None:
    """Get from Cinder the connections of volumes that are about to be opened, and note them.

    For a server that is in no superposition according to Nova, Nova's own note is used.

    :param driver: Nova's libvirt driver
    :param block_device_info: changed in place and in the database
    :param anywhere: accept a version that may be in use on another host; the caller handles that
    :raises VersionUnknown: Cinder does not answer
    :raises NotHere: the real version was promoted for another host, and may be in use there
    """
    for device in _doubtful(instance, block_device_info):
        before = superposition_of(device['connection_info'])
        try:
            device.refresh_connection_info(
                nova_context.get_admin_context(), instance, cinder.API(), driver)
        except Exception as exc:
            raise errors.VersionUnknown(
                f'server {instance.uuid} cannot be started: Cinder does not report the real '
                f'version of volume {device.volume_id} ({exc}); try again when it does') from exc
        after = superposition_of(device['connection_info'])
        if after is not None and after != before and not anywhere:
            raise errors.NotHere(_elsewhere(instance, device, after))
        if after != before:
            LOG.info('volume %s is opened without an overlay: superposition %s is merged',
                     device.volume_id, before, instance=instance)


def superpositions(block_device_info: BlockDeviceInfo | None, *,
                   deleted: bool = False) -> set[str]:
    """Return the superpositions whose overlays a server uses, according to Nova's notes.

    :param deleted: only connections of volumes that are deleted together with the server
    """
    devices = virt_driver.block_device_info_get_mapping(block_device_info)
    ids = {superposition_of(device['connection_info']) for device in devices
           if not deleted or device.get('delete_on_termination')}
    return {superposition_id for superposition_id in ids if superposition_id is not None}


def refresh_all(driver: Any, instance: Any) -> None:
    """Note the current connection of each volume of a server."""
    refresh(driver, instance, noted(instance))


def noted(instance: Any) -> BlockDeviceInfo:
    """Return Nova's notes of a server's volumes."""
    bdms = objects.BlockDeviceMappingList.get_by_instance_uuid(
        nova_context.get_admin_context(), instance.uuid)
    info: BlockDeviceInfo = virt_driver.get_block_device_info(instance, bdms)
    return info


def superposition(instance: Any, volume_ids: Collection[str] | None = None) -> str | None:
    """Return the superposition whose overlays a server uses, according to Nova's notes, or None.

    :param volume_ids: consider only these
    """
    for device in virt_driver.block_device_info_get_mapping(noted(instance)):
        if volume_ids is None or device.volume_id in volume_ids:
            superposition_id = superposition_of(device['connection_info'])
            if superposition_id is not None:
                return superposition_id
    return None


def superposition_of(connection_info: dict[str, Any] | None) -> str | None:
    """Return the superposition whose overlay a connection uses; None for a plain connection."""
    if (not connection_info
            or connection_info.get('driver_volume_type') != volume_driver.CHAINED):
        return None
    superposed = connection_info['data'].get('superposition')
    return None if superposed is None else str(superposed['id'])


def _doubtful(instance: Any, block_device_info: BlockDeviceInfo | None) -> list[Any]:
    """Return the volumes of which Nova's note may be wrong."""
    devices = [
        device for device in virt_driver.block_device_info_get_mapping(block_device_info)
        if (device['connection_info'] or {}).get('driver_volume_type') in volume_driver.TYPES]
    if protection.protected(instance):
        return devices
    return [device for device in devices if superposition_of(device['connection_info'])]


def _elsewhere(instance: Any, device: Any, superposition_id: str) -> str:
    return (f'server {instance.uuid} cannot be started here: volume {device.volume_id} goes '
            f'through the overlay of superposition {superposition_id}, which was promoted for '
            f'another host. If its backup runs there, evacuate the server to it; if not, Cinder '
            f'merges it within a minute or two: try again then')

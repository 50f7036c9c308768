# SPDX-License-Identifier: Apache-2.0
"""How Nova's database says that a server's volumes are connected, and how they really are.

The block device mappings keep what Cinder said once. Whether a volume is opened itself or through
an overlay changes later, and only Cinder knows: the record in Ceph decides, never the mapping.
"""

from collections.abc import Collection
from typing import Any

from nova import context as nova_context
from nova import objects
from nova.virt import driver as virt_driver
from nova.volume import cinder
from oslo_log import log as logging

from specreds_nova.virt import protection
from specreds_nova.virt.disks import errors
from specreds_nova.virt.disks import volume_driver

LOG = logging.getLogger(__name__)

BlockDeviceInfo = dict[str, Any]


def refresh(driver: Any, instance: Any, block_device_info: BlockDeviceInfo | None, *,
            anywhere: bool = False) -> None:
    """Ask Cinder for the connections of what is about to be opened, and note what it says.

    For servers that can be in no superposition as far as Nova knows, what Nova noted is taken.

    :param driver: Nova's libvirt driver
    :param block_device_info: changed in place, and in the database
    :param anywhere: what counts may be in use on another host: the caller sees to that
    :raises VersionUnknown: Cinder does not answer
    :raises NotHere: what counts was promoted for another host, and may be in use there
    """
    for device in _doubtful(instance, block_device_info):
        before = superposition_of(device['connection_info'])
        try:
            device.refresh_connection_info(
                nova_context.get_admin_context(), instance, cinder.API(), driver)
        except Exception as exc:
            raise errors.VersionUnknown(
                f'server {instance.uuid} cannot be started: Cinder does not say which version of '
                f'volume {device.volume_id} counts ({exc}); try again when it does') from exc
        after = superposition_of(device['connection_info'])
        if after is not None and after != before and not anywhere:
            raise errors.NotHere(_elsewhere(instance, device, after))
        if after != before:
            LOG.info('volume %s is opened itself: superposition %s is merged',
                     device.volume_id, before, instance=instance)


def superpositions(block_device_info: BlockDeviceInfo | None, *,
                   deleted: bool = False) -> set[str]:
    """List the superpositions whose overlays a server goes through, as far as Nova has noted it.

    :param deleted: only those of volumes that are deleted together with the server
    """
    devices = virt_driver.block_device_info_get_mapping(block_device_info)
    found = {superposition_of(device['connection_info']) for device in devices
             if not deleted or device.get('delete_on_termination')}
    return {one for one in found if one is not None}


def refresh_all(driver: Any, instance: Any) -> None:
    """Note for each volume of a server how it is connected now."""
    refresh(driver, instance, noted(instance))


def noted(instance: Any) -> BlockDeviceInfo:
    """Read what Nova has noted of a server's volumes."""
    bdms = objects.BlockDeviceMappingList.get_by_instance_uuid(
        nova_context.get_admin_context(), instance.uuid)
    info: BlockDeviceInfo = virt_driver.get_block_device_info(instance, bdms)
    return info


def superposition(instance: Any, volume_ids: Collection[str] | None = None) -> str | None:
    """Tell which superposition a server's volumes go through, as far as Nova has noted it.

    :param volume_ids: only look at these
    """
    for device in virt_driver.block_device_info_get_mapping(noted(instance)):
        if volume_ids is None or device.volume_id in volume_ids:
            found = superposition_of(device['connection_info'])
            if found is not None:
                return found
    return None


def superposition_of(connection_info: dict[str, Any] | None) -> str | None:
    """Give the superposition whose overlay a connection goes through, None if it is plain."""
    if not connection_info or connection_info.get('driver_volume_type') != volume_driver.CHAINED:
        return None
    told = connection_info['data'].get('superposition')
    return None if told is None else str(told['id'])


def _doubtful(instance: Any, block_device_info: BlockDeviceInfo | None) -> list[Any]:
    """List the volumes of which Nova's note may be wrong."""
    devices = [
        device for device in virt_driver.block_device_info_get_mapping(block_device_info)
        if (device['connection_info'] or {}).get('driver_volume_type') in volume_driver.TYPES]
    if protection.protected(instance):
        return devices
    return [device for device in devices if superposition_of(device['connection_info'])]


def _elsewhere(instance: Any, device: Any, found: str) -> str:
    return (f'server {instance.uuid} cannot be started here: volume {device.volume_id} goes '
            f'through the overlay of superposition {found}, which was promoted for another host. '
            f'If its backup runs there, evacuate the server to it; if not, Cinder merges it '
            f'within a minute or two: try again then')

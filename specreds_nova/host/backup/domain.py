# SPDX-License-Identifier: Apache-2.0
"""The domain of a backup: made as Nova's spawn makes one, and removed without a trace.

Nothing of the primary's is changed: neither its rows in Nova's database nor its attachments.
"""

from collections.abc import Iterable, Iterator, Mapping
import contextlib
import contextvars
import dataclasses
import functools
import os
import shutil
from typing import Any

import libvirt
from nova import exception as nova_exception
from nova import objects
import nova.conf
from nova.virt import configdrive
from nova.virt import driver as virt_driver
from nova.virt.libvirt import blockinfo
from nova.virt.libvirt import driver as libvirt_driver
from nova.virt.libvirt import utils as libvirt_utils
from oslo_log import log as logging
from oslo_utils import fileutils

from specreds_nova import exception
from specreds_nova.host import protection
from specreds_nova.host.backup import marks
from specreds_nova.host.disks import secrets
from specreds_nova.host.disks import server_disks

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

# What _get_guest_xml and the config drive read of a server: one query instead of many.
_ATTRIBUTES = ('device_metadata', 'ec2_ids', 'flavor', 'info_cache', 'keypairs', 'metadata',
               'migration_context', 'numa_topology', 'pci_devices', 'pci_requests', 'resources',
               'security_groups', 'services', 'system_metadata', 'trusted_certs', 'vcpu_model')

_marking: contextvars.ContextVar[marks.Mark | None] = contextvars.ContextVar(
    'specreds_marking', default=None)


@dataclasses.dataclass(frozen=True)
class Domain:
    """State of a backup's domain in libvirt.

    :ivar pid: of its QEMU; None if QEMU does not run
    :ivar state: running, paused or shutoff
    """

    pid: int | None
    state: str


def load_instance(context: Any, instance_uuid: str) -> Any:
    """Return a server with all that its start reads. Changes to it are never saved."""
    instance = objects.Instance.get_by_uuid(
        context, instance_uuid, expected_attrs=list(_ATTRIBUTES))
    instance.save = _not_saved
    return instance


def disk_ids(instance: Any, bdms: Any) -> set[str]:
    """Return the ids of a server's disks that Nova keeps in RBD; none if it keeps them elsewhere.

    :param bdms: the server's block devices
    """
    if not server_disks.in_rbd():
        return set()
    devices = virt_driver.get_block_device_info(instance, bdms)
    disk_info = blockinfo.get_disk_info(CONF.libvirt.virt_type, instance, instance.image_meta,
                                        devices)
    return server_disks.ids(instance, disk_info['mapping'])


def marking() -> marks.Mark | None:
    """Return the mark of the domain that is being configured; None if that is not a backup."""
    return _marking.get()


class Launcher:
    """Makes and removes the domains of backups on this host.

    :param driver: Nova's libvirt driver
    """

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._secrets = secrets.Secrets(driver)

    def launch(self, context: Any, instance: Any, bdms: Any,
               connections: Mapping[str, Mapping[str, Any]], network_info: Any,
               mark: marks.Mark) -> None:
        """Start a backup's domain. Its network is plugged where ``network_info`` says.

        :param connections: connection to the backup's version of each volume or disk, by its id
        """
        volumes = _child_volumes(instance, bdms, connections)
        directory = libvirt_utils.get_instance_path(instance)
        # Files of the server that an earlier stay on this host has left, such as a config drive.
        shutil.rmtree(directory, ignore_errors=True)
        fileutils.ensure_tree(directory)
        self._driver._ensure_console_log_for_instance(instance)
        for volume in volumes['block_device_mapping']:
            self._secrets.define(context, volume['connection_info'])
        disk_info = blockinfo.get_disk_info(CONF.libvirt.virt_type, instance,
                                            instance.image_meta, volumes)
        injection = libvirt_driver.InjectionInfo(network_info=network_info, files=[],
                                                 admin_pass=None)
        with _marked(mark), protection.of(instance), server_disks.opened_as(connections):
            xml = self._driver._get_guest_xml(context, instance, network_info, disk_info,
                                              instance.image_meta, block_device_info=volumes)
        # Without a config drive there is no callback: Nova's collects the contents of one in any
        # case, which costs two calls to the conductor. In RBD the primary's is shared, and must
        # not be made again.
        configure = functools.partial(
            self._driver._create_configdrive, context, instance, injection) if (
                configdrive.required_by(instance)
                and CONF.libvirt.images_type != 'rbd') else None
        self._driver._create_guest_with_network(
            context, xml, instance, network_info, volumes, vifs_already_plugged=True,
            post_xml_callback=configure)

    def locate_devices(self, context: Any, instance: Any) -> None:
        """Note in a server where the tagged devices of its domain are, which guests are told.

        Devices that were plugged into the running primary have other places in a domain that is
        started with them.
        """
        try:
            instance.device_metadata = self._driver._build_device_metadata(context, instance)
        except Exception as exc:
            LOG.warning('metadata name the places of tagged devices on the former host until the '
                        'server is rebooted (hard): %s', exc, instance=instance)

    def find(self, instance_uuid: str) -> Any | None:
        """Return a server's domain on this host, or None."""
        try:
            return self._driver._host.get_guest(objects.Instance(uuid=instance_uuid, id=0))
        except nova_exception.InstanceNotFound:
            return None

    def backup(self, backup_id: str, instance_uuid: str) -> Any | None:
        """Return a server's domain if it is that backup, or None."""
        guest = self.find(instance_uuid)
        if guest is None:
            return None
        mark = marks.mark_of(guest.get_xml_desc())
        return guest if mark is not None and mark.backup_id == backup_id else None

    def look(self, backup_id: str, instance_uuid: str) -> Domain | None:
        """Return the state of a backup's domain; None if there is no domain."""
        guest = self.backup(backup_id, instance_uuid)
        if guest is None:
            return None
        try:
            state, _reason = guest._domain.state()
        except libvirt.libvirtError as exc:
            if exc.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                return None
            raise
        return Domain(_pid(guest.name), _STATES.get(state, 'shutoff'))

    def remove(self, backup_id: str, instance_uuid: str) -> None:
        """Destroy and undefine the domain of a backup, if it exists.

        :raises UndoIncomplete: libvirt cannot remove it
        """
        guest = self.backup(backup_id, instance_uuid)
        if guest is None:
            return
        try:
            if guest.is_active():
                guest.poweroff()
            guest.delete_configuration()
        except libvirt.libvirtError as exc:
            if exc.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                return
            raise exception.UndoIncomplete(
                f'the domain {guest.name} of backup {backup_id} cannot be removed: {exc}'
                ) from exc
        self._driver._device_event_handler.cleanup_waiters(instance_uuid)

    def remove_secrets(self, volume_ids: Iterable[str]) -> None:
        """Remove the passphrases of encrypted volumes from this host."""
        for volume_id in volume_ids:
            self._secrets.remove(volume_id)

    def remove_files(self, instance_uuid: str) -> None:
        """Remove the directory of a backup: console log and config drive.

        :raises UndoIncomplete: the directory cannot be removed
        """
        directory = libvirt_utils.get_instance_path(objects.Instance(uuid=instance_uuid))
        try:
            shutil.rmtree(directory)
        except FileNotFoundError:
            return
        except OSError as exc:
            raise exception.UndoIncomplete(f'{directory} cannot be removed: {exc}') from exc


_STATES = {
    libvirt.VIR_DOMAIN_RUNNING: 'running',
    libvirt.VIR_DOMAIN_BLOCKED: 'running',
    libvirt.VIR_DOMAIN_PAUSED: 'paused',
    libvirt.VIR_DOMAIN_PMSUSPENDED: 'paused',
}


@contextlib.contextmanager
def _marked(mark: marks.Mark) -> Iterator[None]:
    token = _marking.set(mark)
    try:
        yield
    finally:
        _marking.reset(token)


def _child_volumes(instance: Any, bdms: Any,
                   connections: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the server's block devices, connected to the backup's versions of its volumes."""
    devices: dict[str, Any] = virt_driver.get_block_device_info(instance, bdms)
    for volume in devices['block_device_mapping']:
        volume['connection_info'] = dict(connections[volume.volume_id])
        # The rows describe the primary's attachments, which the backup must not change.
        volume.save = _not_saved
    return devices


def _not_saved(*args: Any, **kwargs: Any) -> None:
    """Replace the save of an object that must not be saved."""


def _pid(name: str) -> int | None:
    """Return the process of a domain's QEMU, from libvirt's pid file."""
    for directory in ('/run/libvirt/qemu', '/var/run/libvirt/qemu'):
        try:
            with open(os.path.join(directory, f'{name}.pid')) as file:
                return int(file.read())
        except (OSError, ValueError):
            continue
    return None

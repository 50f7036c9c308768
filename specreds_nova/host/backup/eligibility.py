# SPDX-License-Identifier: Apache-2.0
"""Eligibility of servers: the reasons why this host cannot run a server's backup.

A server is refused if this host cannot run a second, equal instance of it beside the first one.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from nova import exception as nova_exception
from nova import objects
from nova.compute import vm_states
import nova.conf
from nova.network import model as network_model
from nova.objects import fields
from nova.virt import configdrive
from nova.virt import hardware
from nova.virt.libvirt import utils as libvirt_utils
from oslo_serialization import jsonutils
import psutil  # type: ignore[import-untyped]

from specreds_nova import tasks
from specreds_nova.host import cinder_api
from specreds_nova.host.backup import domain as backup_domain
from specreds_nova.host.backup import topology
from specreds_nova.host.disks import server_disks
from specreds_nova.host.disks import volume_driver

CONF = nova.conf.CONF

# Resources that every host has; any other one is a device, or bound to one host.
_COMMON_RESOURCES = frozenset({'VCPU', 'PCPU', 'MEMORY_MB', 'DISK_GB'})
_SHARED_FILE_SYSTEMS = frozenset({'9p', 'afs', 'beegfs', 'ceph', 'cifs', 'fuse.ceph-fuse',
                                  'fuse.glusterfs', 'fuse.sshfs', 'gfs2', 'glusterfs', 'gpfs',
                                  'lustre', 'nfs', 'nfs4', 'ocfs2', 'smb3', 'virtiofs'})
# Types of ports with a device of Cyborg, which Nova does not evacuate.
_PORT_ACCELERATORS = frozenset({network_model.VNIC_TYPE_ACCELERATOR_DIRECT,
                                network_model.VNIC_TYPE_ACCELERATOR_DIRECT_PHYSICAL})
# States of servers that Nova evacuates, and of those that an engine resets for that.
_EVACUATED_STATES = (vm_states.ACTIVE, vm_states.STOPPED, vm_states.ERROR, vm_states.PAUSED,
                     vm_states.SUSPENDED, vm_states.RESCUED, vm_states.SHELVED,
                     vm_states.RESIZED)
# States of an evacuation that nova-compute on the source has not cleaned up yet.
_UNNOTICED = ['accepted', 'pre-migrating', 'done']


class Eligibility:
    """Checks whether this host can run backups of servers.

    :param driver: Nova's libvirt driver
    :param launcher: finds domains, also those that are hidden from Nova
    :param host: this host's name in Nova
    :param box: the boxes of this host
    :param cinder: reports why volumes cannot be superposed
    :param topologies: reports why a NUMA topology does not fit on this host
    """

    def __init__(self, driver: Any, launcher: backup_domain.Launcher, host: str, box: Any,
                 cinder: cinder_api.CinderAPI, topologies: topology.TopologyClaims
                 ) -> None:
        self._box = box
        self._cinder = cinder
        self._driver = driver
        self._launcher = launcher
        self._host = host
        self._topologies = topologies

    def reasons(self, context: Any, instance: Any, bdms: Any) -> list[str]:
        """Return the reasons why this host cannot run a server's backup; none if it can.

        They follow from what Nova knows, without a question to another service: this is what the
        start of a backup waits for.

        :param bdms: the server's block devices
        """
        checks = (self._state(instance), self._place(context, instance), _disks(bdms),
                  self._box.refusals(instance), _devices(context, instance),
                  self._machine(instance),
                  self._firmware(instance), self._files(instance))
        return [reason for check in checks for reason in check]

    def all_reasons(self, context: Any, instance: Any, bdms: Any) -> list[str]:
        """Return the same reasons, and reasons of Neutron, Cinder and the free NUMA nodes.

        The start of a backup asks Neutron meanwhile, and its guest waits for the answer; Cinder
        has superposed the volumes by then, and the NUMA topology is claimed.

        :param bdms: the server's block devices
        """
        reasons = self.reasons(context, instance, bdms)
        reasons += self._box.reasons(context, instance)
        volume_ids = [bdm.volume_id for bdm in bdms if bdm.volume_id]
        if volume_ids:
            reasons += self._cinder.reasons(volume_ids)
        reasons += self._topologies.reasons(instance)
        return reasons

    def immovable(self, context: Any, instance: Any) -> str | None:
        """Return why Nova's API would refuse to evacuate a server; None if it would not.

        An engine resets the state of a server that is paused, suspended, rescued, shelved or
        resized (:mod:`specreds_nova.engine.recovery.left`), so that Nova evacuates the server. The
        other checks are as in ``evacuate`` of nova/compute/api.py, which are the same in all
        supported releases. Two of them are left out, because they refuse only if a nova-compute
        is older than any with which nova-api starts: accelerators of the flavor (service version
        53), and ports with extended resource requests (59). Nova ignores the server's task.
        """
        if instance.vm_state not in _EVACUATED_STATES:
            return f'Nova evacuates no server that is {instance.vm_state}'
        if objects.ShareMappingList.get_by_instance_uuid(context, instance.uuid):
            return 'Nova evacuates no server with mounted shares'
        if any(vif['vnic_type'] in _PORT_ACCELERATORS for vif in instance.get_network_info()):
            return 'Nova evacuates no server with accelerators of its ports'
        try:
            if hardware.get_vtpm_constraint(instance.flavor, instance.image_meta):
                return 'Nova evacuates no server with a virtual TPM, whose state is on its host'
        except nova_exception.NovaException as exc:
            return f'Nova evacuates no server with a contradictory virtual TPM: {exc}'
        return None

    def _state(self, instance: Any) -> Iterator[str]:
        if instance.deleted:
            yield 'it is deleted'
        if instance.vm_state != vm_states.ACTIVE:
            yield f'it is {instance.vm_state}: only an active server can have a backup'
        if instance.task_state is not None and not tasks.is_reboot(instance.task_state):
            yield f'its task {instance.task_state} is under way: wait until that ends'

    def _place(self, context: Any, instance: Any) -> Iterator[str]:
        if instance.host == self._host:
            yield f'it runs on this host ({self._host}): choose another host'
            return
        if not instance.host:
            yield 'it is on no host'
        if self._launcher.find(instance.uuid) is not None:
            yield (f'this host still has a domain {instance.uuid} of an earlier stay of the '
                   f'server: restart nova-compute here, which removes it')
        unnoticed = objects.MigrationList.get_by_filters(context, {
            'source_compute': self._host, 'instance_uuid': instance.uuid, 'status': _UNNOTICED,
            'migration_type': fields.MigrationType.EVACUATION})
        if unnoticed:
            yield (f'it was evacuated from this host ({self._host}), and nova-compute here would '
                   f'destroy it at its next start: restart nova-compute first')

    def _machine(self, instance: Any) -> Iterator[str]:
        arch = libvirt_utils.get_arch(instance.image_meta)
        machine = libvirt_utils.get_machine_type(instance.image_meta)
        known = _machines(self._driver._host.get_capabilities(), arch)
        if not known:
            yield f'this host cannot run machines of architecture {arch}'
        elif machine is not None and machine not in known:
            yield f'QEMU on this host has no machine type {machine}'
        cpu = instance.vcpu_model
        if cpu is not None and cpu.mode == fields.CPUMode.CUSTOM and cpu.model:
            models = self._driver._host.get_cpu_model_names()
            if models and cpu.model not in models:
                yield f'this host does not support its CPU model {cpu.model}'

    def _firmware(self, instance: Any) -> Iterator[str]:
        """Return why this host has no firmware for a server.

        The variables of UEFI begin anew from the template, as after Nova's own evacuation.
        """
        image = instance.image_meta
        firmware = image.properties.get('hw_firmware_type')
        if firmware is None and libvirt_utils.get_arch(image) == fields.Architecture.AARCH64:
            firmware = fields.FirmwareType.UEFI
        if firmware != fields.FirmwareType.UEFI:
            return
        secure = hardware.get_secure_boot_constraint(instance.flavor, image)
        if not self._driver._host.supports_uefi:
            yield 'libvirt on this host has no firmware for UEFI: install OVMF or AAVMF'
        elif (secure == fields.SecureBoot.REQUIRED
                and not self._driver._host.supports_secure_boot):
            yield 'the firmware for UEFI on this host has no secure boot'

    def _files(self, instance: Any) -> Iterator[str]:
        kind = _file_system(CONF.instances_path)
        if kind in _SHARED_FILE_SYSTEMS:
            yield (f'{CONF.instances_path} is shared among hosts ({kind}): both versions would '
                   f'use the same console log and config drive')
        if not configdrive.required_by(instance) or CONF.libvirt.images_type != 'rbd':
            return
        if CONF.config_drive_format != 'iso9660':
            yield 'its config drive is writable, in a pool that hosts share'
        elif not self._driver.image_backend.by_name(instance, 'disk.config', 'rbd').exists():
            yield 'its config drive is in a file of its host'


def _disks(bdms: Any) -> Iterator[str]:
    for bdm in bdms:
        if bdm.destination_type != fields.BlockDeviceDestinationType.VOLUME:
            if server_disks.in_rbd():
                if bdm.encrypted:
                    yield f'its disk {bdm.device_name} is encrypted by Nova'
                continue
            yield (f'its disk {bdm.device_name or bdm.guest_format or bdm.source_type} is local '
                   f'to its host: only volumes can be superposed')
            continue
        connection = _connection(bdm)
        kind = connection.get('driver_volume_type')
        # Nova's note of an overlay may be older than the end of its merge: Cinder decides.
        if kind not in volume_driver.TYPES:
            yield f'volume {bdm.volume_id} is connected by {kind}, not by RBD'
        if connection.get('multiattach'):
            yield f'volume {bdm.volume_id} can be attached several times'
    if not len(bdms):
        yield 'it has no volumes'


def _connection(bdm: Any) -> dict[str, Any]:
    connection: dict[str, Any] = jsonutils.loads(bdm.connection_info or '{}')
    return connection


def _devices(context: Any, instance: Any) -> Iterator[str]:
    flavor, image = instance.flavor, instance.image_meta
    specs = flavor.extra_specs
    yield from topology.refusals(instance)
    if instance.pci_requests is not None and instance.pci_requests.requests:
        yield 'it has PCI, SR-IOV or vDPA devices of its host'
    if hardware.get_vtpm_constraint(flavor, image):
        yield 'it has a virtual TPM, whose state is on its host'
    if hardware.get_mem_encryption_constraint(flavor, image):
        yield 'its memory is encrypted'
    if specs.get('accel:device_profile'):
        yield 'it has accelerators'
    if 'hw:pmem' in specs:
        yield 'it has persistent memory of its host'
    special = sorted(_special_resources(specs))
    if special:
        yield f'its flavor takes {", ".join(special)} from its host'
    if instance.kernel_id or instance.ramdisk_id:
        yield 'it boots a kernel image from Glance'
    if objects.ShareMappingList.get_by_instance_uuid(context, instance.uuid):
        yield 'it has shares mounted'


def _special_resources(specs: dict[str, str]) -> Iterator[str]:
    for key, amount in specs.items():
        group, _, resource = key.partition(':')
        # The group is "resources", or "resources1" or "resources_name" if it is numbered or named.
        if (group.startswith('resources') and amount != '0'
                and resource not in _COMMON_RESOURCES):
            yield resource


def _file_system(path: str) -> str:
    """Return the type of the file system that contains a path."""
    mounts = sorted(psutil.disk_partitions(all=True), key=lambda mount: len(mount.mountpoint))
    kind = ''
    for mount in mounts:
        if _below(path, mount.mountpoint):
            kind = mount.fstype
    return kind


def _below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip('/') + '/')


def _machines(capabilities: Any, arch: str) -> set[str]:
    """Return the machine types that QEMU on this host has for an architecture."""
    domains: Iterable[Any] = [domain for guest in capabilities.guests if guest.arch == arch
                              for domain in (guest.default_domain, *guest.domains.values())]
    return {name for domain in domains for name in (*domain.machines, *domain.aliases)}

# SPDX-License-Identifier: Apache-2.0
"""Whether this host can run a backup of a server, and why not.

Everything is refused of which a second, equal instance cannot be made here beside the first one.
"""

from collections.abc import Iterable, Iterator
from typing import Any

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

from specreds_nova.virt.backup import domain as backup_domain
from specreds_nova.virt.disks import volume_driver

CONF = nova.conf.CONF

# What every host has for every server; anything else is a device, or bound to one host.
_COMMON_RESOURCES = frozenset({'VCPU', 'MEMORY_MB', 'DISK_GB'})
_SHARED_FILE_SYSTEMS = frozenset({'9p', 'afs', 'beegfs', 'ceph', 'cifs', 'fuse.ceph-fuse',
                                  'fuse.glusterfs', 'fuse.sshfs', 'gfs2', 'glusterfs', 'gpfs',
                                  'lustre', 'nfs', 'nfs4', 'ocfs2', 'smb3', 'virtiofs'})
# An evacuation that its source's nova-compute has not noticed yet.
_UNNOTICED = ['accepted', 'pre-migrating', 'done']


class Eligibility:
    """What this host can run backups of.

    :param driver: Nova's libvirt driver
    :param launcher: finds domains, also those that Nova must not know of
    :param host: this host's name in Nova
    """

    def __init__(self, driver: Any, launcher: backup_domain.Launcher, host: str) -> None:
        self._driver = driver
        self._launcher = launcher
        self._host = host

    def reasons(self, context: Any, instance: Any, bdms: Any) -> list[str]:
        """Say why a server's backup cannot run here; nothing if it can.

        :param bdms: the server's block devices
        """
        checks = (self._state(instance), self._place(context, instance), _disks(bdms),
                  _network(instance), _devices(context, instance), self._machine(instance),
                  _files(instance))
        return [reason for check in checks for reason in check]

    def _state(self, instance: Any) -> Iterator[str]:
        if instance.deleted:
            yield 'it is deleted'
        if instance.vm_state != vm_states.ACTIVE:
            yield f'it is {instance.vm_state}: only an active server has anything to continue'
        if instance.task_state is not None:
            yield f'something is under way with it ({instance.task_state}): wait until it is over'

    def _place(self, context: Any, instance: Any) -> Iterator[str]:
        if instance.host == self._host:
            yield f'it runs on this host ({self._host}): choose another one'
            return
        if not instance.host:
            yield 'it is on no host'
        if self._launcher.find(instance.uuid) is not None:
            yield (f'this host has a domain {instance.uuid} already, of an earlier life of the '
                   f'server: restart nova-compute here, which removes it')
        unnoticed = objects.MigrationList.get_by_filters(context, {
            'source_compute': self._host, 'instance_uuid': instance.uuid, 'status': _UNNOTICED,
            'migration_type': fields.MigrationType.EVACUATION})
        if unnoticed:
            yield (f'it was evacuated from this host ({self._host}), whose nova-compute was not '
                   f'restarted since, and would destroy it when it is: restart it first')

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
                yield f'its CPU model {cpu.model} is not known on this host'


def _disks(bdms: Any) -> Iterator[str]:
    for bdm in bdms:
        if bdm.destination_type != fields.BlockDeviceDestinationType.VOLUME:
            yield (f'its disk {bdm.device_name or bdm.guest_format or bdm.source_type} is local '
                   f'to its host: it has to be a volume')
            continue
        told = _connection(bdm)
        kind = told.get('driver_volume_type')
        if kind == volume_driver.CHAINED:
            yield f'volume {bdm.volume_id} is still being merged: wait until it is over'
        elif kind != volume_driver.PLAIN:
            yield f'volume {bdm.volume_id} is connected by {kind}, not by RBD'
        if told.get('multiattach'):
            yield f'volume {bdm.volume_id} can be attached several times'
        if told.get('data', {}).get('encrypted') or bdm.encrypted:
            yield f'volume {bdm.volume_id} is encrypted: the overlay would hold plain text'
    if not len(bdms):
        yield 'it has no volumes'


def _connection(bdm: Any) -> dict[str, Any]:
    told: dict[str, Any] = jsonutils.loads(bdm.connection_info or '{}')
    return told


def _network(instance: Any) -> Iterator[str]:
    for vif in instance.get_network_info():
        if vif['vnic_type'] != network_model.VNIC_TYPE_NORMAL:
            yield f'port {vif["id"]} is {vif["vnic_type"]}: it has to be normal'
        elif vif['type'] != network_model.VIF_TYPE_OVS:
            yield f'port {vif["id"]} is bound as {vif["type"]}: it has to be by Open vSwitch'
        elif vif.is_hybrid_plug_enabled():
            yield (f'port {vif["id"]} is behind a bridge of iptables: Neutron has to use the '
                   f'openvswitch firewall')


def _devices(context: Any, instance: Any) -> Iterator[str]:
    flavor, image = instance.flavor, instance.image_meta
    specs = flavor.extra_specs
    if instance.numa_topology is not None:
        yield 'it has a NUMA topology, pinned CPUs or huge pages'
    if instance.pci_requests is not None and instance.pci_requests.requests:
        yield 'it has PCI, SR-IOV or vDPA devices of its host'
    if hardware.get_vtpm_constraint(flavor, image):
        yield 'it has a virtual TPM, whose contents are on its host'
    if hardware.get_mem_encryption_constraint(flavor, image):
        yield 'its memory is encrypted'
    if image.properties.get('hw_firmware_type') == fields.FirmwareType.UEFI:
        yield 'it boots by UEFI, whose variables are on its host'
    if specs.get('accel:device_profile'):
        yield 'it has accelerators'
    if 'hw:pmem' in specs:
        yield 'it has persistent memory of its host'
    special = sorted(_special_resources(specs))
    if special:
        yield f'its flavour takes {", ".join(special)} of its host'
    if instance.kernel_id or instance.ramdisk_id:
        yield 'it boots a kernel of its own from Glance'
    if objects.ShareMappingList.get_by_instance_uuid(context, instance.uuid):
        yield 'it has shares mounted'


def _special_resources(specs: dict[str, str]) -> Iterator[str]:
    for key, amount in specs.items():
        group, _, resource = key.partition(':')
        # "resources", or "resources1", "resources_name" for a group of its own.
        if (group.startswith('resources') and amount != '0'
                and resource not in _COMMON_RESOURCES):
            yield resource


def _files(instance: Any) -> Iterator[str]:
    kind = _file_system(CONF.instances_path)
    if kind in _SHARED_FILE_SYSTEMS:
        yield (f'{CONF.instances_path} is shared among hosts ({kind}): console log and config '
               f'drive of both versions would be the same files')
    if (configdrive.required_by(instance) and CONF.libvirt.images_type == 'rbd'
            and CONF.config_drive_format != 'iso9660'):
        yield 'its config drive is writable and in a pool that hosts share'


def _file_system(path: str) -> str:
    """Give the type of the file system that a path is on."""
    mounts = sorted(psutil.disk_partitions(all=True), key=lambda mount: len(mount.mountpoint))
    kind = ''
    for mount in mounts:
        if _below(path, mount.mountpoint):
            kind = mount.fstype
    return kind


def _below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip('/') + '/')


def _machines(capabilities: Any, arch: str) -> set[str]:
    """Give the machine types that QEMU here has for an architecture."""
    domains: Iterable[Any] = [domain for guest in capabilities.guests if guest.arch == arch
                              for domain in (guest.default_domain, *guest.domains.values())]
    return {name for domain in domains for name in (*domain.machines, *domain.aliases)}

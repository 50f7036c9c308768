# SPDX-License-Identifier: Apache-2.0
"""Private parts of Nova that the plug-in overrides or uses, and a check that they exist.

A release of Nova may change any of this without notice. The guard compares what is here with the
Nova that is installed, by signatures and names, before the driver is made of it.
"""

from collections.abc import Iterator, Sequence
import dataclasses
import importlib
import inspect
from typing import Any

_DRIVER = 'nova.virt.libvirt.driver.LibvirtDriver'
_MANAGER = 'nova.compute.manager.ComputeManager'
_TRACKER = 'nova.compute.resource_tracker.ResourceTracker'
_CLAIM = 'nova.compute.claims.Claim'
_HOST = 'nova.virt.libvirt.host.Host'
_GUEST = 'nova.virt.libvirt.guest.Guest'
_VIF = 'nova.virt.libvirt.vif.LibvirtGenericVIFDriver'
_DISK = 'nova.virt.libvirt.config.LibvirtConfigGuestDisk'
_RBD = 'nova.virt.libvirt.volume.net.LibvirtNetVolumeDriver'


@dataclasses.dataclass(frozen=True)
class Method:
    """A method of Nova's.

    :ivar owner: its class
    :ivar first: its first arguments, in their order: they are passed, or taken, by position
    :ivar named: other arguments that are read, or passed by name
    :ivar called: the driver calls it, with these arguments and no other
    """

    owner: str
    name: str
    first: Sequence[str] = ()
    named: Sequence[str] = ()
    called: bool = False

    def fault(self) -> str | None:
        """Return how the installed Nova differs; None if it does not."""
        method = inspect.getattr_static(_load(self.owner), self.name, None)
        if method is None:
            return f'{self.owner} has no {self.name}()'
        function = getattr(method, '__func__', method)
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError) as exc:
            return f'{self.owner}.{self.name} cannot be looked at: {exc}'
        if not isinstance(method, staticmethod):
            del parameters[:1]
        names = [parameter.name for parameter in parameters]
        if names[:len(self.first)] != list(self.first):
            return (f'{self.owner}.{self.name}() begins with arguments '
                    f'{", ".join(names[:len(self.first)])}, not {", ".join(self.first)}')
        if missing := [name for name in self.named if name not in names]:
            return f'{self.owner}.{self.name}() has no argument {", ".join(missing)}'
        if self.called and (unknown := self._unknown(parameters)):
            return f'{self.owner}.{self.name}() needs another argument: {", ".join(unknown)}'
        return None

    def _unknown(self, parameters: Sequence[inspect.Parameter]) -> list[str]:
        """Return the arguments that have to be passed, and are not."""
        passed = {*self.first, *self.named}
        return [parameter.name for parameter in parameters
                if parameter.name not in passed and parameter.default is parameter.empty
                and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)]


@dataclasses.dataclass(frozen=True)
class Attribute:
    """An attribute that the constructor of a class of Nova's sets."""

    owner: str
    name: str

    def fault(self) -> str | None:
        """Return how the installed Nova differs; None if it does not."""
        owner = _load(self.owner)
        if any(self.name in constructor.__code__.co_names for constructor in (
                vars(parent).get('__init__') for parent in owner.__mro__)
               if inspect.isfunction(constructor)):
            return None
        return f'{self.owner} has no attribute {self.name}'


# In the order of the classes; each with the module that overrides or uses it.
USED: Sequence[Method | Attribute] = (
    # driver
    Method(_DRIVER, 'init_host', ('host',), called=True),
    Method(_DRIVER, 'cleanup_host', ('host',), called=True),
    Method(_DRIVER, 'instance_exists', ('instance',), called=True),
    Method(_DRIVER, 'list_instances', called=True),
    Method(_DRIVER, 'list_instance_uuids', called=True),
    Method(_DRIVER, 'emit_event', ('event',), called=True),
    Method(_DRIVER, 'attach_volume', named=('instance', 'disk_bus', 'device_type', 'encryption')),
    Method(_DRIVER, 'rebuild', named=(
        'context', 'instance', 'bdms', 'evacuate', 'detach_block_devices',
        'attach_block_devices')),
    Method(_DRIVER, '_get_volume_driver', ('connection_info',), called=True),
    Method(_DRIVER, '_get_guest_storage_config', ('context', 'instance')),
    Method(_DRIVER, '_get_guest_disk_config', ('instance', 'name', 'disk_mapping')),
    Method(_DRIVER, '_get_guest_config', ('instance', 'network_info')),
    Method(_DRIVER, '_hard_reboot'),
    Method(_DRIVER, '_create_guest', ('context', 'xml', 'instance')),
    Method(_DRIVER, '_uri', called=True),
    Attribute(_DRIVER, '_host'),
    Attribute(_DRIVER, 'vif_driver'),
    Attribute(_DRIVER, 'virtapi'),
    Attribute('nova.compute.manager.ComputeVirtAPI', '_compute'),
    Attribute(_MANAGER, 'additional_endpoints'),
    # connection_lock
    Attribute(_HOST, '_wrapped_conn_lock'),
    # unmerged.driver
    *(Method(_DRIVER, name, named=('instance', 'block_device_info')) for name in (
        'spawn', 'power_on', 'reboot', 'resume_state_on_host_boot', 'resume', 'finish_migration',
        'finish_revert_migration')),
    Method(_DRIVER, 'rescue', named=('instance', 'network_info', 'block_device_info')),
    Method(_DRIVER, 'detach_volume', named=('instance', 'connection_info')),
    *(Method(_DRIVER, name, named=('instance',)) for name in (
        'pause', 'unpause', 'power_off', 'migrate_disk_and_power_off', 'suspend', 'snapshot',
        'volume_snapshot_create', 'volume_snapshot_delete', 'swap_volume', 'extend_volume',
        'check_can_live_migrate_source', 'set_admin_password', 'detach_interface')),
    Method(_DRIVER, '_soft_reboot', ('instance',), called=True),
    Method(_DRIVER, '_cleanup', ('context', 'instance')),
    Method(_DRIVER, '_live_migration_operation', ('context', 'instance')),
    # unmerged.operations
    Method(_HOST, 'write_instance_config', ('xml',), called=True),
    # backup.domain
    Method(_DRIVER, '_ensure_console_log_for_instance', ('instance',), called=True),
    Method(_DRIVER, '_get_guest_xml', (
        'context', 'instance', 'network_info', 'disk_info', 'image_meta'),
        ('block_device_info',), called=True),
    Method(_DRIVER, '_create_configdrive', ('context', 'instance', 'injection_info'),
           called=True),
    Method(_DRIVER, '_build_device_metadata', ('context', 'instance'), called=True),
    Method(_DRIVER, '_create_guest_with_network', (
        'context', 'xml', 'instance', 'network_info', 'block_device_info'),
        ('vifs_already_plugged', 'post_xml_callback'), called=True),
    Attribute(_DRIVER, '_device_event_handler'),
    Method('nova.virt.libvirt.driver.AsyncDeviceEventsHandler', 'cleanup_waiters',
           ('instance_uuid',), called=True),
    Method(_HOST, 'get_guest', ('instance',), called=True),
    Method(_HOST, 'list_guests', named=('only_running',), called=True),
    Method(_HOST, 'get_connection', called=True),
    Method(_HOST, 'get_capabilities', called=True),
    Method(_HOST, 'get_cpu_model_names', called=True),
    Attribute(_GUEST, '_domain'),
    Method(_GUEST, 'launch', called=True),
    # backup.adoption
    Attribute(_DRIVER, '_volume_api'),
    # backup.stale, backup.group_policy
    Method(_MANAGER, '_destroy_evacuated_instances', ('context', 'node_cache'), called=True),
    Method(_MANAGER, '_get_nodes', ('context',), called=True),
    Method(_MANAGER, '_validate_instance_group_policy', ('context', 'instance')),
    # unmerged.dropped_requests
    Method(_MANAGER, 'attach_volume', ('context', 'instance')),
    Method(_MANAGER, 'reserve_block_device_name', ('context', 'instance')),
    # unmerged.interrupted_reboots
    Method(_MANAGER, '_init_instance', ('context', 'instance')),
    # backup.repeated_evacuations
    Attribute(_MANAGER, 'rt'),
    Method(_TRACKER, 'rebuild_claim', ('context', 'instance', 'nodename')),
    Method(_TRACKER, 'delete_allocation_for_evacuated_instance',
           ('context', 'instance', 'node', 'node_type'), called=True),
    # backup.topology_claims
    Method(_TRACKER, '_update', ('context', 'compute_node')),
    *(Attribute(_TRACKER, name) for name in (
        'compute_nodes', 'pci_tracker', 'tracked_instances', 'tracked_migrations')),
    Method(_CLAIM, '_test_numa_topology', ('compute_node', 'limit'), called=True),
    *(Attribute(_CLAIM, name) for name in (
        'instance', 'migration', 'tracker', 'claimed_numa_topology')),
    # box.vifs
    Method(_VIF, 'get_config', ('instance', 'vif')),
    Method(_VIF, 'plug', ('instance', 'vif'), called=True),
    Method(_VIF, 'unplug', ('instance', 'vif'), called=True),
    # backup.eligibility
    Attribute(_DRIVER, 'image_backend'),
    Method('nova.virt.libvirt.imagebackend.Backend', 'by_name',
           ('instance', 'name', 'image_type'), called=True),
    # disks.secrets
    Method(_DRIVER, '_get_volume_encryption', ('context', 'connection_info'), called=True),
    Method(_DRIVER, '_allow_native_luksv1', ('encryption',), called=True),
    Method(_DRIVER, '_attach_encryptor', ('context', 'connection_info', 'encryption'),
           called=True),
    Method(_HOST, 'find_secret', ('usage_type', 'usage_id'), called=True),
    Method(_HOST, 'delete_secret', ('usage_type', 'usage_id'), called=True),
    # disks.volume_driver
    Method(_DISK, 'format_dom', called=True),
    Method(_RBD, 'get_config', ('connection_info', 'disk_info'), called=True),
)


def faults() -> list[str]:
    """Return how the installed Nova differs from what the driver expects; nothing if it fits."""
    return list(_faults())


def _faults() -> Iterator[str]:
    for used in USED:
        try:
            fault = used.fault()
        except (ImportError, AttributeError) as exc:
            fault = f'{used.owner} is not there: {exc}'
        if fault is not None:
            yield fault


def _load(path: str) -> Any:
    module, _, name = path.rpartition('.')
    return getattr(importlib.import_module(module), name)

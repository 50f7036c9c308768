# SPDX-License-Identifier: Apache-2.0
"""Nova's operations on servers whose disks may still be those of a promoted backup.

Each is Nova's own, after what ``afterwards`` has to do or to refuse first.
"""

from typing import Any

from nova.virt.libvirt import driver

from specreds_nova.virt import protection
from specreds_nova.virt.afterwards import operations


class GuardedLibvirtDriver(driver.LibvirtDriver):
    """LibvirtDriver, on a host where servers may have been backups.

    :ivar afterwards: None until this host's backups are known
    """

    afterwards: operations.Afterwards | None = None

    # Disks are opened as they are now, not as they were when Nova noted it

    def spawn(self, context: Any, instance: Any, image_meta: Any, injected_files: Any,
              admin_password: Any, allocations: Any, network_info: Any = None,
              block_device_info: Any = None, power_on: bool = True,
              accel_info: Any = None) -> Any:
        """Start a server that is new here."""
        if self.afterwards is not None:
            self.afterwards.before_spawn(instance, block_device_info)
        return super().spawn(context, instance, image_meta, injected_files, admin_password,
                             allocations, network_info, block_device_info, power_on, accel_info)

    def power_on(self, context: Any, instance: Any, network_info: Any,
                 block_device_info: Any = None, accel_info: Any = None,
                 share_info: Any = None) -> Any:
        """Start a server."""
        self._refresh(instance, block_device_info)
        return super().power_on(context, instance, network_info, block_device_info, accel_info,
                                share_info)

    def reboot(self, context: Any, instance: Any, network_info: Any, reboot_type: Any,
               block_device_info: Any = None, bad_volumes_callback: Any = None,
               accel_info: Any = None, share_info: Any = None) -> Any:
        """Reboot a server."""
        if self.afterwards is not None:
            self.afterwards.before_reboot(instance, block_device_info)
        return super().reboot(context, instance, network_info, reboot_type, block_device_info,
                              bad_volumes_callback, accel_info, share_info)

    def _soft_reboot(self, instance: Any) -> Any:
        if self.afterwards is not None and self.afterwards.through_overlay(instance):
            return self.afterwards.soft_reboot(instance)
        return super()._soft_reboot(instance)

    def resume_state_on_host_boot(self, context: Any, instance: Any, network_info: Any,
                                  share_info: Any, block_device_info: Any = None) -> Any:
        """Start a server that ran when the host went down."""
        self._refresh(instance, block_device_info)
        return super().resume_state_on_host_boot(context, instance, network_info, share_info,
                                                 block_device_info)

    def resume(self, context: Any, instance: Any, network_info: Any,
               block_device_info: Any = None, share_info: Any = None) -> Any:
        """Let a server go on that was suspended."""
        if self.afterwards is not None:
            self.afterwards.before_resume(instance, block_device_info)
        return super().resume(context, instance, network_info, block_device_info, share_info)

    def finish_migration(self, context: Any, migration: Any, instance: Any, disk_info: Any,
                         network_info: Any, image_meta: Any, resize_instance: Any,
                         allocations: Any, block_device_info: Any = None,
                         power_on: bool = True, share_info: Any = None) -> Any:
        """Start a server that has come here."""
        self._refresh(instance, block_device_info)
        return super().finish_migration(
            context, migration, instance, disk_info, network_info, image_meta, resize_instance,
            allocations, block_device_info, power_on, share_info)

    def finish_revert_migration(self, context: Any, instance: Any, network_info: Any,
                                migration: Any, block_device_info: Any = None,
                                power_on: bool = True, share_info: Any = None) -> Any:
        """Start a server that has come back."""
        self._refresh(instance, block_device_info)
        return super().finish_revert_migration(context, instance, network_info, migration,
                                               block_device_info, power_on, share_info)

    def rescue(self, context: Any, instance: Any, network_info: Any, image_meta: Any,
               rescue_password: Any, block_device_info: Any, share_info: Any) -> Any:
        """Start a server from another disk."""
        if self.afterwards is not None:
            self.afterwards.before_rescue(instance, network_info, block_device_info)
        return super().rescue(context, instance, network_info, image_meta, rescue_password,
                              block_device_info, share_info)

    def _cleanup(self, context: Any, instance: Any, *args: Any, **kwargs: Any) -> Any:
        super()._cleanup(context, instance, *args, **kwargs)
        if self.afterwards is not None:
            self.afterwards.after_cleanup(instance)

    # Refused, or put off, while a merge needs the disks as they are

    def pause(self, instance: Any) -> Any:
        """Pause a guest."""
        if self.afterwards is not None:
            self.afterwards.unless_switching(instance, 'paused')
        return super().pause(instance)

    def unpause(self, instance: Any) -> Any:
        """Let a guest go on."""
        if self.afterwards is not None:
            self.afterwards.unless_switching(instance, 'unpaused')
        return super().unpause(instance)

    def suspend(self, context: Any, instance: Any) -> Any:
        """Suspend a server to disk."""
        self._refuse_until_merged(instance, 'suspended')
        return super().suspend(context, instance)

    def snapshot(self, context: Any, instance: Any, image_id: Any,
                 update_task_state: Any) -> Any:
        """Make an image of a server."""
        self._refuse_until_merged(instance, 'snapshotted')
        return super().snapshot(context, instance, image_id, update_task_state)

    def volume_snapshot_create(self, context: Any, instance: Any, volume_id: Any,
                               create_info: Any) -> Any:
        """Make a snapshot of a volume."""
        self._refuse_until_merged(instance, 'snapshotted')
        return super().volume_snapshot_create(context, instance, volume_id, create_info)

    def volume_snapshot_delete(self, context: Any, instance: Any, volume_id: Any,
                               snapshot_id: Any, delete_info: Any) -> Any:
        """Remove a snapshot of a volume."""
        self._refuse_until_merged(instance, 'snapshotted')
        return super().volume_snapshot_delete(context, instance, volume_id, snapshot_id,
                                              delete_info)

    def swap_volume(self, context: Any, old_connection_info: Any, new_connection_info: Any,
                    instance: Any, mountpoint: Any, resize_to: Any) -> Any:
        """Put another volume in a volume's place."""
        self._refuse_until_merged(instance, 'given another volume')
        return super().swap_volume(context, old_connection_info, new_connection_info, instance,
                                   mountpoint, resize_to)

    def extend_volume(self, context: Any, connection_info: Any, instance: Any,
                      requested_size: Any) -> Any:
        """Tell a guest that its volume has grown."""
        self._refuse_until_merged(instance, 'given a larger volume')
        return super().extend_volume(context, connection_info, instance, requested_size)

    def detach_volume(self, context: Any, connection_info: Any, instance: Any,
                      mountpoint: Any, encryption: Any = None) -> Any:
        """Detach a volume."""
        if self.afterwards is not None:
            self.afterwards.before_detach(instance, connection_info)
        return super().detach_volume(context, connection_info, instance, mountpoint, encryption)

    def check_can_live_migrate_source(self, context: Any, instance: Any,
                                      dest_check_data: Any,
                                      block_device_info: Any = None) -> Any:
        """Tell whether a server can be migrated live."""
        if self.afterwards is not None:
            self.afterwards.before_live_migration(instance)
        return super().check_can_live_migrate_source(context, instance, dest_check_data,
                                                     block_device_info)

    def _live_migration_operation(self, context: Any, instance: Any, *args: Any,
                                  **kwargs: Any) -> Any:
        # It configures the disks anew.
        with protection.of(instance):
            return super()._live_migration_operation(context, instance, *args, **kwargs)

    def _refresh(self, instance: Any, block_device_info: Any) -> None:
        if self.afterwards is not None:
            self.afterwards.refresh(instance, block_device_info)

    def _refuse_until_merged(self, instance: Any, done: str) -> None:
        if self.afterwards is not None:
            self.afterwards.refuse_until_merged(instance, done)

# SPDX-License-Identifier: Apache-2.0
"""LibvirtDriver whose operations respect servers that may run on a promoted backup's overlays.

Each operation is Nova's own, after :class:`operations.Unmerged` has prepared or refused it.
"""

from collections.abc import Callable, Iterator
import contextlib
from typing import Any

from nova.virt.libvirt import driver

from specreds_nova.host import protection
from specreds_nova.host import signatures
from specreds_nova.host.unmerged import dropped_requests
from specreds_nova.host.unmerged import operations

_before = signatures.before(driver.LibvirtDriver)
_around = signatures.around(driver.LibvirtDriver)


def _refreshed(name: str) -> Callable[..., Any]:
    """Return Nova's method, before which the connections of the volumes are refreshed."""
    def refresh(self: Any, instance: Any, block_device_info: Any) -> None:
        if self.unmerged is not None:
            self.unmerged.refresh(instance, block_device_info)
    refresh.__name__ = name
    return _before(refresh)


def _refused(name: str, done: str) -> Callable[..., Any]:
    """Return Nova's method, which is refused until the server is merged.

    :param done: the operation, as in "the server cannot be DONE"
    """
    def refuse(self: Any, instance: Any) -> None:
        self._refuse_until_merged(instance, done)
    refuse.__name__ = name
    return _before(refuse)


class UnmergedLibvirtDriver(driver.LibvirtDriver):
    """LibvirtDriver for a host on which servers may have been backups.

    A method names only the arguments of Nova that it reads; all of them are passed on.

    :ivar unmerged: None until this host's backups are known
    """

    unmerged: operations.Unmerged | None = None

    # Operations that open disks: as they are now, not as Nova has noted them

    power_on = _refreshed('power_on')
    resume_state_on_host_boot = _refreshed('resume_state_on_host_boot')
    finish_migration = _refreshed('finish_migration')
    finish_revert_migration = _refreshed('finish_revert_migration')

    @_before
    def spawn(self, instance: Any, block_device_info: Any) -> None:
        """Start a server that is new here."""
        if self.unmerged is not None:
            self.unmerged.before_spawn(instance, block_device_info)

    @_around
    @contextlib.contextmanager
    def reboot(self, instance: Any, block_device_info: Any) -> Iterator[None]:
        """Reboot a server."""
        with self._unless_dropped(instance):
            if self.unmerged is not None:
                self.unmerged.before_reboot(instance, block_device_info)
            yield

    def _soft_reboot(self, instance: Any) -> Any:
        if self.unmerged is not None and (protection.protected(instance)
                                          or self.unmerged.through_overlay(instance)):
            return self.unmerged.soft_reboot(instance)
        return super()._soft_reboot(instance)

    @_before
    def resume(self, instance: Any, block_device_info: Any) -> None:
        """Resume a server that was suspended."""
        if self.unmerged is not None:
            self.unmerged.before_resume(instance, block_device_info)

    @_before
    def rescue(self, instance: Any, network_info: Any, block_device_info: Any) -> None:
        """Start a server from another disk."""
        if self.unmerged is not None:
            self.unmerged.before_rescue(instance, network_info, block_device_info)

    def _create_guest(self, context: Any, xml: str, instance: Any, *args: Any,
                      **kwargs: Any) -> Any:
        # A rescue fetches an image first.
        if self.unmerged is not None:
            dropped_requests.refuse(instance)
        return super()._create_guest(context, xml, instance, *args, **kwargs)

    def _cleanup(self, context: Any, instance: Any, *args: Any, **kwargs: Any) -> Any:
        if self.unmerged is not None:
            self.unmerged.before_cleanup(instance)
        super()._cleanup(context, instance, *args, **kwargs)
        if self.unmerged is not None:
            self.unmerged.after_cleanup(instance)

    # Operations that are refused or delayed while a merge needs the disks unchanged

    @_around
    @contextlib.contextmanager
    def pause(self, instance: Any) -> Iterator[None]:
        """Pause a guest."""
        with self._unless_dropped(instance):
            if self.unmerged is not None:
                self.unmerged.unless_switching(instance, 'paused')
            yield

    @_before
    def unpause(self, instance: Any) -> None:
        """Unpause a guest."""
        if self.unmerged is not None:
            self.unmerged.unless_switching(instance, 'unpaused')

    @_around
    @contextlib.contextmanager
    def power_off(self, instance: Any) -> Iterator[None]:
        """Shut a guest down."""
        with self._unless_dropped(instance):
            if self.unmerged is not None:
                self.unmerged.before_power_off(instance)
            yield

    @_before
    def migrate_disk_and_power_off(self, instance: Any) -> None:
        """Shut a guest down, and prepare its disks for another host or flavor."""
        if self.unmerged is not None:
            self.unmerged.refuse_unless_merged_disks(instance, 'migrated or resized')

    @_around
    @contextlib.contextmanager
    def suspend(self, instance: Any) -> Iterator[None]:
        """Suspend a server to disk."""
        with self._unless_dropped(instance):
            self._refuse_until_merged(instance, 'suspended')
            yield

    @_around
    @contextlib.contextmanager
    def set_admin_password(self, instance: Any) -> Iterator[None]:
        """Set a password in a guest."""
        with self._unless_dropped(instance):
            yield

    snapshot = _refused('snapshot', 'snapshotted')
    volume_snapshot_create = _refused('volume_snapshot_create', 'snapshotted')
    volume_snapshot_delete = _refused('volume_snapshot_delete', 'snapshotted')
    swap_volume = _refused('swap_volume', 'given another volume')
    extend_volume = _refused('extend_volume', 'given a larger volume')

    @_around
    @contextlib.contextmanager
    def detach_volume(self, instance: Any, connection_info: Any) -> Iterator[None]:
        """Detach a volume."""
        if self.unmerged is None:
            yield
            return
        with dropped_requests.refused_detachment(instance):
            self.unmerged.before_detach(instance, connection_info)
            yield

    @_around
    @contextlib.contextmanager
    def detach_interface(self, instance: Any) -> Iterator[None]:
        """Detach a port."""
        with (contextlib.nullcontext() if self.unmerged is None
              else dropped_requests.refused_detachment(instance)):
            yield

    @_before
    def check_can_live_migrate_source(self, instance: Any) -> None:
        """Check whether a server can be migrated live."""
        if self.unmerged is not None:
            self.unmerged.before_live_migration(instance)

    def _live_migration_operation(self, context: Any, instance: Any, *args: Any,
                                  **kwargs: Any) -> Any:
        # Live migration configures the disks anew.

        with protection.of(instance):
            return super()._live_migration_operation(context, instance, *args, **kwargs)

    def _unless_dropped(self, instance: Any) -> contextlib.AbstractContextManager[None]:
        """Return the context in which a request is refused if the engine has dropped it."""
        return (contextlib.nullcontext() if self.unmerged is None
                else dropped_requests.refused(instance))

    def _refuse_until_merged(self, instance: Any, done: str) -> None:
        if self.unmerged is not None:
            self.unmerged.refuse_until_merged(instance, done)

# SPDX-License-Identifier: Apache-2.0
"""Nova's operations on servers that may run on overlays: what comes before Nova's own code.

Between its adoption and the end of its merge, a server's disks are overlays over its volumes:

=========================== ====================================================================
start, stop, hard reboot    work: disks are opened as the record says, and the merge starts again
soft reboot                 works; the guest is shut down, then started as above
pause, unpause              work, but not in the fraction of a second in which the merge ends
cold migration, resize      work; the merge is done on the new host
attach a volume             works
detach a volume             refused while it is not merged, on the failed host as well
live migration, suspend     refused
rebuild, snapshot           refused
extend, swap a volume       refused
evacuate, unshelve, rescue  work: the guest is off, so they wait until Cinder has merged
delete                      works; Cinder merges first where volumes are deleted, too
=========================== ====================================================================

If disks that Nova keeps in RBD are among the overlays, cold migration, resize and shelving are
refused as well, and a deletion waits for the merge before Nova removes these disks.
"""

from collections.abc import Callable, Iterator
import contextlib
import time
from typing import Any

import libvirt
from nova import context as nova_context
from nova import exception as nova_exception
from nova.compute import power_state
from nova.compute import task_states
import nova.conf
from nova.virt.libvirt import blockinfo
from oslo_log import log as logging

from specreds_cinder.superposition.truth import states
from specreds_nova import exception
from specreds_nova.host import cinder_api
from specreds_nova.host import protection
from specreds_nova.host.disks import connections
from specreds_nova.host.disks import durable
from specreds_nova.host.disks import errors as disk_errors
from specreds_nova.host.disks import nodes as disk_nodes
from specreds_nova.host.disks import server_disks
from specreds_nova.host.disks import volume_driver
from specreds_nova.host.merge import merger as mergers
from specreds_nova.host.merge import pivot
from specreds_nova.host.unmerged import dropped_requests
from specreds_nova.host.unmerged import settling

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

# Of a guest that has ended.
_OFF = (power_state.SHUTDOWN, power_state.CRASHED)
_SWITCH_S = 30.0
_POLL_S = 0.2
# In these states Nova puts a server into ERROR on any error but InstanceFaultRollback.
_UNFORGIVEN = (task_states.SUSPENDING, task_states.RESUMING, task_states.REBUILDING,
               task_states.RESIZE_MIGRATING)


class NotMerged(exception.BackupError):
    """The server's disks still go through overlays, which the operation cannot handle."""

    code = 409


class Unmerged:
    """Prepares, delays or refuses Nova's operations; called before Nova's own code.

    :param driver: Nova's libvirt driver
    """

    def __init__(self, driver: Any, cinder: cinder_api.CinderAPI, merger: mergers.Merger,
                 disks: server_disks.ServerDisks) -> None:
        self._driver = driver
        self._cinder = cinder
        self._merger = merger
        self._disks = disks

    # Operations that open disks

    def refresh(self, instance: Any, block_device_info: dict[str, Any] | None) -> None:
        """Refresh the connections, so that the real version of each volume is opened.

        Before power_on, resume_state_on_host_boot, finish_migration, finish_revert_migration.

        :raises VersionUnknown: Cinder does not report the real version
        :raises NotHere: the real version may be in use on another host
        """
        self._disks.check(instance)
        connections.refresh(self._driver, instance, block_device_info)

    before_reboot = refresh

    def before_spawn(self, instance: Any, block_device_info: dict[str, Any] | None) -> None:
        """Refresh the connections of a server that is new here, and wait for its merge.

        Its backup may run on another host, or have run on one that has failed as well. In the
        latter case Cinder merges what that backup had made durable.

        :raises VersionUnknown: Cinder does not report the real version
        :raises NotHere: the real version is in use on another host
        """
        connections.refresh(self._driver, instance, block_device_info, anywhere=True)
        self._settle_disks(instance)
        self._settle(instance, block_device_info)

    def before_rescue(self, instance: Any, network_info: Any,
                      block_device_info: dict[str, Any] | None) -> None:
        """Wait for the merge of a server, which is off, and define it without overlays.

        Nova keeps that definition for the end of the rescue.

        :raises VersionUnknown: Cinder does not report the real version
        :raises NotHere: the real version is in use on another host
        """
        connections.refresh(self._driver, instance, block_device_info)
        settled = self._settle_disks(instance)
        if not self._settle(instance, block_device_info) and not settled:
            return
        disks = blockinfo.get_disk_info(CONF.libvirt.virt_type, instance, instance.image_meta,
                                        block_device_info)
        xml = self._driver._get_guest_xml(
            nova_context.get_admin_context(), instance, network_info, disks,
            instance.image_meta, block_device_info=block_device_info)
        self._driver._host.write_instance_config(xml)

    def before_cleanup(self, instance: Any) -> None:
        """Wait for the merge of disks that Nova removes next.

        librbd would wait for the image, and be fenced by the merge.

        :raises VersionUnknown: Cinder does not report the real version; nothing was removed
        :raises NotHere: the real version is in use on another host; nothing was removed
        """
        if instance.task_state == task_states.DELETING:
            self._settle_disks(instance)

    def after_cleanup(self, instance: Any) -> None:
        """Wait for the merge of volumes that Nova deletes next: Cinder refuses to before it."""
        if instance.task_state != task_states.DELETING:
            return
        try:
            settling.settle(self._cinder, instance.uuid, connections.superpositions(
                connections.noted(instance), deleted=True))
        except exception.BackupError as exc:
            LOG.warning('the volumes of the server are not deleted: %s', exc, instance=instance)

    def _settle(self, instance: Any, block_device_info: dict[str, Any] | None) -> bool:
        """Wait for the merge of a server that is off; return whether there was one."""
        superposition_ids = connections.superpositions(block_device_info)
        if not superposition_ids:
            return False
        settling.settle(self._cinder, instance.uuid, superposition_ids)
        connections.refresh(self._driver, instance, block_device_info)
        return True

    def _settle_disks(self, instance: Any) -> bool:
        """Wait for the merge of disks that Nova keeps in RBD; return whether there was one."""
        superposition_id = self._disks.unmerged(instance)
        if superposition_id is None:
            return False
        settling.settle(self._cinder, instance.uuid, {superposition_id})
        return True

    def before_resume(self, instance: Any, block_device_info: dict[str, Any] | None) -> None:
        """Make the disks durable in the saved state of a server that was suspended to disk.

        The saved state of a merged server may date from when its disks ignored flushes.

        :raises VersionUnknown: Cinder does not report the real version
        :raises NotHere: the real version may be in use on another host
        :raises InstanceFaultRollback: one of these, where Nova must keep the server's state
        """
        with _left_as_it_is(instance):
            connections.refresh(self._driver, instance, block_device_info)
        try:
            domain = self._driver._host.get_guest(instance)._domain
            if not domain.hasManagedSaveImage(0):
                return
            saved = domain.managedSaveGetXMLDesc(libvirt.VIR_DOMAIN_SAVE_IMAGE_XML_SECURE)
            if durable.speculative(saved):
                domain.managedSaveDefineXML(durable.with_flushes(saved), 0)
        except nova_exception.InstanceNotFound:
            return

    def through_overlay(self, instance: Any) -> bool:
        """Return whether a server runs on overlays."""
        domain = self._domain(instance)
        return domain is not None and bool(disk_nodes.chained(domain))

    def soft_reboot(self, instance: Any) -> bool:
        """Shut a guest down, and start it again. On overlays, Nova starts it as the record says.

        Nova's own soft reboot does not look whether the server is still here before it starts the
        guest: the host may have hung until the server was recovered elsewhere.

        :returns: whether it runs; otherwise Nova reboots the server the hard way
        :raises UnexpectedTaskStateError: as :func:`dropped_requests.refuse` does
        """
        domain = self._domain(instance)
        if domain is None:
            return False
        overlaid = bool(disk_nodes.chained(domain))
        if self._state(instance) == power_state.RUNNING:
            domain.shutdown()
        limit = CONF.libvirt.wait_soft_reboot_seconds
        if not self._until(lambda: self._state(instance) in _OFF, limit) or overlaid:
            return False
        dropped_requests.refuse(instance)
        self._driver._host.get_guest(instance).launch()
        return self._until(lambda: self._state(instance) == power_state.RUNNING, limit)

    def _state(self, instance: Any) -> int:
        """Return the power state of a guest."""
        return int(self._driver.get_info(instance).state)

    # Operations that are refused

    def refuse_until_merged(self, instance: Any, done: str) -> None:
        """Refuse an operation that needs disks without overlays.

        :param done: the operation, as in "the server cannot be DONE"
        :raises NotMerged: the server runs on overlays
        :raises VersionUnknown: Cinder does not report the real version
        :raises InstanceFaultRollback: one of these, where Nova must keep the server's state
        """
        with _left_as_it_is(instance):
            self._refuse(instance, done, None)

    def refuse_unless_merged_disks(self, instance: Any, done: str) -> None:
        """Refuse an operation that needs disks of Nova without overlays; volumes may have some.

        :raises NotMerged: the server has disks in RBD with overlays
        :raises VersionUnknown: Cinder does not report the real version
        :raises InstanceFaultRollback: one of these, where Nova must keep the server's state
        """
        with _left_as_it_is(instance):
            if self._disks.unmerged(instance) is not None:
                raise self._not_merged(instance, done)

    def before_power_off(self, instance: Any) -> None:
        """Refuse to shelve a server whose disks have overlays, before its guest is shut down.

        Raises as refuse_unless_merged_disks does, and:

        :raises UnexpectedTaskStateError: the server is to be stopped, and is on another host
        """
        if instance.task_state == task_states.SHELVING:
            self.refuse_unless_merged_disks(instance, 'shelved')
        elif instance.task_state == task_states.POWERING_OFF and self._domain(instance) is None:
            dropped_requests.refuse_stop(instance)

    def before_detach(self, instance: Any, connection_info: dict[str, Any]) -> None:
        """Refuse to detach a volume that is not merged. Raises as refuse_until_merged does.

        The promoted backup of a server may run on another host, before Nova knows it there: it
        would go on with a volume that another server may get.
        """
        superposition_id = connections.superposition_of(connection_info)
        volume_id = connection_info.get('serial') or connection_info['data'].get('volume_id')
        if superposition_id is not None:
            self._refuse(instance, f'detached from volume {volume_id}', superposition_id)
        elif (connection_info['driver_volume_type'] in volume_driver.TYPES
                and volume_id is not None and protection.protected(instance)):
            self._refuse_if_decided(instance, volume_id)

    def _refuse_if_decided(self, instance: Any, volume_id: str) -> None:
        """Refuse to detach a volume on which a backup goes on, or may go on in a moment."""
        try:
            known = self._cinder.with_volume(instance.uuid, volume_id)
        except exception.BackupError as exc:
            raise disk_errors.VersionUnknown(
                f'server {instance.uuid} cannot be detached from volume {volume_id}: Cinder does '
                f'not report whether a backup goes on with it ({exc}); try again when it '
                f'does') from exc
        for superposition_id, state in known.items():
            if state == states.COLLAPSING or state in states.THROUGH_OVERLAY:
                raise NotMerged(
                    f'server {instance.uuid} cannot be detached from volume {volume_id}: its '
                    f'backup goes on with the volume on another host, by superposition '
                    f'{superposition_id}, which is {state}; try again when the superposition has '
                    f'ended')

    def before_live_migration(self, instance: Any) -> None:
        """Refuse to migrate a server live that is not merged.

        :raises MigrationPreCheckError: it is not merged, or Cinder does not answer
        """
        try:
            self.refuse_until_merged(instance, 'migrated live')
        except exception.BackupError as exc:
            raise nova_exception.MigrationPreCheckError(reason=str(exc)) from exc

    def unless_switching(self, instance: Any, done: str) -> None:
        """Wait until a guest that is suspended for the end of its merge is resumed.

        :raises NotMerged: that takes too long
        """
        domain = self._domain(instance)
        if domain is None:
            return
        if not self._until(lambda: pivot.note_of(domain.XMLDesc(0)) is None, _SWITCH_S):
            raise NotMerged(
                f'server {instance.uuid} cannot be {done}: it is suspended for the end of its '
                f'merge{self._how_far(instance)}; try again later')

    def _refuse(self, instance: Any, done: str, superposition_id: str | None) -> None:
        if not self.through_overlay(instance):
            superposition_id = (superposition_id or connections.superposition(instance)
                                or self._disks.unmerged(instance))
            # Only Nova's note may say that the server goes through overlays.
            if superposition_id is None or settling.merged(
                    self._cinder, instance.uuid, superposition_id):
                return
        raise self._not_merged(instance, done)

    def _not_merged(self, instance: Any, done: str) -> NotMerged:
        return NotMerged(
            f'server {instance.uuid} cannot be {done}: what its backup wrote is being merged '
            f'into its volumes{self._how_far(instance)}; try again when that has ended')

    def _how_far(self, instance: Any) -> str:
        progress = self._merger.progress(instance.uuid)
        if progress is None:
            return ''
        why = f': {progress["error"]}' if progress['error'] else ''
        return f' ({progress["done"] >> 20} of {progress["total"] >> 20} MiB{why})'

    def _domain(self, instance: Any) -> Any:
        """Return the running domain of a server, or None."""
        try:
            domain = self._driver._host.get_guest(instance)._domain
        except nova_exception.InstanceNotFound:
            return None
        return domain if domain.isActive() else None

    @staticmethod
    def _until(true: Callable[[], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not true():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True


@contextlib.contextmanager
def _left_as_it_is(instance: Any) -> Iterator[None]:
    """Raise an error so that Nova reports it and keeps the server in its state."""
    try:
        yield
    except exception.BackupError as exc:
        if instance.task_state in _UNFORGIVEN:
            raise nova_exception.InstanceFaultRollback(inner_exception=exc) from exc
        raise

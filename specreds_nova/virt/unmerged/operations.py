# SPDX-License-Identifier: Apache-2.0
"""What the driver does before Nova's own code, for servers that may run on what was promoted.

Between its adoption and the end of its merge a server's disks are overlays over its volumes. What
that means for Nova's operations:

=========================== ====================================================================
start, stop, hard reboot    work: disks are opened as the record says at that moment, and the
                            merge begins again
soft reboot                 works; the guest is shut down, then started as above
pause, unpause              work, but not in the fraction of a second in which the merge ends
cold migration, resize      work; the merge is done on the new host
attach a volume             works
detach a volume             refused for one that is not merged yet
live migration, suspend     refused
rebuild, snapshot           refused
extend, swap a volume       refused
evacuate, unshelve, rescue  work; the guest is off, so Cinder merges first, which they wait for
delete                      works; Cinder merges first where volumes are deleted, too
=========================== ====================================================================
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

from specreds_nova import exception
from specreds_nova.virt.disks import connections
from specreds_nova.virt.disks import durable
from specreds_nova.virt.disks import nodes as disk_nodes
from specreds_nova.virt.merge import merger as mergers
from specreds_nova.virt.merge import pivot
from specreds_nova.virt.unmerged import errors
from specreds_nova.virt.unmerged import settling

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

_SWITCH_S = 30.0
_POLL_S = 0.2
# What Nova puts a server into ERROR for, unless it is told to leave it as it was.
_UNFORGIVEN = (task_states.SUSPENDING, task_states.RESUMING, task_states.REBUILDING)


class Afterwards:
    """Stands before the operations of a driver; each method is called before Nova's own code.

    :param driver: Nova's libvirt driver
    """

    def __init__(self, driver: Any, storage: mergers.Storage, merger: mergers.Merger) -> None:
        self._driver = driver
        self._storage = storage
        self._merger = merger

    # Opening disks

    def refresh(self, instance: Any, block_device_info: dict[str, Any] | None) -> None:
        """Make sure that what is about to be opened is the version that counts.

        Before power_on, resume_state_on_host_boot, finish_migration, finish_revert_migration.

        :raises VersionUnknown: nobody knows which one does
        :raises NotHere: it may be in use on another host
        """
        connections.refresh(self._driver, instance, block_device_info)

    before_reboot = refresh

    def before_spawn(self, instance: Any, block_device_info: dict[str, Any] | None) -> None:
        """The same for a server that is new here: it may have a backup that runs elsewhere.

        Or had one, on a host that has failed as well: then what that had made durable is merged.

        :raises VersionUnknown: nobody knows which version counts
        :raises NotHere: what counts is in use on another host
        """
        connections.refresh(self._driver, instance, block_device_info, anywhere=True)
        self._settle(instance, block_device_info)

    def before_rescue(self, instance: Any, network_info: Any,
                      block_device_info: dict[str, Any] | None) -> None:
        """Have a server, which is off, merged and defined as it is then.

        Nova keeps its definition for the end of the rescue.

        :raises VersionUnknown: nobody knows which version counts
        :raises NotHere: what counts is in use on another host
        """
        connections.refresh(self._driver, instance, block_device_info)
        if not self._settle(instance, block_device_info):
            return
        disks = blockinfo.get_disk_info(CONF.libvirt.virt_type, instance, instance.image_meta,
                                        block_device_info)
        xml = self._driver._get_guest_xml(
            nova_context.get_admin_context(), instance, network_info, disks,
            instance.image_meta, block_device_info=block_device_info)
        self._driver._host.write_instance_config(xml)

    def after_cleanup(self, instance: Any) -> None:
        """Have volumes merged that are to be deleted, which Cinder would refuse before."""
        if instance.task_state != task_states.DELETING:
            return
        try:
            settling.settle(self._storage, instance.uuid, connections.superpositions(
                connections.noted(instance), deleted=True))
        except exception.BackupError as exc:
            LOG.warning('volumes of the server are kept: %s', exc, instance=instance)

    def _settle(self, instance: Any, block_device_info: dict[str, Any] | None) -> bool:
        """Wait until a server that is off is merged, and tell whether there was need to."""
        found = connections.superpositions(block_device_info)
        if not found:
            return False
        settling.settle(self._storage, instance.uuid, found)
        connections.refresh(self._driver, instance, block_device_info)
        return True

    def before_resume(self, instance: Any, block_device_info: dict[str, Any] | None) -> None:
        """Have a server that was suspended to disk go on with durable disks.

        One that was merged may have been speculative once, and its saved state say so.

        :raises VersionUnknown: nobody knows which version counts
        :raises NotHere: what counts may be in use on another host
        :raises InstanceFaultRollback: one of them, where Nova is to leave the server as it is
        """
        with _left_as_it_is(instance):
            connections.refresh(self._driver, instance, block_device_info)
        try:
            domain = self._driver._host.get_guest(instance)._domain
            if not domain.hasManagedSaveImage(0):
                return
            saved = domain.managedSaveGetXMLDesc(libvirt.VIR_DOMAIN_SAVE_IMAGE_XML_SECURE)
            if durable.speculative(saved):
                domain.managedSaveDefineXML(durable.strict(saved), 0)
        except nova_exception.InstanceNotFound:
            return

    def through_overlay(self, instance: Any) -> bool:
        """Tell whether a server runs on overlays."""
        domain = self._domain(instance)
        return domain is not None and bool(disk_nodes.chained(domain))

    def soft_reboot(self, instance: Any) -> bool:
        """Shut a guest down, for Nova to start it by what the record says then.

        :returns: False, which makes Nova reboot it the hard way
        """
        domain = self._domain(instance)
        if domain is not None:
            domain.shutdown()
            self._until(lambda: self._driver.get_info(instance).state != power_state.RUNNING,
                        CONF.libvirt.wait_soft_reboot_seconds)
        return False

    # Refusing

    def refuse_until_merged(self, instance: Any, done: str) -> None:
        """Refuse what needs disks without overlays.

        :param done: what it does, as in "the server cannot be DONE"
        :raises NotMerged: it has some
        :raises VersionUnknown: nobody knows
        :raises InstanceFaultRollback: one of them, where Nova is to leave the server as it is
        """
        with _left_as_it_is(instance):
            self._refuse(instance, done, None)

    def before_detach(self, instance: Any, connection_info: dict[str, Any]) -> None:
        """Refuse to detach a volume that is not merged yet. Raises as the above does."""
        found = connections.superposition_of(connection_info)
        if found is not None:
            volume_id = connection_info.get('serial') or connection_info['data'].get('volume_id')
            self._refuse(instance, f'relieved of volume {volume_id}', found)

    def before_live_migration(self, instance: Any) -> None:
        """Refuse to migrate a server that is not merged yet.

        :raises MigrationPreCheckError: it is not, or nobody knows
        """
        try:
            self.refuse_until_merged(instance, 'migrated live')
        except exception.BackupError as exc:
            raise nova_exception.MigrationPreCheckError(reason=str(exc)) from exc

    def unless_switching(self, instance: Any, done: str) -> None:
        """Wait until a guest that stands still for the end of its merge goes on.

        :raises NotMerged: it takes too long
        """
        domain = self._domain(instance)
        if domain is None:
            return
        if not self._until(lambda: pivot.note_of(domain.XMLDesc(0)) is None, _SWITCH_S):
            raise errors.NotMerged(
                f'server {instance.uuid} cannot be {done}: it stands still for the end of its '
                f'merge{self._how_far(instance)}; try again later')

    def _refuse(self, instance: Any, done: str, found: str | None) -> None:
        if not self.through_overlay(instance):
            found = found or connections.superposition(instance)
            # Only Nova's note may say that the server goes through overlays.
            if found is None or settling.merged(self._storage, instance.uuid, found):
                return
        raise errors.NotMerged(
            f'server {instance.uuid} cannot be {done} now: what its backup wrote is being merged '
            f'into its volumes{self._how_far(instance)}; try again when that is over')

    def _how_far(self, instance: Any) -> str:
        told = self._merger.progress(instance.uuid)
        if told is None:
            return ''
        why = f': {told["error"]}' if told['error'] else ''
        return f' ({told["done"] >> 20} of {told["total"] >> 20} MiB{why})'

    def _domain(self, instance: Any) -> Any:
        """Give the running domain of a server, None if there is none."""
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
    """Have Nova report what goes wrong, and leave the server in the state that it is in."""
    try:
        yield
    except exception.BackupError as exc:
        if instance.task_state in _UNFORGIVEN:
            raise nova_exception.InstanceFaultRollback(inner_exception=exc) from exc
        raise

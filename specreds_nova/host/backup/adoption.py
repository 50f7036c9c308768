# SPDX-License-Identifier: Apache-2.0
"""Adoption: Nova's evacuation finds the server running on this host already, and takes it over.

Nova calls the driver's ``rebuild`` first. If a promoted backup runs here, Nova's own callbacks
move the attachments to this host, in the order of states of Nova's own rebuild, and the domain
goes on running. Otherwise Nova rebuilds the server as usual.

An evacuation may be cut off at any point and requested again: the domain runs, and the server's
block devices say which attachments are its own.
"""

from collections.abc import Callable
import dataclasses
from typing import Any

from lxml import etree
from nova import exception as nova_exception
from nova import objects
from nova.compute import instance_actions
from nova.compute import power_state
from nova.compute import task_states
from nova.compute import vm_states
from nova.objects import fields
from nova.volume import cinder
from oslo_log import log as logging

from specreds_cinder.superposition.truth import states
from specreds_nova import exception
from specreds_nova.host.backup import backups as backup_module
from specreds_nova.host.backup import host as backup_host
from specreds_nova.host.backup import journal as journals
from specreds_nova.host.backup import repeated_evacuations
from specreds_nova.host.disks import connections
from specreds_nova.host.merge import pivot

LOG = logging.getLogger(__name__)

# Microversion of Cinder with which Nova lists attachments.
_ATTACHMENTS = '3.44'

_REBUILDING = (task_states.REBUILDING, task_states.REBUILD_BLOCK_DEVICE_MAPPING,
               task_states.REBUILD_SPAWNING)
# States of an evacuation that no nova-compute is working on any longer: before it has reached the
# adoption, and from then on. One that is accepted may be in the queue of this host before.
_CLAIMED = ['pre-migrating']
_CUT_OFF = ['accepted', 'pre-migrating']
# How many actions of a server are searched for its last stop.
_ACTIONS = 20


@dataclasses.dataclass(frozen=True)
class Evacuation:
    """Arguments of Nova's evacuation.

    :ivar detach: detaches the volumes from the host that failed
    :ivar attach: attaches them to this host, and returns the block devices
    """

    context: Any
    instance: Any
    bdms: Any
    detach: Callable[..., None]
    attach: Callable[..., Any]


class Adoption:
    """Makes promoted backups Nova's servers on this host."""

    def __init__(self, host: backup_host.Host, backups: backup_module.Backups) -> None:
        self._host = host
        self._backups = backups

    def adopt(self, evacuation: Evacuation) -> journals.Record | None:
        """Adopt the backup of a server that is evacuated to this host.

        :returns: its record; None if there is no backup to adopt, and Nova has to start the server
        :raises InstanceFaultRollback: the real version is unknown; nothing was changed
        :raises InstanceNotFound: the server is adopted, or another request adopts it; nothing was
            changed
        """
        instance = evacuation.instance
        with backup_host.locked(instance.uuid):
            # Two requests may have begun at the same time.
            repeated_evacuations.refuse(instance, self._host.name)
            record = self._promoted(instance)
            if record is None:
                self._drop_orphans(evacuation)
                return None
            record.adopting = True
            self._host.journal.save(record)
            with record.timed('adopt'):
                self._drop_orphans(evacuation)
                self._take_over(evacuation, record)
            self._host.journal.save(record)
            LOG.info('backup %s is adopted as the server in %.0f ms',
                     record.backup_id, record.timings_ms['adopt'], instance=instance)
            return record

    def confirm(self, record: journals.Record) -> bool:
        """Note that Nova's evacuation has ended with the server here; return whether it has."""
        instance = backup_host.find_instance(backup_host.admin_context(), record.instance_uuid)
        if instance is None or instance.host != self._host.name:
            return False
        record.adopting = False
        record.phase = journals.ADOPTED
        self._host.journal.save(record)
        self._release(record)
        LOG.info('adoption of backup %s is complete', record.backup_id, instance=instance)
        return True

    def _release(self, record: journals.Record) -> None:
        """Release the claim if it was not released before the evacuation."""
        try:
            self._host.claims.release(backup_host.admin_context(), record.backup_id)
        except exception.BackupError as exc:
            LOG.warning('the claim of backup %s stays in Placement: %s', record.backup_id,
                        exc.format_message())

    def reset_evacuation(self, record: journals.Record) -> None:
        """Reset an evacuation that ended with nova-compute, so that it can be requested again.

        Nova itself would leave the server in that state for ever.
        """
        context = backup_host.admin_context()
        instance = backup_host.find_instance(context, record.instance_uuid)
        if instance is None or instance.host == self._host.name:
            return
        migrations = objects.MigrationList.get_by_filters(context, {
            'dest_compute': self._host.name, 'instance_uuid': instance.uuid,
            'status': _CUT_OFF if record.adopting else _CLAIMED,
            'migration_type': fields.MigrationType.EVACUATION})
        for migration in migrations:
            LOG.warning('the evacuation of the server to this host was cut off: it is marked as '
                        'failed, so that it can be requested again', instance=instance)
            migration.status = 'failed'
            migration.save()
            self._host.claims.withdraw(context, instance.uuid)
        if (migrations or record.adopting) and instance.task_state in _REBUILDING:
            instance.task_state = None
            instance.save(expected_task_state=list(_REBUILDING))

    def keep_active(self, record: journals.Record) -> None:
        """Keep a server active that runs here, although its old host reports it as stopped.

        After a wrong suspicion nova-compute still runs there. It sees the fenced domain end and
        notes the server as stopped, and evacuation of a stopped server would stop the backup. A
        server that a user has stopped meanwhile stays stopped.
        """
        instance = backup_host.find_instance(backup_host.admin_context(), record.instance_uuid)
        if (instance is None or instance.host != record.primary
                or instance.vm_state != vm_states.STOPPED or instance.task_state is not None
                or _stopped_by_user(instance)):
            return
        LOG.info('host %s notes the server as stopped, but its promoted backup runs: the server '
                 'stays active', record.primary, instance=instance)
        instance.vm_state = vm_states.ACTIVE
        instance.power_state = power_state.RUNNING
        instance.save(expected_vm_state=[vm_states.STOPPED], expected_task_state=[None])

    def _promoted(self, instance: Any) -> journals.Record | None:
        """Return the record of a promoted backup that runs; remove one that is not or does not."""
        record = self._host.journal.of_instance(instance.uuid)
        if record is None or record.phase not in journals.HIDDEN:
            return None
        try:
            if record.phase in (journals.RUNNING, journals.HARDENED):
                state = self._host.cinder.state(record.superposition_id)
                if state in states.DECIDED:
                    self._backups.open_box(record)
            if record.phase != journals.PROMOTED:
                LOG.warning('the server is evacuated while its backup %s is %s: the backup is '
                            'removed, and the server started from its own volumes',
                            record.backup_id, record.phase, instance=instance)
                self._backups.drop(record, 'the server was evacuated before it was promoted')
                return None
            if not self._backups.runs(record):
                self._backups.fail(record, 'its QEMU had ended; Nova starts the server again')
                return None
            if self._host.cinder.state(record.superposition_id) in pivot.ENDED:
                raise exception.BackupConflict(
                    f'backup {record.backup_id} of server {instance.uuid} is overtaken: '
                    f'superposition {record.superposition_id} is merged or gone; evacuate the '
                    f'server to another host')
        except exception.BackupLost:
            return None
        except nova_exception.NovaException as exc:
            # Any other error would have Nova put the server into ERROR.
            raise nova_exception.InstanceFaultRollback(inner_exception=exc) from exc
        return record

    def _take_over(self, evacuation: Evacuation, record: journals.Record) -> None:
        context, instance = evacuation.context, evacuation.instance
        evacuation.detach(context, evacuation.bdms, detach_root_bdm=True)
        instance.task_state = task_states.REBUILD_BLOCK_DEVICE_MAPPING
        instance.save(expected_task_state=[task_states.REBUILDING])
        devices = evacuation.attach(context, instance, evacuation.bdms)
        for volume in devices['block_device_mapping']:
            connection = volume['connection_info']
            if connections.superposition_of(connection) == record.superposition_id:
                continue
            if volume.volume_id not in record.volume_ids:
                self._plug(context, instance, volume)
            else:
                LOG.error('Cinder connects volume %s by %s, with superposition %s, although it '
                          'was promoted with superposition %s: do not stop the server before an '
                          'operator has looked at it', volume.volume_id,
                          connection['driver_volume_type'],
                          connections.superposition_of(connection),
                          record.superposition_id, instance=instance)
        self._host.launcher.locate_devices(context, instance)
        instance.task_state = task_states.REBUILD_SPAWNING
        instance.save(expected_task_state=[task_states.REBUILD_BLOCK_DEVICE_MAPPING])

    def _plug(self, context: Any, instance: Any, volume: Any) -> None:
        """Plug a volume into the domain that was attached since the backup was started.

        The host that failed was back after the decision, and its nova-compute attached the volume
        there. Without it the server goes on, and a hard reboot plugs it.
        """
        driver, connection = self._host.driver, volume['connection_info']
        guest = self._host.launcher.find(instance.uuid)
        # Without a domain the attempt below fails, and says so.
        xml = '<domain/>' if guest is None else guest.get_xml_desc()
        plugged = etree.fromstring(xml).findall('./devices/disk/serial')
        if volume.volume_id in {serial.text for serial in plugged}:
            return
        try:
            driver.attach_volume(
                context, connection, instance, volume['mount_device'],
                disk_bus=volume['disk_bus'], device_type=volume['device_type'],
                encryption=driver._get_volume_encryption(context, connection))
        except Exception as exc:
            LOG.error('volume %s was attached while the server moved, and cannot be plugged into '
                      'its running domain; reboot the server (hard) to have it plugged: %s',
                      volume.volume_id, exc, instance=instance)
        else:
            LOG.info('volume %s, which was attached while the server moved, is plugged into its '
                     'running domain', volume.volume_id, instance=instance)

    def _drop_orphans(self, evacuation: Evacuation) -> None:
        """Delete attachments that a cut-off evacuation or a failed live migration has left.

        They are the server's attachments that no block device names; a live one is always named.
        Cinder connects no volume of which another attachment is connected.
        """
        instance, known = evacuation.instance, {bdm.attachment_id for bdm in evacuation.bdms}
        volumes = {bdm.volume_id for bdm in evacuation.bdms} - {None}
        if not volumes:
            return
        # Nova's own method lists attachments in the requester's project, not in the server's. Only
        # administrators evacuate, and Cinder shows them the attachments of all projects.
        listed = cinder.cinderclient(
            evacuation.context, _ATTACHMENTS, skip_version_check=True).attachments.list(
            search_opts={'all_tenants': True, 'instance_id': instance.uuid})
        for each in listed:
            if (each.instance == instance.uuid and each.volume_id in volumes
                    and each.id not in known):
                LOG.info('deleting attachment %s of volume %s, which a cut-off evacuation or a '
                         'failed live migration has left', each.id, each.volume_id,
                         instance=instance)
                self._host.driver._volume_api.attachment_delete(evacuation.context, each.id)


def _stopped_by_user(instance: Any) -> bool:
    """Return whether a user has stopped a server, and not Nova because its domain is gone."""
    actions = objects.InstanceActionList.get_by_instance_uuid(
        backup_host.admin_context(), instance.uuid, limit=_ACTIONS)
    newest = next((action for action in actions if action.action == instance_actions.STOP), None)
    return newest is not None and bool(newest.user_id)

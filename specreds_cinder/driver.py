# SPDX-License-Identifier: Apache-2.0
"""Cinder's RBD driver with volumes that can be in superposition."""

from collections.abc import Mapping
import time
from typing import Any, NamedTuple

from cinder import exception as cinder_exception
from cinder import interface
from cinder import objects
from cinder.volume.drivers import rbd
from oslo_config import cfg
from oslo_log import log as logging
from oslo_utils import units

from specreds_cinder import conf
from specreds_cinder import exception
from specreds_cinder import removed_options
from specreds_cinder import server_disks
from specreds_cinder.service.worker import client
from specreds_cinder.superposition.truth import states

CONF = cfg.CONF
conf.register(CONF)
LOG = logging.getLogger(__name__)

# Not "rbd": a client without support for overlays must not open the volume without its overlay.
CONNECTION_TYPE = 'rbd_super'
_MONITORS_S = 60.0
# Time that Ceph may take to answer one call. A call that takes longer fails with an error, and the
# superposition stays intact. Below `stale_after_s`: a step that waits for Ceph makes progress.
_TIMEOUT_S = 10.0


class Location(NamedTuple):
    """Where the volumes of a back end are in Ceph.

    :ivar fsid: the cluster
    :ivar user: the user of the cluster, without ``client.``
    :ivar pool: the pool
    """

    fsid: str
    user: str
    pool: str


@interface.volumedriver
class SuperRBDDriver(rbd.RBDDriver):
    """RBDDriver with the operations that a superposition needs of a back end.

    A volume keeps its RBD image all its life. The driver refuses operations that would change the
    image of a superposed volume; the API refuses them first, with a better error.
    """

    VERSION = '1.0.0'
    CI_WIKI_NAME = 'SpecREDS_CI'

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._worker: client.Worker | None = None
        self._monitors: tuple[list[str], list[str]] = ([], [])
        self._monitors_until = 0.0

    @property
    def worker(self) -> client.Worker:
        """Return the worker that runs the protocol for this back end."""
        if self._worker is None:
            name, conffile, user, _secret = self._get_config_tuple()
            self._worker = client.Worker(
                {'conffile': conffile or '/etc/ceph/ceph.conf', 'user': user or 'admin',
                 'name': name or 'ceph', 'timeout': _TIMEOUT_S},
                self.configuration.rbd_pool,
                {}, watch=True, others=self._other_pools())
        return self._worker

    @property
    def location(self) -> Location:
        """Return where the volumes are, from Cinder's statistics."""
        info: str = self.get_volume_stats()['location_info']
        return Location(*info.rsplit(':', 3)[1:])

    def _other_pools(self) -> list[str]:
        """Return the pool of the server disks, if this back end superposes them."""
        pool = CONF.specreds.server_disks_pool
        named = server_disks.configured()
        mine = named is not None and named in (self.host, self.cluster_name)
        return [pool] if mine and pool != self.configuration.rbd_pool else []

    def disk_image(self, disk: server_disks.ServerDisk) -> str:
        """Return the name that the worker has for the image of a server's disk."""
        pool = CONF.specreds.server_disks_pool
        return disk.name if pool == self.configuration.rbd_pool else f'{pool}/{disk.name}'

    def check_for_setup_error(self) -> None:
        """Also name removed options, and make sure that the worker can run the protocol.

        :raises VolumeBackendAPIException: the worker or its Ceph does not answer
        """
        removed_options.warn(CONF, conf.GROUP.name, conf.OPTIONS)
        super().check_for_setup_error()
        try:
            self.worker.call(None, 'ping')
        except exception.SuperpositionError as exc:
            raise cinder_exception.VolumeBackendAPIException(
                data=f'volumes cannot be superposed here: {exc.msg}') from exc

    def _update_volume_stats(self) -> None:
        super()._update_volume_stats()
        # The scheduler places volume types with the extra spec "superposition='<is> True'" here.
        self._stats['superposition'] = True
        try:
            self._stats['fenced_clients'] = self.worker.call(None, 'count_fenced')
        except exception.SuperpositionError as exc:
            LOG.warning('cannot count the fenced clients of this back end, so that its statistics '
                        'do not have fenced_clients: %s', exc.msg)

    def _get_usage_info(self) -> int:
        # An overlay is part of no volume, so the provisioned capacity excludes it.
        overlays: int = self.worker.call(None, 'provisioned')
        provisioned: int = super()._get_usage_info()
        return provisioned - overlays // units.Gi if overlays else provisioned

    # Connections

    def _get_mon_addrs(self) -> tuple[list[str], list[str]]:
        # RBDDriver runs a program to find the monitors, which takes longer than the
        # superposition of a server's volumes.
        if time.monotonic() > self._monitors_until:
            try:
                monitors = self.worker.call(None, 'monitors')
            except exception.SuperpositionError:
                self._monitors = super()._get_mon_addrs()
            else:
                self._monitors = [host for host, _ in monitors], [port for _, port in monitors]
            self._monitors_until = time.monotonic() + _MONITORS_S
        return self._monitors

    def initialize_connection(self, volume: objects.Volume,
                              connector: Mapping[str, Any]) -> dict[str, Any]:
        """Return the connection to the real version: the volume, or its promoted version."""
        return self.current_connection(volume, connector, hand_out=True)

    def current_connection(self, volume: objects.Volume, connector: Mapping[str, Any], *,
                           hand_out: bool) -> dict[str, Any]:
        """Return the connection to the real version, to be opened or only shown.

        :param hand_out: keep a running merge from ending, and put off one that has not begun
        """
        superposition = self._superposition(volume)
        if superposition is None or superposition['state'] not in states.THROUGH_OVERLAY:
            return self.parent_connection(volume, connector)
        if hand_out:
            superposition = self.worker.call(None, 'hand_out', superposition=superposition['id'])
        if superposition['state'] not in states.THROUGH_OVERLAY:
            return self.parent_connection(volume, connector)
        return self.child_connection(volume, connector, superposition)

    def parent_connection(self, volume: objects.Volume | server_disks.ServerDisk,
                          connector: Mapping[str, Any]) -> dict[str, Any]:
        """Return the connection to the volume's own RBD image."""
        info: dict[str, Any] = super().initialize_connection(volume, connector)
        return info

    def child_connection(self, volume: objects.Volume, connector: Mapping[str, Any],
                         superposition: Mapping[str, Any]) -> dict[str, Any]:
        """Return the connection to the overlay and its backing image.

        :param superposition: the worker's description of the superposition
        """
        info = self.parent_connection(volume, connector)
        # Cinder adds this key only to the connection of an attachment.
        info['data']['encrypted'] = bool(volume.encryption_key_id)
        return self._chained(info, volume.name, superposition)

    def disk_connection(self, disk: server_disks.ServerDisk, connector: Mapping[str, Any],
                        superposition: Mapping[str, Any]) -> dict[str, Any]:
        """Return the connection to the overlay of a server's disk and its backing image.

        :param superposition: the worker's description of the superposition
        """
        info = self.parent_connection(disk, connector)
        del info['data']['volume_id']
        info['data'].update(name=f'{CONF.specreds.server_disks_pool}/{disk.name}',
                            encrypted=False)
        return self._chained(info, self.disk_image(disk), superposition)

    @staticmethod
    def _chained(info: dict[str, Any], image: str,
                 superposition: Mapping[str, Any]) -> dict[str, Any]:
        """Return a connection to an image with the overlay over it.

        :param image: the worker's name of the image
        """
        overlay = next(entry for entry in superposition['volumes'] if entry['image'] == image)
        info['driver_volume_type'] = CONNECTION_TYPE
        info['data']['superposition'] = {
            'id': superposition['id'],
            'state': superposition['state'],
            # While the version is speculative, QEMU may ignore the guest's flushes.
            'speculative': superposition['state'] not in states.DECIDED,
            'overlay': {'name': overlay['overlay'], 'format': 'qcow2', 'discard': 'unmap',
                        'l2_cache_entry_size': 4096},
            'backing': {'name': info['data']['name'], 'format': 'raw',
                        'size_bytes': overlay['size_bytes']},
        }
        return info

    # Operations that are refused while a volume is superposed

    def _superposition(self, volume: objects.Volume) -> dict[str, Any] | None:
        superposition: dict[str, Any] | None = self.worker.call(None, 'find', image=volume.name)
        return superposition

    def _let_be(self, volume: objects.Volume, what: str) -> None:
        """:raises VolumeSuperposed: the volume is in a superposition"""
        superposition = self._superposition(volume)
        if superposition is not None:
            raise exception.VolumeSuperposed(
                f'volume {volume.id} cannot be {what} while it is in superposition '
                f'{superposition["id"]}, which is {superposition["state"]}: collapse that one '
                f'first',
                state=superposition['state'])

    def _let_busy_be(self, volume: objects.Volume, what: str,
                     busy: type[cinder_exception.CinderException]) -> None:
        """Refuse with an error after which Cinder leaves the status as it was.

        :raises busy: the volume is in a superposition
        """
        try:
            self._let_be(volume, what)
        except exception.VolumeSuperposed as exc:
            raise busy(message=exc.msg) from exc

    def delete_volume(self, volume: objects.Volume) -> None:
        """Delete a volume, unless it is superposed.

        :raises VolumeIsBusy: the volume is superposed; its status stays as it was
        """
        self._let_busy_be(volume, 'deleted', cinder_exception.VolumeIsBusy)
        image_id = self.worker.call(None, 'image_id', image=volume.name)
        super().delete_volume(volume)
        if image_id is None:
            return
        try:
            self.worker.call(None, 'remove_ledger', image_id=image_id)
        except exception.SuperpositionError as exc:
            LOG.warning('the object specreds.clients.%s of volume %s, which is deleted, is left '
                        'behind: %s', image_id, volume.id, exc.msg)

    def create_snapshot(self, snapshot: objects.Snapshot) -> Any:
        """Create a snapshot, unless the volume is superposed."""
        self._let_be(snapshot.volume, 'snapshotted')
        return super().create_snapshot(snapshot)

    def delete_snapshot(self, snapshot: objects.Snapshot) -> None:
        """Delete a snapshot, unless its volume is superposed.

        :raises SnapshotIsBusy: the volume is superposed; the snapshot's status stays as it was
        """
        self._let_busy_be(snapshot.volume, 'changed', cinder_exception.SnapshotIsBusy)
        super().delete_snapshot(snapshot)

    def revert_to_snapshot(self, context: Any, volume: objects.Volume,
                           snapshot: objects.Snapshot) -> None:
        """Revert a volume to a snapshot, unless the volume is superposed."""
        self._let_be(volume, 'reverted')
        super().revert_to_snapshot(context, volume, snapshot)

    def create_cloned_volume(self, volume: objects.Volume, src_vref: objects.Volume) -> Any:
        """Clone a volume, unless it is superposed."""
        self._let_be(src_vref, 'cloned')
        return super().create_cloned_volume(volume, src_vref)

    def extend_volume(self, volume: objects.Volume, new_size: int) -> None:
        """Extend a volume, unless it is superposed."""
        self._let_be(volume, 'extended')
        super().extend_volume(volume, new_size)

    def retype(self, context: Any, volume: objects.Volume, new_type: Any, diff: Any,
               host: Any) -> Any:
        """Retype a volume, unless it is superposed."""
        self._let_be(volume, 'retyped')
        return super().retype(context, volume, new_type, diff, host)

    def migrate_volume(self, context: Any, volume: objects.Volume, host: Any) -> Any:
        """Migrate a volume, unless it is superposed."""
        self._let_be(volume, 'migrated')
        return super().migrate_volume(context, volume, host)

    def get_manageable_volumes(self, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        """List the pool's images; mark those in superpositions as not safe to manage."""
        images: list[dict[str, Any]] = super().get_manageable_volumes(*args, **kwargs)
        taken = self._taken() if images else {}
        for image in images:
            reason = taken.get(image['reference']['source-name'])
            if reason is not None and image['cinder_id'] is None:
                image.update(safe_to_manage=False, reason_not_safe=reason)
        return images

    def manage_existing_get_size(self, volume: objects.Volume,
                                 existing_ref: Mapping[str, str]) -> int:
        """Return the size of an image that a caller wants to manage.

        :raises ManageExistingInvalidReference: the image is part of a superposition
        """
        size: int = super().manage_existing_get_size(volume, existing_ref)
        reason = self._taken().get(existing_ref['source-name'])
        if reason is not None:
            raise cinder_exception.ManageExistingInvalidReference(
                existing_ref=existing_ref, reason=reason)
        return size

    def _taken(self) -> dict[str, str]:
        """Return by image name the part that each image has in a superposition."""
        taken = {}
        for superposition in self.worker.call(None, 'list', whole=True):
            for volume in superposition['volumes']:
                taken[volume['image']] = f'it is in superposition {superposition["id"]}'
                taken[volume['overlay'].rpartition('/')[2]] = (
                    f'it is the overlay of {volume["image"]} in superposition '
                    f'{superposition["id"]}')
        return taken

    def unmanage(self, volume: objects.Volume) -> None:
        """Unmanage a volume, unless it is superposed.

        :raises VolumeIsBusy: the volume is superposed; its status stays as it was
        """
        self._let_busy_be(volume, 'unmanaged', cinder_exception.VolumeIsBusy)
        super().unmanage(volume)

    def copy_volume_to_image(self, context: Any, volume: objects.Volume, image_service: Any,
                             image_meta: Any) -> None:
        """Upload a volume as an image, unless the volume is superposed."""
        self._let_be(volume, 'uploaded')
        super().copy_volume_to_image(context, volume, image_service, image_meta)

    def get_backup_device(self, context: Any, backup: objects.Backup) -> Any:
        """Return the device to back up, unless the volume is superposed."""
        self._let_be(objects.Volume.get_by_id(context, backup.volume_id), 'backed up')
        return super().get_backup_device(context, backup)

# SPDX-License-Identifier: Apache-2.0
"""Disks that Nova itself keeps in RBD: the images, or overlays over them, that a guest opens.

Nova has no note of the connection of such a disk, as it has of a volume's. Cinder therefore lists
the superpositions of the server whenever its domain is configured. An overlay is opened only on
the host that has adopted the backup, whose journal names the superposition.
"""

from collections.abc import Callable, Iterator, Mapping
import contextlib
import contextvars
import re
from typing import Any

from nova.compute import vm_states
import nova.conf
from nova.virt.libvirt import config as vconfig
from oslo_log import log as logging

from specreds_cinder.superposition.truth import states
from specreds_nova import conf
from specreds_nova import exception
from specreds_nova.host import cinder_api
from specreds_nova.host import protection
from specreds_nova.host.disks import claims
from specreds_nova.host.disks import errors
from specreds_nova.host.disks import volume_driver

CONF = nova.conf.CONF
conf.register(CONF)
LOG = logging.getLogger(__name__)

Connections = Mapping[str, Mapping[str, Any]]

# Nova's names of disks that a guest writes to. Its config drive is read-only, and primary and
# backup share it; a disk for a rescue is made anew each time.
_NAME = re.compile(r'disk(\.(local|swap|eph\d+))?')

# The overlays of the domain that is being configured; None outside of this module's care.
_overlays: contextvars.ContextVar[Connections | None] = contextvars.ContextVar(
    'specreds_overlays', default=None)


def in_rbd() -> bool:
    """Return whether Nova keeps disks in RBD here."""
    return bool(CONF.libvirt.images_type == 'rbd')


def ids(instance: Any, mapping: Mapping[str, Any]) -> set[str]:
    """Return the ids of a server's disks, which are the names of their images.

    :param mapping: Nova's mapping of disks, by name
    """
    return {f'{instance.uuid}_{name}' for name in mapping if _NAME.fullmatch(name)}


def may_have(instance: Any) -> bool:
    """Return whether a server may have a disk that is no volume."""
    flavor = instance.flavor
    return bool(instance.image_ref or flavor.ephemeral_gb or flavor.swap)


@contextlib.contextmanager
def opened_as(overlays: Connections) -> Iterator[None]:
    """Configure disks, within the context, by these connections, if Nova keeps them in RBD."""
    token = _overlays.set(overlays if in_rbd() else None)
    try:
        yield
    finally:
        _overlays.reset(token)


def opened() -> Connections | None:
    """Return the connections of the domain that is being configured; None without any care."""
    return _overlays.get()


def configured(disk: vconfig.LibvirtConfigGuestDisk) -> vconfig.LibvirtConfigGuestDisk:
    """Return the configuration with which a disk is opened, from Nova's own.

    :raises VersionUnknown: the overlay belongs to another image than the one that Nova opens
    """
    overlays = _overlays.get()
    if overlays is None or disk.source_protocol != 'rbd':
        return disk
    image = disk.source_name
    disk_id = image.rpartition('/')[2]
    if not _NAME.fullmatch(disk_id.partition('_')[2]):
        return disk
    connection = overlays.get(disk_id)
    if connection is None:
        return volume_driver.ChainedDisk.of(disk) if protection.applies() else disk
    superposition = connection['data']['superposition']
    superposed = superposition['backing']['name']
    if superposed != image:
        raise errors.VersionUnknown(
            f'Cinder has superposed {superposed}, but Nova opens {image}: '
            f'server_disks_pool of cinder.conf has to be images_rbd_pool of nova.conf')
    return volume_driver.chain(disk, superposition)


class ServerDisks:
    """The real versions of disks on one host.

    :param adopted: returns the superposition whose overlays the server uses on this host,
        according to the journal, or None
    """

    def __init__(self, cinder: cinder_api.CinderAPI, adopted: Callable[[str], str | None]) -> None:
        self._cinder = cinder
        self._adopted = adopted

    def unmerged(self, instance: Any) -> str | None:
        """Return the superposition through whose overlays a server's disks are read, or None.

        A server that is being created has none, and one that is not protected only if its backup
        was adopted here.

        :raises VersionUnknown: Cinder does not report it, and Ceph has a claim or does not answer
        """
        if not in_rbd() or instance.vm_state == vm_states.BUILDING or not may_have(instance):
            return None
        if self._adopted(instance.uuid) is None and not protection.protected(instance):
            return None
        try:
            superpositions = self._cinder.with_disks(instance.uuid)
        except exception.BackupError as exc:
            if claims.none(instance.uuid):
                LOG.info('server %s: Cinder does not report whether its disks are superposed; '
                         'by their claims in Ceph they are not: %s', instance.uuid, exc)
                return None
            raise _unknown(instance, exc) from exc
        return next((superposition_id for superposition_id, state in superpositions.items()
                     if state in states.THROUGH_OVERLAY), None)

    def check(self, instance: Any) -> None:
        """Check that a server can be started here, before anything is changed for its start.

        :raises VersionUnknown: Cinder does not report the real version
        :raises NotHere: the real version was promoted for another host, and may be in use there
        """
        self._ours(instance)

    def overlays(self, instance: Any) -> Connections:
        """Return the connections to the overlays that a server's disks are opened through.

        :returns: by image; nothing if the images themselves are the real version. A merge waits
            until the overlays are open
        :raises VersionUnknown: Cinder does not report the real version
        :raises NotHere: the real version was promoted for another host, and may be in use there
        """
        superposition_id = self._ours(instance)
        if superposition_id is None:
            return {}
        try:
            return self._cinder.disk_connections(superposition_id, {
                'host': CONF.host, 'ip': CONF.my_block_storage_ip, 'multipath': False})
        except exception.SuperpositionRefused as exc:
            if self._merged(instance, superposition_id):
                return {}
            raise _unknown(instance, exc) from exc
        except exception.BackupError as exc:
            raise _unknown(instance, exc) from exc

    def _ours(self, instance: Any) -> str | None:
        superposition_id = self.unmerged(instance)
        if superposition_id is not None and superposition_id != self._adopted(instance.uuid):
            raise self._elsewhere(instance, superposition_id)
        return superposition_id

    @staticmethod
    def _elsewhere(instance: Any, superposition_id: str) -> errors.NotHere:
        return errors.NotHere(
            f'server {instance.uuid} cannot be started here: its disks go through the overlays of '
            f'superposition {superposition_id}, which was promoted for another host. If its '
            f'backup runs there, evacuate the server to it; if not, Cinder merges the disks '
            f'within a minute or two: try again then')

    def _merged(self, instance: Any, superposition_id: str) -> bool:
        try:
            return self._cinder.state(superposition_id) not in states.THROUGH_OVERLAY
        except exception.BackupError as exc:
            raise _unknown(instance, exc) from exc


def _unknown(instance: Any, exc: exception.BackupError) -> errors.VersionUnknown:
    return errors.VersionUnknown(
        f'server {instance.uuid}: Cinder does not report the real version of its disks ({exc}); '
        f'try again when it does')

# SPDX-License-Identifier: Apache-2.0
"""Libvirt's configuration of RBD volumes: the volume's image, or an overlay over it.

Cinder returns the connection type ``rbd_super`` for a volume whose real version is an overlay: in
a backup before the decision, and in a promoted backup until it is merged.
"""

from collections.abc import Mapping
import copy
import dataclasses
from typing import Any

from lxml import etree
from nova.virt.libvirt import config as vconfig
from nova.virt.libvirt.volume import net

from specreds_nova.host import protection
from specreds_nova.host.disks import ceph_conf

PLAIN = 'rbd'
CHAINED = 'rbd_super'
TYPES = frozenset({PLAIN, CHAINED})

# The guest stops when its disk fails. It goes on as soon as the disk is repaired, and a fenced
# guest never sees an error.
_STOP = 'stop'
# Write-back without flushes: what a backup writes need not be durable before the backup is
# promoted.
_SPECULATIVE_CACHE = 'unsafe'


@dataclasses.dataclass(frozen=True)
class BackingImage:
    """The image under the one that the guest writes to.

    :ivar name: pool/image, or pool/namespace/image
    :ivar format: as libvirt names it
    """

    name: str
    format: str


class ChainedDisk(vconfig.LibvirtConfigGuestDisk):
    """A disk that stops its guest on an error, and may be an overlay over another image.

    :ivar backing: the image under the one that the guest writes to
    :ivar speculative: the disk is a backup's, and not promoted
    :ivar config: path of the Ceph configuration of backups, for a speculative disk
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.backing: BackingImage | None = None
        self.speculative = False
        self.config = ''

    @classmethod
    def of(cls, conf: vconfig.LibvirtConfigGuestDisk) -> 'ChainedDisk':
        """Return a chained disk with the configuration of a plain one."""
        disk = cls()
        disk.__dict__.update(copy.copy(conf.__dict__))
        return disk

    def format_dom(self) -> Any:
        """Return the element of the domain's XML."""
        dom = super().format_dom()
        driver = dom.find('driver')
        driver.set('error_policy', _STOP)
        driver.set('rerror_policy', _STOP)
        if self.speculative:
            driver.set('cache', _SPECULATIVE_CACHE)
            etree.SubElement(dom.find('source'), 'config', file=self.config)
        if self.backing is not None:
            dom.append(self._format_backing(self.backing))
        return dom

    def _format_backing(self, backing: BackingImage) -> Any:
        """Return the element of the lower image; QEMU ignores the name inside the overlay."""
        store = etree.Element('backingStore', type=self.source_type)
        etree.SubElement(store, 'format', type=backing.format)
        source = etree.SubElement(store, 'source', protocol=self.source_protocol,
                                  name=backing.name)
        for name, port in zip(self.source_hosts, self.source_ports, strict=True):
            host = etree.SubElement(source, 'host', name=name)
            if port is not None:
                host.set('port', port)
        if self.auth_secret_type is not None:
            # Libvirt accepts this element beside the source for the upper image only.
            auth = etree.SubElement(source, 'auth', username=self.auth_username)
            etree.SubElement(auth, 'secret', type=self.auth_secret_type,
                             uuid=self.auth_secret_uuid)
        if self.speculative:
            etree.SubElement(source, 'config', file=self.config)
        if self.volume_encryption is not None:
            # The passphrase of the volume opens the overlay.
            source.append(self.volume_encryption.format_dom())
        etree.SubElement(store, 'backingStore')
        return store


class ChainedVolumeDriver(net.LibvirtNetVolumeDriver):
    """Configures RBD volumes with and without an overlay."""

    def get_config(self, connection_info: dict[str, Any], disk_info: dict[str, Any]
                   ) -> vconfig.LibvirtConfigGuestDisk:
        """Return the configuration of a volume's disk.

        Without an overlay, and for an unprotected server, it is exactly Nova's own.
        """
        superposition = connection_info['data'].get('superposition')
        chained = connection_info['driver_volume_type'] == CHAINED and superposition is not None
        conf = super().get_config({**connection_info, 'driver_volume_type': PLAIN}, disk_info)
        if not chained and not protection.applies():
            return conf
        return chain(conf, superposition) if chained else ChainedDisk.of(conf)


def chain(conf: vconfig.LibvirtConfigGuestDisk, superposition: Mapping[str, Any]) -> ChainedDisk:
    """Return the disk that goes through an overlay, from the configuration of the plain disk.

    :param superposition: Cinder's description of overlay and backing image
    """
    disk = ChainedDisk.of(conf)
    overlay, backing = superposition['overlay'], superposition['backing']
    disk.source_name = overlay['name']
    # Nova names no driver for disks that it keeps in RBD itself.
    disk.driver_name = disk.driver_name or 'qemu'
    disk.driver_format = overlay['format']
    disk.backing = BackingImage(backing['name'], backing['format'])
    disk.speculative = bool(superposition['speculative'])
    if disk.speculative:
        disk.config = ceph_conf.path()
    return disk

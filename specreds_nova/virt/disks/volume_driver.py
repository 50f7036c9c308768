# SPDX-License-Identifier: Apache-2.0
"""Disks of servers that may be superposed: a volume's RBD image, or an overlay over it.

The connection type ``rbd_super`` is what Cinder gives for a volume of which the overlay is what
counts: because it is the backup's version, or because that one was promoted and is not merged yet.
"""

import copy
import dataclasses
from typing import Any

from lxml import etree
from nova.virt.libvirt import config as vconfig
from nova.virt.libvirt.volume import net

from specreds_nova.virt import protection
from specreds_nova.virt.disks import ceph_conf

PLAIN = 'rbd'
CHAINED = 'rbd_super'
TYPES = frozenset({PLAIN, CHAINED})

# The guest is stopped when its disk fails, and goes on when it is repaired, or is fenced without
# having seen an error.
_STOP = 'stop'
# Write-back, and flushes are not forced out: what a backup writes need not be durable before it
# is promoted.
_SPECULATIVE_CACHE = 'unsafe'


@dataclasses.dataclass(frozen=True)
class Layer:
    """One image of a disk.

    :ivar name: pool/image, or pool/namespace/image
    :ivar format: as libvirt names it
    """

    name: str
    format: str


class ChainedDisk(vconfig.LibvirtConfigGuestDisk):
    """A disk that stops its guest instead of failing it, and may lie over another image.

    :ivar backing: the image under the one that the guest writes to
    :ivar speculative: it is a backup's, and not promoted
    :ivar config: path of the Ceph configuration of backups, for one that is speculative
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.backing: Layer | None = None
        self.speculative = False
        self.config = ''

    @classmethod
    def of(cls, conf: vconfig.LibvirtConfigGuestDisk) -> 'ChainedDisk':
        """Make one of a plain disk."""
        disk = cls()
        disk.__dict__.update(copy.copy(conf.__dict__))
        return disk

    def format_dom(self) -> Any:
        """Give the element of the domain's XML."""
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

    def _format_backing(self, backing: Layer) -> Any:
        """Give the lower image: named, so that QEMU never follows what is in the overlay."""
        store = etree.Element('backingStore', type=self.source_type)
        etree.SubElement(store, 'format', type=backing.format)
        source = etree.SubElement(store, 'source', protocol=self.source_protocol,
                                  name=backing.name)
        for name, port in zip(self.source_hosts, self.source_ports, strict=True):
            host = etree.SubElement(source, 'host', name=name)
            if port is not None:
                host.set('port', port)
        if self.auth_secret_type is not None:
            # Only for the upper image libvirt takes this beside the source.
            auth = etree.SubElement(source, 'auth', username=self.auth_username)
            etree.SubElement(auth, 'secret', type=self.auth_secret_type,
                             uuid=self.auth_secret_uuid)
        if self.speculative:
            etree.SubElement(source, 'config', file=self.config)
        etree.SubElement(store, 'backingStore')
        return store


class ChainedVolumeDriver(net.LibvirtNetVolumeDriver):
    """Configures RBD volumes, with or without an overlay."""

    def get_config(self, connection_info: dict[str, Any], disk_info: dict[str, Any]
                   ) -> vconfig.LibvirtConfigGuestDisk:
        """Give the disk of a volume.

        One without an overlay, of a server that is not protected, is exactly Nova's own.
        """
        told = connection_info['data'].get('superposition')
        chained = connection_info['driver_volume_type'] == CHAINED and told is not None
        conf = super().get_config({**connection_info, 'driver_volume_type': PLAIN}, disk_info)
        if not chained and not protection.applies():
            return conf
        disk = ChainedDisk.of(conf)
        if chained:
            overlay, backing = told['overlay'], told['backing']
            disk.source_name = overlay['name']
            disk.driver_format = overlay['format']
            disk.backing = Layer(backing['name'], backing['format'])
            disk.speculative = bool(told['speculative'])
            if disk.speculative:
                disk.config = ceph_conf.path()
        return disk

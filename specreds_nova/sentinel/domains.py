# SPDX-License-Identifier: Apache-2.0
"""The domains of this host, as libvirt describes them."""

import dataclasses
from typing import Any
from xml.etree import ElementTree

import libvirt
from oslo_log import log as logging

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.truth import record as records
from specreds_nova import cache_policy
from specreds_nova import libvirt_connection

LOG = logging.getLogger(__name__)

_MARK = './metadata/{urn:specreds:backup:1}backup'


class HypervisorSilent(Exception):
    """libvirt does not answer, or not in a way that can be used."""


@dataclasses.dataclass(frozen=True)
class Image:
    """An RBD image that is on top of a disk.

    :param user: the cephx user that QEMU opens it as
    :param cached: QEMU uses librbd's cache for it
    """

    ref: records.VolumeRef
    user: str
    cached: bool = dataclasses.field(default=False, compare=False)


@dataclasses.dataclass(frozen=True)
class Domain:
    """A domain that runs, or is paused.

    :param number: libvirt's; another one each time it is started
    :param backup_of: the superposition that its metadata name it the backup of
    :param images: what is on top of its disks, as far as it is in RBD
    :param taps: its network interfaces on this host
    """

    uuid: str
    name: str
    number: int
    backup_of: str | None
    images: tuple[Image, ...]
    taps: tuple[str, ...]


class Hypervisor:
    """A connection to libvirt that is made again after it broke.

    :param uri: of libvirt
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._connection: Any = None
        libvirt.registerErrorHandler(lambda *_: None, None)

    def running(self) -> dict[str, int]:
        """List the domains that run or are paused: their numbers by UUID.

        :raises HypervisorSilent: libvirt does not answer
        """
        return {domain.UUIDString(): domain.ID() for domain in self._ask(
            lambda connection: connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE))}

    def unpaused(self) -> frozenset[str]:
        """Return the UUIDs of the domains that run and are not paused.

        :raises HypervisorSilent: libvirt does not answer
        """
        domains = self._ask(lambda connection: connection.listAllDomains(
            libvirt.VIR_CONNECT_LIST_DOMAINS_RUNNING))
        return frozenset(domain.UUIDString() for domain in domains)

    def describe(self, uuid: str) -> Domain | None:
        """Describe a domain as it is at this moment; None if it does not run any more.

        :raises HypervisorSilent: libvirt does not answer
        """
        try:
            xml: str = self._ask(
                lambda connection: connection.lookupByUUIDString(uuid).XMLDesc(0))
        except _Gone:
            return None
        return parse(xml)

    def close(self) -> None:
        """Disconnect; a later use connects again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except libvirt.libvirtError as exc:
                LOG.debug('closing the connection to libvirt: %s', exc)

    def _ask(self, question: Any) -> Any:
        try:
            if self._connection is None:
                self._connection = libvirt_connection.connect(self._uri)
            return question(self._connection)
        except libvirt.libvirtError as exc:
            if exc.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                raise _Gone from exc
            self.close()
            raise HypervisorSilent(f'libvirt at {self._uri}: {exc}') from exc


class _Gone(Exception):
    """A domain that was there is not any more."""


def parse(xml: str) -> Domain | None:
    """Read what matters from a live domain's XML; None if it does not run."""
    root = ElementTree.fromstring(xml)
    if root.get('id') is None:
        return None
    mark = root.find(_MARK)
    images = [_image(disk) for disk in root.findall('./devices/disk')]
    taps = [target.get('dev', '') for target in root.findall('./devices/interface/target')]
    return Domain(
        uuid=root.findtext('uuid', ''), name=root.findtext('name', ''),
        number=int(root.attrib['id']),
        backup_of=mark.get('superposition') if mark is not None else None,
        images=tuple(dict.fromkeys(image for image in images if image is not None)),
        taps=tuple(tap for tap in taps if tap))


def _image(disk: ElementTree.Element) -> Image | None:
    source = disk.find('source')
    if source is None or source.get('protocol') != 'rbd':
        return None
    try:
        ref = records.VolumeRef.parse(source.get('name', ''))
    except errors.InvalidInput:
        # Whatever it is, such as a snapshot: no volume that can be superposed.
        return None
    auth = disk.find('auth')
    if auth is None:
        auth = source.find('auth')
    driver = disk.find('driver')
    mode = driver.get('cache') if driver is not None else None
    return Image(ref, auth.get('username', '') if auth is not None else 'admin',
                 cached=mode not in cache_policy.WITHOUT_CACHE)

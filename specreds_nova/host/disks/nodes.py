# SPDX-License-Identifier: Apache-2.0
"""The RBD disks of a running domain, and the block nodes that QEMU has for their images."""

from collections.abc import Iterator
import dataclasses
import json
import re
from typing import Any

from lxml import etree

from specreds_nova.host.disks import qmp

Node = dict[str, Any]

_PART = re.compile(r'([^.]+)\.(\d+)\.(.+)')


@dataclasses.dataclass(frozen=True)
class ChainLayer:
    """One image of a disk's chain.

    :param image: RBD image as in the domain's definition, ``pool/image``
    :param index: libvirt's number of the image, which is part of the names of its block nodes
    :param kind: format, raw or qcow2
    """

    image: str
    index: int
    kind: str

    @property
    def format_node(self) -> str:
        """Name of the node that interprets the image."""
        return f'libvirt-{self.index}-format'

    @property
    def storage_node(self) -> str:
        """Name of the node that accesses the image."""
        return f'libvirt-{self.index}-storage'


@dataclasses.dataclass(frozen=True)
class Disk:
    """One RBD disk of a running domain.

    :param target: name of the device, such as vda
    :param serial: the volume's id
    :param discard: libvirt's setting for the guest's discards, None if there is none
    :param layers: the images, the topmost first
    :param read_only: the guest cannot write to it
    :param job: libvirt's type of the job that copies from the disk; None if there is no job
    :param ready: the job has copied everything once, and mirrors every write
    """

    target: str
    serial: str
    discard: str | None
    layers: tuple[ChainLayer, ...]
    read_only: bool
    job: str | None
    ready: bool

    @property
    def chained(self) -> bool:
        """Whether the disk goes through an overlay."""
        return len(self.layers) > 1

    @property
    def base(self) -> ChainLayer:
        """The volume's own image."""
        return self.layers[-1]


def disks(domain: qmp.Domain) -> list[Disk]:
    """Return the RBD disks of a running domain."""
    return list(parse(domain.XMLDesc(0)))


def chained(domain: qmp.Domain) -> list[Disk]:
    """Return the disks of a running domain that go through an overlay."""
    return [disk for disk in disks(domain) if disk.chained]


def parse(xml: str) -> Iterator[Disk]:
    """Yield the RBD disks in the definition of a domain.

    :param xml: of a running domain; in any other definition images have no index, and it is 0
    """
    for disk in etree.fromstring(xml).iterfind('./devices/disk[@type="network"]'):
        source = disk.find('source')
        if source is None or source.get('protocol') != 'rbd':
            continue
        driver, mirror = disk.find('driver'), disk.find('mirror')
        layers = [ChainLayer(source.get('name'), int(source.get('index', 0)), driver.get('type'))]
        layers += _backing(disk)
        is_cdrom = disk.get('device') == 'cdrom'
        if is_cdrom and len(layers) == 1:
            # A config drive, or a volume without an overlay: the guest writes nothing, and QEMU
            # has it open read-only.
            continue
        yield Disk(
            target=disk.find('target').get('dev'), serial=disk.findtext('serial', ''),
            discard=driver.get('discard'), layers=tuple(layers),
            read_only=is_cdrom or disk.find('readonly') is not None,
            job=None if mirror is None else mirror.get('job', 'copy'),
            ready=mirror is not None and mirror.get('ready') == 'yes')


def _backing(element: Any) -> Iterator[ChainLayer]:
    store = element.find('backingStore')
    if store is None or store.find('source') is None:
        return
    source = store.find('source')
    yield ChainLayer(source.get('name'), int(store.get('index', 0)),
                     store.find('format').get('type'))
    yield from _backing(store)


def options(disk: Disk, there: dict[str, Node], secrets: set[str], *,
            no_flush: bool) -> list[Node]:
    """Return the options of a disk's nodes as libvirt has set them, except for flushing.

    QEMU requires every option when a node is reopened, and reports most of them itself. That is
    also true for hot-plugged disks, and does not depend on the host that QEMU runs on.

    :param there: QEMU's nodes by name
    :param secrets: the ids of QEMU's secret objects
    :param no_flush: ignore flushes
    :returns: options of those nodes of the disk that exist, the lowest first
    """
    described_nodes: list[Node] = []
    below: str | None = None
    for layer in reversed(disk.layers):
        top = None
        for name in (layer.storage_node, layer.format_node):
            if name not in there:
                continue
            node = there[name]
            described: Node = {
                'driver': node['drv'], 'node-name': name,
                'cache': {'direct': node['cache']['direct'], 'no-flush': no_flush}}
            if disk.discard:
                described['discard'] = disk.discard
            if name == layer.storage_node:
                described |= _storage(node, secrets)
            else:
                described |= {'file': layer.storage_node, 'read-only': node['ro'],
                              **_encryption(node, secrets)}
            top = name
            described_nodes.append(described)
        if below is not None and described_nodes and described_nodes[-1]['driver'] == 'qcow2':
            described_nodes[-1]['backing'] = below
        below = top
    return described_nodes


def _storage(node: Node, secrets: set[str]) -> Node:
    """Return the options of the node that accesses an RBD image."""
    described = _nested(json.loads(node['file'].removeprefix('json:')))
    secret = f'{node["node-name"]}-auth-secret0'
    if secret in secrets:
        described |= {'key-secret': secret, 'auth-client-required': ['cephx', 'none']}
    return {**described, 'auto-read-only': True}


def _encryption(node: Node, secrets: set[str]) -> Node:
    """Return the options with which a node decrypts an image; none if it is not encrypted."""
    secret = f'{node["node-name"]}-encryption-secret0'
    if secret not in secrets:
        return {}
    if node['drv'] == 'qcow2':
        return {'encrypt': {'format': 'luks', 'key-secret': secret}}
    return {'key-secret': secret}


def _nested(flat: Node) -> Node:
    """Convert keys like ``server.0.host`` into lists of dictionaries."""
    nested: Node = {}
    for name, value in flat.items():
        part = _PART.fullmatch(name)
        if part is None:
            nested[name] = value
            continue
        members = nested.setdefault(part[1], [])
        while len(members) <= int(part[2]):
            members.append({})
        members[int(part[2])][part[3]] = value
    return nested

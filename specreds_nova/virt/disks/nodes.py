# SPDX-License-Identifier: Apache-2.0
"""The disks of a domain that go through an overlay, and the block nodes that QEMU has for them."""

from collections.abc import Iterator
import dataclasses
import json
import re
from typing import Any

from lxml import etree

from specreds_nova.virt.disks import qmp

Node = dict[str, Any]

_PART = re.compile(r'([^.]+)\.(\d+)\.(.+)')


@dataclasses.dataclass(frozen=True)
class Layer:
    """One image of a disk's chain.

    :param image: RBD image as the domain's definition names it, ``pool/image``
    :param index: libvirt's number for it, from which the names of its block nodes are made
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
    :param discard: libvirt's word for what becomes of the guest's discards, None if none is given
    :param layers: the images, the topmost first
    :param job: what libvirt calls the job that copies from it; None if none runs
    :param ready: that job has been through once, and mirrors every write since
    """

    target: str
    serial: str
    discard: str | None
    layers: tuple[Layer, ...]
    job: str | None
    ready: bool

    @property
    def chained(self) -> bool:
        """Whether it goes through an overlay."""
        return len(self.layers) > 1

    @property
    def base(self) -> Layer:
        """The volume's own image."""
        return self.layers[-1]


def disks(domain: qmp.Domain) -> list[Disk]:
    """List the RBD disks of a running domain."""
    return list(parse(domain.XMLDesc(0)))


def chained(domain: qmp.Domain) -> list[Disk]:
    """List the disks of a running domain that go through an overlay."""
    return [disk for disk in disks(domain) if disk.chained]


def parse(xml: str) -> Iterator[Disk]:
    """Find the RBD disks in the definition of a domain.

    :param xml: of a running domain: in any other, images have no index, which is 0 then
    """
    for disk in etree.fromstring(xml).iterfind('./devices/disk[@type="network"]'):
        source = disk.find('source')
        if source is None or source.get('protocol') != 'rbd':
            continue
        driver, mirror = disk.find('driver'), disk.find('mirror')
        layers = [Layer(source.get('name'), int(source.get('index', 0)), driver.get('type'))]
        layers += _backing(disk)
        yield Disk(
            target=disk.find('target').get('dev'), serial=disk.findtext('serial', ''),
            discard=driver.get('discard'), layers=tuple(layers),
            job=None if mirror is None else mirror.get('job', 'copy'),
            ready=mirror is not None and mirror.get('ready') == 'yes')


def _backing(element: Any) -> Iterator[Layer]:
    store = element.find('backingStore')
    if store is None or store.find('source') is None:
        return
    source = store.find('source')
    yield Layer(source.get('name'), int(store.get('index', 0)), store.find('format').get('type'))
    yield from _backing(store)


def options(disk: Disk, there: dict[str, Node], secrets: set[str], *,
            no_flush: bool) -> list[Node]:
    """Describe a disk's nodes as libvirt has made them, but for the flushing.

    QEMU wants every option repeated when a node is reopened, and tells most of them itself. That
    holds for hot-plugged disks as well, and needs nothing of the host that QEMU runs on.

    :param there: QEMU's nodes by name
    :param secrets: the ids of QEMU's secret objects
    :param no_flush: do not force out what is flushed
    :returns: those of the disk's nodes that there are, what lies below first
    """
    found: list[Node] = []
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
                described |= {'file': layer.storage_node, 'read-only': node['ro']}
            top = name
            found.append(described)
        if below is not None and found and found[-1]['driver'] == 'qcow2':
            found[-1]['backing'] = below
        below = top
    return found


def _storage(node: Node, secrets: set[str]) -> Node:
    """Describe what accesses an RBD image."""
    described = _nested(json.loads(node['file'].removeprefix('json:')))
    secret = f'{node["node-name"]}-auth-secret0'
    if secret in secrets:
        described |= {'key-secret': secret, 'auth-client-required': ['cephx', 'none']}
    return {**described, 'auto-read-only': True}


def _nested(flat: Node) -> Node:
    """Turn ``server.0.host`` and the like into lists of dictionaries."""
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

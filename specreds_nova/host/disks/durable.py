# SPDX-License-Identifier: Apache-2.0
"""The flush barrier of a backup: it makes the disks of a running domain durable.

The disks of a backup ignore flushes (cache mode ``unsafe``). Before its version is promoted,
everything that it has written must be in Ceph, and its disks must honour every later flush.
"""

from collections.abc import Iterator
import contextlib
import time
from typing import Any

import libvirt
from lxml import etree
from oslo_log import log as logging

from specreds_nova.host.disks import nodes as disk_nodes
from specreds_nova.host.disks import qmp

LOG = logging.getLogger(__name__)

# Nova's default for disks in Ceph.
_DURABLE = 'none'
_UNSAFE = 'unsafe'


class NotDurable(Exception):
    """A disk of a domain may lose writes that were acknowledged as flushed."""


def ignoring_flushes(domain: qmp.Domain) -> list[str]:
    """Return the block nodes of a running domain's RBD disks that ignore flushes.

    :raises NotDurable: QEMU does not report its block nodes
    """
    with _explained(domain):
        return _ignoring_flushes(domain, disk_nodes.disks(domain))


def harden(domain: qmp.Domain) -> list[str]:
    """Make the disks of a running domain durable. May be repeated, also during a merge.

    When this returns, everything that the guest has written is in Ceph, and its later flushes get
    there too.

    :param domain: a libvirt domain
    :returns: the block nodes that honour flushes, and did not before
    :raises NotDurable: a disk still ignores flushes; disks that were durable before still are
    """
    began = time.monotonic()
    with _explained(domain):
        disks = disk_nodes.disks(domain)
        before = _ignoring_flushes(domain, disks)
        if before:
            _honour_flushes(domain, disks)
        left = _ignoring_flushes(domain, disks)
        if left:
            raise NotDurable(f'domain {domain.name()} still ignores flushes in {", ".join(left)}: '
                             f'its disks are not durable; try again')
        _redefine(domain)
    if before:
        LOG.info('domain %s: %s honour flushes (%.0f ms)', domain.name(),
                 ', '.join(before), (time.monotonic() - began) * 1e3)
    return before


def flush(domain: qmp.Domain, disks: list[disk_nodes.Disk]) -> None:
    """Write to Ceph everything that was written to the volumes' own images.

    :param disks: durable disks, which may have overlays
    :raises NotDurable: some of the data may not have reached Ceph
    """
    with _explained(domain):
        bases = {name for disk in disks
                 for name in (disk.base.format_node, disk.base.storage_node)}
        # A reopen reports errors of its flush; no other command that makes QEMU flush does.
        _reopen(domain, [node for node in _options(domain, disks) if node['node-name'] in bases])


def speculative(xml: str) -> bool:
    """Return whether a definition of a domain has disks that ignore flushes."""
    return bool(_speculative(etree.fromstring(xml)))


def with_flushes(xml: str) -> str:
    """Return the definition of a domain with disks that honour flushes."""
    root = etree.fromstring(xml)
    for driver in _speculative(root):
        driver.set('cache', _DURABLE)
    return str(etree.tostring(root, encoding='unicode'))


def _speculative(root: Any) -> list[Any]:
    return [driver for disk in root.iterfind('./devices/disk[@type="network"]')
            for driver in disk.iterfind(f'driver[@cache="{_UNSAFE}"]')
            if disk.find('source[@protocol="rbd"]') is not None]


def _ignoring_flushes(domain: qmp.Domain, disks: list[disk_nodes.Disk]) -> list[str]:
    there = _nodes(domain)
    names = []
    for disk in disks:
        for layer in disk.layers:
            # Newer releases of libvirt make a node for the format only where it is needed.
            if layer.storage_node not in there:
                raise NotDurable(
                    f'QEMU of domain {domain.name()} has no block node {layer.storage_node} for '
                    f'{layer.image}: it is unknown whether {disk.target} is durable')
            names += [name for name in (layer.format_node, layer.storage_node)
                      if name in there and there[name]['cache']['no-flush']]
    return names


def _honour_flushes(domain: qmp.Domain, disks: list[disk_nodes.Disk]) -> None:
    options = _options(domain, disks)
    _reopen(domain, options)
    # A reopen flushes each node before it changes the node. The first flush is therefore still
    # ignored, after which QEMU takes the node for clean until something is written to it. The
    # header, written again unchanged, makes the flush of the second reopen a real one. Nothing was
    # written to a disk that is read-only.
    for disk in disks:
        if disk.chained and not disk.read_only:
            top = disk.layers[0].format_node
            qmp.run(domain, 'change-backing-file', device=top, image_node_name=top,
                    backing_file='')
    _reopen(domain, options)


def _reopen(domain: qmp.Domain, options: list[disk_nodes.Node]) -> None:
    # QEMU 7.2 aborts on an empty list.
    if options:
        qmp.run(domain, 'blockdev-reopen', options=options)


def _options(domain: qmp.Domain, disks: list[disk_nodes.Disk]) -> list[disk_nodes.Node]:
    there = _nodes(domain)
    secrets = {secret['name'] for secret in qmp.run(domain, 'qom-list', path='/objects')}
    return [node for disk in disks
            for node in disk_nodes.options(disk, there, secrets, no_flush=False)]


def _nodes(domain: qmp.Domain) -> dict[str, disk_nodes.Node]:
    return {node['node-name']: node
            for node in qmp.run(domain, 'query-named-block-nodes', flat=True)}


def _redefine(domain: qmp.Domain) -> None:
    """Make the disks durable in the stored definition, from which the domain may be started."""
    if not domain.isPersistent():
        return
    stored = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE)
    if speculative(stored):
        domain.connect().defineXML(with_flushes(stored))


@contextlib.contextmanager
def _explained(domain: qmp.Domain) -> Iterator[None]:
    """Convert errors of libvirt and QEMU into :class:`NotDurable`."""
    try:
        yield
    except (qmp.MonitorError, libvirt.libvirtError) as exc:
        raise NotDurable(f'the disks of domain {domain.name()} could not be made durable: {exc}'
                         ) from exc

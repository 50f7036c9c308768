# SPDX-License-Identifier: Apache-2.0
"""The flush barrier of a backup: from speculative disks to durable ones, while it runs.

A speculative domain's disks ignore flushes (cache mode ``unsafe``). Once its version is to become
the real one, everything that was written has to reach Ceph, and every flush from then on, too.
"""

import dataclasses
import time
from typing import Any

import libvirt
from lxml import etree
from oslo_log import log as logging

from specreds_nova.virt.disks import nodes as disk_nodes
from specreds_nova.virt.disks import qmp

LOG = logging.getLogger(__name__)

# What Nova gives disks in Ceph unless it is told otherwise.
_DURABLE = 'none'
_LOOSE = 'unsafe'


class NotDurable(Exception):
    """Some disk of a domain may lose what it was told is written."""


@dataclasses.dataclass(frozen=True)
class Report:
    """What was done.

    :param nodes: the block nodes that flush from now on, and did not before
    :param seconds: how long it took
    """

    nodes: tuple[str, ...]
    seconds: float


def loose(domain: qmp.Domain) -> list[str]:
    """Name the block nodes of a running domain's RBD disks that ignore flushes.

    :raises NotDurable: QEMU does not tell
    """
    with _explained(domain):
        return _loose(domain, disk_nodes.disks(domain))


def harden(domain: qmp.Domain) -> Report:
    """Make the disks of a running domain durable. May be repeated, also while they are merged.

    When this returns, everything that the guest has written is in Ceph, and whatever it flushes
    from then on gets there.

    :param domain: a libvirt domain
    :raises NotDurable: it could not be done; nothing that was durable before is less so now
    """
    began = time.monotonic()
    with _explained(domain):
        disks = disk_nodes.disks(domain)
        before = _loose(domain, disks)
        if before:
            _honour_flushes(domain, disks)
        left = _loose(domain, disks)
        if left:
            raise NotDurable(f'domain {domain.name()} still ignores flushes in {", ".join(left)}: '
                             f'its disks cannot be relied on; try again')
        _redefine(domain)
    report = Report(tuple(before), time.monotonic() - began)
    if before:
        LOG.info('domain %s: %s flush from now on (%.0f ms)', domain.name(),
                 ', '.join(before), report.seconds * 1e3)
    return report


def flush(domain: qmp.Domain, disks: list[disk_nodes.Disk]) -> None:
    """Get everything that was written to the volumes' own images into Ceph.

    :param disks: durable ones, over which something may lie

    :raises NotDurable: some of it may not have got there
    """
    with _explained(domain):
        bases = {name for disk in disks
                 for name in (disk.base.format_node, disk.base.storage_node)}
        # As a reopen does, which tells of errors, other than whatever else makes QEMU flush.
        _reopen(domain, [node for node in _options(domain, disks) if node['node-name'] in bases])


def speculative(xml: str) -> bool:
    """Tell whether a domain that is started from a definition has disks that ignore flushes."""
    return bool(_speculative(etree.fromstring(xml)))


def strict(xml: str) -> str:
    """Give the definition of a domain with disks that honour flushes."""
    root = etree.fromstring(xml)
    for driver in _speculative(root):
        driver.set('cache', _DURABLE)
    return str(etree.tostring(root, encoding='unicode'))


def _speculative(root: Any) -> list[Any]:
    return [driver for disk in root.iterfind('./devices/disk[@type="network"]')
            for driver in disk.iterfind(f'driver[@cache="{_LOOSE}"]')
            if disk.find('source[@protocol="rbd"]') is not None]


def _loose(domain: qmp.Domain, disks: list[disk_nodes.Disk]) -> list[str]:
    there = _nodes(domain)
    found = []
    for disk in disks:
        for layer in disk.layers:
            # Newer releases of libvirt have a node of its own for the format only where needed.
            if layer.storage_node not in there:
                raise NotDurable(
                    f'QEMU of domain {domain.name()} knows no block node {layer.storage_node} '
                    f'for {layer.image}: nobody can tell whether {disk.target} is durable')
            found += [name for name in (layer.format_node, layer.storage_node)
                      if name in there and there[name]['cache']['no-flush']]
    return found


def _honour_flushes(domain: qmp.Domain, disks: list[disk_nodes.Disk]) -> None:
    options = _options(domain, disks)
    _reopen(domain, options)
    # A reopen flushes each node before it changes it: the first one still as a flush that is not
    # forced out, after which QEMU takes the node for flushed until something is written to it.
    # Writing the header anew, as it is, makes the second one real.
    for disk in disks:
        if disk.chained:
            top = disk.layers[0].format_node
            qmp.run(domain, 'change-backing-file', device=top, image_node_name=top,
                    backing_file='')
    _reopen(domain, options)


def _reopen(domain: qmp.Domain, options: list[disk_nodes.Node]) -> None:
    # QEMU 7.2 aborts when it is given none.
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
    """Have the domain start with durable disks, should it be started from its definition."""
    if not domain.isPersistent():
        return
    stored = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE)
    if speculative(stored):
        domain.connect().defineXML(strict(stored))


class _explained:  # noqa: N801  used as a function
    """Report whatever libvirt or QEMU refuse as what it means."""

    def __init__(self, domain: qmp.Domain) -> None:
        self._domain = domain

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: Any, exc: BaseException | None, _trace: Any) -> None:
        if isinstance(exc, (qmp.MonitorError, libvirt.libvirtError)):
            raise NotDurable(f'the disks of domain {self._domain.name()} could not be made '
                             f'durable: {exc}') from exc

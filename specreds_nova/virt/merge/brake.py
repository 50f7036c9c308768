# SPDX-License-Identifier: Apache-2.0
"""Slows the writes of a guest down for the last moment of a copy that they keep pace with.

The limit is only in the running domain: the stored definition keeps the disk's own limits. The
brake is released while the guest is suspended, and before the record changes. So a domain whose
brake is pressed has overlays, and the next merge releases the brake after a crash.
"""

import libvirt

from specreds_nova.virt.disks import nodes as disk_nodes
from specreds_nova.virt.disks import qmp

# For a write of any size, QEMU copies so many bytes again.
_COPIED_PER_WRITE = 64 << 10


def press(domain: qmp.Domain, rate: int) -> None:
    """Limit the writes to all disks together, so that QEMU copies so few bytes per second again.

    :param rate: bytes per second
    """
    disks = disk_nodes.chained(domain)
    each = rate // max(1, len(disks))
    for disk in disks:
        own = _own(domain, disk)
        limits = {}
        for unit, limit in (('bytes', each), ('iops', each // _COPIED_PER_WRITE)):
            total, read, write = (own.get(f'{kind}_{unit}_sec', 0)
                                  for kind in ('total', 'read', 'write'))
            limits[f'read_{unit}_sec'] = read or total
            limits[f'write_{unit}_sec'] = min(
                limit for limit in (total, write, max(1, limit)) if limit)
        domain.setBlockIoTune(disk.target, limits, libvirt.VIR_DOMAIN_AFFECT_LIVE)


def release(domain: qmp.Domain) -> None:
    """Restore the own limits of the disks. May be repeated."""
    for disk in disk_nodes.chained(domain):
        own = _own(domain, disk)
        if _numbers(domain.blockIoTune(disk.target, libvirt.VIR_DOMAIN_AFFECT_LIVE)) != own:
            domain.setBlockIoTune(disk.target, own, libvirt.VIR_DOMAIN_AFFECT_LIVE)


def _own(domain: qmp.Domain, disk: disk_nodes.Disk) -> dict[str, int]:
    return _numbers(domain.blockIoTune(disk.target, libvirt.VIR_DOMAIN_AFFECT_CONFIG))


def _numbers(tune: dict[str, object]) -> dict[str, int]:
    """Return limits without the name of their group."""
    return {name: value for name, value in tune.items() if isinstance(value, int)}

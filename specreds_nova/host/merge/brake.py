# SPDX-License-Identifier: Apache-2.0
"""Slows the writes of a guest down for the last moment of a copy that they keep pace with.

The limit is only in the running domain: the stored definition keeps the disk's own limits. The
brake is released while the guest is suspended, and before the record changes. So a domain whose
brake is pressed has overlays, and the next merge releases the brake after a crash.
"""

import libvirt

from specreds_nova.host.disks import nodes as disk_nodes
from specreds_nova.host.disks import qmp

# For a write of any size, QEMU copies so many bytes again.
_COPIED_PER_WRITE = 64 << 10
# Bytes per second that each disk may write at least: a guest that waits for half a minute takes
# the disk for broken.
_LEAST = 1 << 20
_KINDS = ('total', 'read', 'write')
_LENGTH = '_max_length'


def press(domain: qmp.Domain, rate: int) -> None:
    """Limit the writes to all disks together, so that QEMU copies so few bytes per second again.

    :param rate: bytes per second
    """
    disks = disk_nodes.chained(domain)
    each = max(_LEAST, rate // max(1, len(disks)))
    for disk in disks:
        if (own := _own(domain, disk)) is None:
            continue
        limits: dict[str, int] = {}
        for unit, limit in (('bytes', each), ('iops', each // _COPIED_PER_WRITE)):
            total, read, write = (own[f'{kind}_{unit}_sec'] for kind in _KINDS)
            limits |= {
                f'read_{unit}_sec': read or total,
                f'write_{unit}_sec': min(
                    lowest for lowest in (total, write, limit) if lowest),
                # libvirt keeps no limit of a burst without the limit itself.
                **{f'{kind}_{unit}_sec_max': 0 for kind in _KINDS}}
        domain.setBlockIoTune(disk.target, limits, libvirt.VIR_DOMAIN_AFFECT_LIVE)


def release(domain: qmp.Domain) -> None:
    """Restore the own limits of the disks. May be repeated."""
    for disk in disk_nodes.chained(domain):
        if (own := _own(domain, disk)) is None:
            continue
        live = domain.blockIoTune(disk.target, libvirt.VIR_DOMAIN_AFFECT_LIVE)
        if any(live[name] != value for name, value in own.items() if not name.endswith(_LENGTH)):
            domain.setBlockIoTune(disk.target, own, libvirt.VIR_DOMAIN_AFFECT_LIVE)


def _own(domain: qmp.Domain, disk: disk_nodes.Disk) -> dict[str, int] | None:
    """Return the own limits of a disk, without the name of their group; None if none are stored.

    A length of 0 stands for a default, which libvirt accepts in no request.
    """
    try:
        tune = domain.blockIoTune(disk.target, libvirt.VIR_DOMAIN_AFFECT_CONFIG)
    except libvirt.libvirtError:
        return None
    return {name: value for name, value in tune.items()
            if isinstance(value, int) and (value or not name.endswith(_LENGTH))}

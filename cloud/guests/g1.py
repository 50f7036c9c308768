# SPDX-License-Identifier: Apache-2.0
"""Guest G1: a kernel and busybox, ready seconds after power on.

It answers pings; ``GET /who`` on port 80 gives an id that is another one after each boot, and
``/cgi-bin/heartbeat`` shows and sets how often it writes to its disk (see ``files/g1/heartbeat``).
``/cgi-bin/network`` shows its addresses and routes. Port 7 gives back what it gets.

A client of DHCPv6, with the libraries it needs, is on its disk: only a guest that is to have its
address by DHCPv6 reads it.
"""

import pathlib
import tarfile

from cloud import commands
from cloud.guests import build
from cloud.guests import disk
from cloud.guests import kernel as kernels
from cloud.guests import packages

_FILES = build.FILES / 'g1'
_BOOT_MIB, _DATA_MIB = 24, 5
_MAGIC = b'G1 heartbeat'
# Where the archive of the client of DHCPv6 begins in the second partition; see files/g1/dhcpv6.
_ARCHIVE = 1 * disk.MIB
_PACKAGES = ('libc6', 'libfl2', 'wide-dhcpv6-client')
# Its files by their paths in the guest, with patterns of those in the packages.
_CLIENT = {
    'bin/dhcp6c': 'usr/sbin/dhcp6c',
    'lib64/ld-linux-x86-64.so.2': '**/ld-linux-x86-64.so.2',
    'lib/x86_64-linux-gnu/libc.so.6': '**/libc.so.6',
    'lib/x86_64-linux-gnu/libfl.so.2': '**/libfl.so.2',
}


def _make(shop: build.Workshop, image: pathlib.Path) -> dict[str, object]:
    initrd, client = shop.root / 'initrd', shop.root / 'client.tar'
    kernels.initramfs(initrd, shop.kernel, shop.busybox, {
        'init': _FILES / 'init', 'bin/heartbeat': _FILES / 'heartbeat',
        'cgi-bin/heartbeat': _FILES / 'cgi-heartbeat', 'bin/dhcpv6': _FILES / 'dhcpv6',
        'cgi-bin/network': _FILES / 'cgi-network', 'lib/boot.sh': build.COMMON / 'boot.sh',
        'lib/guest.sh': build.COMMON / 'guest.sh', 'lib/lease': build.COMMON / 'lease',
        'etc/acpi/PWRF/00000080': build.COMMON / 'power-button',
    }, shop.applets())
    data = disk.write(image, shop.tools, {'vmlinuz': shop.kernel.image, 'initrd': initrd},
                      build.CMDLINE, _BOOT_MIB, _DATA_MIB)
    _archive(shop, client)
    with image.open('r+b') as file:
        file.seek(data)
        file.write(_MAGIC)
        file.seek(data + _ARCHIVE)
        file.write(client.read_bytes())
    return {'ready': 'G1-READY', 'http': 80}


def _archive(shop: build.Workshop, archive: pathlib.Path) -> None:
    """Write the archive of the client of DHCPv6."""
    root = shop.root / 'client'
    root.mkdir()
    for name in _PACKAGES:
        packages.extract(shop.debs[name], root)
    with tarfile.open(archive, 'w', dereference=True) as tar:
        for name, pattern in _CLIENT.items():
            source = next((path for path in sorted(root.glob(pattern)) if path.exists()), None)
            if source is None:
                raise commands.CloudError(f'the packages of guest g1 have no {pattern}')
            tar.add(source, name)
    if archive.stat().st_size > _DATA_MIB * disk.MIB - _ARCHIVE:
        raise commands.CloudError(f'{archive.name} does not fit on the disk of guest g1')


GUEST = build.Guest(_PACKAGES, lambda name: name not in _PACKAGES, _make)

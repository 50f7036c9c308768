# SPDX-License-Identifier: Apache-2.0
"""Guest G1: a kernel and busybox, ready seconds after power on.

It answers pings; ``GET /who`` on port 80 gives an id that is another one after each boot, and
``/cgi-bin/heartbeat`` shows and sets how often it writes to its disk (see ``files/g1/heartbeat``).
Port 7 gives back what it gets.
"""

import pathlib

from cloud.guests import build
from cloud.guests import disk
from cloud.guests import kernel as kernels

_FILES = build.FILES / 'g1'
_BOOT_MIB, _DATA_MIB = 24, 1
_MAGIC = b'G1 heartbeat'


def _make(shop: build.Workshop, image: pathlib.Path) -> dict[str, object]:
    initrd = shop.root / 'initrd'
    kernels.initramfs(initrd, shop.kernel, shop.busybox, {
        'init': _FILES / 'init', 'bin/heartbeat': _FILES / 'heartbeat',
        'cgi-bin/heartbeat': _FILES / 'cgi-heartbeat', 'lib/boot.sh': build.COMMON / 'boot.sh',
        'lib/guest.sh': build.COMMON / 'guest.sh', 'lib/lease': build.COMMON / 'lease',
        'etc/acpi/PWRF/00000080': build.COMMON / 'power-button',
    }, shop.applets())
    data = disk.write(image, shop.tools, {'vmlinuz': shop.kernel.image, 'initrd': initrd},
                      build.CMDLINE, _BOOT_MIB, _DATA_MIB)
    with image.open('r+b') as file:
        file.seek(data)
        file.write(_MAGIC)
    return {'ready': 'G1-READY', 'http': 80}


GUEST = build.Guest((), lambda _name: True, _make)

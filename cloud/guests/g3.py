# SPDX-License-Identifier: Apache-2.0
"""Guest G3: an ordinary Debian, as its packages install themselves.

Kernel, initramfs, systemd, udev, cloud-init, netplan, sshd and PostgreSQL are Debian's, with their
default settings. Added are a database for user ``tenant``, as guest G2 has, which listens on the
network, and longer timeouts of systemd, for machines without KVM. Nothing tells when the guest is
ready.

To make it takes root: the packages' own scripts run in its root.
"""

import os
import pathlib
import shutil

from cloud import commands
from cloud.guests import build
from cloud.guests import disk
from cloud.guests import packages
from cloud.matrix import jail

_FILES = build.FILES / 'g3'
_BOOT_MIB, _ROOT_MIB = 96, 1936
_UUID = '6e1e5bd0-0000-4000-8000-000000000013'
# The kernel does not check its timer where there is KVM. On a busy machine without, it would fail.
_CMDLINE = (f'root=UUID={_UUID} ro quiet console=tty0 console=ttyS0,115200 {build.WIRE} '
            'no_timer_check')
# Manuals and translations: Debian's images for clouds have them.
_EXCLUDED = ('/usr/share/doc/*', '/usr/share/man/*', '/usr/share/locale/*')
_WANTED = (
    '?essential', 'usr-is-merged', 'e2fsprogs', 'zstd', build.KERNEL, 'initramfs-tools',
    'systemd-sysv', 'udev', 'dbus', 'libpam-systemd', 'systemd-resolved', 'systemd-timesyncd',
    'netplan.io', 'cloud-init', 'cloud-guest-utils', 'openssh-server', 'postgresql')
# Directories that are links where /usr is merged.
_MERGED = ('bin', 'sbin', 'lib', 'lib64')


def _make(shop: build.Workshop, image: pathlib.Path) -> dict[str, object]:
    if os.geteuid():
        raise commands.CloudError('guest g3 needs root: its packages install themselves')
    root = shop.root / 'root'
    _unpack(shop, root)
    shop.progress('installing its packages')
    jail.read(root, ['/furnish/furnish', shop.password])
    shutil.rmtree(root / 'furnish')
    shop.progress('writing the disk')
    [initrd] = (root / 'boot').glob('initrd.img-*')
    offset = disk.write(image, shop.tools, {'vmlinuz': shop.kernel.image, 'initrd': initrd},
                        _CMDLINE, _BOOT_MIB, _ROOT_MIB)
    disk.file_system(image, offset, root, _ROOT_MIB, '-L', 'g3root', '-U', _UUID)
    return {'ready': ' login: ', 'port': 5432, 'user': 'tenant', 'database': 'tenant',
            'password': shop.password}


def _unpack(shop: build.Workshop, root: pathlib.Path) -> None:
    """Lay out all files of the packages, so that their scripts can run in any order."""
    for name in _MERGED:
        (root / 'usr' / name).mkdir(parents=True)
        (root / name).symlink_to(f'usr/{name}')
    debs = root / 'furnish/debs'
    debs.mkdir(parents=True)
    for name, deb in shop.debs.items():
        if name not in build.TOOLS:
            packages.extract(deb, root, [f'.{pattern}' for pattern in _EXCLUDED])
            os.link(deb, debs / deb.name)
    for name in ('proc', 'sys', 'dev', 'run'):
        (root / name).mkdir(exist_ok=True)
    (root / 'etc/dpkg/dpkg.cfg.d/guest').write_text(
        'force-unsafe-io\n' + ''.join(f'path-exclude={pattern}\n' for pattern in _EXCLUDED))
    for source, name in ((_FILES / 'furnish', 'furnish'), (build.COMMON / 'schema.sql',
                                                           'schema.sql')):
        shutil.copy(source, root / 'furnish' / name)
    (root / 'furnish/uuid').write_text(_UUID)
    (root / 'etc/netplan').mkdir(exist_ok=True)
    network = root / 'etc/netplan/90-default.yaml'
    shutil.copyfile(_FILES / 'network.yaml', network)
    network.chmod(0o600)


GUEST = build.Guest(_WANTED, lambda _name: False, _make, everywhere=False)

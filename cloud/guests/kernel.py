# SPDX-License-Identifier: Apache-2.0
"""A distribution's kernel for a guest: its image, and an initramfs with a few modules."""

from collections.abc import Iterable, Mapping
import os
import pathlib
import re
import stat

from cloud import commands

_DEPENDS = re.compile(rb'(?:^|\0)depends=([^\0]*)\0')

# What a guest of any libvirt machine with virtio devices needs, and what its power button needs.
MODULES = ('virtio_pci', 'virtio_blk', 'virtio_scsi', 'sd_mod', 'virtio_net', 'virtio_console',
           'virtio_rng', 'evdev', 'button')


class Kernel:
    """An unpacked kernel package.

    :param root: the directory that it was unpacked into
    :raises CloudError: there is not exactly one kernel in it
    """

    def __init__(self, root: pathlib.Path) -> None:
        images = list((root / 'boot').glob('vmlinuz-*'))
        if len(images) != 1:
            raise commands.CloudError(f'{root} holds {len(images)} kernels instead of one')
        self.image = images[0]
        self.version = self.image.name.removeprefix('vmlinuz-')
        self._files = {_name(path): path for path
                       in (root / 'lib/modules' / self.version).rglob('*.ko')}

    def modules(self, names: Iterable[str]) -> list[pathlib.Path]:
        """Return the files of modules and of those they need, in the order to load them.

        One that this kernel has built in has no file, and is left out.
        """
        order: dict[str, pathlib.Path] = {}

        def add(name: str) -> None:
            path = self._files.get(name)
            if path is None or name in order:
                return
            match = _DEPENDS.search(path.read_bytes())
            for needed in (match[1].decode() if match else '').split(','):
                add(needed.replace('-', '_'))
            order[name] = path

        for name in names:
            add(name)
        return list(order.values())


def initramfs(target: pathlib.Path, kernel: Kernel, busybox: pathlib.Path,
              files: Mapping[str, pathlib.Path], applets: Iterable[str]) -> None:
    """Write an initramfs: busybox, the modules of :data:`MODULES`, and files of one's own.

    ``/modules/order`` lists the modules in the order to load them.

    :param files: by path in the initramfs, without a leading slash
    :param applets: names under which busybox is to be found in ``/bin``
    """
    modules = kernel.modules(MODULES)
    content: dict[str, bytes | pathlib.Path] = {
        'bin/busybox': busybox, **files,
        **{f'modules/{path.name}': path for path in modules},
        'modules/order': ''.join(f'{path.name}\n' for path in modules).encode(),
    }
    with target.open('wb') as file:
        archive = _Cpio()
        for name in ('proc', 'sys', 'dev', 'run', 'tmp', 'root', 'etc'):
            archive.directory(name)
        for name, source in sorted(content.items()):
            if isinstance(source, bytes):
                archive.file(name, source, executable=False)
            else:
                archive.file(name, source.read_bytes(), os.access(source, os.X_OK))
        for applet in sorted(set(applets)):
            archive.link(f'bin/{applet}', 'busybox')
        file.write(archive.end())


class _Cpio:
    """Writes the "newc" format: the only one that a kernel unpacks."""

    def __init__(self) -> None:
        self._out = bytearray()
        self._made: set[str] = set()
        self._inode = 0

    def directory(self, name: str) -> None:
        """Add a directory and those above it, once."""
        parent, _, _ = name.rpartition('/')
        if parent:
            self.directory(parent)
        if name not in self._made:
            self._made.add(name)
            self._add(name, stat.S_IFDIR | 0o755, b'')

    def file(self, name: str, content: bytes, executable: bool) -> None:
        """Add a file."""
        parent, _, _ = name.rpartition('/')
        if parent:
            self.directory(parent)
        self._add(name, stat.S_IFREG | (0o755 if executable else 0o644), content)

    def link(self, name: str, target: str) -> None:
        """Add a symbolic link."""
        self._add(name, stat.S_IFLNK | 0o777, target.encode())

    def end(self) -> bytes:
        """Return the whole archive."""
        self._add('TRAILER!!!', 0, b'')
        return bytes(self._out)

    def _add(self, name: str, mode: int, content: bytes) -> None:
        self._inode += 1
        path = name.encode() + b'\0'
        fields = (self._inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(path), 0)
        self._out += b'070701' + b''.join(b'%08X' % field for field in fields) + path
        self._pad()
        self._out += content
        self._pad()

    def _pad(self) -> None:
        self._out += bytes(-len(self._out) % 4)


def _name(path: pathlib.Path) -> str:
    return path.stem.replace('-', '_')

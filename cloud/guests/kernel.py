# SPDX-License-Identifier: Apache-2.0
"""A distribution's kernel for a guest: its image, and an initramfs with a few modules."""

from collections.abc import Iterable, Mapping
import dataclasses
import lzma
import os
import pathlib
import re
import stat
import subprocess

from cloud import commands

_DEPENDS = re.compile(rb'(?:^|\0)depends=([^\0]*)\0')

# What a guest of any libvirt machine with virtio devices needs, and what its power button needs.
MODULES = ('virtio_pci', 'virtio_blk', 'virtio_scsi', 'sd_mod', 'virtio_net', 'virtio_console',
           'virtio_rng', 'evdev', 'button')


@dataclasses.dataclass(frozen=True)
class Module:
    """A module of a kernel, not compressed.

    :param name: of its file
    """

    name: str
    content: bytes


class Kernel:
    """The unpacked packages of a kernel.

    :param root: the directory that they were unpacked into
    :raises CloudError: there is not exactly one kernel in it
    """

    def __init__(self, root: pathlib.Path) -> None:
        images = {path.name.removeprefix('vmlinuz-'): path
                  for path in (root / 'boot').glob('vmlinuz-*')}
        # Debian 14 keeps the kernel beside its modules.
        images |= {path.parent.name: path for path in root.glob('usr/lib/modules/*/vmlinuz')}
        if len(images) != 1:
            raise commands.CloudError(f'{root} holds {len(images)} kernels instead of one')
        [(self.version, self.image)] = images.items()
        # Packages of a distribution with a merged /usr have them in usr/lib.
        merged, split = (root / lib / 'modules' / self.version for lib in ('usr/lib', 'lib'))
        directory = merged if merged.exists() else split
        self._files = {_name(path.name): path for path in directory.rglob('*.ko*')}
        built_in = (directory / 'modules.builtin').read_text().split()
        self._built_in = {_name(pathlib.PurePath(path).name) for path in built_in}

    def modules(self, names: Iterable[str]) -> list[Module]:
        """Return modules and those they need, in the order to load them.

        One that this kernel has built in has no file, and is left out.

        :raises CloudError: this kernel does not have one, or it cannot be unpacked
        """
        order: dict[str, Module] = {}

        def add(name: str) -> None:
            if name in order or name in self._built_in:
                return
            if name not in self._files:
                raise commands.CloudError(f'kernel {self.version} has no module {name}')
            path = self._files[name]
            content = _unpacked(path)
            match = _DEPENDS.search(content)
            for needed in filter(None, (match[1].decode() if match else '').split(',')):
                add(_name(needed))
            order[name] = Module(f'{path.name.partition(".")[0]}.ko', content)

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
        **{f'modules/{module.name}': module.content for module in modules},
        'modules/order': ''.join(f'{module.name}\n' for module in modules).encode(),
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


def _name(file: str) -> str:
    """Return a module's name by the name of its file: files may have hyphens instead."""
    return file.partition('.')[0].replace('-', '_')


def _unpacked(path: pathlib.Path) -> bytes:
    """Return the content of a module's file; many kernels have compressed ones.

    :raises CloudError: this machine cannot unpack it
    """
    try:
        match path.suffix:
            case '.ko':
                return path.read_bytes()
            case '.xz':
                return lzma.decompress(path.read_bytes())
            case '.zst':
                # Python has this format as of 3.14 only.
                return subprocess.run(['zstd', '-dcq', str(path)], check=True,
                                      capture_output=True, stdin=subprocess.DEVNULL).stdout
    except (OSError, lzma.LZMAError, subprocess.CalledProcessError) as exc:
        raise commands.CloudError(f'{path.name} cannot be unpacked: {exc}') from exc
    raise commands.CloudError(f'{path.name} is compressed in an unknown way')

# SPDX-License-Identifier: Apache-2.0
"""A raw disk that BIOS and UEFI boot: a FAT partition with a kernel, and one of data.

A BIOS boots syslinux; UEFI boots Debian's signed shim, GRUB and kernel, so that secure boot works.
"""

from collections.abc import Mapping
import pathlib
import struct

from cloud import commands

MIB = 1 << 20
_SECTOR = 512
# Where the first partition begins, in MiB.
_START = 1
_FAT_LBA, _LINUX = 0x0c, 0x83
_TABLE, _SIGNATURE = 446, 510
_TIMEOUT = 120.0

_SYSLINUX_CFG = """\
SERIAL 0 115200
DEFAULT linux
PROMPT 0
LABEL linux
 LINUX vmlinuz
 INITRD initrd
 APPEND {cmdline}
"""

_GRUB_CFG = """\
set timeout=0
linux /vmlinuz {cmdline}
initrd /initrd
boot
"""
_SHIM = 'usr/lib/shim/shimx64.efi.signed'
_GRUB = 'usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed'


def write(image: pathlib.Path, tools: pathlib.Path, boot: Mapping[str, pathlib.Path],
          cmdline: str, boot_mib: int, data_mib: int) -> int:
    """Make the disk; its second partition is empty.

    :param tools: where mtools, syslinux, syslinux-common, shim and GRUB were unpacked
    :param boot: what the boot partition holds, by name: ``vmlinuz`` and ``initrd``
    :param cmdline: the kernel's command line
    :param boot_mib: size of the boot partition in MiB
    :param data_mib: size of the second partition in MiB
    :returns: where the second partition begins, in bytes
    """
    first, second = _START * MIB, (_START + boot_mib) * MIB
    mbr = (tools / 'usr/lib/syslinux/mbr/mbr.bin').read_bytes()
    with image.open('wb') as file:
        file.truncate(second + data_mib * MIB)
        file.write(mbr[:440])
        file.seek(_TABLE)
        file.write(_entry(_FAT_LBA, first, boot_mib * MIB, active=True)
                   + _entry(_LINUX, second, data_mib * MIB))
        file.seek(_SIGNATURE)
        file.write(b'\x55\xaa')
    configs = {}
    for name, template in (('syslinux.cfg', _SYSLINUX_CFG), ('EFI/debian/grub.cfg', _GRUB_CFG)):
        configs[name] = image.with_name(f'{image.name}.{pathlib.Path(name).name}')
        configs[name].write_text(template.format(cmdline=cmdline))
    drive = f'{image}@@{first}'
    _tool(tools, 'mformat', '-i', drive, '-T', str(boot_mib * MIB // _SECTOR), '-h', '64',
          '-s', '32', '-H', str(first // _SECTOR), '-v', 'BOOT', '::')
    for directory in ('EFI', 'EFI/BOOT', 'EFI/debian'):
        _tool(tools, 'mmd', '-i', drive, f'::{directory}')
    for name, path in {**boot, **configs, 'EFI/BOOT/BOOTX64.EFI': tools / _SHIM,
                       'EFI/BOOT/grubx64.efi': tools / _GRUB}.items():
        _tool(tools, 'mcopy', '-i', drive, str(path), f'::{name}')
    _tool(tools, 'syslinux', '--install', '--offset', str(first), str(image))
    for config in configs.values():
        config.unlink()
    return second


def file_system(image: pathlib.Path, offset: int, root: pathlib.Path, size_mib: int,
                *options: str) -> None:
    """Make the root file system of a disk, with the files of a directory.

    :param offset: where it begins, in bytes
    :param options: for mke2fs
    """
    commands.run(
        ['mke2fs', '-q', '-F', '-t', 'ext4', '-b', '4096', '-m', '0', *options,
         # Otherwise the guest's kernel would go on with it, by writing.
         '-E', f'offset={offset},root_owner=0:0,lazy_itable_init=0,lazy_journal_init=0',
         '-d', str(root), str(image), f'{size_mib}M'],
        _TIMEOUT, {'PATH': '/usr/sbin:/sbin:/usr/bin:/bin'})


def _entry(kind: int, offset: int, size: int, active: bool = False) -> bytes:
    # Cylinders, heads and sectors that say: look at the numbers that follow.
    beyond = b'\xfe\xff\xff'
    return struct.pack('<B3sB3sII', 0x80 if active else 0, beyond, kind, beyond,
                       offset // _SECTOR, size // _SECTOR)


def _tool(tools: pathlib.Path, *argv: str) -> None:
    # syslinux calls mtools.
    commands.run(argv, _TIMEOUT, {
        'PATH': f'{tools}/usr/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'MTOOLS_SKIP_CHECK': '1'})

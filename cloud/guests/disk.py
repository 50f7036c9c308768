# SPDX-License-Identifier: Apache-2.0
"""A raw disk that a BIOS boots: a FAT partition with syslinux and a kernel, and one of data."""

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


def write(image: pathlib.Path, tools: pathlib.Path, boot: Mapping[str, pathlib.Path],
          cmdline: str, boot_mib: int, data_mib: int) -> int:
    """Make the disk; its second partition is empty.

    :param tools: where mtools, syslinux and syslinux-common were unpacked
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
    config = image.with_name(f'{image.name}.syslinux.cfg')
    config.write_text(_SYSLINUX_CFG.format(cmdline=cmdline))
    drive = f'{image}@@{first}'
    _tool(tools, 'mformat', '-i', drive, '-T', str(boot_mib * MIB // _SECTOR), '-h', '64',
          '-s', '32', '-H', str(first // _SECTOR), '-v', 'BOOT', '::')
    for name, path in {**boot, 'syslinux.cfg': config}.items():
        _tool(tools, 'mcopy', '-i', drive, str(path), f'::{name}')
    _tool(tools, 'syslinux', '--install', '--offset', str(first), str(image))
    config.unlink()
    return second


def _entry(kind: int, offset: int, size: int, active: bool = False) -> bytes:
    # Cylinders, heads and sectors that say: look at the numbers that follow.
    beyond = b'\xfe\xff\xff'
    return struct.pack('<B3sB3sII', 0x80 if active else 0, beyond, kind, beyond,
                       offset // _SECTOR, size // _SECTOR)


def _tool(tools: pathlib.Path, *argv: str) -> None:
    # syslinux calls mtools.
    commands.run(argv, _TIMEOUT, {
        'PATH': f'{tools}/usr/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'MTOOLS_SKIP_CHECK': '1'})

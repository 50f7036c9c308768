# SPDX-License-Identifier: Apache-2.0
"""The recipe of a guest, and the directory that it is made in."""

from collections.abc import Callable
import dataclasses
import pathlib
import re

from cloud import commands
from cloud.guests import kernel as kernels
from cloud.guests import packages

FILES = pathlib.Path(__file__).parent / 'files'
COMMON = FILES / 'common'

# Checksums are not computed by a switch in user space that a guest's packets go through.
WIRE = 'virtio_net.csum=0 virtio_net.gso=0'
# Without KVM, tests of ciphers and pages that are zeroed twice are a tenth of the time that
# booting takes.
CMDLINE = (f'console=ttyS0,115200 quiet net.ifnames=0 {WIRE} '
           'tsc=reliable no_timer_check mitigations=off random.trust_cpu=on panic=10 '
           'cryptomgr.notests init_on_alloc=0')
KERNEL = 'linux-image-cloud-amd64'
# Until Debian 13, one package is the whole kernel.
_KERNEL_PART = re.compile(r'linux-(image|binary|modules|base)-\d')
TOOLS = ('busybox-static', 'mtools', 'syslinux', 'syslinux-common', 'shim-signed',
         'grub-efi-amd64-signed')


@dataclasses.dataclass(frozen=True)
class Workshop:
    """A temporary directory in which a guest is made.

    :param debs: the packages by name, as they were downloaded
    :param tools: with busybox, mtools, syslinux, shim and GRUB unpacked in it
    :param password: of whatever account the guest offers
    """

    root: pathlib.Path
    debs: dict[str, pathlib.Path]
    tools: pathlib.Path
    kernel: kernels.Kernel
    password: str
    progress: commands.Progress

    @property
    def busybox(self) -> pathlib.Path:
        """The path of a statically linked busybox."""
        # Packages of a distribution with a merged /usr have it in usr/bin.
        merged = self.tools / 'usr/bin/busybox'
        return merged if merged.exists() else self.tools / 'bin/busybox'

    def applets(self) -> list[str]:
        """Return the names of busybox's applets."""
        return [name for name in commands.run([str(self.busybox), '--list']).split()
                if name != 'busybox']


@dataclasses.dataclass(frozen=True)
class Guest:
    """The recipe of a guest.

    :param wanted: its packages apart from kernel and tools; those they need come along
    :param unwanted: whether a package that comes along is left out, by its name
    :param make: makes the image at a path, and returns the facts needed to use it
    :param everywhere: whether each cloud with compute hosts has it, not only one that asks for it
    """

    wanted: tuple[str, ...]
    unwanted: Callable[[str], bool]
    make: Callable[[Workshop, pathlib.Path], dict[str, object]]
    everywhere: bool = True


def is_kernel(name: str) -> bool:
    """Return whether a package is a part of a kernel, not one that depends on the newest one."""
    return _KERNEL_PART.match(name) is not None


def workshop(root: pathlib.Path, debs: list[pathlib.Path], password: str,
             progress: commands.Progress) -> Workshop:
    """Unpack kernel and tools into a directory."""
    by_name = {path.name.split('_')[0]: path for path in debs}
    tools, kernel = root / 'tools', root / 'kernel'
    tools.mkdir()
    kernel.mkdir()
    for name, path in by_name.items():
        if is_kernel(name):
            packages.extract(path, kernel)
        elif name in TOOLS:
            packages.extract(path, tools, ['./usr/share/doc/*', './usr/share/man/*'])
    return Workshop(root, by_name, tools, kernels.Kernel(kernel), password,
                    progress)

# SPDX-License-Identifier: Apache-2.0
"""A guest under QEMU alone: to try an image, and to find out whether KVM works here."""

from collections.abc import Iterator, Sequence
import contextlib
import os
import pathlib
import re
import subprocess
import tempfile
import time

from cloud import commands
from cloud import deadline

_POLL_S = 0.05


class Machine:
    """A guest that runs while its context lasts.

    :param console: file with the output of its console so far
    """

    def __init__(self, process: 'subprocess.Popen[bytes]', console: pathlib.Path) -> None:
        self.process = process
        self.console = console

    def wait(self, pattern: str, timeout: float) -> str:
        """Wait for a line of the console, and return it.

        :param pattern: regular expression that some part of the line matches
        :param timeout: seconds on a machine that has nothing else to do
        :raises CloudError: it has not by then, or QEMU has ended
        """
        wanted = re.compile(f'^.*(?:{pattern}).*$', re.MULTILINE)
        limit = deadline.Deadline(timeout)
        while True:
            ended = self.process.poll()
            said = self.console.read_text(errors='replace').replace('\r', '')
            if match := wanted.search(said):
                return match[0]
            if ended is not None or limit.passed:
                how = (f'QEMU has ended ({ended})' if ended is not None
                       else f'{limit.elapsed:.0f} s passed')
                raise commands.CloudError(
                    f'the guest did not say {pattern}: {how}; it said: {said[-500:].strip()}')
            time.sleep(_POLL_S)


@contextlib.contextmanager
def machine(disk: pathlib.Path, acceleration: str, memory_mib: int = 128,
            more: Sequence[str] = (), *, snapshot: bool = True) -> Iterator[Machine]:
    """Boot a disk.

    :param acceleration: `tcg` or `kvm`
    :param more: further arguments for QEMU
    :param snapshot: leave the disk as it is: what the guest writes is lost with it
    :raises CloudError: there is no QEMU
    """
    with tempfile.TemporaryDirectory(prefix='specreds-boot-') as work:
        console = pathlib.Path(work, 'console')
        drive = f'file={disk},format=raw,if=virtio,snapshot={"on" if snapshot else "off"}'
        argv = ['qemu-system-x86_64', '-accel', acceleration, '-cpu', 'max', '-m',
                str(memory_mib), '-nodefaults', '-display', 'none', '-serial', f'file:{console}',
                '-drive', drive, *more]
        console.touch()
        try:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
        except FileNotFoundError:
            raise commands.CloudError(f'{argv[0]} is not installed; run ./run setup') from None
        try:
            yield Machine(process, console)
        finally:
            process.kill()
            process.wait()


def kvm_works(disk: pathlib.Path, ready: str, timeout: float) -> bool:
    """Find out whether a guest gets ready with KVM.

    A `/dev/kvm` that opens proves nothing: inside some virtual machines QEMU aborts or hangs.

    :param ready: pattern of the console's line that says so
    :param timeout: seconds
    """
    if not os.access('/dev/kvm', os.R_OK | os.W_OK):
        return False
    try:
        with machine(disk, 'kvm') as guest:
            guest.wait(ready, timeout)
    except commands.CloudError:
        return False
    return True

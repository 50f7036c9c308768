# SPDX-License-Identifier: Apache-2.0
"""The Linux capabilities that ending a domain needs, and whether a process has them."""

from collections.abc import Sequence
import pathlib

# By number, as <linux/capability.h> has them.
REQUIRED = {
    'CAP_KILL': 5,  # QEMU runs as another user
    'CAP_NET_ADMIN': 12,  # an interface is set down
}
_EFFECTIVE = 'CapEff:'


def missing(process: int | str = 'self', proc: pathlib.Path = pathlib.Path('/proc')
            ) -> Sequence[str]:
    """Return the names of the required capabilities that a process does not have.

    :param process: its PID
    :param proc: where the kernel describes processes
    :raises OSError: there is no such process
    """
    for line in (proc / str(process) / 'status').read_text().splitlines():
        if line.startswith(_EFFECTIVE):
            effective = int(line.removeprefix(_EFFECTIVE), 16)
            return [name for name, bit in REQUIRED.items() if not effective >> bit & 1]
    return []

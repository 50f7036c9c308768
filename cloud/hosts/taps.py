# SPDX-License-Identifier: Apache-2.0
"""Bring those devices of a host's guests up that were left down.

libvirt brings a guest's device up while Open vSwitch begins to use it. With the userspace
datapath, which sets the flags of the device too, now and then it is down in the end, and for good.
"""

import contextlib
import pathlib
import subprocess
import time

_DEVICES = pathlib.Path('/sys/class/net')
_UP = 0x1
_INTERVAL_S = 1.0


def _down() -> set[str]:
    """Return the devices of guests that are down."""
    devices = set()
    for device in _DEVICES.glob('tap*'):
        with contextlib.suppress(OSError):
            if not int((device / 'flags').read_text(), 16) & _UP:
                devices.add(device.name)
    return devices


def main() -> None:
    """Check the devices for ever."""
    before: set[str] = set()
    while True:
        down = _down()
        # Require two looks: the sentinel takes a device down right before it ends its guest.
        for name in down & before:
            subprocess.run(['ip', 'link', 'set', name, 'up'], check=False)
            print(f'{name} was down', flush=True)
        before = down
        time.sleep(_INTERVAL_S)


if __name__ == '__main__':
    main()

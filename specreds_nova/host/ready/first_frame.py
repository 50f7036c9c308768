# SPDX-License-Identifier: Apache-2.0
"""Probe of the first frame of a guest: its kernel is up, and its services start.

What a guest sends before its first write to a disk does not count: firmware and an initramfs that
waits have not mounted a file system yet.
"""

from typing import Any

from specreds_nova.host.ready import base

# Index in libvirt's statistics of all disks of a domain: requests to write.
_ALL_DISKS = ''
_WRITES = 2


class FirstFrame(base.Probe):
    """The guest has sent a frame after its first write to a disk.

    :param guest: nova.virt.libvirt.guest.Guest
    :param box: the boxes of this host
    """

    def __init__(self, guest: Any, box: Any, backup_id: str) -> None:
        self._domain = guest._domain
        self._box = box
        self._backup_id = backup_id
        self._has_written = False

    def look(self) -> str | None:
        self._has_written = (self._has_written
                             or self._domain.blockStats(_ALL_DISKS)[_WRITES] > 0)
        # The box listens from the first call on.
        if self._has_written and self._box.has_sent(self._backup_id):
            return 'the guest has sent a frame'
        return None

    def close(self) -> None:
        self._box.stop_listening(self._backup_id)

# SPDX-License-Identifier: Apache-2.0
"""Which states of a volume let it be superposed, and which of them a recovery mends.

Nothing here needs Cinder: the simulation of a cloud follows the same rules.
"""

from collections.abc import Mapping
from typing import Protocol

STATUSES = ('available', 'in-use')
# In these, nothing is being done to a volume. A backup reads a snapshot through a clone.
SNAPSHOT_STATUSES = ('available', 'in-use', 'backing-up', 'error', 'error_deleting')
# What Cinder has of a volume that is attached, and at rest.
ATTACHED: Mapping[str, str] = {'status': 'in-use', 'attach_status': 'attached'}
# Statuses in which a volume stays if the host of its server dies, although nobody works on it any
# more, and the state of its attachment. Cinder lets Nova attach such a volume to no other host.
_LEFT = {'attaching': 'attaching', 'detaching': 'attached', 'error_extending': 'attached'}
# Statuses of an attached volume that a job of Cinder reads, by a client on another host. The fence
# that ends the primary ends that client, too.
_READ = ('backing-up', 'uploading')
# In which Cinder lets Nova attach a volume of a server to another host (_attachment_reserve).
_MOVABLE = (*STATUSES, 'reserved', 'downloading')
_MIGRATED = (None, 'success', 'error', 'none', 'deleting')


class Volume(Protocol):
    """The fields of Cinder's volume that say what is being done to it."""

    status: str
    attach_status: str
    migration_status: str | None


def read(volume: Volume) -> bool:
    """Return whether a job of Cinder reads an attached volume, by a client of its own."""
    return volume.status in _READ and volume.attach_status == ATTACHED['attach_status']


def restorable(volume: Volume) -> bool:
    """Return whether a volume becomes :data:`ATTACHED` as soon as its clients are fenced."""
    return volume.attach_status == _LEFT.get(volume.status) or read(volume)


def movable(volume: Volume) -> bool:
    """Return whether Nova can attach a server's volume to another host, after the fence."""
    return volume.status in _MOVABLE or restorable(volume)


def superposable(volume: Volume) -> bool:
    """Return whether nothing is being done to a volume that a superposition would spoil."""
    return ((volume.status in STATUSES or restorable(volume))
            and volume.migration_status in _MIGRATED)

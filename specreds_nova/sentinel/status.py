# SPDX-License-Identifier: Apache-2.0
"""The file in which the sentinel tells others how it goes."""

from collections.abc import Iterable
import dataclasses
import json
import os
import pathlib
import time
from typing import Any

from specreds_nova.beats import message
from specreds_nova.beats import renewals

NAME = 'sentinel.json'
_BOOT = pathlib.Path('/proc/sys/kernel/random/boot_id')


def boot() -> str:
    """Return the id of this boot of the host."""
    return _BOOT.read_text().strip()


@dataclasses.dataclass(frozen=True)
class Written:
    """What other programs of this host need to know of the sentinel.

    :ivar lease: as in a beat
    :ivar looked: the moment of :func:`.renewals.now` at which it has last read the records of all
        local disks; NaN if it has not looked since the boot
    :ivar places: the cephx users and the pools of local disks
    """

    lease: str
    looked: float
    places: frozenset[tuple[str, str]] = frozenset()


def write(path: pathlib.Path, looked: float, lease: str, places: Iterable[tuple[str, str]],
          details: dict[str, Any]) -> None:
    """Write the file.

    :param looked: as in :class:`Written`, as are the lease and the places
    :param details: what is for people to read
    """
    new = path.with_suffix('.new')
    new.write_text(json.dumps({
        'pid': os.getpid(), 'at': time.time(), 'boot': boot(),
        'looked': looked, 'lease': lease, 'places': sorted(places), **details}) + '\n')
    new.replace(path)


def read(path: pathlib.Path) -> Written:
    """Read the file; without one, no sentinel has ever run here.

    :raises OSError, ValueError, KeyError, TypeError: it cannot be read
    """
    try:
        contents = json.loads(path.read_text())
    except FileNotFoundError:
        return Written(message.UNLEASED, float('nan'))
    places = frozenset((str(user), str(pool)) for user, pool in contents['places'])
    booted = contents['boot'] == boot()
    return Written(str(contents['lease']),
                   float(contents['looked']) if booted else float('nan'), places)


def age(written: Written) -> float | None:
    """Return the seconds since the latest look; None if there was none since the boot."""
    seconds = renewals.now() - written.looked
    return seconds if seconds >= 0 else None

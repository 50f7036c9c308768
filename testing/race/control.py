# SPDX-License-Identifier: Apache-2.0
"""The test steers a writer in another process by a few bytes of memory that both map."""

from collections.abc import Callable
import enum
import mmap
import os
import pathlib
import struct
import time
from typing import NamedTuple

from cloud import deadline

_LAYOUT = struct.Struct('<BBHIII')
_TARGET = struct.Struct('<III')
_TARGET_AT = 4


class Mode(enum.IntEnum):
    """The pace of a writer."""

    PAUSED = 0
    STEADY = 1
    BURSTY = 2
    SLOW = 3
    TORRENT = 4
    QUIT = 5


class State(enum.IntEnum):
    """The state that a writer reports."""

    STARTING = 0
    BUSY = 1
    QUIET = 2


class Target(NamedTuple):
    """Some blocks of an image; none at all means no limit."""

    image: int
    first: int
    length: int


class WriterGone(Exception):
    """A writer ended, or does not follow its control."""


class Control:
    """The shared bytes: the mode and the blocks to write are the test's, the state the writer's.

    :param path: the file to map; created if it is missing
    """

    def __init__(self, path: pathlib.Path) -> None:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if os.fstat(file).st_size < _LAYOUT.size:
                os.truncate(file, _LAYOUT.size)
            self._map = mmap.mmap(file, _LAYOUT.size)
        finally:
            os.close(file)

    @property
    def mode(self) -> Mode:
        """Return the mode of the writer."""
        return Mode(self._map[0])

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self._map[0] = mode

    @property
    def state(self) -> State:
        """Return the state of the writer."""
        return State(self._map[1])

    @state.setter
    def state(self, state: State) -> None:
        self._map[1] = state

    @property
    def target(self) -> Target | None:
        """Return the only blocks to write to, without other operations; None for no limit."""
        target = Target(*_TARGET.unpack_from(self._map, _TARGET_AT))
        return target if target.length else None

    @target.setter
    def target(self, target: Target | None) -> None:
        _TARGET.pack_into(self._map, _TARGET_AT, *(target or (0, 0, 0)))

    def close(self) -> None:
        """Unmap the memory."""
        self._map.close()


def wait(met: Callable[[], bool], what: str, timeout: float) -> None:
    """Wait until a condition is met.

    :param met: called repeatedly
    :param timeout: seconds on a machine that has nothing else to do
    :raises WriterGone: it was not met in time
    """
    limit = deadline.Deadline(timeout)
    while not met():
        if limit.passed:
            raise WriterGone(f'{what}: not within {limit.elapsed:.0f} s')
        time.sleep(0.002)

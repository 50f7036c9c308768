# SPDX-License-Identifier: Apache-2.0
"""The disks of a writer: an RBD image opened as by QEMU, or an NBD export of QEMU."""

import abc
from collections.abc import Callable
import errno
import functools
from typing import Any

import nbd
import rados
import rbd

from specreds_nova import cache_policy
from testing.race import blocks
from testing.race import journal

Done = Callable[[int], None]

# librbd's default granularity of discards, in blocks.
_RBD_GRAIN = (64 << 10) // blocks.SIZE


class Device(abc.ABC):
    """A disk. Operations are in bytes; each calls ``done`` with 0 or a negative errno.

    :ivar depth: number of operations that may be in flight at a time
    :ivar grain: discards are in multiples of this many blocks
    :ivar can_zero: whether it has an operation that writes zeroes
    """

    depth: int
    grain: int
    can_zero: bool

    @abc.abstractmethod
    def submit(self, verb: journal.Verb, offset: int, length: int, data: bytes,
               done: Done) -> None:
        """Submit an operation other than a read."""

    @abc.abstractmethod
    def read(self, offset: int, length: int) -> bytes:
        """Read.

        :raises OSError: it failed
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Close the disk."""


class RbdDevice(Device):
    """An RBD image, with a connection of its own as each disk of a QEMU has.

    :param cache: policy of librbd's cache (QEMU's ``cache=writeback``); empty for no cache
    """

    depth = 8
    grain = _RBD_GRAIN
    can_zero = False

    def __init__(self, conf: str, user: str, pool: str, namespace: str, image: str,
                 cache: str) -> None:
        self._rados = rados.Rados(conffile=conf, name=f'client.{user}', conf={
            'rbd_cache': 'true' if cache else 'false',
            cache_policy.OPTION: cache or cache_policy.SAFE})
        self._rados.connect()
        self._io = self._rados.open_ioctx(pool)
        self._io.set_namespace(namespace)
        self._image = rbd.Image(self._io, image)

    def submit(self, verb: journal.Verb, offset: int, length: int, data: bytes,
               done: Done) -> None:
        """Submit an operation; ``done`` is called in a thread of librbd."""
        def completed(completion: Any) -> None:
            done(min(0, completion.get_return_value()))

        try:
            if verb is journal.Verb.WRITE:
                self._image.aio_write(data, offset, completed)
            elif verb is journal.Verb.DISCARD:
                self._image.aio_discard(offset, length, completed)
            else:
                self._image.aio_flush(completed)
        except rbd.OSError as exc:
            done(_code(exc))

    def read(self, offset: int, length: int) -> bytes:
        """Read.

        :raises OSError: it failed
        """
        try:
            return bytes(self._image.read(offset, length))
        except rbd.Error as exc:
            raise OSError(-_code(exc), str(exc)) from exc

    def close(self) -> None:
        """Close the image: librbd releases the lock."""
        self._image.close()
        self._io.close()
        self._rados.shutdown()


class NbdDevice(Device):
    """An NBD export on a unix socket; each operation is over when the call returns."""

    depth = 1
    grain = 1
    can_zero = True

    def __init__(self, socket: str, export: str) -> None:
        self._nbd = nbd.NBD()
        # A sparse read would make QEMU ask librbd for the image's allocation, and librbd would
        # take the volume's exclusive lock for that: no guest's read does so.
        self._nbd.set_request_structured_replies(False)
        self._nbd.set_export_name(export)
        self._nbd.connect_unix(socket)

    def submit(self, verb: journal.Verb, offset: int, length: int, data: bytes,
               done: Done) -> None:
        """Run the operation, then call ``done``."""
        run = {
            journal.Verb.WRITE: functools.partial(self._nbd.pwrite, data, offset),
            journal.Verb.DISCARD: functools.partial(self._nbd.trim, length, offset),
            journal.Verb.ZERO: functools.partial(self._nbd.zero, length, offset),
            journal.Verb.FLUSH: self._nbd.flush,
        }[verb]
        try:
            run()
        except nbd.Error as exc:
            done(_code(exc))
        else:
            done(0)

    def read(self, offset: int, length: int) -> bytes:
        """Read.

        :raises OSError: it failed
        """
        try:
            return bytes(self._nbd.pread(length, offset))
        except nbd.Error as exc:
            raise OSError(-_code(exc), str(exc)) from exc

    def close(self) -> None:
        """Flush and disconnect."""
        self._nbd.flush()
        self._nbd.shutdown()


def _code(exc: Exception) -> int:
    # nbd.Error has the name of the error in `errno` and its number in `errnum`.
    number = getattr(exc, 'errnum', None) or getattr(exc, 'errno', None)
    return -abs(number) if isinstance(number, int) and number else -errno.EIO

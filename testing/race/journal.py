# SPDX-License-Identifier: Apache-2.0
"""The operations of a writer, in a file that survives the writer's sudden death.

Each record is one small ``write`` to a file opened for appending: the kernel has it once the call
is over, whatever happens to the process next.
"""

from collections.abc import Sequence
import dataclasses
import enum
import os
import pathlib
import struct
import time

_RECORD = struct.Struct('<BBHIqIIdq')
_ISSUED, _DONE = 1, 2


class Verb(enum.IntEnum):
    """The kind of an operation."""

    WRITE = 1
    DISCARD = 2
    ZERO = 3
    READ = 4
    FLUSH = 5


@dataclasses.dataclass(frozen=True)
class Op:
    """One operation of a writer.

    :param number: unique among all writers of a round and increasing in each; also the value of
        the blocks of a write
    :param first: first block
    :param count: blocks
    :param issued: monotonic seconds, taken before the operation was submitted
    :param done: monotonic seconds, taken after it was acknowledged or had failed; None if never
    :param result: value that a read found in its block; below zero for an error
    """

    number: int
    verb: Verb
    image: int
    first: int
    count: int
    issued: float
    done: float | None = None
    result: int = 0

    @property
    def acknowledged(self) -> bool:
        """Return whether the writer got an acknowledgement."""
        return self.done is not None and not self.failed

    @property
    def failed(self) -> bool:
        """Return whether the writer got an error."""
        return self.done is not None and self.result < 0

    def __str__(self) -> str:
        where = '' if self.verb is Verb.FLUSH else (
            f' image {self.image} blocks {self.first}+{self.count}')
        ended = 'in flight' if self.done is None else (
            f'failed ({self.result}) at {self.done:.6f}' if self.failed
            else f'acknowledged at {self.done:.6f}')
        return (f'{self.verb.name.lower()} {self.number:#x}{where}, issued {self.issued:.6f}, '
                f'{ended}')


class Journal:
    """Appends operations to a file. Safe to use from several threads."""

    def __init__(self, path: pathlib.Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def issue(self, number: int, verb: Verb, image: int = 0, first: int = 0,
              count: int = 0) -> None:
        """Note that an operation is about to be submitted."""
        os.write(self._file, _RECORD.pack(_ISSUED, verb, image, 0, number, first, count,
                                          time.monotonic(), 0))

    def finish(self, number: int, result: int = 0) -> None:
        """Note that an operation was acknowledged, or failed if ``result`` is below zero."""
        os.write(self._file, _RECORD.pack(_DONE, 0, 0, 0, number, 0, 0, time.monotonic(),
                                          result))


def read(paths: Sequence[pathlib.Path]) -> list[Op]:
    """Return the operations of journals, in the order in which they were issued.

    While the writer works, a reader gets the operations up to that moment.
    """
    ops: dict[int, Op] = {}
    for path in paths:
        data = path.read_bytes()
        for record in _RECORD.iter_unpack(data[:len(data) - len(data) % _RECORD.size]):
            phase, verb, image, _pad, number, first, count, at, result = record
            if phase == _ISSUED:
                ops[number] = Op(number, Verb(verb), image, first, count, at)
            else:
                ops[number] = dataclasses.replace(ops[number], done=at, result=result)
    return list(ops.values())

# SPDX-License-Identifier: Apache-2.0
"""Blocks that name their write, so that the contents of a disk are known from its bytes alone.

A block of 4 KiB is one header of 32 bytes, repeated: a torn, misplaced or altered block shows.
Contents are numbers: 0 for zeroes, the number of the write, or CORRUPT for anything else.
"""

import numpy
from numpy import typing as npt

SIZE = 4096
ZERO = 0
CORRUPT = 1 << 62

Values = npt.NDArray[numpy.int64]

_HEADER = numpy.dtype([('magic', '<u4'), ('image', '<u4'), ('value', '<i8'), ('block', '<u8'),
                       ('check', '<u8')])
_COPIES = SIZE // _HEADER.itemsize
_MAGIC = 0x52414345
_PRIMES = (0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9)


def encode(value: int, image: int, first: int, count: int) -> bytes:
    """Return the bytes of consecutive blocks of one write.

    :param value: the write's number, above zero
    :param image: number of the image in the round
    :param first: number of the first block in the image
    """
    rows = numpy.zeros(count, dtype=_HEADER)
    rows['magic'] = _MAGIC
    rows['image'] = image
    rows['value'] = value
    rows['block'] = numpy.arange(first, first + count)
    rows['check'] = _check(rows)
    return numpy.repeat(rows, _COPIES).tobytes()


def decode(data: bytes, image: int, first: int) -> Values:
    """Return the value of each block, given the place of the bytes."""
    rows = numpy.frombuffer(data, dtype=_HEADER).reshape(-1, _COPIES)
    words = numpy.frombuffer(data, dtype='<u8').reshape(len(rows), -1)
    head = rows[:, 0]
    whole = (words.reshape(len(rows), _COPIES, -1) == words[:, None, :words.shape[1] // _COPIES]
             ).all(axis=(1, 2))
    valid = (whole & (head['magic'] == _MAGIC) & (head['image'] == image)
             & (head['block'] == numpy.arange(first, first + len(rows), dtype=numpy.uint64))
             & (head['check'] == _check(head)))
    values = numpy.where(valid, head['value'], CORRUPT)
    return numpy.where(words.any(axis=1), values, ZERO)


def _check(rows: npt.NDArray[numpy.void]) -> npt.NDArray[numpy.uint64]:
    with numpy.errstate(over='ignore'):
        mixed = rows['value'].astype(numpy.uint64) * numpy.uint64(_PRIMES[0])
        mixed ^= rows['block'] * numpy.uint64(_PRIMES[1])
        mixed ^= rows['image'].astype(numpy.uint64) * numpy.uint64(_PRIMES[2])
    return mixed

# SPDX-License-Identifier: Apache-2.0
"""Read recordings of block I/O: blktrace's binary format and fio's logs."""

from collections.abc import Iterable, Iterator
import dataclasses
import pathlib
import struct

# The paper's recording of a PostgreSQL, as its artifact names it.
RECORDING = 'pg-sf2-cwal100m-panic'
READ = 'read'
WRITE = 'write'
TRIM = 'trim'
SYNC = 'sync'

# struct blk_io_trace of the kernel (include/uapi/linux/blktrace_api.h), as a little-endian
# machine writes it: magic, sequence, time, sector, bytes, action, pid, device, cpu, error, pdu.
_EVENT = struct.Struct('<IIQQIIIIIHH')
_MAGIC = 0x65617407
_SWAPPED = 0x07746165
_SECTOR = 512
_QUEUED = 1
_FLAG_READ, _FLAG_WRITE, _FLAG_FLUSH, _FLAG_SYNC = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_FLAG_DISCARD, _FLAG_FUA = 1 << 13, 1 << 15
# Synchronous writes that follow each other this closely belong to one fsync.
_ONE_SYNC_NS = 5_000_000

_OMAP_BLOCK = 64 << 10
_IOLOG_KINDS = {'read': READ, 'write': WRITE, 'trim': TRIM, 'sync': SYNC, 'datasync': SYNC}


class BadTrace(Exception):
    """A file is not a recording that can be replayed."""


@dataclasses.dataclass(frozen=True)
class Operation:
    """One request.

    :param kind: READ, WRITE, TRIM or SYNC
    :param offset: bytes from the start of the disk
    :param length: bytes; 0 for SYNC
    """

    kind: str
    offset: int = 0
    length: int = 0


@dataclasses.dataclass(frozen=True)
class _Event:
    time: int
    offset: int
    length: int
    flags: int


def load(path: pathlib.Path) -> list[Operation]:
    """Read a recording in any of the formats.

    :raises BadTrace: it is in none of them, or damaged
    """
    data = path.read_bytes()
    if data[:4] in (struct.pack('<I', _MAGIC), struct.pack('<I', _SWAPPED)):
        return parse_blktrace(data, str(path))
    try:
        return parse_iolog(data.decode(), str(path))
    except UnicodeDecodeError:
        raise BadTrace(f'{path} is neither a blktrace nor a fio log') from None


def parse_blktrace(data: bytes, name: str = 'trace') -> list[Operation]:
    """Return the requests that were queued, in the order of time.

    A device without a volatile cache gets no flush requests; there, the end of a run of
    synchronous writes is where an application waited for its fsync, and a SYNC is put there.

    :param name: name of the recording in errors
    :raises BadTrace: it is damaged
    """
    events = sorted(_queued(data, name), key=lambda event: event.time)
    return list(_operations(events))


def _queued(data: bytes, name: str) -> Iterator[_Event]:
    place = 0
    while place < len(data):
        if place + _EVENT.size > len(data):
            raise BadTrace(f'{name} is cut off at byte {place}')
        magic, _, time, sector, length, action, _, _, _, _, payload = _EVENT.unpack_from(
            data, place)
        if magic == _SWAPPED:
            raise BadTrace(f'{name} was recorded on a big-endian machine')
        if magic != _MAGIC:
            raise BadTrace(f'{name} has no event at byte {place}: magic {magic:#010x}')
        place += _EVENT.size + payload
        if place > len(data):
            raise BadTrace(f'{name} is cut off in the last event')
        if action & 0xffff == _QUEUED:
            yield _Event(time, sector * _SECTOR, length, action >> 16)


def _operations(events: Iterable[_Event]) -> Iterator[Operation]:
    synced_at: int | None = None
    for event in events:
        synchronous = bool(event.flags & _FLAG_WRITE and event.flags & _FLAG_SYNC)
        if synced_at is not None and (not synchronous or event.time - synced_at > _ONE_SYNC_NS):
            yield Operation(SYNC)
            synced_at = None
        if event.flags & _FLAG_FLUSH:
            yield Operation(SYNC)
        if not event.length:
            continue
        if event.flags & _FLAG_DISCARD:
            yield Operation(TRIM, event.offset, event.length)
        elif event.flags & _FLAG_WRITE:
            yield Operation(WRITE, event.offset, event.length)
            if event.flags & _FLAG_FUA:
                yield Operation(SYNC)
            elif synchronous:
                synced_at = event.time
        elif event.flags & _FLAG_READ:
            yield Operation(READ, event.offset, event.length)
    if synced_at is not None:
        yield Operation(SYNC)


def parse_iolog(text: str, name: str = 'iolog') -> list[Operation]:
    """Read a fio log of version 2 or 3.

    :param name: name of the recording in errors
    :raises BadTrace: it is not such a log
    """
    lines = text.splitlines()
    if not lines or lines[0] not in ('fio version 2 iolog', 'fio version 3 iolog'):
        raise BadTrace(f'{name} is no fio log of version 2 or 3')
    skip = 1 if lines[0] == 'fio version 3 iolog' else 0
    operations = []
    for number, line in enumerate(lines[1:], start=2):
        words = line.split()[skip:]
        if len(words) < 2 or words[1] in ('add', 'open', 'close', 'wait'):
            continue
        try:
            kind = _IOLOG_KINDS[words[1]]
            offset, length = (0, 0) if kind == SYNC else (int(words[2]), int(words[3]))
        except (KeyError, IndexError, ValueError):
            raise BadTrace(f'{name} line {number} cannot be understood: {line!r}') from None
        operations.append(Operation(kind, offset, length))
    return operations


def iolog(operations: Iterable[Operation]) -> str:
    """Write a fio log of version 2."""
    lines = ['fio version 2 iolog', 'disk add', 'disk open']
    lines += [f'disk {operation.kind} {operation.offset} {operation.length}'
              for operation in operations]
    return '\n'.join([*lines, 'disk close', ''])


def extents(omap: str, name: str = 'omap') -> list[tuple[int, int]]:
    """Return offset and length, in bytes, of the runs of 64 KiB blocks that held data ('1').

    :param name: name of the recording in errors
    :raises BadTrace: it has other characters than 0 and 1
    """
    blocks = omap.strip()
    if set(blocks) - {'0', '1'}:
        raise BadTrace(f'{name} has other characters than 0 and 1')
    runs = []
    start = blocks.find('1')
    while start >= 0:
        end = blocks.find('0', start)
        end = len(blocks) if end < 0 else end
        runs.append((start * _OMAP_BLOCK, (end - start) * _OMAP_BLOCK))
        start = blocks.find('1', end)
    return runs


def size(omap: str) -> int:
    """Return the size of the disk that an omap describes, in bytes."""
    return len(omap.strip()) * _OMAP_BLOCK

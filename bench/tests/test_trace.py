# SPDX-License-Identifier: Apache-2.0
"""Recordings of block I/O."""

import pathlib
import struct
import tempfile

from hypothesis import given
from hypothesis import strategies
import testtools

from bench import trace

_READ, _WRITE, _FLUSH, _SYNC, _DISCARD, _FUA = 1, 2, 4, 8, 1 << 13, 1 << 15
_QUEUED, _COMPLETED = 1, 8
_MS = 1_000_000


def event(flags: int, sector: int = 0, length: int = 4096, time: int = 0,
          action: int = _QUEUED, payload: bytes = b'') -> bytes:
    """An event as the kernel writes it."""
    return struct.pack('<IIQQIIIIIHH', 0x65617407, 1, time, sector, length, flags << 16 | action,
                       7, 8, 0, 0, len(payload)) + payload


class BlktraceTest(testtools.TestCase):
    """The binary format of blktrace."""

    def test_only_queued_requests_count(self) -> None:
        data = (event(_READ, 8) + event(_READ, 8, action=_COMPLETED)
                + event(0, action=_QUEUED | 0x400, payload=b'kworker')
                + event(_WRITE, 16, 8192))
        self.assertEqual([trace.Operation(trace.READ, 4096, 4096),
                          trace.Operation(trace.WRITE, 8192, 8192)],
                         trace.parse_blktrace(data))

    def test_order_is_that_of_time(self) -> None:
        data = event(_READ, 8, time=2) + event(_READ, 16, time=1)
        self.assertEqual([8192, 4096],
                         [operation.offset for operation in trace.parse_blktrace(data)])

    def test_discard_is_a_trim(self) -> None:
        self.assertEqual([trace.Operation(trace.TRIM, 0, 65536)],
                         trace.parse_blktrace(event(_WRITE | _DISCARD, 0, 65536)))

    def test_flush_comes_before_its_data(self) -> None:
        self.assertEqual([trace.SYNC, trace.WRITE], self.kinds(event(_WRITE | _FLUSH, 8)))

    def test_flush_without_data(self) -> None:
        self.assertEqual([trace.SYNC], self.kinds(event(_WRITE | _FLUSH, 0, 0)))

    def test_forced_write_is_followed_by_a_flush(self) -> None:
        self.assertEqual([trace.WRITE, trace.SYNC], self.kinds(event(_WRITE | _FUA | _SYNC, 8)))

    def test_synchronous_writes_close_together_are_one_fsync(self) -> None:
        data = event(_WRITE | _SYNC, 8, time=0) + event(_WRITE | _SYNC, 16, time=_MS)
        self.assertEqual([trace.WRITE, trace.WRITE, trace.SYNC], self.kinds(data))

    def test_synchronous_writes_far_apart_are_two(self) -> None:
        data = event(_WRITE | _SYNC, 8, time=0) + event(_WRITE | _SYNC, 16, time=6 * _MS)
        self.assertEqual([trace.WRITE, trace.SYNC, trace.WRITE, trace.SYNC], self.kinds(data))

    def test_another_request_ends_a_run_of_synchronous_writes(self) -> None:
        data = event(_WRITE | _SYNC, 8, time=0) + event(_READ, 16, time=_MS)
        self.assertEqual([trace.WRITE, trace.SYNC, trace.READ], self.kinds(data))

    def test_synchronous_reads_need_no_flush(self) -> None:
        self.assertEqual([trace.READ], self.kinds(event(_READ | _SYNC, 8)))

    @given(strategies.integers(1, 48 + 3 - 1) | strategies.integers(48 + 3 + 1, 48 + 3 + 48 - 1))
    def test_truncated_trace_is_an_error(self, length: int) -> None:
        whole = event(_READ, 8, payload=b'abc') + event(_READ, 8)
        error = self.assertRaises(trace.BadTrace, trace.parse_blktrace, whole[:length], 'some')
        self.assertIn('some is cut off', str(error))

    def test_wrong_magic_names_the_place(self) -> None:
        data = event(_READ, 8) + b'\0' * 48
        error = self.assertRaises(trace.BadTrace, trace.parse_blktrace, data, 'some')
        self.assertIn('some has no event at byte 48', str(error))

    def test_other_byte_order_is_named(self) -> None:
        data = struct.pack('>I', 0x65617407) + b'\0' * 44
        error = self.assertRaises(trace.BadTrace, trace.parse_blktrace, data)
        self.assertIn('big-endian', str(error))

    def kinds(self, data: bytes) -> list[str]:
        """The kinds of the requests in a recording."""
        return [operation.kind for operation in trace.parse_blktrace(data)]


class IologTest(testtools.TestCase):
    """fio's own logs."""

    operations = strategies.lists(strategies.one_of(
        strategies.builds(trace.Operation,
                          strategies.sampled_from([trace.READ, trace.WRITE, trace.TRIM]),
                          strategies.integers(0, 2**40), strategies.integers(1, 2**22)),
        strategies.just(trace.Operation(trace.SYNC))))

    @given(operations)
    def test_parsed_log_equals_the_written_one(self, operations: list[trace.Operation]) -> None:
        self.assertEqual(operations, trace.parse_iolog(trace.iolog(operations)))

    def test_version_3_has_times(self) -> None:
        text = ('fio version 3 iolog\n0 /dev/vda add\n1 /dev/vda open\n5 /dev/vda read 0 4096\n'
                '9 /dev/vda datasync 0 0\n12 /dev/vda close\n')
        self.assertEqual([trace.Operation(trace.READ, 0, 4096), trace.Operation(trace.SYNC)],
                         trace.parse_iolog(text))

    def test_unknown_version_is_an_error(self) -> None:
        self.assertRaises(trace.BadTrace, trace.parse_iolog, 'fio version 9 iolog\n')

    def test_bad_line_is_named(self) -> None:
        text = 'fio version 2 iolog\ndisk read 0 4096\ndisk frobnicate 1 2\n'
        error = self.assertRaises(trace.BadTrace, trace.parse_iolog, text, 'some')
        self.assertIn('some line 3', str(error))


class LoadTest(testtools.TestCase):
    """Files of any format."""

    def test_blktrace(self) -> None:
        self.assertEqual([trace.Operation(trace.READ, 4096, 4096)],
                         self.load(event(_READ, 8)))

    def test_iolog(self) -> None:
        self.assertEqual([trace.Operation(trace.WRITE, 0, 512)],
                         self.load(b'fio version 2 iolog\ndisk write 0 512\n'))

    def test_other_file_is_an_error(self) -> None:
        self.assertRaises(trace.BadTrace, self.load, b'\xff\xfe')

    def load(self, data: bytes) -> list[trace.Operation]:
        """Load a file with some contents."""
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            return trace.load(pathlib.Path(file.name))


class OmapTest(testtools.TestCase):
    """Which blocks of 64 KiB hold data."""

    @given(strategies.text('01'))
    def test_extents_are_the_set_bits(self, omap: str) -> None:
        covered = set()
        for offset, length in trace.extents(omap):
            covered |= set(range(offset // 65536, (offset + length) // 65536))
        self.assertEqual({place for place, digit in enumerate(omap) if digit == '1'}, covered)

    def test_neighbours_are_one_extent(self) -> None:
        self.assertEqual([(65536, 2 * 65536), (4 * 65536, 65536)], trace.extents('01101\n'))

    def test_size(self) -> None:
        self.assertEqual(5 * 65536, trace.size('01101\n'))

    def test_other_text_is_an_error(self) -> None:
        self.assertRaises(trace.BadTrace, trace.extents, '01x')

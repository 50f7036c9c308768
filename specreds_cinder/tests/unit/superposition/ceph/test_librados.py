# SPDX-License-Identifier: Apache-2.0
"""Many operations in flight: their order and their number, also after an error."""

import errno
from typing import Any

import cffi
import ddt
import hypothesis
from hypothesis import strategies
import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import librados

_ffi = cffi.FFI()


class FakeLibrary:
    """A librados whose operations end when they are waited for, with chosen versions.

    :param results: by name, the version or a negative error number
    """

    def __init__(self, results: dict[bytes, int]) -> None:
        self._results = results
        self._completions: dict[int, bytes] = {}
        self._created = 0
        self.in_flight: set[int] = set()
        self.most = 0
        self.unreleased: set[int] = set()

    def rados_aio_create_completion2(self, _arg: Any, _done: Any, slot: Any) -> int:
        self._created += 1
        slot[0] = _ffi.cast('void *', self._created)
        self.unreleased.add(self._created)
        return 0

    def rados_aio_stat(self, _io: Any, name: bytes, done: Any, size: Any, _time: Any) -> int:
        if self._results[name] == -errno.EINVAL:
            return -errno.EINVAL
        number = int(_ffi.cast('intptr_t', done))
        self._completions[number] = name
        self.in_flight.add(number)
        self.most = max(self.most, len(self.in_flight))
        if size:
            size[0] = max(0, self._results[name]) * 10
        return 0

    def rados_aio_wait_for_complete(self, done: Any) -> int:
        self.in_flight.remove(int(_ffi.cast('intptr_t', done)))
        return 0

    def rados_aio_get_return_value(self, done: Any) -> int:
        return min(0, self._results[self._completions[int(_ffi.cast('intptr_t', done))]])

    def rados_aio_get_version(self, done: Any) -> int:
        return abs(self._results[self._completions[int(_ffi.cast('intptr_t', done))]])

    def rados_aio_release(self, done: Any) -> None:
        self.unreleased.remove(int(_ffi.cast('intptr_t', done)))


@ddt.ddt
class VersionsTest(testtools.TestCase):

    def stat(self, results: list[int], depth: int) -> tuple[FakeLibrary, list[bytes], Any]:
        """Return a library in which objects, named after their place, have these versions."""
        names = [b'%d' % index for index in range(len(results))]
        library = FakeLibrary(dict(zip(names, results, strict=True)))
        return library, names, librados.IoCtx(library, None, 'pool 1')

    @hypothesis.given(strategies.lists(strategies.integers(1, 2**62), max_size=40),
                      strategies.integers(1, 50))
    def test_versions_are_in_order_with_bounded_depth(self, versions: list[int],
                                                      depth: int) -> None:
        library, names, io = self.stat(versions, depth)
        self.assertEqual(versions, io.stat_versions(names, depth))
        self.assertEqual(min(depth, len(versions)), library.most)
        self.assertEqual((set(), set()), (library.in_flight, library.unreleased))

    def test_missing_object_has_version_0(self) -> None:
        _library, names, io = self.stat([7, -errno.ENOENT, 8], 2)
        self.assertEqual([7, 0, 8], io.stat_versions(names, 2))

    def test_missing_object_has_size_0(self) -> None:
        _library, names, io = self.stat([7, -errno.ENOENT, 8], 2)
        self.assertEqual([70, 0, 80], io.stat_sizes(names, 2))
        self.assertEqual([], io.stat_sizes([], 2))

    @ddt.data((-errno.ETIMEDOUT, errors.ClusterTimeout), (-errno.EIO, errors.ClusterError),
              (-errno.ESHUTDOWN, errors.ClusterError), (-errno.EINVAL, errors.ClusterError))
    @ddt.unpack
    def test_error_leaves_nothing_in_flight(self, code: int, error: type[Exception]) -> None:
        # librados would write the sizes into memory that has been freed.
        for work in ('stat_versions', 'stat_sizes'):
            library, names, io = self.stat([1, 2, code, 4, 5, 6, 7, 8, 9], 4)
            raised = self.assertRaises(error, getattr(io, work), names, 4)
            self.assertIn('stat 2 in pool 1', str(raised))
            self.assertEqual((set(), set()), (library.in_flight, library.unreleased))

# SPDX-License-Identifier: Apache-2.0
"""Answers of librados are returned in order, or become an error that names the object."""

import errno
from typing import Any
from unittest import mock

import cffi
import ddt
import hypothesis
from hypothesis import strategies as st
import rados
import rbd
import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import cluster
from specreds_cinder.superposition.ceph import librados

_ffi = cffi.FFI()


class FakeLibrados:
    """Completions that are done when they are waited for.

    :param answers: result and version by object name; other objects do not exist
    """

    def __init__(self, answers: dict[bytes, tuple[int, int]]) -> None:
        self._answers = answers
        self.pending: dict[int, tuple[int, int]] = {}
        self._made = 0
        self.refuse: dict[bytes, int] = {}
        self.silent: set[int] = set()
        self.cancelled: set[int] = set()
        self.most = 0

    def rados_aio_create_completion2(self, _arg: object, _call: object, slot: Any) -> int:
        """Make a completion, which is a number here."""
        self._made += 1
        slot[0] = _ffi.cast('void *', self._made)
        return 0

    def rados_aio_stat(self, _io: object, name: bytes, done: Any, *_out: object) -> int:
        """Submit a stat."""
        self.pending[self._number(done)] = self._answers.get(name, (-errno.ENOENT, 0))
        if name.startswith(b'silent'):
            self.silent.add(self._number(done))
        self.most = max(self.most, len(self.pending))
        return self.refuse.get(name, 0)

    def rados_aio_write_full(self, io: object, name: bytes, done: Any, *_data: object) -> int:
        """Submit a write."""
        return self.rados_aio_stat(io, name, done)

    def rados_aio_is_complete(self, done: Any) -> int:
        """Return whether the operation has ended."""
        return self._number(done) not in self.silent

    def rados_aio_cancel(self, _io: object, done: Any) -> int:
        """Note that the operation is given up."""
        self.cancelled.add(self._number(done))
        return 0

    def rados_aio_wait_for_complete(self, _done: Any) -> int:
        """Wait."""
        return 0

    def rados_aio_get_return_value(self, done: Any) -> int:
        """Return the result."""
        return self.pending[self._number(done)][0]

    def rados_aio_get_version(self, done: Any) -> int:
        """Return the version."""
        return self.pending[self._number(done)][1]

    def rados_aio_release(self, done: Any) -> None:
        """Forget the completion."""
        del self.pending[self._number(done)]

    @staticmethod
    def _number(done: Any) -> int:
        return int(_ffi.cast('intptr_t', done))


@ddt.ddt
class VersionsTest(testtools.TestCase):

    @hypothesis.given(st.lists(st.integers(0, 5), max_size=40), st.integers(1, 20))
    def test_versions_are_in_order_with_bounded_depth(self, versions: list[int],
                                                      depth: int) -> None:
        names = [b'o%d' % index for index in range(len(versions))]
        lib = FakeLibrados({name: (0, version) for name, version
                            in zip(names, versions, strict=True) if version})
        io = librados.IoCtx(lib, None, 'pool 2')
        self.assertEqual(versions, io.stat_versions(names, depth))
        self.assertEqual(min(depth, len(names)), lib.most)

    @ddt.data((-errno.ETIMEDOUT, errors.ClusterTimeout), (-errno.EAGAIN, errors.ClusterTimeout),
              (-errno.EPERM, errors.ClusterError), (-errno.ESHUTDOWN, errors.ClusterError))
    @ddt.unpack
    def test_error_names_the_object(self, code: int, expected: type[Exception]) -> None:
        names = [b'o1', b'o2', b'o3']
        lib = FakeLibrados({b'o1': (0, 1), b'o2': (code, 0)})
        io = librados.IoCtx(lib, None, 'pool 2')
        for verb, call in (('stat', lambda: io.stat_versions(names, 2)),
                           ('write', lambda: io.write_answered(names, b'x', 0.0))):
            error = self.assertRaises(errors.ClusterError, call)
            self.assertIs(expected, type(error))
            self.assertIn(f'could not {verb} o2 in pool 2', str(error))
            # Operations in flight may write into memory: all have been waited for.
            self.assertEqual({}, lib.pending)

    def test_operation_that_cannot_be_submitted_is_an_error(self) -> None:
        lib = FakeLibrados({})
        lib.refuse = {b'o1': -errno.EINVAL}
        io = librados.IoCtx(lib, None, 'pool 2')
        error = self.assertRaises(errors.ClusterError, io.stat_versions, [b'o0', b'o1'], 8)
        self.assertIn('stat o1 in pool 2: Invalid argument', str(error))
        self.assertEqual({}, lib.pending)


class AnsweredTest(testtools.TestCase):
    """Operations of which some are never answered."""

    def test_versions_are_in_order_with_none_for_silent_objects(self) -> None:
        lib = FakeLibrados({b'o1': (0, 5), b'silent': (0, 6), b'o3': (0, 7)})
        io = librados.IoCtx(lib, None, 'pool 2')
        names = [b'o1', b'silent', b'missing', b'o3']
        self.assertEqual([5, None, 0, 7], io.stat_answered(names, 0.0))
        self.assertEqual([5, None, 0, 7], io.write_answered(names, b'x', 0.0))
        self.assertEqual((2, {}), (len(lib.cancelled), lib.pending))

    def test_many_operations_are_polled_seldom_while_answers_arrive(self) -> None:
        count = 200
        names = [b'o%d' % number for number in range(1, count + 1)]
        lib = FakeLibrados({name: (0, number) for number, name in enumerate(names, 1)})
        # Each poll finds that one operation has ended.
        with mock.patch.object(lib, 'rados_aio_is_complete', side_effect=lambda done:
                               lib._number(done) == min(lib.pending)) as polled, \
                mock.patch('specreds_cinder.superposition.ceph.librados.time.sleep') as pause:
            self.assertEqual(list(range(1, count + 1)), librados.IoCtx(
                lib, None, 'pool 2').write_answered(names, b'x', 9.0))
        self.assertEqual(count - 1, pause.call_count)
        self.assertLess(polled.call_count, 3 * count)

    def test_silent_object_does_not_hide_the_answers_behind_it(self) -> None:
        lib = FakeLibrados({b'o%d' % number: (0, number) for number in range(1, 4)})
        io = librados.IoCtx(lib, None, 'pool 2')
        self.assertEqual([None, 1, 2, 3],
                         io.write_answered([b'silent', b'o1', b'o2', b'o3'], b'x', 0.0))

    def test_error_gives_up_what_is_in_flight(self) -> None:
        lib = FakeLibrados({b'o1': (-errno.EIO, 0)})
        io = librados.IoCtx(lib, None, 'pool 2')
        error = self.assertRaises(errors.ClusterError, io.stat_answered, [b'silent', b'o1'], 9.0)
        self.assertIn('stat o1 in pool 2', str(error))
        self.assertEqual({}, lib.pending)

    def test_operation_that_cannot_be_submitted_gives_up_the_others(self) -> None:
        lib = FakeLibrados({})
        lib.refuse = {b'o1': -errno.EINVAL}
        io = librados.IoCtx(lib, None, 'pool 2')
        self.assertRaises(errors.ClusterError, io.write_answered, [b'silent', b'o1'], b'x', 9.0)
        self.assertEqual({}, lib.pending)


class ClientTest(testtools.TestCase):

    def test_missing_configuration_is_named(self) -> None:
        error = self.assertRaises(errors.ClusterError, librados.Client,
                                  '/nonexistent/ceph.conf', 'cinder', 'ceph', {}, {})
        self.assertIn('/nonexistent/ceph.conf', str(error))

    def test_missing_configuration_of_the_python_handle_is_named(self) -> None:
        connection = cluster.Cluster('/nonexistent/ceph.conf', 'cinder')
        error = self.assertRaises(errors.ClusterError, connection.__enter__)
        self.assertIn('/nonexistent/ceph.conf as client.cinder', str(error))


@ddt.ddt
class AnsweringTest(testtools.TestCase):

    def call(self, error: Exception, what: str = 'read it') -> None:
        with cluster.answering(what):
            raise error

    @ddt.data(rados.TimedOut('late'), rbd.Timeout('late', errno.ETIMEDOUT),
              rados.OSError('late', errno.ETIMEDOUT), rbd.OSError('late', errno.EAGAIN))
    def test_timeout_becomes_a_cluster_timeout(self, raised: Exception) -> None:
        error = self.assertRaises(errors.ClusterTimeout, self.call, raised)
        self.assertIn('could not read it', str(error))

    @ddt.data(errno.ESHUTDOWN, errno.ENOTCONN)
    def test_lost_connection_hints_at_the_blocklist(self, code: int) -> None:
        error = self.assertRaises(errors.ClusterError, self.call, rados.OSError('lost', code))
        self.assertIn('blocklisted', str(error))

    def test_other_error_becomes_a_cluster_error(self) -> None:
        error = self.assertRaises(errors.ClusterError, self.call,
                                  rbd.PermissionError('no', errno.EPERM))
        self.assertNotIsInstance(error, errors.ClusterTimeout)
        self.assertIn('no', str(error))

    @ddt.data(rados.ObjectNotFound('x'), rados.ObjectExists('x'),
              rbd.ImageNotFound('x', errno.ENOENT), rbd.ImageExists('x', errno.EEXIST),
              rbd.ImageBusy('x', errno.EBUSY))
    def test_error_that_callers_handle_passes(self, raised: Exception) -> None:
        self.assertIs(raised, self.assertRaises(type(raised), self.call, raised))

    def test_missing_pool_is_named(self) -> None:
        error = self.assertRaises(errors.ClusterError, self.call,
                                  rados.ObjectNotFound('x'), 'open pool volumes')
        self.assertIn('open pool volumes', str(error))

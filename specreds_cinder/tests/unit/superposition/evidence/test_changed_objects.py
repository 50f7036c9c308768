# SPDX-License-Identifier: Apache-2.0
"""Objects in Ceph that another controller changes between the read and the write of one."""

from collections.abc import Callable, Iterator
import contextlib
import errno
from typing import Any
from unittest import mock

import rados
import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import steps
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.exclusion import fenced as fences
from specreds_cinder.superposition.exclusion import latch
from specreds_cinder.superposition.steps import host_fence
from specreds_cinder.superposition.truth import store as stores
from specreds_cinder.tests.unit import fakes
from specreds_cinder.tests.unit.superposition.ceph import test_volume

_ID, _OTHER = '0b5b9f6e-6f0e-4d55-8a3c-1d1c3b3e7a01', '1c6c0a7f-70f1-4e66-9b4d-2e2d4c4f8b12'
_CLIENT = '10.0.0.1:0/1'


class ObjectTestCase(testtools.TestCase):
    """An object with attributes.

    :ivar meanwhile: called once, after the first read
    """

    def setUp(self) -> None:
        super().setUp()
        self.attributes: dict[str, bytes] = {}
        self.version = 7
        self.written = 0
        self.meanwhile: Callable[[], object] = lambda: None
        io = mock.Mock(**{'get_xattrs.side_effect': lambda _name: list(self.attributes.items()),
                          'get_last_version.side_effect': self.read,
                          'operate_write_op.side_effect': self.write})
        self.cluster: Any = fakes.Cluster(io)
        self.patch(rados, 'WriteOpCtx', self.operation)

    def read(self) -> int:
        """Return the version that was read, and let something happen."""
        version, meanwhile = self.version, self.meanwhile
        self.meanwhile = lambda: None
        meanwhile()
        return version

    @contextlib.contextmanager
    def operation(self) -> Iterator[mock.Mock]:
        """Yield a write operation."""
        yield mock.Mock(unsafe=True)

    def write(self, operation: mock.Mock, _name: str, **_options: object) -> None:
        """Write, unless the object has another version than the operation asserts."""
        for call in operation.assert_version.call_args_list:
            if call.args[0] != self.version:
                raise rados.OSError('it has another version', errno.ERANGE)
        self.written += 1

    def change(self, **attributes: bytes) -> None:
        """Change the object, as another controller does."""
        self.version += 1
        self.attributes = attributes


class LatchTest(ObjectTestCase):
    """A latch that is armed."""

    def setUp(self) -> None:
        super().setUp()
        self.attributes = {'specreds.latch': _ID.encode()}
        self.latch = latch.Latch(self.cluster, mock.Mock())

    def test_latch_that_was_opened_for_good_meanwhile_stays_open(self) -> None:
        self.meanwhile = self.change
        self.assertRaises(errors.RecordChanged, self.latch.close, fakes.volume(), _ID)
        self.assertEqual(0, self.written)

    def test_latch_whose_lock_was_taken_meanwhile_is_closed(self) -> None:
        self.meanwhile = lambda: self.change(**self.attributes)
        self.latch.close(fakes.volume(), _ID)
        self.assertEqual(1, self.written)


class FencedClientsTest(ObjectTestCase):
    """A list of the clients that stay fenced."""

    def test_client_that_is_fenced_anew_meanwhile_stays_in_the_list(self) -> None:
        listing = fences.Listing({_CLIENT: fences.Entry(_ID, None, 'then')}, self.version)
        self.change()
        self.assertFalse(fences.FencedClients(self.cluster).remove(
            fakes.volume().ref.home, [_CLIENT], listing))
        self.assertEqual(0, self.written)


class HostFenceTest(testtools.TestCase):
    """A volume whose host is to be shut out of it."""

    def test_volume_that_was_superposed_meanwhile_is_left_to_its_superposition(self) -> None:
        step: Any = steps.Protocol(mock.Mock(**{'pools.return_value': test_volume.POOLS}))
        home = test_volume.GOOD.ref.home
        step.store = mock.Mock(**{'holder.return_value': stores.Claim(_OTHER, home, 1)})
        step.ledger, step.fence = mock.Mock(**{'read.return_value': {}}), mock.Mock()
        self.patch(volumes, 'inspect', lambda _cluster, _ref: test_volume.GOOD)
        self.patch(volumes, 'clients', lambda *_arguments: frozenset({_CLIENT}))
        self.patch(host_fence, '_barrier', mock.Mock())
        self.assertRaises(errors.AlreadySuperposed, step.shut_out,
                          [host_fence.Target(test_volume.GOOD.ref)], _ID)
        step.fence.close.assert_not_called()

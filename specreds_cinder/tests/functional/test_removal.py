# SPDX-License-Identifier: Apache-2.0
"""An overlay is removed in whatever state a client, or an interrupted removal, has left it."""

from collections.abc import Callable
import struct
from unittest import mock

import ddt
import rados
import rbd

from specreds_cinder.superposition.exclusion import fence
from specreds_cinder.tests.functional import protocol_base

# TrashImageState and TrashImageSource of Ceph's cls_rbd_types.h.
_NORMAL, _MOVING, _RESTORING = 0, 1, 3
_REMOVING = 3


def _text(text: str) -> bytes:
    return struct.pack('<I', len(text)) + text.encode()


class Overlay:
    """The objects of an overlay, as a librbd that is interrupted changes them."""

    def __init__(self, io: 'rados.Ioctx', name: str) -> None:
        self._io = io
        self._name = name
        with rbd.Image(io, name, read_only=True) as image:
            self.id = image.id()

    def trash(self, state: int) -> None:
        """Add the overlay to the trash, as the removal of an image does."""
        spec = struct.pack('<B', _REMOVING) + _text(self._name) + bytes(16) + bytes([state])
        self._io.execute('rbd_trash', 'rbd', 'trash_add', _text(self.id) + struct.pack(
            '<BBI', 2, 1, len(spec)) + spec)

    def forget_id(self) -> None:
        """Remove the object with the id of the overlay, by which clients open it."""
        self._io.remove_object(f'rbd_id.{self._name}')

    def unlist(self) -> None:
        """Remove it from the directory of images."""
        self._io.execute('rbd_directory', 'rbd', 'dir_remove_image',
                         _text(self._name) + _text(self.id))

    def behead(self) -> None:
        """Remove its data and its header."""
        for item in list(self._io.list_objects()):
            if item.key.startswith(f'rbd_data.{self.id}.'):
                item.remove()
        self._io.remove_object(f'rbd_header.{self.id}')


def _move_begins(overlay: Overlay) -> None:
    overlay.trash(_MOVING)


def _move_without_id(overlay: Overlay) -> None:
    overlay.trash(_MOVING)
    overlay.forget_id()


def _move_ends(overlay: Overlay) -> None:
    _move_without_id(overlay)
    overlay.unlist()


def _in_trash(overlay: Overlay) -> None:
    overlay.trash(_NORMAL)
    overlay.forget_id()
    overlay.unlist()


def _restore_begins(overlay: Overlay) -> None:
    overlay.trash(_RESTORING)
    overlay.forget_id()
    overlay.unlist()


def _restore_without_directory(overlay: Overlay) -> None:
    overlay.trash(_RESTORING)
    overlay.unlist()


def _only_listed(overlay: Overlay) -> None:
    overlay.forget_id()
    overlay.behead()


def _only_id(overlay: Overlay) -> None:
    overlay.unlist()
    overlay.behead()


@ddt.ddt
class RemovalTest(protocol_base.ProtocolTestCase):
    """The abort of a superposition whose overlay is in a state in which librbd leaves it."""

    def setUp(self) -> None:
        super().setUp()
        self.record = self.superpose(self.make_volume())
        self.overlay = self.record.volumes[0].overlay_ref

    @ddt.data(_move_begins, _move_without_id, _move_ends, _in_trash, _restore_begins,
              _restore_without_directory, _only_listed, _only_id)
    def test_half_removed_overlay_is_removed(self, half: Callable[[Overlay], None]) -> None:
        with self.open_pool() as io:
            half(Overlay(io, self.overlay.image))
        self.protocol.abort(self.record)
        self.assert_nothing_left(self.record)
        self.assert_not_in_trash()

    def test_user_of_a_half_removed_overlay_is_fenced(self) -> None:
        user = self.make_primary(self.overlay)
        with self.open_pool() as io:
            _restore_begins(Overlay(io, self.overlay.image))
        self.protocol.abort(self.record)
        self.assertLessEqual(user.clients, self.fenced())
        self.assert_nothing_left(self.record)

    def test_watch_that_neither_expires_nor_leaves_by_a_fence_is_no_obstacle(self) -> None:
        # An OSD keeps it like this if the client dies while the watch is being stored.
        with self.open_pool() as io, rbd.Image(io, self.overlay.image), \
                mock.patch.object(fence.Fence, 'evict'):
            self.protocol.abort(self.record)
            self.assert_nothing_left(self.record)

    def assert_not_in_trash(self) -> None:
        """Assert that the trash has no overlay of the superposition."""
        with self.open_pool() as io, rados.ReadOpCtx() as op:
            entries, _status = io.get_omap_vals(op, '', 'id_', 1000)
            io.operate_read_op(op, 'rbd_trash')
            for _key, value in entries:
                self.assertNotIn(self.overlay.image.encode(), value)

# SPDX-License-Identifier: Apache-2.0
"""The removal of an overlay, which a client may open while it is removed."""

from collections.abc import Callable, Collection
from typing import Any
from unittest import mock

import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.ceph import writes
from specreds_cinder.superposition.overlay import overlay
from specreds_cinder.superposition.overlay import removal
from specreds_cinder.superposition.overlay import removed as removals
from specreds_cinder.tests.unit import fakes

_FIRST, _SECOND = '10.0.0.2:0/2', '10.0.0.3:0/3'
_ID = '2b'


class RemovalTest(testtools.TestCase):
    """An overlay of one data object, and clients that open it.

    :ivar acts: what was done, in order
    :ivar meanwhile: called when the name of the overlay is removed
    """

    def setUp(self) -> None:
        super().setUp()
        self.volume = fakes.volume()
        self.home = self.volume.ref.home
        self.clients: set[str] = set()
        self.acts: list[str] = []
        self.meanwhile: Callable[[], object] = lambda: None
        self.layout = overlay.STRIPE_UNIT, 16
        io = mock.Mock(**{'read.return_value': len(_ID).to_bytes(4, 'little') + _ID.encode()})
        data = mock.Mock(**{
            'stat_versions.side_effect': lambda names, _depth: [1] * len(names),
            'remove.side_effect': lambda _names, _depth: self.acts.append('data')})
        self.cluster: Any = fakes.Cluster(io, data)
        self.fence: Any = mock.Mock(**{'outside.side_effect': frozenset,
                                       'evict.side_effect': self.fenced})
        for looked in ('clients', 'watchers'):
            self.patch(volumes, looked, lambda *_arguments: frozenset(self.clients))
        self.patch(volumes, 'opened', mock.MagicMock(
            **{'return_value.__enter__.side_effect': self.image}))
        self.patch(writes, 'remove', self.remove)
        self.patch(writes, 'execute', mock.Mock())
        self.patch(removals, 'Removed', mock.Mock(
            return_value=mock.Mock(**{'read.side_effect': lambda _home: self.listed()})))
        self.age_s = 0.0

    def image(self) -> mock.Mock:
        """Return the open image of the overlay."""
        size, count = self.layout
        return mock.Mock(**{
            'id.return_value': _ID, 'stripe_unit.return_value': size,
            'stripe_count.return_value': count, 'data_pool_id.return_value': -1,
            'block_name_prefix.return_value': f'rbd_data.{_ID}',
            'stat.return_value': {'num_objs': 1}})

    def listed(self) -> list[mock.Mock]:
        """Return the list of removed overlays."""
        entry = mock.Mock(id=_ID, data_pool_id=fakes.POOL_ID, prefix=f'rbd_data.{_ID}', objects=1,
                          age_seconds=self.age_s)
        entry.name = self.volume.overlay
        return [entry]

    def fenced(self, clients: Collection[str]) -> None:
        """Note the fence of clients."""
        self.acts += [f'fence {client}' for client in sorted(clients)]

    def remove(self, _io: object, name: str) -> None:
        """Note the removal of an object."""
        self.acts.append(name.partition('.')[0])
        if name == f'rbd_id.{self.volume.overlay}':
            self.meanwhile()

    def test_user_that_opens_the_overlay_meanwhile_is_fenced(self) -> None:
        self.clients = {_FIRST}
        self.meanwhile = lambda: self.clients.add(_SECOND)
        removal.remove(self.cluster, self.volume, self.fence, evict=True)
        self.assertEqual([f'fence {_FIRST}', 'rbd_id', f'fence {_SECOND}', 'rbd_header', 'data'],
                         self.acts)

    def test_overlay_that_is_opened_meanwhile_stays(self) -> None:
        self.meanwhile = lambda: self.clients.add(_SECOND)
        self.assertRaises(errors.OverlayBusy, removal.remove, self.cluster, self.volume,
                          self.fence, evict=False)
        self.assertEqual(['rbd_id'], self.acts)

    def test_overlay_that_is_open_keeps_its_name(self) -> None:
        self.clients = {_FIRST}
        self.assertRaises(errors.OverlayBusy, removal.remove, self.cluster, self.volume,
                          self.fence, evict=False)
        self.assertEqual([], self.acts)

    def remove_orphan(self) -> bool:
        """Remove the overlay as one of no superposition."""
        return removal.remove_orphan(self.cluster, self.volume.overlay_ref, self.fence)

    def test_orphan_that_a_client_has_opened_meanwhile_stays(self) -> None:
        self.clients = {_FIRST}
        self.assertRaises(errors.OverlayBusy, self.remove_orphan)
        self.assertEqual([], self.acts)

    def test_image_that_only_has_the_name_of_an_overlay_stays(self) -> None:
        self.layout = 4 << 20, 1
        self.assertFalse(self.remove_orphan())
        self.assertEqual([], self.acts)

    def again(self) -> list[removals.Overlay]:
        """Look for objects of removed overlays that were written since."""
        return removal.again(self.cluster, self.home, 600.0)

    def test_overlay_is_looked_for_again_once_its_writers_have_ended_meanwhile(self) -> None:
        self.age_s = 599.0
        self.assertEqual([], self.again())
        self.assertEqual([], self.acts)
        self.age_s = 600.0
        self.assertEqual(1, len(self.again()))
        self.assertEqual(['rbd_header', 'data'], self.acts)

# SPDX-License-Identifier: Apache-2.0
"""The claims of superpositions on the disks of a server, read without Cinder."""

import json
from typing import Any
from unittest import mock

import rados

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_nova.host.disks import claims
from specreds_nova.tests.unit.host import base

_CLAIM = json.dumps({'superposition': base.SUPERPOSITION, 'home': 'vms'}).encode()


class ClaimsTest(base.TestCase):
    """Each disk of the server is looked at, in the pool of Nova's disks."""

    def setUp(self) -> None:
        super().setUp()
        self.conf.config(group='libvirt', images_rbd_pool='nova', rbd_user='nova')
        self.objects: dict[str, bytes] = {}
        self.pools: list[str] = []
        patch = mock.patch.object(ceph, 'Cluster', autospec=True)
        self.made = patch.start()
        self.addCleanup(patch.stop)
        cluster = self.made.return_value.__enter__.return_value
        cluster.ioctx.side_effect = self._open

    def _open(self, pool: str, namespace: str = '') -> Any:
        self.pools.append(pool + namespace)
        io = mock.MagicMock()
        io.read.side_effect = self._read
        return mock.MagicMock(__enter__=mock.Mock(return_value=io), __exit__=mock.Mock(
            return_value=False))

    def _read(self, name: str, *_size: int) -> bytes:
        try:
            return self.objects[name]
        except KeyError:
            raise rados.ObjectNotFound('no object') from None

    def disk(self, name: str, image: str, *, claimed: bool = False) -> None:
        """Create an image."""
        self.objects[f'rbd_id.{base.SERVER}_{name}'] = b'\x04\0\0\0' + image.encode()
        if claimed:
            self.objects[f'specreds.claim.{image}'] = _CLAIM

    def test_server_without_a_claim(self) -> None:
        self.disk('disk', 'a1b2')
        self.disk('disk.eph0', 'c3d4')
        self.assertTrue(claims.none(base.SERVER))
        self.assertEqual({'nova'}, set(self.pools))
        self.assertEqual('nova', self.made.call_args.args[1])

    def test_claim_of_any_disk_counts(self) -> None:
        for name in ('disk', 'disk.local', 'disk.swap', 'disk.eph0', 'disk.eph1'):
            self.objects.clear()
            self.disk('disk', 'a1b2')
            self.disk('disk.eph0', 'c3d4')
            self.disk(name, 'e5f6', claimed=True)
            self.assertFalse(claims.none(base.SERVER), name)

    def test_silent_ceph_says_nothing(self) -> None:
        self.made.return_value.__enter__.side_effect = errors.ClusterTimeout('no answer')
        self.assertFalse(claims.none(base.SERVER))

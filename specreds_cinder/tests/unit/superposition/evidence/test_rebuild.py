# SPDX-License-Identifier: Apache-2.0
"""An invalid object map is rebuilt by a client that answers, and the caller waits for that."""

import dataclasses
import struct
from typing import Any
from unittest import mock

import ddt
import rbd
import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.evidence import rebuild
from specreds_cinder.tests.unit import fakes

_OWNER = '192.0.2.1:0/1'


def _result(code: int) -> bytes:
    return struct.pack('<BBIi', 1, 1, 4, code)


@ddt.ddt
class InspectTest(testtools.TestCase):
    """An image with an invalid object map, and an owner of its lock."""

    def setUp(self) -> None:
        super().setUp()
        image = fakes.volume()
        self.image = volumes.Facts(
            ref=image.ref, image_id=image.image_id, pool_id=image.pool_id,
            data_pool_id=image.data_pool_id, data_prefix=image.data_prefix,
            size_bytes=image.size_bytes, object_size=image.object_size,
            features=image.features | rbd.RBD_FEATURE_OBJECT_MAP,
            clients=frozenset({_OWNER}), owners=frozenset({_OWNER}),
            invalid_map=True, mirrored=False, luks=None)
        self.aio = mock.Mock()
        self.aio.notify.return_value = [b'', _result(0)]
        self.cluster: Any = fakes.Cluster(aio=self.aio)
        self.cluster.timeout = 0.0

    def inspect(self, *looks: volumes.Facts) -> volumes.Facts:
        """Inspect the image.

        :param looks: what is found by one look after the other; the last one stays
        """
        seen: list[volumes.Facts] = list(looks)
        with mock.patch.object(volumes, 'inspect', lambda _cluster, _ref: (
                seen.pop(0) if len(seen) > 1 else seen[0])):
            return rebuild.inspect(self.cluster, self.image.ref)

    def test_map_is_valid_once_its_client_has_rebuilt_it(self) -> None:
        self.cluster.timeout = 60.0
        valid = dataclasses.replace(self.image, invalid_map=False)
        self.assertEqual(valid, self.inspect(self.image, valid))
        name, message, _patience = self.aio.notify.call_args.args
        self.assertEqual(f'rbd_header.{self.image.image_id}'.encode(), name)
        # The operation follows version, compatible version and length.
        self.assertEqual(struct.pack('<IBB', len(message) - 6, 10, 0), message[2:8])

    def test_rebuild_that_takes_long_is_no_refusal(self) -> None:
        self.assertRaises(errors.Rebuilding, self.inspect, self.image)

    @ddt.data([], [b''], [b'', _result(-11)], [b'\\0'])
    def test_map_stays_invalid_without_a_client_that_rebuilds_it(self, answers: list[bytes]
                                                                 ) -> None:
        self.aio.notify.return_value = answers
        self.assertEqual(self.image, self.inspect(self.image))

    @ddt.data({'invalid_map': False}, {'owners': frozenset()},
              {'features': 0})
    def test_nobody_is_asked_in_vain(self, changes: dict[str, Any]) -> None:
        image = dataclasses.replace(self.image, **changes)
        self.assertEqual(image, self.inspect(image))
        self.aio.notify.assert_not_called()

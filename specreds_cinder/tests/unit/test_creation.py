# SPDX-License-Identifier: Apache-2.0
"""super and a host's fence wait for the placement groups that they need, and for no others."""

from unittest import mock

import testtools

from specreds_cinder.superposition import cut as cuts
from specreds_cinder.superposition import errors
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition.protocol import host_fence
from specreds_cinder.tests.unit import fakes


class CutsTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.cluster = mock.Mock(timeout=60)
        self.creation = host_fence.HostFence(self.cluster)
        self.taken = [records.Cut(2, 'null', (number, 7)) for number in (0, 0, 5, 6)]
        self.patch(cuts, 'take', mock.Mock(side_effect=self.taken))

    def test_cut_is_repeated_until_it_bounds_the_volumes(self) -> None:
        with mock.patch.object(cuts, 'bounded', side_effect=[False, False, False, True]):
            taken = self.creation._cuts(fakes.superposition())
        self.assertEqual({fakes.POOL_ID: self.taken[3]}, taken)

    def test_group_that_stays_silent_is_an_error_that_names_the_volume(self) -> None:
        self.cluster.timeout = -1
        with mock.patch.object(cuts, 'bounded', return_value=False):
            error = self.assertRaises(errors.ClusterTimeout, self.creation._cuts,
                                      fakes.superposition())
        self.assertIn('volumes/vol-1', str(error))

    def test_barrier_of_a_fence_waits_for_every_group(self) -> None:
        self.creation._barrier([fakes.volume()])
        self.assertEqual(self.taken[3], cuts.take(self.cluster, fakes.POOL_ID, ''))

    def test_barrier_of_a_fence_fails_if_a_group_stays_silent(self) -> None:
        self.cluster.timeout = -1
        error = self.assertRaises(errors.ClusterTimeout, self.creation._barrier, [fakes.volume()])
        self.assertIn('pool 2', str(error))

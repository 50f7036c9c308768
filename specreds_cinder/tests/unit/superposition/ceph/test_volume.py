# SPDX-License-Identifier: Apache-2.0
"""Images that can be superposed, by facts that cannot be produced on a single machine."""

from collections.abc import Sequence
import dataclasses
from typing import Any
from unittest import mock

import ddt
import rbd
import testtools

from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.exclusion import latch
from specreds_cinder.superposition.overlay import luks
from specreds_cinder.superposition.truth import record as records

POOLS = {number: ceph.Pool(id=number, name=f'pool-{number}', pg_num=8, merges='null',
                           erasure=False, cache_tier=number == 3, rbd=True, rjenkins=number != 4)
         for number in (1, 2, 3, 4)}
NEEDED = rbd.RBD_FEATURE_EXCLUSIVE_LOCK | rbd.RBD_FEATURE_OBJECT_MAP
GOOD = volumes.Facts(
    ref=records.VolumeRef('pool-1', '', 'vol'), image_id='10', pool_id=1, data_pool_id=2,
    data_prefix='rbd_data.10', size_bytes=1 << 30, object_size=4 << 20, features=NEEDED,
    clients=frozenset(), owners=frozenset(), invalid_map=False, mirrored=False, luks=None)


@ddt.ddt
class ReasonsTest(testtools.TestCase):

    def reasons(self, *, read: bool = False, **changes: Any) -> list[str]:
        """Return the reasons against a suitable image with some facts changed."""
        return dataclasses.replace(GOOD, **changes).reasons(POOLS, read=read)

    def test_suitable_image_has_no_reasons(self) -> None:
        self.assertEqual([], self.reasons())

    @ddt.data(
        ({'10.0.0.1:0/1'}, True),
        ({'10.0.0.1:0/1', '10.0.0.1:0/2'}, True),
        ({'[fd00::1]:0/1', '[fd00::1]:6800/2'}, True),
        ({'10.0.0.1:0/1', '10.0.0.2:0/1'}, False),
        ({'10.0.0.1:0/1', '10.0.0.11:0/1'}, False),
        ({'[fd00::1]:0/1', '[fd00::2]:0/1'}, False),
        ({'10.0.0.1:0/1', '[fd00::1]:0/1'}, False),
    )
    @ddt.unpack
    def test_clients_must_be_of_one_host(self, clients: set[str], good: bool) -> None:
        reasons = self.reasons(clients=frozenset(clients))
        if good:
            self.assertEqual([], reasons)
        else:
            self.assertEqual(1, len(reasons))
            for client in clients:
                self.assertIn(client, reasons[0])

    def test_a_job_may_read_on_one_more_host(self) -> None:
        clients = [f'10.0.0.{number}:0/1' for number in (1, 2, 3)]
        for count, good in ((1, True), (2, True), (3, False)):
            self.assertEqual(good, not self.reasons(read=True, clients=frozenset(clients[:count])))

    def test_watch_of_a_client_that_has_ended_can_be_removed(self) -> None:
        pools = {**POOLS, 1: dataclasses.replace(POOLS[1], pg_num=32)}
        # As "ceph osd map" prints it.
        for namespace, group in (('', '1.15'), ('tenant', '1.1c')):
            [reason] = dataclasses.replace(
                GOOD, image_id='1a', ref=records.VolumeRef('pool-1', namespace, 'vol'),
                clients=frozenset({'10.0.0.1:0/1', '10.0.0.2:0/1'})).reasons(pools)
            self.assertIn(f'"ceph pg repeer {group}"', reason)

    @ddt.data(
        ({'features': rbd.RBD_FEATURE_OBJECT_MAP}, 'exclusive-lock'),
        ({'features': rbd.RBD_FEATURE_EXCLUSIVE_LOCK}, 'object-map'),
        ({'features': NEEDED | rbd.RBD_FEATURE_JOURNALING}, 'journaled'),
        ({'features': NEEDED | rbd.RBD_FEATURE_MIGRATING}, 'migrated'),
        ({'features': NEEDED | 1 << 11}, 'write-back cache'),
        ({'invalid_map': True}, 'rebuild'),
        ({'mirrored': True}, 'mirrored'),
        ({'luks': luks.Header(1, 2 << 20)}, 'not known to be encrypted'),
        ({'size_bytes': 513}, '512'),
        ({'size_bytes': (64 << 40) + 512}, '64 TiB'),
        ({'pool_id': 3}, 'pool-3'),
        ({'data_pool_id': 3}, 'pool-3'),
        ({'pool_id': 4}, 'rjenkins'),
        ({'data_pool_id': 4}, 'rjenkins'),
        ({'kernel': frozenset({'10.0.0.1:0/1'})}, '10.0.0.1:0/1'),
    )
    @ddt.unpack
    def test_unsuitable_image_has_a_reason(self, changes: dict[str, Any], word: str) -> None:
        reasons = self.reasons(**changes)
        self.assertEqual(1, len(reasons))
        self.assertIn(word, reasons[0])

    def test_missing_map_is_not_called_invalid(self) -> None:
        reasons = self.reasons(features=rbd.RBD_FEATURE_EXCLUSIVE_LOCK, invalid_map=True)
        self.assertEqual(1, len(reasons))

    def test_other_features_are_allowed(self) -> None:
        for feature in (rbd.RBD_FEATURE_LAYERING, rbd.RBD_FEATURE_STRIPINGV2,
                        rbd.RBD_FEATURE_FAST_DIFF, rbd.RBD_FEATURE_DEEP_FLATTEN,
                        rbd.RBD_FEATURE_DATA_POOL):
            self.assertEqual([], self.reasons(features=NEEDED | feature))


class InspectTest(testtools.TestCase):

    def inspect(self, watchers: list[dict[str, Any]],
                lockers: Sequence[tuple[str, str, str]] = ()) -> volumes.Facts:
        """Return the facts of an image with some clients."""
        cluster = mock.MagicMock(addresses=frozenset({'10.0.0.9:0/9'}))
        with mock.patch.object(rbd, 'Image') as image:
            opened = image.return_value.__enter__.return_value
            opened.old_format.return_value = False
            opened.list_lockers.return_value = {'lockers': list(lockers)} if lockers else []
            opened.watchers_list.return_value = watchers
            opened.data_pool_id.return_value = opened.size.return_value = 1
            opened.flags.return_value = opened.features.return_value = 0
            facts = volumes.inspect(cluster, GOOD.ref)
        # A decision waits for each of these requests.
        opened.list_lockers.assert_called_once_with()
        opened.watchers_list.assert_called_once_with()
        return facts

    def test_kernel_is_told_from_librbd_by_the_cookie_of_its_watch(self) -> None:
        facts = self.inspect([
            {'addr': '10.0.0.1:0/1', 'id': 1, 'cookie': 140702524642464},
            {'addr': '10.0.0.1:0/2', 'id': 2, 'cookie': 18446462598732840961}])
        self.assertEqual({'10.0.0.1:0/1', '10.0.0.1:0/2'}, facts.clients)
        self.assertEqual({'10.0.0.1:0/2'}, facts.kernel)

    def test_client_with_addresses_of_both_families_is_one_primary(self) -> None:
        watchers = [{'addr': '10.0.0.1:0/1', 'id': 7, 'cookie': 1},
                    {'addr': '10.0.0.9:0/9', 'id': 9, 'cookie': 1}]
        facts = self.inspect(watchers, [('client.7', 'auto 1', '[fd00::1]:0/1')])
        self.assertEqual({'10.0.0.1:0/1', '[fd00::1]:0/1'}, facts.clients)
        self.assertEqual(1, facts.hosts)
        facts = self.inspect(watchers, [('client.8', 'auto 1', '[fd00::1]:0/1')])
        self.assertEqual(2, facts.hosts)

    def test_owner_of_the_latch_is_no_client(self) -> None:
        facts = self.inspect([{'addr': '10.0.0.1:0/1', 'id': 7, 'cookie': 1}],
                             [('client.8', latch.COOKIE, '10.0.0.2:0/1')])
        self.assertEqual({7}, facts.ids)

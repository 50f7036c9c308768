# SPDX-License-Identifier: Apache-2.0
"""Volumes of one server in two pools share one record, which workers of both pools find."""

from typing import Any

from specreds_cinder import superposition as sp
from specreds_cinder.service.worker import client
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.functional import actors
from specreds_cinder.tests.functional import base
from specreds_cinder.tests.functional import protocol_base
from specreds_cinder.tests.functional import worker_base

OBJECT = 4 * base.MIB


class PoolsTest(worker_base.WorkerTestCase):
    """One primary with a volume in each of two pools; the worker of the first one leads."""

    def setUp(self) -> None:
        super().setUp()
        self.other = client.Worker(
            {'conffile': str(self.ceph.conf), 'user': 'cinder', 'timeout': 30}, self.second,
            {}, watch=False)
        self.addCleanup(self.other.stop)
        self.refs = [self.make_volume(), self.make_volume(pool=self.second)]
        self.primary = self.make_primary(*self.refs)
        # Ceph does not wait for a client that is fenced when the images are removed.
        self.addCleanup(self.protocol.fence.close, self.primary.clients)
        self.superposition = self.super(self.refs[0].image, str(self.refs[1]))
        self.record = self.protocol.show(self.superposition, self.refs[0].home)

    def make_worker(self, **cluster: Any) -> client.Worker:
        """Return the worker of the first pool, after the second pool is made."""
        # First, because only later connections may use the pool.
        self.second = self.make_pool('second', pg_num=8)
        return super().make_worker(**cluster)

    def ask_other(self, method: str, **arguments: Any) -> Any:
        """Call the worker of the second pool."""
        return self.other.call(self.context, method, **arguments)

    def assert_ended(self) -> None:
        self.assertRaises(sp.NotSuperposed, self.protocol.reload, self.record)
        self.assert_nothing_left(self.record)

    def test_set_is_promoted_and_merged_as_one(self) -> None:
        for volume, number in zip(self.record.volumes, (5, 6), strict=True):
            actors.child_io(self.cluster, volume, f'write -P {number} {OBJECT} 4k')
        self.assertEqual('promoted', self.ask(
            'collapse', superposition=self.superposition, durable=True)['outcome'])
        self.assertEqual([protocol_base.DEAD] * 2,
                         [self.primary.write(0, disk=disk) for disk in range(2)])
        self.ask('merge', superposition=self.superposition)
        for ref in self.refs:
            self.assertLessEqual(
                self.primary.clients, self.protocol.fenced_clients.read(ref.home).entries.keys())
        for ref, byte in zip(self.refs, (b'\5', b'\6'), strict=True):
            self.assertEqual(byte * 4096, self.contents(ref)[OBJECT:OBJECT + 4096])
        self.assert_ended()

    def test_write_to_the_second_pool_makes_the_set_dirty(self) -> None:
        self.assertEqual(0, self.primary.write(OBJECT, disk=1))
        self.assertTrue(self.ask('check', superposition=self.superposition)['dirty'])
        self.assertEqual('dirty', self.ask(
            'collapse', superposition=self.superposition, durable=False)['outcome'])
        self.assertEqual([0, 0], [self.primary.write(OBJECT, disk=disk) for disk in range(2)])
        self.assert_ended()

    def test_worker_of_the_second_pool_finds_the_record(self) -> None:
        views = [self.ask_other('show', superposition=self.superposition, brief=True),
                 self.ask_other('find', image=self.refs[1].image),
                 *(view for view in self.ask_other('list') if view['id'] == self.superposition)]
        self.assertEqual([(self.superposition, [str(self.refs[0]), self.refs[1].image])] * 3, [
            (view['id'], [volume['image'] for volume in view['volumes']]) for view in views])
        self.assertEqual(self.record, self.protocol.show(self.superposition, self.refs[1].home))
        self.assertRaises(sp.NotSuperposed, self.protocol.show, records.new_id(),
                          self.refs[1].home)

    def test_worker_of_the_second_pool_hands_out_the_overlay(self) -> None:
        self.ask('collapse', superposition=self.superposition, durable=False)
        self.assertEqual(states.PROMOTED, self.ask_other(
            'hand_out', superposition=self.superposition)['state'])
        self.assertIn('handed_at', self.protocol.reload(self.record).labels)
        # One that looks after its own pool leaves the record and its overlays alone.
        self.ask_other('tidy')
        self.ask('merge', superposition=self.superposition)
        self.assert_ended()

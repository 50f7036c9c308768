# SPDX-License-Identifier: Apache-2.0
"""In a full pool, superpositions are decided and dropped; none begins, and merges wait."""

import tenacity

from specreds_cinder import superposition as sp
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.functional import actors
from specreds_cinder.tests.functional import base
from specreds_cinder.tests.functional import protocol_base

# Without progress for so long, a merge fails.
_STALL_SECONDS = 5
_LOOKS = tenacity.retry(retry=tenacity.retry_if_result(bool), wait=tenacity.wait_fixed(0.2),
                        stop=tenacity.stop_after_delay(120))


class FullPoolTest(protocol_base.ProtocolTestCase):
    """A pool of its own that has reached its quota."""

    def setUp(self) -> None:
        super().setUp()
        self.full = self.make_pool('full')
        self.record = self.superpose(self.make_volume(pool=self.full))

    def limit(self, objects: int) -> None:
        """Set the quota, and wait until it counts."""
        self.ceph.admin(['osd', 'pool', 'set-quota', self.full, 'max_objects', str(objects)])
        self.wait_until(bool(objects))
        if objects:
            # Before images are removed.
            self.addCleanup(self.limit, 0)

    @_LOOKS
    def wait_until(self, full: bool) -> bool:
        """Wait until the pool is full, or is not any more."""
        [pool] = [pool for pool in self.cluster.pools().values() if pool.name == self.full]
        self.protocol.fence.wait_osdmap()
        return pool.full != full

    def test_overlay_is_removed(self) -> None:
        actors.child_io(self.cluster, self.record.volumes[0], 'write -P 7 0 1M')
        self.limit(1)
        self.protocol.abort(self.record)
        self.assert_nothing_left(self.record)
        self.protocol.tidy(self.record.home, older_s=0)

    def test_primary_is_shut_out(self) -> None:
        self.protocol.abort(self.record)
        ref = self.record.volumes[0].ref
        primary = self.make_primary(ref)
        self.limit(1)
        fenced = self.protocol.shut_out([sp.Target(ref)], records.new_id())
        self.assertEqual(primary.clients, fenced[ref])
        primary.kill()

    def test_superposition_is_decided_and_its_merge_waits_for_space(self) -> None:
        self.child_io(self.record, 'write -P 7 0 1M')
        self.limit(1)
        self.assertEqual('promoted', self.protocol.collapse(self.record).outcome)
        self.assert_waits_for_space(self.protocol)
        # A server may still be started on its overlay.
        self.assertEqual(states.PROMOTED, self.protocol.reload(self.record).state)
        self.limit(0)
        self.assert_merged()

    def test_merge_in_a_pool_that_fills_up_waits_for_space(self) -> None:
        self.child_io(self.record, 'write -P 7 0 1M')
        self.assertEqual('promoted', self.protocol.collapse(self.record).outcome)
        protocol = sp.Protocol(self.cluster, sp.Settings(merge_stall_s=_STALL_SECONDS))
        with sp.trace.observe(self.at('merge.commit', 'before', lambda: self.limit(1))):
            self.assert_waits_for_space(protocol)
        self.limit(0)
        self.bury(self.record)
        self.assert_merged()

    def test_merged_overlay_is_removed(self) -> None:
        self.child_io(self.record, 'write -P 7 0 1M')
        self.assertEqual('promoted', self.protocol.collapse(self.record).outcome)
        with sp.trace.observe(self.at('record.merged', 'after', lambda: self.limit(1))):
            self.assert_merged()

    def assert_waits_for_space(self, protocol: sp.Protocol) -> None:
        """Assert that a merge fails, and says for what it waits."""
        error = self.assertRaises(sp.MergeFailed, protocol.merge, self.record)
        self.assertIn(f'waits for space: pool {self.full} is full', str(error))

    def assert_merged(self) -> None:
        """Assert that a merge succeeds."""
        self.protocol.merge(self.record)
        self.assert_nothing_left(self.record)
        self.assertEqual(b'\x07' * base.MIB,
                         self.contents(self.record.volumes[0].ref)[:base.MIB])

    def test_no_superposition_begins(self) -> None:
        ref = self.make_volume(pool=self.full)
        self.limit(1)
        refused = self.assertRaises(sp.NotEligible, self.protocol.super, [ref])
        self.assertIn('is full', str(refused))
        self.assertEqual([self.record.id], [record.id for record in self.protocol.list(ref.home)])

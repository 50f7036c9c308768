# SPDX-License-Identifier: Apache-2.0
"""Superpositions that are decided together, in steps."""

import contextlib

import ddt

from specreds_cinder import superposition as sp
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import states
from specreds_cinder.tests.functional import base
from specreds_cinder.tests.functional import controller
from specreds_cinder.tests.functional import protocol_base

OBJECT = 4 * base.MIB


def prepare(protocol: sp.Protocol, refs: list[sp.VolumeRef]) -> None:
    """Take the first step of a joint decision."""
    protocol.prepare(protocol.find(refs[0]))


def commit(protocol: sp.Protocol, refs: list[sp.VolumeRef]) -> None:
    """Take its second step for the backup."""
    protocol.commit(protocol.find(refs[0]))


def give_up(protocol: sp.Protocol, refs: list[sp.VolumeRef]) -> None:
    """Take its second step for the primary."""
    protocol.give_up(protocol.find(refs[0]))


class JointTestCase(protocol_base.ProtocolTestCase):
    """One primary with a volume in each of two pools, and a record in each, under one id."""

    def setUp(self) -> None:
        super().setUp()
        # First, because only later connections may use it.
        pool = self.make_pool('joint', pg_num=8)
        self.refs = [self.make_volume(), self.make_volume(pool=pool)]
        self.primary = self.make_primary(*self.refs)
        # Ceph does not wait for a client that is fenced when the images are removed.
        self.addCleanup(self.protocol.fence.close, self.primary.clients)
        self.records = self.superpose_jointly()

    def superpose_jointly(self) -> list[sp.Record]:
        """Put each volume into a superposition of its own under the same id."""
        superposition = records.new_id()
        made = [self.protocol.super([ref], superposition=superposition, joint=True)
                for ref in self.refs]
        for record in made:
            self.addCleanup(self.drop, record)
        return made

    def state(self, record: sp.Record) -> tuple[str, str | None, bool]:
        """Return state, outcome and whether a record is prepared."""
        now = self.protocol.reload(record)
        return now.state, now.outcome, now.prepared

    def assert_ended(self) -> None:
        for record in self.records:
            self.assertRaises(sp.NotSuperposed, self.protocol.reload, record)
            self.assert_nothing_left(record)


@ddt.ddt
class JointTest(JointTestCase):

    def test_prepared_records_are_committed_and_merged(self) -> None:
        self.assertEqual(1, len({record.id for record in self.records}))
        self.assertEqual(self.refs, [volume.ref for record in self.records
                                     for volume in record.volumes])
        for number, record in enumerate(self.records):
            self.child_io(record, f'write -P {0x60 + number} {OBJECT} 4k')
            self.assertFalse(self.protocol.check(record).dirty)
        reports = [self.protocol.prepare(record) for record in self.records]
        self.assertEqual(['prepared'] * 2, [report.outcome for report in reports])
        for record, report in zip(self.records, reports, strict=True):
            self.assertEqual((states.COLLAPSING, None, True), self.state(record))
            self.assertGreater(report.fence_s, 0)
            self.assertFalse(report.sweep2 is None or report.sweep2.dirty)
        self.assertTrue(self.primary.clients <= self.fenced())
        for record in self.records:
            self.protocol.commit(record)
            self.protocol.commit(record)
            self.assertEqual((states.PROMOTED, 'promoted', True), self.state(record))
        for number, record in enumerate(self.records):
            self.assertRaises(sp.Conflict, self.protocol.abort, record)
            self.assertRaises(sp.Conflict, self.protocol.give_up, record)
            self.protocol.merge(record)
            self.assertEqual(bytes([0x60 + number]) * 4096,
                             self.contents(record.volumes[0].ref)[OBJECT:OBJECT + 4096])
        self.assert_ended()

    def test_late_dirty_record_gives_all_up(self) -> None:
        for record in self.records:
            self.assertFalse(self.protocol.check(record).dirty)
        self.assertEqual(0, self.primary.write(5 * OBJECT, 0x77, disk=1))
        self.assertEqual('prepared', self.protocol.prepare(self.records[0]).outcome)
        self.assertEqual('late-dirty', self.protocol.prepare(self.records[1]).outcome)
        self.assertEqual((states.COLLAPSING, 'late-dirty', True), self.state(self.records[1]))
        error = self.assertRaises(sp.Conflict, self.protocol.commit, self.records[1])
        self.assertIn('late-dirty', str(error))
        # Repeated, it has the same outcome.
        self.assertEqual('late-dirty', self.protocol.prepare(self.records[1]).outcome)
        for record in self.records:
            self.protocol.give_up(record)
        self.assert_ended()
        # Acknowledged writes of the primary are there; it stays fenced, so none follows.
        for disk in range(2):
            self.assertNotEqual(0, self.primary.write(6 * OBJECT, 0x78, disk=disk))
        contents = [self.contents(ref) for ref in self.refs]
        self.assertEqual(b'\x77' * 4096, contents[1][5 * OBJECT:5 * OBJECT + 4096])
        for content in contents:
            self.assertEqual(b'\x50' * 4096, content[:4096])
            self.assertEqual(bytes(4096), content[6 * OBJECT:6 * OBJECT + 4096])
        self.assertTrue(self.primary.clients <= self.fenced())

    def test_joint_record_cannot_be_decided_alone(self) -> None:
        record = self.records[0]
        for decide in (self.protocol.collapse, self.protocol.commit, self.protocol.give_up):
            self.assertRaises(sp.Conflict, decide, record)
        self.assertEqual('superposed', self.protocol.resume(record))
        self.protocol.prepare(record)
        self.assertRaises(sp.Conflict, self.protocol.collapse, record)
        error = self.assertRaises(sp.Conflict, self.protocol.resume, record)
        self.assertIn('together with others', str(error))
        self.assertEqual((states.COLLAPSING, None, True), self.state(record))

    def test_abort_of_a_prepared_record_lifts_the_fence(self) -> None:
        self.primary.write(OBJECT, 0x42)
        self.protocol.prepare(self.records[1])
        self.assertTrue(self.records[1].clients <= self.fenced())
        for record in self.records:
            self.protocol.abort(record)
        self.assert_ended()
        self.assertTrue(self.primary.clients.isdisjoint(self.fenced()))
        self.assertEqual(b'\x42' * 4096, self.contents(self.refs[0])[OBJECT:OBJECT + 4096])

    def test_prepare_is_refused_while_the_overlay_is_open(self) -> None:
        backup = self.make_backup(self.records[0])
        self.assertRaises(sp.OverlayBusy, self.protocol.prepare, self.records[0])
        self.assertEqual((states.SUPERPOSED, None, False), self.state(self.records[0]))
        self.assertEqual(0, self.primary.write(OBJECT))
        backup.end()
        self.assertTrue(self.protocol.check(self.records[0]).dirty)

    def test_backup_that_runs_is_prepared_and_merged(self) -> None:
        record = self.records[0]
        backup = self.make_backup(record)
        backup.disks[0].pwrite(b'\x61' * 4096, OBJECT)
        self.assertEqual('prepared', self.protocol.prepare(record, backup.hook).outcome)
        self.protocol.commit(record)
        self.protocol.merge(record, backup.hook)
        self.assertEqual(b'\x61' * 4096, self.contents(self.refs[0])[OBJECT:OBJECT + 4096])

    def test_fence_of_a_prepared_record_is_renewed(self) -> None:
        self.protocol.prepare(self.records[0])
        self.assertEqual([], self.protocol.renew(self.records[0]))
        brief = sp.Protocol(self.cluster, sp.Settings(fence_expiry_s=10**9))
        self.assertEqual(set(self.records[0].clients), set(brief.renew(self.records[0])))
        self.assertTrue(self.records[0].clients <= self.fenced())


@ddt.ddt
class CutOffTest(protocol_base.ProtocolTestCase):
    """Controllers die at every change to one record of a set."""

    def setUp(self) -> None:
        super().setUp()
        self.ref = self.make_volume()
        self.begin()

    def begin(self) -> None:
        """Superpose a volume with a primary that writes."""
        self.primary = self.make_primary(self.ref)
        self.record = self.protocol.super([self.ref], joint=True)
        self.addCleanup(self.drop, self.record)

    def retire(self) -> None:
        """End the superposition and its primary."""
        with contextlib.suppress(sp.NotSuperposed):
            self.drop(self.record)
        self.primary.kill()
        self.protocol.fence.open(self.primary.clients)

    def tell(self, story: controller.Story, number: int, phase: str) -> int | None:
        """Run a controller that dies at a change."""
        return controller.run(str(self.ceph.conf), [self.ref], story, number, phase)

    @ddt.data('before', 'after')
    def test_interrupted_prepare_can_be_repeated(self, phase: str) -> None:
        number = 0
        while (changes := self.tell(prepare, number, phase)) is None:
            # Wherever it died, the step may be repeated any number of times.
            for _ in range(2):
                self.assertEqual('prepared', self.protocol.prepare(self.record).outcome)
            record = self.protocol.reload(self.record)
            self.assertEqual((states.COLLAPSING, None, True),
                             (record.state, record.outcome, record.prepared))
            self.assertTrue(self.primary.clients <= self.fenced())
            self.protocol.commit(self.record)
            self.retire()
            self.begin()
            number += 1
        # The changes are the state, the fence, and the preparation.
        self.assertGreaterEqual(changes, 3)
        self.protocol.commit(self.record)

    @ddt.data('before', 'after')
    def test_interrupted_commit_can_be_repeated(self, phase: str) -> None:
        number = 0
        self.protocol.prepare(self.record)
        while self.tell(commit, number, phase) is None:
            self.protocol.commit(self.record)
            self.assertEqual(states.PROMOTED, self.protocol.reload(self.record).state)
            self.retire()
            self.begin()
            self.protocol.prepare(self.record)
            number += 1
        self.assertEqual(1, number)

    @ddt.data('before', 'after')
    def test_interrupted_give_up_can_be_repeated(self, phase: str) -> None:
        number = 0
        self.protocol.prepare(self.record)
        while self.tell(give_up, number, phase) is None:
            with contextlib.suppress(sp.NotSuperposed):
                self.protocol.give_up(self.record)
            self.assertRaises(sp.NotSuperposed, self.protocol.reload, self.record)
            # One that died at the very end leaves its entry in the index.
            self.protocol.tidy(self.record.home, older_s=0)
            self.assert_nothing_left(self.record)
            # The primary is fenced either way.
            self.assertTrue(self.primary.clients <= self.fenced())
            self.retire()
            self.begin()
            self.protocol.prepare(self.record)
            number += 1
        self.assertGreaterEqual(number, 3)

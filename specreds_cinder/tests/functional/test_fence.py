# SPDX-License-Identifier: Apache-2.0
"""The fence covers all clients of the primary and no other ones, for long enough."""

import dataclasses
import pathlib
import signal
import tempfile
from unittest import mock

import rados
import rbd

from cloud import ceph
from cloud import commands
from cloud import layout
from specreds_cinder import superposition as sp
from specreds_cinder.superposition.ceph import librados
from specreds_cinder.superposition.evidence import cut as cuts
from specreds_cinder.superposition.evidence import placement_groups
from specreds_cinder.superposition.steps import end
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.functional import actors
from specreds_cinder.tests.functional import base
from specreds_cinder.tests.functional import fence_base
from specreds_cinder.tests.functional import protocol_base

OBJECT = 4 * base.MIB


class FenceTest(fence_base.FenceTestCase):

    def test_fence_covers_exactly_the_primary(self) -> None:
        other = self.make_volume()
        neighbour = self.make_primary(other)
        before = self.fenced()
        self.promote()
        self.assertEqual(self.primary.clients, self.fenced() - before)
        self.assertEqual(protocol_base.DEAD, self.primary.write(0))
        self.assertEqual(protocol_base.DEAD, self.primary.ask('discard', length=OBJECT))
        self.assertEqual(0, neighbour.write(0))

    def test_fence_covers_all_volumes(self) -> None:
        volumes = [self.make_volume() for _ in range(3)]
        primary = self.make_primary(*volumes)
        record = self.superpose(*volumes)
        self.assertEqual(3, len(primary.clients))
        self.assertEqual('promoted', self.protocol.collapse(record).outcome)
        self.assertTrue(primary.clients <= self.fenced())
        self.assertEqual([protocol_base.DEAD] * 3,
                         [primary.write(0, disk=disk) for disk in range(3)])

    def test_fenced_primary_cannot_write_after_the_fence_is_lifted(self) -> None:
        self.promote()
        self.assertEqual(protocol_base.DEAD, self.primary.write(0))
        self.protocol.merge(self.record)
        self.protocol.fence.open(self.primary.clients)
        self.assertEqual(set(), self.primary.clients & self.fenced())
        before = self.contents(self.volume)
        self.assertNotEqual(0, self.primary.write(0, 0x66))
        self.assertNotEqual(0, self.primary.write(5 * OBJECT, 0x66))
        self.assertEqual(before, self.contents(self.volume))

    def test_hung_primary_is_fenced(self) -> None:
        self.primary.signal(signal.SIGSTOP)
        self.promote()
        self.primary.signal(signal.SIGCONT)
        self.assertEqual(protocol_base.DEAD, self.primary.write(0))

    def test_dead_primary_is_fenced(self) -> None:
        self.primary.kill()
        self.promote()
        self.assertTrue(self.primary.clients <= self.fenced())
        actors.child_io(self.cluster, self.record.volumes[0], 'write -P 7 0 4k')
        self.protocol.merge(self.record)
        self.assertEqual(b'\7' * 4096, self.contents(self.volume)[:4096])

    def test_closed_primary_is_fenced(self) -> None:
        self.primary.close()
        self.promote()
        self.assertTrue(self.primary.clients <= self.fenced())

    def test_volume_without_a_primary_needs_no_fence(self) -> None:
        volume = self.make_volume()
        record = self.superpose(volume)
        self.assertEqual(set(), record.clients)
        before = self.fenced()
        self.assertEqual('promoted', self.protocol.collapse(record).outcome)
        self.assertEqual(before, self.fenced())
        self.assertIsNone(self.protocol.fence_left(self.protocol.reload(record)))

    def test_new_client_is_fenced(self) -> None:
        came = self.open_image()
        self.assertNotIn(came, self.record.clients)
        self.promote()
        self.assertEqual({*self.primary.clients, came},
                         set(self.protocol.reload(self.record).fenced))
        self.assertIn(came, self.fenced())

    def test_client_that_opens_during_the_fence_is_fenced(self) -> None:
        came: list[str] = []
        with sp.trace.observe(self.at('fence', 'after', lambda: came.append(self.open_image()))):
            self.promote()
        self.assertIn(came[0], self.fenced())
        self.assertIn(came[0], self.protocol.reload(self.record).fenced)

    def test_client_that_writes_during_the_fence_makes_it_late_dirty(self) -> None:
        def come() -> None:
            with self.open_pool() as io, rbd.Image(io, self.volume.image) as image:
                image.write(b'late', 0)
        with sp.trace.observe(self.at('fence', 'after', come)):
            self.assertEqual('late-dirty', self.protocol.collapse(self.record).outcome)
        self.assertEqual(b'late', self.contents(self.volume)[:4])

    def test_collapse_stops_while_new_clients_keep_coming(self) -> None:
        def come(event: sp.trace.Event) -> None:
            if (event.name, event.phase) == ('sweep', 'after'):
                self.open_image()
        with sp.trace.observe(come):
            self.assertRaises(sp.ClusterError, self.protocol.collapse, self.record)
        self.assertEqual(states.COLLAPSING, self.protocol.reload(self.record).state)
        self.assertEqual('promoted', self.protocol.resume(self.record))
        self.assertTrue(set(self.protocol.reload(self.record).fenced) <= self.fenced())

    def test_write_before_the_fence_is_late_dirty(self) -> None:
        with sp.trace.observe(self.at('fence', 'before', lambda: self.primary.write(0, 0x4c))):
            report = self.protocol.collapse(self.record)
        self.assertEqual('late-dirty', report.outcome)
        self.assertFalse(report.sweep1.dirty)
        assert report.sweep2 is not None
        self.assertTrue(report.sweep2.dirty)
        self.assertEqual(protocol_base.DEAD, self.primary.write(0))
        self.assertTrue(self.primary.clients <= self.fenced())
        self.assertEqual(b'\x4c' * 4096, self.contents(self.volume)[:4096])
        self.assert_nothing_left(self.record)

    def test_resize_before_the_fence_is_late_dirty(self) -> None:
        # Nobody can tell whether the primary has written, and it is fenced.
        with sp.trace.observe(self.at('fence', 'before', lambda: self.primary.ask(
                'resize', offset=0, length=2 * protocol_base.SIZE, byte=0))):
            report = self.protocol.collapse(self.record)
        assert report.sweep2 is not None
        self.assertEqual(('late-dirty', True, True),
                         (report.outcome, report.sweep1.clean, report.sweep2.unproven))
        self.assertTrue(self.primary.clients <= self.fenced())
        self.assert_nothing_left(self.record)

    def test_newcomer_beside_a_late_dirty_primary_is_fenced(self) -> None:
        came: list[str] = []
        with sp.trace.observe(self.at('fence', 'before', lambda: self.primary.write(0, 0x4c))), \
                sp.trace.observe(self.at('fence', 'after',
                                         lambda: came.append(self.open_image()))):
            report = self.protocol.collapse(self.record)
        self.assertEqual('late-dirty', report.outcome)
        self.assertIn(came[0], self.fenced())

    def test_second_sweep_reaches_every_osd(self) -> None:
        self.protocol.abort(self.record)
        record = self.superpose(self.volume, self.make_volume())
        swept: list[bytes] = []
        stat = librados.IoCtx.stat_versions

        def ask(io: librados.IoCtx, names: list[bytes], depth: int) -> list[int]:
            swept.extend(names)
            return stat(io, names, depth)

        def behind_the_fence() -> None:
            patch = mock.patch.object(librados.IoCtx, 'stat_versions', ask)
            patch.start()
            self.addCleanup(patch.stop)
        with sp.trace.observe(self.at('fence', 'before', lambda: self.primary.write(0, 0x4c))), \
                sp.trace.observe(self.at('fence', 'after', behind_the_fence)):
            report = self.protocol.collapse(record)
        self.assertEqual('late-dirty', report.outcome)
        assert report.sweep2 is not None
        self.assertIn('.0000000000000000 of', report.sweep2.first or '')
        self.assertEqual((8, 8), (report.sweep1.objects, report.sweep2.objects))
        # Every OSD of the pool must hear of the fence, also one without objects of the volumes.
        pool = self.cluster.pools()[record.volumes[0].pool_id]
        self.assertTrue({*placement_groups.markers(pool.pg_num, '', cuts.MARKER)} <= {*swept})

    def test_collapse_interrupted_before_the_fence_resumes_as_dirty(self) -> None:
        record = self.collapse_cut_off('fence.add', 'before')
        self.assertEqual(0, self.primary.write(0, 0x55))
        self.assertEqual('dirty', self.protocol.resume(record))
        self.assertEqual(set(), self.primary.clients & self.fenced())
        self.assertEqual(0, self.primary.write(0, 0x56))
        self.assert_nothing_left(record)

    def test_collapse_interrupted_after_the_fence_resumes_as_promoted(self) -> None:
        record = self.collapse_cut_off('fence.add', 'after')
        self.assertTrue(self.primary.clients <= self.fenced())
        self.assertEqual('promoted', self.protocol.resume(record))
        self.assertEqual(protocol_base.DEAD, self.primary.write(0))

    def test_collapse_interrupted_after_a_late_write_resumes_as_late_dirty(self) -> None:
        with sp.trace.observe(self.at('fence', 'before', lambda: self.primary.write(0, 0x4c))):
            record = self.collapse_cut_off('fence.add', 'after')
        # Merely dirty would mean that the primary lives.
        self.assertEqual('late-dirty', self.protocol.resume(record))
        self.assertTrue(self.primary.clients <= self.fenced())
        self.assertEqual(b'\x4c' * 4096, self.contents(self.volume)[:4096])
        self.assert_nothing_left(record)

    def test_abort_lifts_the_fence(self) -> None:
        record = self.collapse_cut_off('fence.add', 'after')
        self.assertTrue(self.primary.clients <= self.fenced())
        self.protocol.abort(record)
        self.assertEqual(set(), self.primary.clients & self.fenced())
        self.assert_nothing_left(record)

    def test_abort_after_the_fence_lifts_it(self) -> None:
        rival = sp.Protocol(self.cluster, self.settings)
        with sp.trace.observe(self.at('fence', 'after', lambda: rival.abort(self.record))):
            self.assertRaises((sp.Conflict, sp.NotSuperposed), self.protocol.collapse,
                              self.record)
        self.assertEqual(set(), self.primary.clients & self.fenced())
        self.assert_nothing_left(self.record)

    def test_abort_before_the_fence_prevents_it(self) -> None:
        rival = sp.Protocol(self.cluster, self.settings)
        with sp.trace.observe(self.at('sweep', 'after', lambda: rival.abort(self.record))):
            self.assertRaises((sp.Conflict, sp.NotSuperposed), self.protocol.collapse,
                              self.record)
        self.assertEqual(0, self.primary.write(0))
        self.assertEqual(set(), self.primary.clients & self.fenced())

    def test_unfinished_abort_lifts_the_fence(self) -> None:
        rival = sp.Protocol(self.cluster, self.settings)

        def abort_cut_off() -> None:
            with sp.trace.observe(self.at('overlay.remove', 'before', protocol_base.cut)):
                self.assertRaises(protocol_base.Cut, rival.abort, self.record)
        with sp.trace.observe(self.at('fence.add', 'before', abort_cut_off)):
            self.assertRaises(sp.RecordChanged, self.protocol.collapse, self.record)
        self.assertEqual(set(), self.primary.clients & self.fenced())
        self.assertEqual('aborted', self.protocol.resume(self.record))

    def test_fence_after_a_dirty_decision_is_lifted(self) -> None:
        rival = sp.Protocol(self.cluster, self.settings)

        def drop() -> None:
            self.assertEqual(0, self.primary.write(0, 0x57))
            self.assertEqual('dirty', rival.resume(rival.reload(self.record)))
        # As when the monitors elect a leader before they accept the entries.
        with sp.trace.observe(self.at('fence.add', 'before', drop)):
            self.assertRaises((sp.Conflict, sp.NotSuperposed), self.protocol.collapse,
                              self.record)
        self.assertEqual(set(), self.primary.clients & self.fenced())
        self.assert_nothing_left(self.record)

    def test_fence_during_a_dirty_decision_is_lifted(self) -> None:
        record = self.collapse_cut_off('fence.add', 'before')
        self.assertEqual(0, self.primary.write(0, 0x57))
        with sp.trace.observe(self.at('overlay.remove', 'before', lambda:
                                      self.protocol.fence.close(self.primary.clients))):
            self.assertEqual('dirty', self.protocol.resume(record))
        self.assertEqual(set(), self.primary.clients & self.fenced())

    def test_unfence_of_an_overtaken_controller_spares_a_later_fence(self) -> None:
        record = self.collapse_cut_off('fence.add', 'before')
        with sp.trace.observe(self.at('overlay.remove', 'before', protocol_base.cut)):
            self.assertRaises(protocol_base.Cut, self.protocol.abort, record)
        overtaken = self.protocol.reload(record)
        self.protocol.abort(overtaken)
        later = self.superpose(self.volume)
        self.assertEqual('promoted', self.protocol.collapse(later).outcome)
        lifted: list[str] = []
        with sp.trace.observe(self.at('fence.rm', 'before', lambda: lifted.append('fence'))):
            end._unfence(self.protocol, overtaken)
        self.assertEqual([], lifted)
        self.assertTrue(self.primary.clients <= self.fenced())

    def test_unfence_that_hangs_leaves_a_later_fence_in_force(self) -> None:
        rival = sp.Protocol(self.cluster, self.settings)
        record = self.collapse_cut_off('fence', 'after')

        def promote() -> None:
            rival.abort(record)
            later = rival.super([self.volume])
            self.addCleanup(self.drop, later)
            self.assertEqual('promoted', rival.collapse(later).outcome)
        # The rival has ended the superposition in the same way, which is no error.
        with sp.trace.observe(self.at('fence.rm', 'before', promote)):
            self.protocol.abort(record)
        self.assertTrue(self.primary.clients <= self.fenced())

    def test_decision_is_repeated_if_its_fence_was_missing_for_a_moment(self) -> None:
        hung = sp.Protocol(self.cluster, self.settings)
        record = self.collapse_cut_off('fence', 'after')
        dropped = dataclasses.replace(record, state=states.ABORTING, outcome=states.ABORTED)
        self.protocol.abort(record)
        later = self.superpose(self.volume)

        def wake() -> None:
            # It has looked for another superposition before there was one.
            claims = end._claims(hung, dropped)
            with mock.patch.object(end, '_claims', side_effect=[frozenset(), *[claims] * 9]):
                end._unfence(hung, dropped)
        with sp.trace.observe(self.at('commit', 'before', wake)):
            self.assertRaises(sp.RecordChanged, self.protocol.collapse, later)
        self.assertTrue(self.primary.clients <= self.fenced())
        self.assertEqual('promoted', self.protocol.resume(later))
        self.assertTrue(self.primary.clients <= self.fenced())

    def test_late_dirty_decision_of_another_controller_keeps_the_fence(self) -> None:
        rival = sp.Protocol(self.cluster, self.settings)

        def drop() -> None:
            self.assertEqual('late-dirty', rival.resume(rival.reload(self.record)))
        with sp.trace.observe(self.at('fence', 'before', lambda: self.primary.write(0, 0x4c))), \
                sp.trace.observe(self.at('fence', 'after', drop)):
            self.assertRaises((sp.Conflict, sp.NotSuperposed), self.protocol.collapse,
                              self.record)
        self.assertTrue(self.primary.clients <= self.fenced())


class Ipv6Test(protocol_base.ProtocolTestCase):
    """The fence on a cluster with IPv6."""

    def setUp(self) -> None:
        super().setUp()
        # Sockets need a short path, so this is not below the data directory of the tests.
        data = pathlib.Path(tempfile.mkdtemp(prefix='ceph-')) / 'data'
        self.addCleanup(data.parent.rmdir)
        second = ceph.Ceph(data, port=self.ceph.settings.port + layout.PORTS, osds=1, ipv6=True,
                           pg_num=8)
        self.addCleanup(second.wipe)
        try:
            second.up()
        except commands.CloudError as exc:
            if 'no usable ::1' in str(exc):
                self.skipTest(str(exc))
            raise
        self.ceph = second
        self.administrator: rados.Rados = self.connect(second.admin_conf, 'client.admin')

    def test_fence_works_with_ipv6(self) -> None:
        volume, other = self.make_volume(), self.make_volume()
        primary, neighbour = self.make_primary(volume), self.make_primary(other)
        record = self.superpose(volume)
        self.assertTrue(all(client.startswith('[::1]:') for client in primary.clients))
        self.assertEqual(primary.clients, record.clients)
        self.assertEqual('promoted', self.protocol.collapse(record).outcome)
        self.assertEqual(primary.clients, self.fenced())
        self.assertGreater(min(self.protocol.fence.remaining().values()), 3600)
        self.assertEqual((protocol_base.DEAD, 0), (primary.write(0), neighbour.write(0)))
        actors.child_io(self.cluster, record.volumes[0], 'write -P 7 0 4k')
        self.protocol.merge(record)
        self.assertEqual(b'\7' * 4096, self.contents(volume)[:4096])
        self.protocol.fence.open(primary.clients)
        self.assertEqual(set(), self.fenced())

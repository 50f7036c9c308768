# SPDX-License-Identifier: Apache-2.0
"""A creation that hangs, is taken for interrupted and dropped by another controller, and wakes."""

import dataclasses
from typing import Any
from unittest import mock

import ddt
import rados
import rbd
import tenacity

from specreds_cinder import superposition as sp
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.exclusion import handover
from specreds_cinder.superposition.overlay import overlay
from specreds_cinder.superposition.overlay import removed
from specreds_cinder.superposition.steps import create
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.functional import protocol_base

# Each change of a creation after which its record exists, and the phase in which it hangs.
_HANGS = (
    ('record.create', 'after'), ('claim.create', 'before'), ('claim.create', 'after'),
    ('ledger.enter', 'before'), ('latch.arm', 'before'), ('latch.arm', 'after'),
    ('overlay.create', 'before'), ('overlay.create', 'after'), ('overlay.write', 'before'),
    ('overlay.write', 'after'), ('record.superposed', 'before'))


class OvertakenTestCase(protocol_base.ProtocolTestCase):
    """A volume with a primary, and two controllers."""

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.make_volume()
        self.primary = self.make_primary(self.volume)
        connection = self.cluster.apart()
        self.addCleanup(connection.close)
        self.rival = sp.Protocol(connection, self.settings)
        self.dropped: list[sp.Record] = []

    def overtaken(self, name: str, phase: str, *, dead: bool = False) -> None:
        """Create a superposition that another controller drops meanwhile, and see it fail."""
        def drop() -> None:
            self.assertEqual('aborted', self.rival.resume(self.creating()))
        with sp.trace.observe(self.at(name, phase, drop)):
            self.assertRaises((sp.RecordChanged, sp.NotSuperposed), self.protocol.super,
                              [self.volume], dead=dead)

    def creating(self) -> sp.Record:
        """Return the superposition that is under creation."""
        [record] = [record for record in self.rival.list(self.volume.home)
                    if record.state == states.CREATING]
        self.dropped.append(record)
        return record

    def die(self) -> None:
        """Let the first controller die as soon as a step fails."""
        self.patch(create, '_undo', lambda _site, _record: None)

    def assert_free(self) -> None:
        """Assert that the volume can be superposed and shut out, and that nothing is left."""
        self.assertRaises(sp.NotSuperposed, self.protocol.find, self.volume)
        self.protocol.shut_out([sp.Target(self.volume, addresses=frozenset())], records.new_id())
        self.protocol.abort(self.superpose(self.volume))
        self.assert_nothing_left(self.dropped[0])
        self.assertEqual(0, self.primary.write(0))


@ddt.ddt
class CreationTest(OvertakenTestCase):

    @ddt.data(*_HANGS)
    @ddt.unpack
    def test_controller_that_wakes_removes_what_it_has_made(self, name: str, phase: str) -> None:
        self.overtaken(name, phase)
        self.assert_nothing_left(self.dropped[0])
        self.assert_free()

    @ddt.data(*_HANGS)
    @ddt.unpack
    def test_remains_of_one_that_wakes_and_dies_are_found(self, name: str, phase: str) -> None:
        self.die()
        self.overtaken(name, phase)
        self.protocol.tidy(self.volume.home, older_s=0)
        self.assert_free()

    def test_header_that_was_removed_is_not_made_anew(self) -> None:
        self.die()
        self.overtaken('overlay.write', 'before')
        [entry] = [entry for entry in removed.Removed(self.cluster).read(self.volume.home)
                   if entry.name == self.dropped[0].volumes[0].overlay]
        with self.open_pool() as io:
            self.assertRaises(rados.ObjectNotFound, io.stat, f'rbd_header.{entry.id}')
        self.assertEqual([], [name for name in self.objects(self.pool)
                              if name.startswith(f'{entry.prefix}.')])

    def test_creation_whose_claim_was_replaced_fails_at_its_commit_point(self) -> None:
        made: list[sp.Record] = []

        def replace() -> None:
            # As if the other controller had not seen the claim: it was made too late.
            with mock.patch.object(self.rival.store, 'release'):
                self.assertEqual('aborted', self.rival.resume(self.creating()))
            made.append(self.rival.super([self.volume]))
        with sp.trace.observe(self.at('record.superposed', 'before', replace)):
            self.assertRaises(sp.RecordChanged, self.protocol.super, [self.volume])
        self.addCleanup(self.drop, made[0])
        self.assertEqual(made[0].id, self.protocol.find(self.volume).id)
        self.assertFalse(self.protocol.check(made[0]).dirty)
        self.protocol.tidy(self.volume.home, older_s=0)
        self.assertEqual('promoted', self.protocol.collapse(made[0]).outcome)

    def test_creation_whose_entry_was_taken_for_a_remain_is_listed(self) -> None:
        with sp.trace.observe(self.at('record.create', 'before', lambda: self.rival.tidy(
                self.volume.home, older_s=0))):
            record = self.superpose(self.volume)
        self.assertIn(record, self.rival.list(self.volume.home))

    def test_objects_that_are_written_after_the_removal_are_found(self) -> None:
        record = self.superpose(self.volume)
        self.dropped.append(record)
        ref = record.volumes[0].overlay_ref
        objects = overlay.Objects.of(self.cluster, ref)
        self.protocol.abort(record)
        with self.open_pool() as io:
            for name in (objects.header, objects.data(3).decode(), objects.data(15).decode()):
                io.write_full(name, b'late')
        self.protocol.tidy(ref.home)
        self.assertIn(objects.header, self.objects(self.pool))
        self.protocol.tidy(ref.home, older_s=0)
        self.assert_nothing_left(record)
        self.assertEqual([], removed.Removed(self.cluster).read(ref.home))


    def test_removed_data_pool_is_no_obstacle(self) -> None:
        record = self.superpose(self.volume)
        self.protocol.abort(record)
        home = record.home
        [entry] = [entry for entry in removed.Removed(self.cluster).read(home)
                   if entry.name == record.volumes[0].overlay]
        removed.Removed(self.cluster).enter(home, dataclasses.replace(
            entry, data_pool_id=max(self.cluster.pools()) + 1))
        self.protocol.tidy(home, older_s=0)
        self.assertEqual([], removed.Removed(self.cluster).read(home))


class OrphanTest(OvertakenTestCase):
    """Images with the names of overlays, which a look for remains leaves alone."""

    def tidied(self) -> set[str]:
        """Look for remains, and return the images of the pool."""
        self.protocol.tidy(self.volume.home, older_s=0)
        return set(self.images(self.volume.home).values())

    def orphan(self) -> Any:
        """Leave an overlay of no superposition."""
        self.die()
        self.overtaken('overlay.create', 'before')
        return self.dropped[0].volumes[0].overlay_ref

    @tenacity.retry(retry=tenacity.retry_if_exception_type(AssertionError), reraise=True,
                    stop=tenacity.stop_after_delay(60), wait=tenacity.wait_fixed(0.5))
    def assert_closed(self, ref: sp.VolumeRef) -> None:
        """Assert that no client has an image open."""
        self.assertEqual(frozenset(), volumes.watchers(self.cluster, ref))

    def test_overlay_that_a_client_has_open_stays_until_it_is_closed(self) -> None:
        ref = self.orphan()
        user = self.make_primary(ref)
        self.assertIn(ref.image, self.tidied())
        self.assertTrue(user.clients.isdisjoint(self.fenced()))
        user.close()
        self.assert_closed(ref)
        self.assertNotIn(ref.image, self.tidied())

    def test_image_that_only_has_such_a_name_stays(self) -> None:
        name = overlay.name(self.volume.image, records.new_id())
        ref = self.make_image(name.rpartition('-')[0], protocol_base.SIZE)
        with self.open_pool() as io:
            rbd.RBD().rename(io, ref.image, name)
        self.addCleanup(self.remove_image, sp.VolumeRef(self.pool, '', name))
        self.assertIn(name, self.tidied())

    def test_overlay_of_a_superposition_stays_in_each_state(self) -> None:
        record = self.superpose(self.volume)
        self.assertIn(record.volumes[0].overlay, self.tidied())
        self.assertEqual('promoted', self.protocol.collapse(record).outcome)
        self.assertIn(record.volumes[0].overlay, self.tidied())
        self.protocol.merge(record)
        self.assertNotIn(record.volumes[0].overlay, self.tidied())


@ddt.ddt
class DeadTest(OvertakenTestCase):
    """The primary's host is taken for dead, so that it is fenced first."""

    @ddt.data(('ledger.enter', 'after'), ('fence', 'after'), ('latch.arm', 'after'))
    @ddt.unpack
    def test_controller_that_wakes_leaves_neither_latch_nor_fence(
            self, name: str, phase: str) -> None:
        self.patch(handover, 'lives', lambda *_arguments: False)
        self.overtaken(name, phase, dead=True)
        self.assert_nothing_left(self.dropped[0])
        self.assertEqual(set(), self.primary.clients & self.fenced())

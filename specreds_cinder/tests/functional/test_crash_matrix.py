# SPDX-License-Identifier: Apache-2.0
"""The controller is killed before and after each of its changes, and the superposition resumed.

Wherever it died, one of three endings must be reached, with the right contents and nothing left
behind: the primary lives, the backup was promoted, or the primary is late dirty.
"""

import uuid

import ddt
import tenacity

from specreds_cinder import superposition as sp
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.functional import actors
from specreds_cinder.tests.functional import base
from specreds_cinder.tests.functional import controller
from specreds_cinder.tests.functional import protocol_base

_SIZE = 8 * base.MIB
_BLOCK = 4096
_BEFORE, _CHILD, _DIRTY, _AFTER = 0, 64 << 10, 192 << 10, 256 << 10
MOST_CHANGES = 100
# The state in which a story finds the superposition, and its request.
_REQUESTS: dict[controller.Story, tuple[str, str]] = {
    controller.collapse: (states.SUPERPOSED, states.COLLAPSE),
    controller.abort: (states.SUPERPOSED, states.ABORT),
    controller.merge: (states.PROMOTED, states.MERGE),
}
# Ceph counts a killed client as alive for 30 s: osd_client_watch_timeout.
_WATCH_SECONDS = 60


def _passes(story: controller.Story) -> frozenset[str]:
    """Return the states in which the death of a controller may leave the record."""
    if story is controller.superpose:
        return frozenset({states.CREATING, states.SUPERPOSED})
    state, request = _REQUESTS[story]
    return states.PASSES[states.STEPS[state][request]] | {state}


class CrashTestCase(protocol_base.ProtocolTestCase):
    """Two volumes in a namespace of their own, and superpositions that are ended."""

    def setUp(self) -> None:
        super().setUp()
        self.home = sp.Home(self.pool, f'crash-{uuid.uuid4().hex[:8]}')
        self.make_namespace(self.home.namespace)
        self.refs = [self.make_image(f'v{index}', _SIZE, objects=1,
                                     namespace=self.home.namespace) for index in range(2)]
        for ref in self.refs:
            self.addCleanup(self.unlock, ref)
        self.ours = set(self.images(self.home))

    @tenacity.retry(retry=tenacity.retry_if_exception_type(sp.OverlayBusy), reraise=True,
                    stop=tenacity.stop_after_delay(_WATCH_SECONDS), wait=tenacity.wait_fixed(1))
    def conclude(self, record: sp.Record) -> str:
        """End a superposition, wherever its controller died, and return its outcome.

        The qemu-img of a controller that died while it merged had the overlay open. The client
        could as well be the server, which is never fenced: the protocol asks to repeat the merge.
        """
        return self.conclude_once(record)

    def conclude_once(self, record: sp.Record, protocol: sp.Protocol | None = None) -> str:
        """End a superposition, and return its outcome.

        :param protocol: another controller than the test's
        :raises OverlayBusy: the overlay is open
        """
        protocol = protocol or self.protocol
        outcome = protocol.resume(record)
        if outcome == states.SUPERPOSED:
            protocol.abort(record)
        elif outcome == states.PROMOTED:
            protocol.merge(record)
        return outcome

    def conclude_all(self) -> set[str]:
        """End all superpositions, assert that nothing of them is left, and return the outcomes."""
        outcomes = {self.conclude(record) for record in self.protocol.list(self.home)}
        self.protocol.tidy(self.home, older_s=0)
        self.assert_namespace_clean()
        for image_id in self.ours:
            self.assert_unlatched(self.home, image_id)
        return outcomes

    def assert_namespace_clean(self) -> None:
        """Assert that only the test's images and their ledgers, markers and the index are left."""
        self.assertEqual({}, self.protocol.store.index(self.home))
        self.assertEqual(self.ours, set(self.images(self.home)))
        for name in self.objects(self.home.pool, self.home.namespace):
            kind = name.split('.')[0]
            if name.startswith('specreds.clients.'):
                # The ledger of a primary that lives.
                self.assertIn(name.rpartition('.')[2], self.ours)
            elif kind == 'specreds':
                self.assertTrue(name.startswith(('specreds.cut.', 'specreds.index',
                                                 'specreds.fenced', 'specreds.dropped',
                                                 'specreds.removed')), name)
            elif kind in ('rbd_data', 'rbd_header', 'rbd_object_map'):
                self.assertIn(name.split('.')[1], self.ours)


@ddt.ddt
class CrashMatrixTestCase(CrashTestCase):
    """Two volumes of one primary, and one story per test."""

    def setUp(self) -> None:
        super().setUp()
        self.primary: actors.Primary | None = None

    @ddt.data('before', 'after')
    def test_creation_ends_with_a_living_primary(self, phase: str) -> None:
        self.every_change(controller.superpose, phase, 'lives')

    @ddt.data('before', 'after')
    def test_interrupted_promotion_has_one_ending(self, phase: str) -> None:
        self.every_change(controller.collapse, phase, 'promoted')

    @ddt.data('before', 'after')
    def test_interrupted_promotion_of_sealed_volumes_has_one_ending(self, phase: str) -> None:
        self.hands_over = True
        self.every_change(controller.collapse, phase, 'promoted')

    @ddt.data('before', 'after')
    def test_interrupted_dirty_collapse_leaves_the_primary_alive(self, phase: str) -> None:
        self.every_change(controller.collapse, phase, 'lives', dirty=True)

    @ddt.data('before', 'after')
    def test_interrupted_late_dirty_collapse_has_one_ending(self, phase: str) -> None:
        self.every_change(controller.collapse, phase, 'late-dirty', late=True)

    @ddt.data('before', 'after')
    def test_interrupted_abort_leaves_the_primary_alive(self, phase: str) -> None:
        self.every_change(controller.abort, phase, 'lives')

    @ddt.data('before', 'after')
    def test_interrupted_merge_ends_promoted(self, phase: str) -> None:
        self.every_change(controller.merge, phase, 'promoted', promoted=True)

    @ddt.data('before', 'after')
    def test_interrupted_creation_behind_a_fence_leaves_no_fence(self, phase: str) -> None:
        for number in range(MOST_CHANGES):
            primary = self.living_primary()
            changes = controller.run(str(self.ceph.conf), self.refs, controller.superpose_dead,
                                     number, phase)
            self.conclude_all()
            self.assertTrue(primary.clients.isdisjoint(self.fenced()))
            for ref in self.refs:
                self.assertEqual(b'\x42' * _BLOCK, self.contents(ref, _SIZE)[:_BLOCK])
            # It may have met the fence. The next one breaks its lock at once. If it stayed in the
            # ledgers, the next creation would fence it, too, and never get beyond that.
            self.protocol.fence.close(primary.clients)
            primary.kill()
            self.primary = None
            for image_id in self.ours:
                self.protocol.ledger.remove(self.home, image_id)
            if changes is not None:
                self.assertEqual(changes, number)
                break
        else:
            self.fail(f'the story did not end within {MOST_CHANGES} changes')

    def every_change(self, story: controller.Story, phase: str, ending: str, *,
                     dirty: bool = False, late: bool = False, promoted: bool = False) -> None:
        """Repeat a story, dying at one change after the other, until it reaches its end.

        :param ending: the result that it has then
        """
        for number in range(MOST_CHANGES):
            primary = self.living_primary()
            if story is not controller.superpose:
                record = self.protocol.super(self.refs)
                self.child_io(record, f'write -P 0x43 {_CHILD} {_BLOCK}')
            if dirty:
                self.assertEqual(0, primary.write(_DIRTY, 0x44, disk=1))
            if promoted:
                self.assertEqual('promoted', self.protocol.collapse(record).outcome)
            changes = controller.run(str(self.ceph.conf), self.refs, story, number, phase,
                                     primary.path if late else None)
            left = {record.state for record in self.protocol.list(self.home)}
            self.assertLessEqual(left, _passes(story))
            came = self.end(primary, dirty=dirty)
            if changes is not None:
                self.assertEqual((changes, ending), (number, came))
                break
        else:
            self.fail(f'the story did not end within {MOST_CHANGES} changes')

    def living_primary(self) -> actors.Primary:
        """Return a primary that has written and works; start another one if necessary."""
        if self.primary is None:
            self.primary = self.make_primary(*self.refs)
        for disk in range(2):
            self.assertEqual(0, self.primary.write(_BEFORE, 0x42, disk=disk))
            for place in (_CHILD, _DIRTY, controller.LATE['offset'], _AFTER):
                self.assertEqual(0, self.primary.write(place, 0x50, disk=disk))
        return self.primary

    def end(self, primary: actors.Primary, *, dirty: bool) -> str:
        """Resume the superposition to its end, check the contents, and return the ending."""
        self.conclude_all()
        alive = primary.write(_AFTER, 0x45) == 0 and primary.write(_AFTER, 0x45, disk=1) == 0
        content = [self.contents(ref, _SIZE) for ref in self.refs]
        child = {data[_CHILD:_CHILD + _BLOCK] for data in content}
        self.assertEqual(1, len(child), 'the volumes did not end alike')
        for data in content:
            self.assertEqual(b'\x42' * _BLOCK, data[:_BLOCK])
        if dirty:
            self.assertEqual(b'\x44' * _BLOCK, content[1][_DIRTY:_DIRTY + _BLOCK])
        if alive:
            self.assertEqual({b'\x50' * _BLOCK}, child)
            self.assertTrue(primary.clients.isdisjoint(self.fenced()))
            return 'lives'
        self.assertTrue(primary.clients <= self.fenced())
        self.assertFalse(dirty)
        self.retire(primary)
        if child == {b'\x43' * _BLOCK}:
            return 'promoted'
        # Without a promotion, only a write in the window may have fenced the primary.
        late = controller.LATE['offset']
        self.assertEqual(bytes([controller.LATE['byte']]) * _BLOCK,
                         content[1][late:late + _BLOCK])
        return 'late-dirty'

    def retire(self, primary: actors.Primary) -> None:
        """End a primary that was fenced."""
        self.assertNotEqual(0, primary.write(_AFTER, 0x46))
        primary.kill()
        self.protocol.fence.open(primary.clients)
        self.primary = None

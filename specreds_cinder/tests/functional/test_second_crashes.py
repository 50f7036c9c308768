# SPDX-License-Identifier: Apache-2.0
"""The controller of a superposition over a promoted one is killed between each two changes.

Wherever it died, the volume ends with the writes of the version that counts, and nothing is left.
"""

import contextlib

import ddt

from specreds_cinder import superposition as sp
from specreds_cinder.superposition import states
from specreds_cinder.tests.functional import base
from specreds_cinder.tests.functional import controller
from specreds_cinder.tests.functional import test_crash_matrix

_SIZE = 8 * base.MIB
_BLOCK = 4096
_FIRST, _SECOND = 64 << 10, 192 << 10
# Before and after every second change: once between each two, as what comes before one change
# comes after another.
_EVERY = 2


def superpose(protocol: sp.Protocol, refs: list[sp.VolumeRef]) -> None:
    """Superpose the promoted version of volumes."""
    protocol.super(refs, again=True)


def collapse(protocol: sp.Protocol, refs: list[sp.VolumeRef]) -> None:
    """Decide for the second backup, which is silent as the first one is."""
    record = protocol.successor(protocol.find(refs[0]))
    assert record is not None
    protocol.collapse(record)


@ddt.ddt
class SecondCrashesTest(test_crash_matrix.CrashTestCase):
    """Two volumes whose first backup was promoted and has ended, and one story per test."""

    @ddt.data('before', 'after')
    def test_interrupted_super_leaves_the_first_version(self, phase: str) -> None:
        self.every_second_change(superpose, phase)

    @ddt.data('before', 'after')
    def test_interrupted_second_promotion_has_one_ending(self, phase: str) -> None:
        self.every_second_change(collapse, phase)

    @ddt.data('before', 'after')
    def test_interrupted_merge_of_two_overlays_has_all_writes(self, phase: str) -> None:
        self.every_second_change(controller.merge, phase)

    def every_second_change(self, story: controller.Story, phase: str) -> None:
        """Repeat a story, dying at every second change, until it reaches its end."""
        for number in range(0, test_crash_matrix.MOST_CHANGES, _EVERY):
            first = self.protocol.super(self.refs)
            self.write(first, _FIRST, number)
            self.assertEqual('promoted', self.protocol.collapse(first).outcome)
            if story is not superpose:
                second = self.protocol.super(self.refs, again=True)
                self.write(second, _SECOND, number)
                if story is controller.merge:
                    self.assertEqual('promoted', self.protocol.collapse(second).outcome)
            changes = controller.run(str(self.ceph.conf), self.refs, story, number, phase)
            for record in reversed(self.protocol.list(self.home)):
                if record.predecessor is not None:
                    self.conclude_second(record)
            for record in self.protocol.list(self.home):
                self.conclude(record)
            self.protocol.tidy(self.home, older_s=0)
            self.assert_namespace_clean()
            for image_id in self.ours:
                self.assert_unlatched(self.home, image_id)
            for ref in self.refs:
                data = self.contents(ref, _SIZE)
                self.assertEqual(bytes([number + 1]) * _BLOCK, data[_FIRST:_FIRST + _BLOCK])
                if story is not superpose:
                    self.assertEqual(bytes([number + 1]) * _BLOCK,
                                     data[_SECOND:_SECOND + _BLOCK])
            if changes is not None:
                self.assertIn(number, range(changes, changes + _EVERY))
                return
        self.fail('the story did not end')

    def write(self, record: sp.Record, place: int, number: int) -> None:
        """Write to the child versions, another value each time."""
        self.child_io(record, f'write -P {number + 1} {place} {_BLOCK}')

    def conclude_second(self, record: sp.Record) -> None:
        """End a superposition over a promoted one, and decide for it if it is undecided."""
        try:
            if self.protocol.resume(record) == states.SUPERPOSED:
                # The story is that of its promotion, or nothing was written to it.
                self.assertEqual('promoted', self.protocol.collapse(record).outcome)
        except sp.OverlayBusy:
            # The qemu-img of the controller that died is listed yet.
            pass
        with contextlib.suppress(sp.NotSuperposed):
            self.conclude(record)

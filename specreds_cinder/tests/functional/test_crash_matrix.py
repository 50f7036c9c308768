# SPDX-License-Identifier: Apache-2.0
"""The controller is killed before and after every change that it makes; then resume.

Whatever it died at, one of three endings has to be reached, with the right contents, and nothing
left behind: the primary lives, the backup was promoted, or the primary is late dirty.
"""

import uuid

import ddt
import tenacity

from specreds_cinder import superposition as sp
from specreds_cinder.superposition import states
from specreds_cinder.tests.functional import actors
from specreds_cinder.tests.functional import base
from specreds_cinder.tests.functional import controller
from specreds_cinder.tests.functional import protocol_base

_SIZE = 8 * base.MIB
_BLOCK = 4096
_BEFORE, _CHILD, _DIRTY, _AFTER = 0, 64 << 10, 192 << 10, 256 << 10
_MOST_CHANGES = 100
# Ceph takes a client that was killed for alive for 30 s: osd_client_watch_timeout.
_WATCH_SECONDS = 60


@ddt.ddt
class CrashMatrixTestCase(protocol_base.ProtocolTestCase):
    """Two volumes of one primary, in a namespace of their own, and one story per test."""

    def setUp(self) -> None:
        super().setUp()
        self.home = sp.Home(self.pool, f'crash-{uuid.uuid4().hex[:8]}')
        self.make_namespace(self.home.namespace)
        self.refs = [self.make_image(f'v{index}', _SIZE, objects=1,
                                     namespace=self.home.namespace) for index in range(2)]
        self.ours = set(self.images(self.home))
        self.primary: actors.Primary | None = None

    @ddt.data('before', 'after')
    def test_super(self, phase: str) -> None:
        self.every_change(controller.superpose, phase, 'lives')

    @ddt.data('before', 'after')
    def test_promote(self, phase: str) -> None:
        self.every_change(controller.collapse, phase, 'promoted')

    @ddt.data('before', 'after')
    def test_dirty(self, phase: str) -> None:
        self.every_change(controller.collapse, phase, 'lives', dirty=True)

    @ddt.data('before', 'after')
    def test_late_dirty(self, phase: str) -> None:
        self.every_change(controller.collapse, phase, 'late-dirty', late=True)

    @ddt.data('before', 'after')
    def test_abort(self, phase: str) -> None:
        self.every_change(controller.abort, phase, 'lives')

    @ddt.data('before', 'after')
    def test_merge(self, phase: str) -> None:
        self.every_change(controller.merge, phase, 'promoted', promoted=True)

    def every_change(self, story: controller.Story, phase: str, ending: str, *,
                     dirty: bool = False, late: bool = False, promoted: bool = False) -> None:
        """Tell a story again and again, until it lives to its end.

        :param ending: what comes of it then
        """
        for number in range(_MOST_CHANGES):
            primary = self.living_primary()
            if story is not controller.superpose:
                record = self.protocol.super(self.refs)
                for volume in record.volumes:
                    actors.child_io(self.cluster, volume, f'write -P 0x43 {_CHILD} {_BLOCK}')
            if dirty:
                self.assertEqual(0, primary.write(_DIRTY, 0x44, disk=1))
            if promoted:
                self.assertEqual('promoted', self.protocol.collapse(record).outcome)
            changes = controller.run(str(self.ceph.conf), self.refs, story, number, phase,
                                     primary.path if late else None)
            came = self.end(primary, dirty=dirty)
            if changes is not None:
                self.assertEqual((changes, ending), (number, came))
                break
        else:
            self.fail(f'the story did not end within {_MOST_CHANGES} changes')

    def living_primary(self) -> actors.Primary:
        """Give a primary that has written and works; start another one if need be."""
        if self.primary is None:
            self.primary = self.make_primary(*self.refs)
        for disk in range(2):
            self.assertEqual(0, self.primary.write(_BEFORE, 0x42, disk=disk))
            for place in (_CHILD, _DIRTY, controller.LATE['offset'], _AFTER):
                self.assertEqual(0, self.primary.write(place, 0x50, disk=disk))
        return self.primary

    def end(self, primary: actors.Primary, *, dirty: bool) -> str:
        """See the superposition through to its end, and check what came of it."""
        for record in self.protocol.list(self.home):
            self.conclude(record)
        self.protocol.tidy(self.home, older_s=0)
        self.assert_namespace_clean()
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
        # Nothing but a write in the window may cost a primary its life without a promotion.
        late = controller.LATE['offset']
        self.assertEqual(bytes([controller.LATE['byte']]) * _BLOCK,
                         content[1][late:late + _BLOCK])
        return 'late-dirty'

    @tenacity.retry(retry=tenacity.retry_if_exception_type(sp.OverlayBusy), reraise=True,
                    stop=tenacity.stop_after_delay(_WATCH_SECONDS), wait=tenacity.wait_fixed(1))
    def conclude(self, record: sp.Record) -> None:
        """End a superposition, from whatever its controller died at.

        One that died while it removed an overlay had that open. After a merge it could as well be
        the server, which nobody shuts out: the protocol asks to repeat it, as everybody does.
        """
        outcome = self.protocol.resume(record)
        if outcome == states.SUPERPOSED:
            self.protocol.abort(record)
        elif outcome == states.PROMOTED:
            self.protocol.merge(record)

    def retire(self, primary: actors.Primary) -> None:
        """Let go of a primary that was fenced."""
        self.assertNotEqual(0, primary.write(_AFTER, 0x46))
        primary.kill()
        self.protocol.fence.open(primary.clients)
        self.primary = None

    def assert_namespace_clean(self) -> None:
        """Check that nothing is left but our images and their ledgers, markers and the index."""
        self.assertEqual({}, self.protocol.store.index(self.home))
        self.assertEqual(self.ours, set(self.images(self.home)))
        for name in self.objects(self.home.pool, self.home.namespace):
            kind = name.split('.')[0]
            if name.startswith('specreds.clients.'):
                # Of a primary that lives.
                self.assertIn(name.rpartition('.')[2], self.ours)
            elif kind == 'specreds':
                self.assertTrue(name.startswith(('specreds.cut.', 'specreds.index')), name)
            elif kind in ('rbd_data', 'rbd_header', 'rbd_object_map'):
                self.assertIn(name.split('.')[1], self.ours)

# SPDX-License-Identifier: Apache-2.0
"""Of two controllers that decide the same superposition at once, exactly one succeeds."""

from collections.abc import Callable
import random
import threading

import ddt
import rados
import rbd
import tenacity

from specreds_cinder import superposition as sp
from specreds_cinder.tests.functional import protocol_base

_ROUNDS = 10
# Seconds within which a watch without a client has ended.
_WATCH_ENDS_S = 90
# Errors of the controller that comes second.
_LOST = (sp.Conflict, sp.NotSuperposed)

Decision = Callable[[sp.Protocol, sp.Record], str]


def promote(protocol: sp.Protocol, record: sp.Record) -> str:
    return protocol.collapse(record).outcome


def abort(protocol: sp.Protocol, record: sp.Record) -> str:
    protocol.abort(record)
    return 'aborted'


def merge(protocol: sp.Protocol, record: sp.Record) -> str:
    protocol.merge(record)
    return 'merged'


@ddt.ddt
class ControllersTestCase(protocol_base.ProtocolTestCase):
    """Each controller has a connection of its own, as one in another process would."""

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.make_volume()
        self.primary = self.make_primary(self.volume)
        self.controllers = []
        for _ in range(2):
            connection = sp.Cluster(str(self.ceph.conf), 'cinder', 30)
            self.addCleanup(connection.close)
            self.controllers.append(sp.Protocol(connection, self.settings))

    @ddt.data((promote, promote), (promote, abort), (abort, abort))
    @ddt.unpack
    def test_exactly_one_decision_wins(self, *decisions: Decision) -> None:
        for number in range(_ROUNDS):
            record = self.superpose(self.volume)
            outcomes = self.at_once(record, random.Random(number), *decisions)
            won = [outcome for outcome in outcomes if outcome is not None]
            if decisions == (abort, abort):
                # Two aborts help each other, so both may succeed.
                self.assertEqual({'aborted'}, set(won))
            else:
                self.assertEqual(1, len(won), f'{outcomes}')
            if won[0] == 'promoted':
                self.assertEqual('promoted', self.protocol.reload(record).state)
                self.assertNotEqual(0, self.primary.write(4096))
                self.protocol.merge(record)
                self.replace_primary()
            else:
                self.assertRaises(sp.NotSuperposed, self.protocol.reload, record)
                self.assertTrue(self.primary.clients.isdisjoint(self.fenced()))
                # A primary that was fenced for a moment may have noticed; then it stays dead.
                if self.primary.write(4096) != 0:
                    self.assertIn(promote, decisions)
                    self.replace_primary()
            self.assert_nothing_left(record)

    def test_two_merges_at_once_leave_nothing(self) -> None:
        for number in range(_ROUNDS):
            record = self.superpose(self.volume)
            self.assertEqual('promoted', self.protocol.collapse(record).outcome)
            outcomes = self.at_once(record, random.Random(number), merge, merge)
            if outcomes == [None, None]:
                self.merge_when_closed(record)
            self.assertRaises(sp.NotSuperposed, self.protocol.reload, record)
            self.assert_nothing_left(record)
            self.replace_primary()

    def merge_when_closed(self, record: sp.Record) -> None:
        """Merge after the watch of a qemu-img that was stopped before it wrote has ended."""
        for attempt in tenacity.Retrying(
                retry=tenacity.retry_if_exception_type(sp.OverlayBusy), reraise=True,
                stop=tenacity.stop_after_delay(_WATCH_ENDS_S), wait=tenacity.wait_fixed(1)):
            with attempt:
                self.protocol.merge(record)

    def test_merge_ended_by_another_controller_is_noticed(self) -> None:
        record = self.superpose(self.volume)
        self.assertEqual('promoted', self.protocol.collapse(record).outcome)
        rival = self.controllers[0]

        def end() -> None:
            rival.end_merge(record)
            rival.merge(record)
        with sp.trace.observe(self.at('merge.commit', 'after', end)):
            self.assertRaises(sp.NotSuperposed, self.protocol.merge, record)
        self.assert_nothing_left(record)

    def test_controller_that_removes_an_overlay_is_not_fenced(self) -> None:
        record = self.superpose(self.volume)
        rival = self.controllers[0]
        raised: list[BaseException] = []
        with sp.trace.observe(self.at('overlay.remove', 'before', lambda: raised.append(
                self.assertRaises(sp.RecordChanged, rival.observe, record)))):
            self.protocol.abort(record)
        self.assertEqual(1, len(raised))
        self.assert_nothing_left(record)

    def test_header_without_a_listed_image_is_removed(self) -> None:
        # librbd leaves this where one controller undoes a removal while another one removes.
        record = self.superpose(self.volume)
        ref = record.volumes[0].overlay_ref
        with sp.trace.observe(self.at('overlay.empty', 'before', lambda: self.lose(ref))):
            self.protocol.abort(record)
        self.assert_nothing_left(record)

    def lose(self, ref: sp.VolumeRef) -> None:
        """Remove an image from all lists of images, and nothing else."""
        [image_id] = [key for key, name in self.images(ref.home).items() if name == ref.image]
        with self.open_pool(ref.pool, ref.namespace) as io:
            rbd.RBD().trash_move(io, ref.image)
            with rados.WriteOpCtx() as operation:
                io.remove_omap_keys(operation, (f'id_{image_id}',))
                io.operate_write_op(operation, 'rbd_trash')
        self.assertIn(f'rbd_header.{image_id}', self.objects(ref.pool, ref.namespace))

    def at_once(self, record: sp.Record, chance: random.Random,
                *decisions: Decision) -> list[str | None]:
        """Let each controller decide, and return the outcomes, None for one that lost."""
        start = threading.Barrier(len(decisions))
        outcomes: list[str | None] = [None] * len(decisions)
        errors: list[BaseException] = []

        def run(index: int, delay: float) -> None:
            start.wait()
            threading.Event().wait(delay)
            try:
                outcomes[index] = decisions[index](self.controllers[index], record)
            except _LOST:
                pass
            except Exception as exc:
                # Of two that merge, one has the overlay open.
                if decisions[index] is not merge or not isinstance(
                        exc, sp.OverlayBusy | sp.MergeFailed):
                    errors.append(exc)

        threads = [threading.Thread(target=run, args=(index, chance.uniform(0, 0.1)))
                   for index in range(len(decisions))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([], errors)
        return outcomes

    def replace_primary(self) -> None:
        """Start another primary in place of one that was fenced."""
        self.primary.kill()
        self.protocol.fence.open(self.primary.clients)
        self.primary = self.make_primary(self.volume)

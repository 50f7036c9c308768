# SPDX-License-Identifier: Apache-2.0
"""Controllers of a superposition over a promoted one die, and others continue."""

from collections.abc import Callable
import contextlib
import threading
from typing import Any

import ddt

from specreds_cinder import superposition as sp
from specreds_cinder.superposition import states
from specreds_cinder.tests.functional import protocol_base
from specreds_cinder.tests.functional import second_base
from specreds_cinder.worker import operations


@ddt.ddt
class CutOffTest(second_base.SecondTestCase):
    """Controllers die one after the other, each at the first change where none has died."""

    def dying(self, since: str | None = None) -> Any:
        """Return an observer that ends a controller at each change once, before and after it.

        :param since: the phase of the protocol behind which controllers begin to die
        """
        self.deaths: set[tuple[str, str, str]] = set()
        begun = threading.Event()

        def die(event: sp.trace.Event) -> None:
            if since in (None, event.name if event.phase == 'after' else ''):
                begun.set()
            if not begun.is_set():
                return
            # Names of overlays and records differ from one superposition to the next.
            target = event.target if 'super' not in event.target and '/' in event.target else ''
            key = event.name, target, event.phase
            if event.kind == 'change' and key not in self.deaths:
                self.deaths.add(key)
                raise protocol_base.Cut
        return sp.trace.observe(die)

    def see_through(self, record: sp.Record, state: str, work: Callable[[], object],
                    since: str | None = None, **options: Any) -> str:
        """Resume, and start the operation where it has not started, until a controller lives.

        :param state: result of a resume before the operation has started
        :param since: as for :meth:`dying`
        """
        result = ''
        with self.dying(since):
            for _ in range(100):
                with contextlib.suppress(protocol_base.Cut):
                    try:
                        result = self.protocol.resume(record, **options)
                    except sp.NotSuperposed:
                        return 'ended'
                    if result == state:
                        work()
                        result = self.protocol.resume(record, **options)
                    return result
        raise AssertionError('no controller has lived')

    def assert_first_server_is_well(self) -> None:
        """Assert that the first backup lives, and that its superposition can be merged."""
        self.protocol.tidy(self.first.home, older_s=0)
        self.write(self.server, second_base.SECOND, 0x61)
        self.assertTrue(self.primary.clients <= self.fenced())
        self.protocol.merge(self.first, backup=self.server.hook)
        self.server.end()
        self.assertEqual([0x50, 0x51, 0x61, 0x51], self.places())
        self.assert_nothing_left(self.first)

    def test_interrupted_super_leaves_the_first_backup_alive(self) -> None:
        made = None
        with self.dying():
            for _ in range(100):
                with contextlib.suppress(protocol_base.Cut):
                    for record in self.protocol.list(self.first.home):
                        if (record.predecessor == self.first.id
                                and self.protocol.resume(record) == states.SUPERPOSED):
                            self.protocol.abort(record)
                    made = self.protocol.super([self.volume], again=True)
                    break
        self.assertGreater(len(self.deaths), 10)
        assert made is not None
        self.protocol.abort(made)
        self.assert_dropped(made)
        self.assert_first_server_is_well()

    def test_interrupted_abort_leaves_the_first_backup_alive(self) -> None:
        record = self.superpose_again()
        self.assertEqual('ended', self.see_through(
            record, states.SUPERPOSED, lambda: self.protocol.abort(record)))
        self.assert_dropped(record)
        self.assert_first_server_is_well()

    def test_interrupted_dirty_collapse_leaves_the_first_backup_alive(self) -> None:
        record = self.superpose_again()
        self.write(self.server, second_base.FIRST, 0x51)
        self.assertEqual('ended', self.see_through(
            record, states.SUPERPOSED, lambda: self.protocol.collapse(record)))
        self.assert_dropped(record)
        self.assert_first_server_is_well()

    def test_interrupted_promotion_ends_promoted(self) -> None:
        record = self.superpose_again()
        backup = self.make_backup(record)
        self.write(backup, second_base.SECOND, 0x52)
        self.assertEqual('promoted', self.see_through(
            record, states.SUPERPOSED,
            lambda: self.protocol.collapse(record, backup=backup.hook), backup=backup.hook))
        self.protocol.tidy(record.home, older_s=0)
        self.assert_nothing_of_the_first(record)
        self.write(backup, second_base.ALL, 0x53)
        self.server.kill()
        self.protocol.merge(record, backup=backup.hook)
        backup.end()
        self.assertEqual([0x50, 0x51, 0x52, 0x53], self.places())
        self.assert_nothing_left(record)

    def assert_nothing_of_the_first(self, record: sp.Record) -> None:
        """Assert that a superposition has taken the place of the first one."""
        self.assertEqual(states.GONE, self.state(self.first))
        self.assertNotIn(self.first.id, self.protocol.store.index(record.home))
        self.assertEqual([record.id] * 2, [self.protocol.latch.superposition(image)
                                           for image in record.volumes[0].parents])
        claim = self.protocol.store.claimed(record.home, record.volumes[0].image_id)
        assert claim is not None
        self.assertEqual(record.id, claim.superposition)

    @ddt.data(('record.promoted', 'resume'), ('latch.pass', 'resume'), ('claim.pass', 'renew'),
              ('claim.pass', 'resume'))
    @ddt.unpack
    def test_first_has_ended_as_soon_as_the_second_counts(self, change: str,
                                                               method: str) -> None:
        record = self.superpose_again()
        worker = operations.Operations(self.protocol, record.home, watching=False)
        self.assertEqual({self.first.id, record.id}, {shown['id'] for shown in worker.list()})
        self.assertEqual(states.PROMOTED, worker.show(self.first.id)['state'])
        with sp.trace.observe(self.at(change, 'after', protocol_base.cut)):
            self.assertRaises(protocol_base.Cut, self.protocol.collapse, record)
        # Its record is still there.
        self.assertEqual(states.PROMOTED, self.state(self.first))
        self.assertEqual([record.id], [shown['id'] for shown in worker.list()])
        self.assertRaises(sp.NotSuperposed, worker.show, self.first.id)
        self.assertEqual(record.id, self.protocol.find(self.volume).id)
        self.assertRaises(sp.NotSuperposed, getattr(self.protocol, method), self.first)
        self.assert_nothing_of_the_first(record)
        self.assertEqual(states.PROMOTED, self.protocol.resume(record))
        self.server.kill()

    def test_interrupted_late_dirty_collapse_leaves_the_first_promoted(self) -> None:
        record = self.superpose_again()
        clients = self.server_clients()
        with sp.trace.observe(self.at('fence', 'before', lambda: self.write(
                self.server, second_base.FIRST, 0x61))):
            self.assertEqual('ended', self.see_through(
                record, states.SUPERPOSED, lambda: self.protocol.collapse(record), 'fence'))
        self.assert_dropped(record)
        self.server.kill()
        first = self.protocol.reload(self.first)
        self.assertTrue(clients <= set(first.fenced) & self.fenced())
        self.protocol.merge(first)
        self.assertEqual([0x50, 0x61, 0x51], [self.places()[index] for index in (0, 1, 3)])
        self.assert_nothing_left(first)

    def test_interrupted_merge_of_two_overlays_ends(self) -> None:
        record = self.promoted_again()
        self.server.kill()
        self.assertEqual('ended', self.see_through(
            record, states.PROMOTED, lambda: self.protocol.merge(record)))
        self.protocol.tidy(record.home, older_s=0)
        self.assertEqual([0x50, 0x51, 0x52, 0x52], self.places())
        self.assert_nothing_left(self.first)
        self.assert_nothing_left(record)

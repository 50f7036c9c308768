# SPDX-License-Identifier: Apache-2.0
"""The checker of the races accepts possible results, and finds all others."""

import pathlib

import fixtures
import numpy
import testtools

from testing.race import blocks
from testing.race import history
from testing.race import journal

_BLOCKS = 8
_PRIMARY, _BACKUP = 1 << 32, 3 << 32
_CUT, _DECIDED = 10.0, 20.0


def op(number: int, first: int, count: int, issued: float, done: float | None, *,
       verb: journal.Verb = journal.Verb.WRITE, result: int = 0) -> journal.Op:
    return journal.Op(number, verb, 0, first, count, issued, done, result)


def read(number: int, block: int, at: float, value: int) -> journal.Op:
    return op(number, block, 1, at, at + 0.5, verb=journal.Verb.READ, result=value)


def flush(number: int, issued: float, done: float) -> journal.Op:
    return op(number, 0, 0, issued, done, verb=journal.Verb.FLUSH)


def disk(*values: int) -> list[blocks.Values]:
    return [numpy.array(values + (0,) * (_BLOCKS - len(values)), dtype=numpy.int64)]


class BlocksTest(testtools.TestCase):
    """Blocks name their write."""

    def test_decoded_blocks_have_the_number_of_the_write(self) -> None:
        data = blocks.encode(_PRIMARY + 7, 2, 100, 3)
        self.assertEqual([_PRIMARY + 7] * 3, blocks.decode(data, 2, 100).tolist())

    def test_zeroes_are_no_write(self) -> None:
        self.assertEqual([blocks.ZERO] * 2, blocks.decode(bytes(2 * blocks.SIZE), 0, 0).tolist())

    def test_misplaced_block_is_corrupt(self) -> None:
        data = blocks.encode(5, 0, 0, 2)
        self.assertEqual([blocks.CORRUPT] * 2, blocks.decode(data, 0, 1).tolist())
        self.assertEqual([blocks.CORRUPT] * 2, blocks.decode(data, 1, 0).tolist())

    def test_torn_block_is_corrupt(self) -> None:
        torn = blocks.encode(5, 0, 0, 1)[:512] + blocks.encode(6, 0, 0, 1)[512:]
        self.assertEqual([blocks.CORRUPT], blocks.decode(torn, 0, 0).tolist())

    def test_altered_block_is_corrupt(self) -> None:
        data = bytearray(blocks.encode(5, 0, 0, 1))
        for copy in range(0, blocks.SIZE, 32):
            data[copy + 8] ^= 1
        self.assertEqual([blocks.CORRUPT], blocks.decode(bytes(data), 0, 0).tolist())


class JournalTest(testtools.TestCase):
    """A journal has all operations up to the death of its writer."""

    def test_incomplete_record_is_ignored(self) -> None:
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'journal')
        notes = journal.Journal(path)
        notes.issue(1, journal.Verb.WRITE, 0, 4, 2)
        notes.issue(2, journal.Verb.READ, 0, 4, 1)
        notes.finish(2, 1)
        notes.issue(3, journal.Verb.FLUSH)
        notes.finish(1, -108)
        notes.close()
        whole = path.read_bytes()
        path.write_bytes(whole[:-1])
        cut, = journal.read([path])[:1]
        self.assertIsNone(cut.done)
        path.write_bytes(whole)
        first, second, third = journal.read([path])
        self.assertTrue(first.failed)
        self.assertFalse(first.acknowledged)
        self.assertTrue(second.acknowledged)
        self.assertEqual((1, 1), (second.count, second.result))
        self.assertIsNone(third.done)


class CheckTestCase(testtools.TestCase):
    """Short histories of one disk of eight blocks."""

    start = history.Contents.zeroes([_BLOCKS])

    def assert_wrong(self, expected: str, wrong: list[str]) -> None:
        self.assertTrue(any(expected in line for line in wrong), wrong or 'nothing was wrong')


class UntouchedTest(CheckTestCase):
    """A primary whose backup was dropped."""

    def check(self, ops: list[journal.Op], *values: int, volatile: bool = False,
              closed: tuple[float, float] | None = None) -> list[str]:
        party = history.Party(ops, volatile, [closed] if closed else [])
        return history.untouched(self.start, party, disk(*values))

    def test_acknowledged_changes_are_expected(self) -> None:
        ops = [op(1, 0, 2, 1, 2), op(2, 1, 2, 3, 4),
               op(3, 0, 1, 5, 6, verb=journal.Verb.DISCARD)]
        self.assertEqual([], self.check(ops, 0, 2, 2))

    def test_lost_write_is_found(self) -> None:
        self.assert_wrong('block 1 holds zeroes instead of 0x1',
                          self.check([op(1, 0, 2, 1, 2)], 1, 0))

    def test_stale_value_is_found(self) -> None:
        self.assert_wrong('holds 0x1 instead of 0x2',
                          self.check([op(1, 0, 1, 1, 2), op(2, 0, 1, 3, 4)], 1))

    def test_undone_discard_is_found(self) -> None:
        ops = [op(1, 0, 1, 1, 2), op(2, 0, 1, 3, 4, verb=journal.Verb.DISCARD)]
        self.assert_wrong('holds 0x1 instead of zeroes', self.check(ops, 1))

    def test_write_of_the_backup_is_found(self) -> None:
        self.assert_wrong('holds 0x300000001 instead of 0x1',
                          self.check([op(1, 0, 1, 1, 2)], _BACKUP + 1))

    def test_garbage_is_found(self) -> None:
        self.assert_wrong('holds garbage', self.check([], blocks.CORRUPT))

    def test_blocks_of_a_write_in_flight_are_independent(self) -> None:
        ops = [op(1, 0, 3, 1, 2), op(2, 0, 3, 3, None)]
        self.assertEqual([], self.check(ops, 1, 2, 1))
        self.assert_wrong('holds zeroes instead of 0x1 or 0x2', self.check(ops, 0, 2, 1))

    def test_later_write_settles_one_in_flight(self) -> None:
        ops = [op(1, 0, 1, 1, None), op(2, 0, 1, 3, 4)]
        self.assert_wrong('holds 0x1 instead of 0x2', self.check(ops, 1))

    def test_error_of_the_primary_is_found(self) -> None:
        self.assert_wrong('the primary saw an error',
                          self.check([op(1, 0, 1, 1, 2, result=-108)]))

    def test_wrong_read_is_found(self) -> None:
        ops = [op(1, 0, 1, 1, 2), read(2, 0, 3, 1)]
        self.assertEqual([], self.check(ops, 1))
        self.assert_wrong('found zeroes instead of 0x1',
                          self.check([ops[0], read(2, 0, 3, 0)], 1))

    def test_read_settles_a_failed_write(self) -> None:
        ops = [op(1, 0, 1, 1, 2, result=-5), read(2, 0, 3, 1), read(3, 0, 5, 0)]
        self.assert_wrong('found zeroes instead of 0x1', self.check(ops, 0))

    def test_volatile_write_may_be_lost(self) -> None:
        ops = [op(1, 0, 1, 1, 2), flush(2, 3, 4), op(3, 0, 1, 5, 6)]
        self.assertEqual([], self.check(ops, 1, volatile=True))
        self.assertEqual([], self.check(ops, 3, volatile=True))
        self.assert_wrong('holds zeroes', self.check(ops, 0, volatile=True))

    def test_volatile_write_that_was_read_may_be_lost(self) -> None:
        ops = [op(1, 0, 1, 0, 1), flush(2, 2, 3), op(3, 0, 1, 4, 5), read(4, 0, 6, 3)]
        self.assertEqual([], self.check(ops, 1, volatile=True))
        self.assertEqual([], self.check(ops, 3, volatile=True))
        self.assert_wrong('holds zeroes', self.check(ops, 0, volatile=True))

    def test_volatile_write_is_safe_after_close(self) -> None:
        ops = [op(1, 0, 1, 1, 2), op(2, 0, 1, 3, 4)]
        self.assert_wrong('holds 0x1 instead of 0x2',
                          self.check(ops, 1, volatile=True, closed=(5, 6)))

    def test_flush_of_a_disk_that_has_failed_covers_nothing(self) -> None:
        ops = [op(1, 0, 1, 1, 2), flush(2, 3, 4), op(3, 0, 1, 5, 6), flush(4, 7, 9)]
        failed = op(5, 1, 1, 7, 8, result=-108)

        def safe(ops: list[journal.Op]) -> list[float | None]:
            """Return when the two writes were safe."""
            durable = history.Party(ops, volatile=True).durable
            return [change.done for change in durable if change.number in (1, 3)]
        self.assertEqual([4, 9], safe(ops))
        self.assertEqual([4, None], safe([*ops, failed]))

    def test_flush_after_a_client_woke_promises_nothing(self) -> None:
        ops = [op(1, 0, 1, 1, 2), flush(2, 3, 4), op(3, 1, 1, 5, 6), flush(4, 7, 8)]
        durable = history.Party(ops, volatile=True, doubted=7.5).durable
        self.assertEqual([4, None], [change.done for change in durable if change.count])

    def test_flush_covers_earlier_acknowledgements_only(self) -> None:
        ops = [op(1, 0, 1, 1, 4), flush(2, 3, 5)]
        self.assertEqual([], self.check(ops, 0, volatile=True))


class PromotedTest(CheckTestCase):
    """A backup that was promoted."""

    def check(self, primary: list[journal.Op], backup: list[journal.Op], *values: int,
              killed: bool = False) -> list[str]:
        return history.promoted(
            self.start, history.Party(primary), _CUT,
            history.Party(backup, volatile=killed, barriers=[(_CUT + 5, _DECIDED)], loose=True),
            disk(*values))

    def test_writes_of_primary_and_backup_are_expected(self) -> None:
        primary = [op(_PRIMARY + 1, 0, 3, 1, 2)]
        backup = [op(_BACKUP + 1, 1, 1, 11, 12), op(_BACKUP + 2, 3, 1, 21, 22)]
        self.assertEqual([], self.check(primary, backup, _PRIMARY + 1, _BACKUP + 1,
                                        _PRIMARY + 1, _BACKUP + 2))

    def test_acknowledgement_after_the_cut_is_found(self) -> None:
        self.assert_wrong('the promoted cut was over',
                          self.check([op(_PRIMARY + 1, 0, 1, 11, 12)], [], _PRIMARY + 1))

    def test_refused_write_after_the_cut_must_not_land(self) -> None:
        primary = [op(_PRIMARY + 1, 0, 1, 11, 21, result=-108), op(_PRIMARY + 2, 0, 1, 22, None)]
        self.assertEqual([], self.check(primary, []))
        self.assert_wrong('holds 0x100000001 instead of zeroes',
                          self.check(primary, [], _PRIMARY + 1))

    def test_discard_of_zeroes_after_the_cut_is_allowed(self) -> None:
        discard = op(_PRIMARY + 2, 0, 2, 21, 22, verb=journal.Verb.DISCARD)
        self.assertEqual([], self.check([discard], []))
        self.assert_wrong('the promoted cut was over',
                          self.check([op(_PRIMARY + 1, 1, 1, 1, 2), discard], [], 0,
                                     _PRIMARY + 1))

    def test_changes_of_qemu_that_need_no_osd_are_allowed_after_the_cut(self) -> None:
        written = op(_PRIMARY + 1, 1, 1, 1, 2)
        for verb, allowed in ((journal.Verb.DISCARD, (0, 1)), (journal.Verb.ZERO, (0,)),
                              (journal.Verb.WRITE, ())):
            for block in (0, 1):
                party = history.Party([written, op(_PRIMARY + 2, block, 1, 21, 22, verb=verb)],
                                      loose=True)
                wrong = party.acknowledged_after(_CUT, self.start, 'the cut was over')
                self.assertEqual(block not in allowed, bool(wrong), f'{verb} {block}')

    def test_write_in_flight_at_the_cut_counts_once_acknowledged(self) -> None:
        primary = [op(_PRIMARY + 1, 0, 1, 9, 30)]
        self.assertEqual([], self.check(primary, [], _PRIMARY + 1))
        self.assert_wrong('holds zeroes instead of 0x100000001', self.check(primary, []))

    def test_unacknowledged_write_at_the_cut_may_count(self) -> None:
        primary = [op(_PRIMARY + 1, 0, 1, 9, None)]
        self.assertEqual([], self.check(primary, [], _PRIMARY + 1))
        self.assertEqual([], self.check(primary, []))

    def test_read_of_the_backup_settles_a_write_in_flight(self) -> None:
        primary = [op(_PRIMARY + 1, 0, 1, 9, None)]
        backup = [read(_BACKUP + 1, 0, 11, _PRIMARY + 1)]
        self.assertEqual([], self.check(primary, backup, _PRIMARY + 1))
        self.assert_wrong('holds zeroes instead of 0x100000001', self.check(primary, backup))
        self.assert_wrong('holds zeroes', self.check(primary, backup, killed=True))

    def test_wrong_read_of_the_backup_is_found(self) -> None:
        backup = [read(_BACKUP + 1, 0, 11, 0)]
        self.assert_wrong('found zeroes instead of 0x100000001',
                          self.check([op(_PRIMARY + 1, 0, 1, 1, 2)], backup, _PRIMARY + 1))

    def test_discard_of_backup_may_be_ignored(self) -> None:
        primary = [op(_PRIMARY + 1, 0, 2, 1, 2)]
        backup = [op(_BACKUP + 1, 0, 2, 11, 12, verb=journal.Verb.DISCARD)]
        self.assertEqual([], self.check(primary, backup, 0, _PRIMARY + 1))

    def test_zeroes_of_backup_count(self) -> None:
        primary = [op(_PRIMARY + 1, 0, 1, 1, 2)]
        backup = [op(_BACKUP + 1, 0, 1, 11, 12, verb=journal.Verb.ZERO)]
        self.assert_wrong('holds 0x100000001 instead of zeroes',
                          self.check(primary, backup, _PRIMARY + 1))

    def test_killed_backup_keeps_what_collapse_made_durable(self) -> None:
        backup = [op(_BACKUP + 1, 0, 1, 11, 12), op(_BACKUP + 2, 1, 1, 21, 22)]
        self.assertEqual([], self.check([], backup, _BACKUP + 1, killed=True))
        self.assert_wrong('block 0 holds zeroes', self.check([], backup, killed=True))

    def test_killed_backup_keeps_what_it_flushed(self) -> None:
        backup = [op(_BACKUP + 1, 0, 1, 21, 22), flush(_BACKUP + 2, 23, 24)]
        self.assert_wrong('block 0 holds zeroes', self.check([], backup, killed=True))


class LateDirtyTest(CheckTestCase):
    """A primary that was fenced although it had written."""

    def check(self, ops: list[journal.Op], at_once: list[blocks.Values],
              contents: list[blocks.Values]) -> list[str]:
        return history.late_dirty(self.start, history.Party(ops), _DECIDED, at_once, contents)

    def test_acknowledged_and_refused_writes_are_expected(self) -> None:
        ops = [op(1, 0, 1, 11, 12), op(2, 1, 1, 19, None), op(3, 2, 1, 21, 22, result=-108)]
        self.assertEqual([], self.check(ops, disk(1, 2), disk(1, 2)))

    def test_lost_write_is_found(self) -> None:
        self.assert_wrong('block 0 holds zeroes', self.check([op(1, 0, 1, 11, 12)], disk(),
                                                             disk()))

    def test_acknowledgement_after_the_decision_is_found(self) -> None:
        self.assert_wrong('the second sweep was over',
                          self.check([op(1, 0, 1, 21, 22)], disk(1), disk(1)))

    def test_write_that_lands_after_the_decision_is_found(self) -> None:
        self.assert_wrong('parent version after it',
                          self.check([op(1, 0, 1, 19, None)], disk(), disk(1)))

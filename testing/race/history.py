# SPDX-License-Identifier: Apache-2.0
"""Possible results of a race, computed from the journals of the writers alone.

Pure functions. A disk is modelled block by block: its certain value, and values that it may have
instead because a write was in flight, was not flushed, or was a discard, which may be ignored.
"""

from collections.abc import Iterable, Sequence
import dataclasses
import functools
import math

import numpy

from testing.race import blocks
from testing.race import journal

_SHOWN = 5
_CHANGES = (journal.Verb.WRITE, journal.Verb.DISCARD, journal.Verb.ZERO)


@dataclasses.dataclass
class Contents:
    """Possible contents of some disks.

    :ivar certain: by image, the value of each block
    :ivar maybe: by image and block, further possible values
    """

    certain: list[blocks.Values]
    maybe: dict[tuple[int, int], set[int]]

    @classmethod
    def zeroes(cls, sizes: Iterable[int]) -> 'Contents':
        """Return the contents of new disks.

        :param sizes: of each disk, in blocks
        """
        return cls([numpy.zeros(size, dtype=numpy.int64) for size in sizes], {})

    @classmethod
    def exactly(cls, disks: Iterable[blocks.Values]) -> 'Contents':
        """Return the contents of disks that were read."""
        return cls([values.copy() for values in disks], {})

    def copy(self) -> 'Contents':
        """Return a copy that can be changed."""
        return Contents([values.copy() for values in self.certain],
                        {key: set(values) for key, values in self.maybe.items()})

    def options(self, image: int, block: int) -> set[int]:
        """Return all possible values of a block."""
        return {int(self.certain[image][block])} | self.maybe.get((image, block), set())

    def empty(self, op: journal.Op) -> bool:
        """Return whether all blocks of an operation are certainly zero."""
        return all(self.options(op.image, block) == {blocks.ZERO}
                   for block in range(op.first, op.first + op.count))

    def apply(self, op: journal.Op, *, happened: bool) -> None:
        """Apply an operation to the disks.

        :param happened: False if it may have happened, to each block on its own
        """
        value = op.number if op.verb is journal.Verb.WRITE else blocks.ZERO
        span = range(op.first, op.first + op.count)
        if happened:
            self.certain[op.image][op.first:op.first + op.count] = value
            for block in span:
                self.maybe.pop((op.image, block), None)
        else:
            for block in span:
                self.maybe.setdefault((op.image, block), set()).add(value)

    def narrow(self, image: int, block: int, value: int) -> bool:
        """Note the value of a block, and return whether the block could have it."""
        possible = value in self.options(image, block)
        self.certain[image][block] = value
        self.maybe.pop((image, block), None)
        return possible


@dataclasses.dataclass(frozen=True)
class Party:
    """All operations of a writer.

    :param ops: in the order in which they were issued; no two at once to one block
    :param volatile: acknowledged writes are safe only once flushed, by a disk without errors
    :param barriers: flushes of all disks by another process: begin and end of each
    :param loose: discards may be ignored
    :param doubted: flushes that were acknowledged later promise nothing: with a cache, a client
        that woke while it was fenced may have acknowledged them for writes that were refused
    """

    ops: Sequence[journal.Op]
    volatile: bool = False
    barriers: Sequence[tuple[float, float]] = ()
    loose: bool = False
    doubted: float = math.inf

    @property
    def origins(self) -> set[int]:
        """Return the origins in the numbers of its operations."""
        return {_origin(op.number) for op in self.ops}

    def play(self, start: Contents, before: float = math.inf) -> tuple[Contents, list[str]]:
        """Apply the operations to disks, and check the values that were read.

        :param before: leave out operations issued from this time on
        :returns: possible contents of the disks, and reads that cannot be explained
        """
        seen, wrong = self._play(start, self.ops, before)
        if not self.volatile:
            return seen, wrong
        # Reads see the cache, which does not survive: none of them makes a value certain.
        changes = [op for op in self.durable if op.verb in _CHANGES]
        return self._play(start, changes, before)[0], wrong

    def acknowledged_after(self, moment: float, start: Contents, what: str) -> list[str]:
        """Return changes that began after a moment and yet were durably acknowledged.

        Zeroing zeroes is no change: librbd acknowledges it without asking an OSD. Neither is a
        discard that may be ignored.
        """
        then, _ = self.play(start, before=moment)
        return [f'{what} at {moment:.6f}, yet acknowledged: {op}' for op in self.durable
                if op.verb in _CHANGES and op.issued > moment and op.acknowledged
                and not (self.loose and op.verb is journal.Verb.DISCARD)
                and not (op.verb is not journal.Verb.WRITE and then.empty(op))]

    def failures(self) -> list[str]:
        """Return the operations that failed."""
        return [f'the primary saw an error: {op}' for op in self.ops if op.failed]

    @functools.cached_property
    def durable(self) -> Sequence[journal.Op]:
        """Return the operations, each done at the time when it was durable."""
        if not self.volatile:
            return self.ops
        # librbd reports a failed write with one of the flushes that follow it, not all: a guest
        # that has got an error of a disk cannot rely on another flush of it.
        errors: dict[int, float] = {}
        for op in self.ops:
            if op.failed and op.done is not None:
                errors[op.image] = min(op.done, errors.get(op.image, math.inf))
        flushes = [op for op in self.ops if op.verb is journal.Verb.FLUSH and op.acknowledged
                   and op.done is not None
                   and op.done < min(self.doubted, errors.get(op.image, math.inf))]
        return [self._settled(op, flushes) for op in self.ops]

    def _settled(self, op: journal.Op, flushes: Sequence[journal.Op]) -> journal.Op:
        if op.verb not in _CHANGES or op.done is None or op.failed:
            return op
        ends = [end for begin, end in self.barriers if begin >= op.done]
        ends += [flush.done for flush in flushes if flush.done is not None
                 and flush.image == op.image and flush.issued >= op.done][:1]
        return dataclasses.replace(op, done=min(ends, default=None))

    def _play(self, start: Contents, ops: Sequence[journal.Op],
              before: float) -> tuple[Contents, list[str]]:
        now, wrong = start.copy(), []
        for op in ops:
            if op.issued >= before:
                continue
            if op.verb in _CHANGES:
                vague = self.loose and op.verb is journal.Verb.DISCARD
                now.apply(op, happened=op.acknowledged and not vague)
            elif op.verb is journal.Verb.READ and op.acknowledged:
                expected = now.options(op.image, op.first)
                if not now.narrow(op.image, op.first, op.result):
                    wrong.append(f'{op} found {_named(op.result)} instead of {_listed(expected)}')
        return now, wrong


def compare(expected: Contents, contents: Sequence[blocks.Values], what: str) -> list[str]:
    """Compare the contents of disks with their possible contents."""
    wrong = []
    for image, (values, sure) in enumerate(zip(contents, expected.certain, strict=True)):
        bad = [int(block) for block in numpy.flatnonzero(values != sure)
               if int(values[block]) not in expected.maybe.get((image, int(block)), ())]
        for block in bad[:_SHOWN]:
            wrong.append(f'{what}: image {image} block {block} holds {_named(values[block])} '
                         f'instead of {_listed(expected.options(image, block))}')
        if len(bad) > _SHOWN:
            wrong.append(f'{what}: … and {len(bad) - _SHOWN} more blocks of image {image}')
    return wrong


def promoted(start: Contents, primary: Party, cut: float, backup: Party,
             contents: Sequence[blocks.Values]) -> list[str]:
    """Check a promoted backup.

    :param start: contents of the disks before the primary's first operation
    :param cut: end of the cut: operations that began later must not be acknowledged
    :param contents: contents of the child version in the end
    """
    # An operation that began before the cut counts whenever its acknowledgement was read: it was
    # in the cluster before the cut, or else the sweeps would have seen it.
    wrong = primary.acknowledged_after(cut, start, 'the promoted cut was over')
    base, misread = primary.play(start, before=cut)
    wrong += misread
    # A value that the backup read of the primary's version is the value at the cut.
    for op in backup.ops:
        if op.verb is journal.Verb.READ and op.acknowledged and op.result in base.options(
                op.image, op.first) and _origin(op.result) in primary.origins:
            base.narrow(op.image, op.first, op.result)
    after, misread = backup.play(base)
    return wrong + misread + compare(after, contents, 'promoted version')


def untouched(start: Contents, primary: Party, contents: Sequence[blocks.Values]) -> list[str]:
    """Check a primary whose backup was dropped before the fence.

    :param contents: contents of the parent version after the primary's end
    """
    after, wrong = primary.play(start)
    return primary.failures() + wrong + compare(after, contents, 'parent version')


def late_dirty(start: Contents, primary: Party, decided: float,
               at_once: Sequence[blocks.Values], contents: Sequence[blocks.Values]) -> list[str]:
    """Check a primary that was fenced although it had written, and whose backup was dropped.

    :param decided: end of the second sweep
    :param at_once: contents of the parent version right after the decision
    :param contents: its contents after the primary's end
    """
    wrong = primary.acknowledged_after(decided, start, 'the second sweep was over')
    after, misread = primary.play(start)
    wrong += misread + compare(after, at_once, 'parent version at the late decision')
    return wrong + compare(Contents.exactly(at_once), contents, 'parent version after it')


def _origin(value: int) -> int:
    return value >> 32


def _named(value: int) -> str:
    return {blocks.ZERO: 'zeroes', blocks.CORRUPT: 'garbage'}.get(int(value), f'{int(value):#x}')


def _listed(values: Iterable[int]) -> str:
    return ' or '.join(_named(value) for value in sorted(values))

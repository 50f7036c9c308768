# SPDX-License-Identifier: Apache-2.0
"""A controller hangs at any of its steps, another one overtakes it, and the first one goes on.

A crash ends a controller. One that was overtaken acts again, on what was true before. Each
scenario is generated from a number. Whatever happens, no acknowledged write is lost, the backup's
version is promoted only if the primary has not written since the cut, the reports agree with the
volumes, and nothing is left.
"""

from collections.abc import Callable
import contextlib
import dataclasses
import functools
import itertools
import random
import threading

import ddt
from testtools import content

from specreds_cinder import superposition as sp
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.functional import actors
from specreds_cinder.tests.functional import base
from specreds_cinder.tests.functional import test_crash_matrix

_SIZE = 8 * base.MIB
_BLOCK = 4096
# Blocks that the first backup, the second one, and the primary write to, and their contents.
_FIRST, _SECOND, _WRITTEN = 64 << 10, 128 << 10, 192 << 10
_OLD, _CHILD, _NEW = 0x50, 0x43, 0x44
# The primary writes before the request, or while its controller hangs.
BEFORE, MEANWHILE = 'before', 'meanwhile'
# Numbers of scenarios: without another superposition that follows, and with one.
_FEW = {False: 6, True: 4}
_ALL = {False: 260, True: 188}
_EACH = 16


def superpose(protocol: sp.Protocol, refs: list[sp.VolumeRef]) -> str:
    """Put volumes into superposition."""
    return protocol.super(refs).state


def resume(protocol: sp.Protocol, refs: list[sp.VolumeRef]) -> str:
    """Take the superposition for interrupted, as the volume service does."""
    return protocol.resume(protocol.find(refs[0]))


def collapse(protocol: sp.Protocol, refs: list[sp.VolumeRef]) -> str:
    """Decide for the backup, unless the primary has written."""
    return protocol.collapse(protocol.find(refs[0])).outcome


def abort(protocol: sp.Protocol, refs: list[sp.VolumeRef]) -> str:
    """Decide for the primary."""
    protocol.abort(protocol.find(refs[0]))
    return states.ABORTED


def merge(protocol: sp.Protocol, refs: list[sp.VolumeRef]) -> str:
    """Merge promoted volumes."""
    protocol.merge(protocol.find(refs[0]))
    return states.PROMOTED


Request = Callable[[sp.Protocol, list[sp.VolumeRef]], str]
# The requests that are overtaken, each with the number of its events, and with those that
# overtake it.
_HANGS: dict[Request, tuple[int, tuple[Request, ...]]] = {
    superpose: (30, (resume, abort)), collapse: (24, (resume, abort, collapse)),
    abort: (32, (resume, abort, collapse)), merge: (64, (resume, merge))}
# A collapse of volumes that are dirty ends as an abort does.
_DIRTY_EVENTS = 4 + 32


@dataclasses.dataclass(frozen=True)
class Scenario:
    """One overtaking.

    :param hangs: the request of the controller that hangs
    :param event: number of the event at which it hangs
    :param rival: the request of the other controller
    :param writes: the moment at which the primary writes; None if it does not
    :param following: state of the superposition by which the other controller follows the first
        one; None for none
    """

    hangs: Request
    event: int
    rival: Request
    writes: str | None
    following: str | None

    @classmethod
    def generate(cls, number: int, *, followed: bool) -> 'Scenario':
        """Return a scenario by its number."""
        chance = random.Random(f'{number} {followed}')
        hangs = chance.choice(list(_HANGS))
        events, rivals = _HANGS[hangs]
        writes = None
        if hangs is not merge and chance.random() < 0.3:
            writes = chance.choice((BEFORE, MEANWHILE) if hangs is collapse else (MEANWHILE,))
        if writes == BEFORE:
            events = _DIRTY_EVENTS
        return cls(hangs, chance.randrange(events), chance.choice(rivals), writes,
                   chance.choice((states.SUPERPOSED, states.PROMOTED)) if followed else None)


class _Hang:
    """Runs a function once, at an event of a request, in the thread of the event."""

    def __init__(self, number: int, overtake: Callable[[], None]) -> None:
        self._events = itertools.count()
        self._number = number
        self._overtake = overtake
        self._lock = threading.Lock()
        self.happened = False

    def __call__(self, event: sp.trace.Event) -> None:
        with self._lock:
            # The events of the other controller come here, too.
            if (event.kind == 'progress' or self.happened
                    or next(self._events) != self._number):
                return
            self.happened = True
        self._overtake()


class OvertakingTestCase(test_crash_matrix.CrashTestCase):
    """Two volumes of one primary, and two controllers."""

    def setUp(self) -> None:
        super().setUp()
        connection = self.cluster.apart()
        self.addCleanup(connection.close)
        self.rival = sp.Protocol(connection, self.settings)
        self.primary: actors.Primary | None = None

    def play(self, numbers: range, generate: Callable[[int], Scenario]) -> None:
        """Play scenarios by their numbers; some of them have an overtaking."""
        happened = 0
        for number in numbers:
            scenario = generate(number)
            self.addDetail('scenario', content.text_content(f'{number}: {scenario}'))
            happened += _Play(self, scenario).run()
        self.assertGreater(happened, 0)

    def living_primary(self) -> actors.Primary:
        """Return a primary that has written and works; start another one if necessary."""
        if self.primary is None:
            self.primary = self.make_primary(*self.refs)
        for disk, place in itertools.product(range(2), (_FIRST, _SECOND, _WRITTEN)):
            self.assertEqual(0, self.primary.write(place, _OLD, disk=disk))
        return self.primary

    def replace_primary(self) -> None:
        """End a primary that was fenced."""
        assert self.primary is not None
        self.primary.kill()
        self.protocol.fence.open(self.primary.clients)
        self.primary = None

    def block(self, offset: int) -> list[int]:
        """Return the first byte of a block of each volume; all bytes of the block are equal."""
        blocks = [self.contents(ref, _SIZE)[offset:offset + _BLOCK] for ref in self.refs]
        for block in blocks:
            self.assertEqual(1, len(set(block)))
        return [block[0] for block in blocks]


class _Play:
    """One scenario, which begins and ends with volumes in no superposition."""

    def __init__(self, test: OvertakingTestCase, scenario: Scenario) -> None:
        self._test = test
        self._scenario = scenario
        self._primary = test.living_primary()
        # What controllers said of the first superposition, and of the one that follows.
        self._first: set[str] = set()
        self._second: str | None = None
        self._written = False
        self._fenced = False
        # The primary was fenced for good by whoever has continued what was interrupted.
        self._late = False

    def run(self) -> bool:
        """Play, check the result, and return whether a controller was overtaken."""
        test, scenario = self._test, self._scenario
        if scenario.hangs is not superpose:
            record = test.protocol.super(test.refs)
            test.child_io(record, f'write -P {_CHILD} {_FIRST} {_BLOCK}')
        if scenario.hangs is merge:
            self._first.add(collapse(test.protocol, test.refs))
        if scenario.writes == BEFORE:
            self._write()
        hang = _Hang(scenario.event, self._overtake)
        with sp.trace.observe(self._note):
            with sp.trace.observe(hang):
                self._request(test.protocol, scenario.hangs)
            self._late |= states.LATE_DIRTY in test.conclude_all()
        self._check()
        return hang.happened

    def _note(self, event: sp.trace.Event) -> None:
        self._fenced |= event.name == 'fence.add' and event.target in self._primary.clients

    def _overtake(self) -> None:
        test, scenario = self._test, self._scenario
        if scenario.writes == MEANWHILE:
            self._write()
        self._request(test.rival, scenario.rival)
        test.rival.tidy(test.home, older_s=0)
        if scenario.following is not None:
            self._follow(scenario.following)

    def _write(self) -> None:
        """Let the primary write, and note whether its write was acknowledged."""
        self._written = self._primary.write(_WRITTEN, _NEW, disk=1) == 0

    def _follow(self, state: str) -> None:
        """End the first superposition, and let another one follow."""
        test = self._test
        try:
            for record in test.rival.list(test.home):
                self._late |= test.conclude_once(
                    record, test.rival) == states.LATE_DIRTY
        except sp.OverlayBusy:
            # The controller that hangs has qemu-img open.
            return
        record = test.rival.super(test.refs)
        if state == states.PROMOTED:
            test.child_io(record, f'write -P {_CHILD} {_SECOND} {_BLOCK}')
            self._second = test.rival.collapse(record).outcome

    def _request(self, protocol: sp.Protocol, request: Request) -> None:
        """Let a controller carry out a request, which may fail, and note what it reports."""
        with contextlib.suppress(sp.SuperError):
            self._first.add(request(protocol, self._test.refs))

    def _check(self) -> None:
        test = self._test
        alive = [self._primary.write(offset=0, byte=1, disk=disk) == 0 for disk in range(2)]
        shut_out = self._primary.clients & test.fenced()
        first, second = test.block(_FIRST), test.block(_SECOND)
        # The backup's writes are in both volumes, or in none.
        promoted = {_CHILD: True, _OLD: False}[first[0]]
        test.assertEqual(first[0], first[1])
        test.assertEqual([_CHILD if self._second == states.PROMOTED else _OLD] * 2, second)
        if promoted:
            test.assertFalse(self._written, 'the primary has written since the cut')
            test.assertTrue(self._first.isdisjoint(states.LIVING | {states.LATE_DIRTY}),
                            str(self._first))
        else:
            test.assertNotIn(states.PROMOTED, self._first)
        if self._written:
            test.assertEqual([_OLD, _NEW], test.block(_WRITTEN))
        if promoted or self._second == states.PROMOTED:
            test.assertEqual(([False] * 2, self._primary.clients), (alive, shut_out))
        elif not self._late and states.LATE_DIRTY not in self._first | {self._second}:
            test.assertEqual(frozenset(), shut_out)
            # One that has met a fence, which was lifted again, has ended.
            test.assertTrue(all(alive) or self._fenced)
        if not all(alive):
            test.replace_primary()


@ddt.ddt
class FewTest(OvertakingTestCase):

    @ddt.data(*_FEW)
    def test_overtaken_controller_does_no_harm(self, followed: bool) -> None:
        self.play(range(_FEW[followed]),
                  functools.partial(Scenario.generate, followed=followed))


@ddt.ddt
class AllTest(OvertakingTestCase):

    @ddt.data(*((followed, first) for followed, count in _ALL.items()
                for first in range(_FEW[followed], count, _EACH)))
    @ddt.unpack
    def test_overtaken_controller_does_no_harm(self, followed: bool, first: int) -> None:
        self.play(range(first, min(first + _EACH, _ALL[followed])),
                  functools.partial(Scenario.generate, followed=followed))

# SPDX-License-Identifier: Apache-2.0
"""A process that writes to disks as a guest would, and keeps a journal of its operations.

Run with the path of a JSON file that holds a :class:`Spec`.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
import json
import os
import pathlib
import random
import sys
import threading
import time

from specreds_nova import cache_policy
from testing.race import blocks
from testing.race import control
from testing.race import devices
from testing.race import journal

_FILL = 256
_DRAIN = 20.0
# Silence between bursts, as powers of ten of seconds: from 50 ms to 3 s.
_SILENCE = (-1.3, 0.5)
# Of 100 operations of a guest; an operation that the disk does not have becomes a write.
_MIX = ((80, journal.Verb.WRITE), (7, journal.Verb.DISCARD), (3, journal.Verb.ZERO),
        (5, journal.Verb.READ), (5, journal.Verb.FLUSH))
# What a cache has acknowledged counts once it is flushed.
_CACHED_MIX = ((55, journal.Verb.WRITE), *_MIX[1:-1], (30, journal.Verb.FLUSH))
_SIZES = (1, 1, 1, 1, 2, 2, 4, 4, 8, 16, 64)


@dataclasses.dataclass(frozen=True)
class Spec:
    """The settings of a writer.

    :param seed: seed of all its choices
    :param origin: identifies the writer: the high half of the numbers of its operations
    :param fill: write every block once before anything else
    :param conf: ceph.conf for RBD images; empty if the disks are NBD exports
    :param cache: policy of librbd's cache; empty for no cache
    :param disks: of each image, its size in bytes and its place: (pool, namespace, image), or
        (socket, export)
    :param journal: path of the journal
    :param control: path of the control's file
    """

    seed: int
    origin: int
    fill: bool = False
    conf: str = ''
    user: str = ''
    cache: str = ''
    disks: list[tuple[int, list[str]]] = dataclasses.field(default_factory=list)
    journal: str = ''
    control: str = ''

    def open(self) -> list[devices.Device]:
        """Open the disks."""
        if self.conf:
            return [devices.RbdDevice(self.conf, self.user, pool, namespace, image, self.cache)
                    for _size, (pool, namespace, image) in self.disks]
        return [devices.NbdDevice(socket, export) for _size, (socket, export) in self.disks]


class Writer:
    """Writes at random, as the control says, never twice at once to the same block."""

    def __init__(self, spec: Spec) -> None:
        self._random = random.Random(spec.seed)
        self._mix = _CACHED_MIX if spec.cache == cache_policy.DEFAULT else _MIX
        self._sizes = [size // blocks.SIZE for size, _place in spec.disks]
        self._next = spec.origin << 32
        self._control = control.Control(pathlib.Path(spec.control))
        self._journal = journal.Journal(pathlib.Path(spec.journal))
        self._lock = threading.Condition()
        self._busy: dict[int, tuple[int, int, int]] = {}
        self._failed = False
        self._devices = spec.open()

    def run(self, fill: bool) -> None:
        """Write until the control says to quit."""
        self._begin(fill)
        pace = self._pace()
        while True:
            mode = self._control.mode
            if mode is control.Mode.QUIT:
                break
            if mode is control.Mode.PAUSED:
                with self._lock:
                    quiet = not self._busy
                self._control.state = control.State.QUIET if quiet else control.State.BUSY
                time.sleep(0.002)
                continue
            self._control.state = control.State.BUSY
            self._operate()
            time.sleep(0.01 if self._failed else next(pace))
        self._drain()
        if not self._failed:
            for device in self._devices:
                device.close()
            self._control.state = control.State.QUIET

    def _pace(self) -> Iterator[float]:
        """Yield the seconds to wait after each operation."""
        left = 0
        while True:
            mode = self._control.mode
            if mode is control.Mode.STEADY:
                yield self._random.uniform(0.0005, 0.006)
            elif mode is control.Mode.SLOW:
                yield self._random.uniform(0.005, 0.02)
            elif mode is control.Mode.BURSTY and left == 0:
                left = self._random.randint(5, 40)
                yield from self._silence(10 ** self._random.uniform(*_SILENCE))
            else:
                left = max(0, left - 1)
                yield 0.0

    def _silence(self, seconds: float) -> Iterator[float]:
        """Sleep in short pieces, so that a change of the mode is seen soon."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self._control.mode is control.Mode.BURSTY:
            time.sleep(0.002)
        yield 0.0

    def _begin(self, fill: bool) -> None:
        """Write every block, or at least one of every disk: a guest owns its disks' locks."""
        for image, size in enumerate(self._sizes):
            for first in range(0, size if fill else 1, _FILL):
                self._write(image, first, min(_FILL, size - first) if fill else 1)
        self._drain()

    def _operate(self) -> None:
        """Submit one operation, chosen at random."""
        verb = self._random.choices([verb for _, verb in self._mix],
                                    [weight for weight, _ in self._mix])[0]
        target = self._control.target
        if target is not None:
            (image, low, size), verb = target, journal.Verb.WRITE
        else:
            image, low = self._random.randrange(len(self._sizes)), 0
            size = self._sizes[image]
        device = self._devices[image]
        if verb is journal.Verb.FLUSH:
            self._submit(verb, image, 0, 0, b'')
            return
        if verb is journal.Verb.ZERO and not device.can_zero:
            verb = journal.Verb.WRITE
        count = min(size, 1 if verb is journal.Verb.READ else self._random.choice(_SIZES))
        first = low + self._random.randrange(size - count + 1)
        if verb is journal.Verb.DISCARD:
            grain = device.grain
            first -= first % grain
            count = min(grain * self._random.randint(1, 8), (size - first) // grain * grain)
        if count == 0 or self._taken(image, first, count):
            return
        if verb is journal.Verb.READ:
            self._read(image, first)
        elif verb is journal.Verb.WRITE:
            self._write(image, first, count)
        else:
            self._submit(verb, image, first, count, b'')

    def _taken(self, image: int, first: int, count: int) -> bool:
        with self._lock:
            return any(image == there and first < end and begin < first + count
                       for there, begin, end in self._busy.values())

    def _write(self, image: int, first: int, count: int) -> None:
        self._submit(journal.Verb.WRITE, image, first, count,
                     blocks.encode(self._next, image, first, count))

    def _read(self, image: int, first: int) -> None:
        number = self._number(journal.Verb.READ, image, first, 1)
        try:
            data = self._devices[image].read(first * blocks.SIZE, blocks.SIZE)
        except OSError as exc:
            self._failed = True
            self._journal.finish(number, -abs(exc.errno or 1))
        else:
            self._journal.finish(number, int(blocks.decode(data, image, first)[0]))

    def _submit(self, verb: journal.Verb, image: int, first: int, count: int,
                data: bytes) -> None:
        with self._lock:
            self._lock.wait_for(lambda: len(self._busy) < self._devices[image].depth)
        number = self._number(verb, image, first, count)

        def done(result: int) -> None:
            self._journal.finish(number, result)
            with self._lock:
                self._failed |= result < 0
                del self._busy[number]
                self._lock.notify_all()

        with self._lock:
            self._busy[number] = (image, first, first + count)
        self._devices[image].submit(verb, first * blocks.SIZE, count * blocks.SIZE, data, done)

    def _number(self, verb: journal.Verb, image: int, first: int, count: int) -> int:
        number = self._next
        self._next += 1
        self._journal.issue(number, verb, image, first, count)
        return number

    def _drain(self) -> None:
        with self._lock:
            self._lock.wait_for(lambda: not self._busy, _DRAIN)


def main() -> None:
    """Run the writer of a file, then exit at once: a fenced librbd may never close."""
    spec = Spec(**json.loads(pathlib.Path(sys.argv[1]).read_text()))
    with contextlib.suppress(KeyboardInterrupt):
        Writer(spec).run(spec.fill)
    sys.stdout.flush()
    os._exit(0)


if __name__ == '__main__':
    main()

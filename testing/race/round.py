# SPDX-License-Identifier: Apache-2.0
"""One race from beginning to end, in steps that may come in any order.

A step that the outcome has made pointless does nothing, so that the steps can be chosen without
knowing the outcome: the same choices are always possible.
"""

from collections.abc import Callable
import contextlib
import math
import pathlib
import shutil
import tempfile
import time

import numpy
import tenacity

from cloud import deadline
from specreds_cinder import superposition
from specreds_cinder.superposition import trace
from testing.race import backup
from testing.race import blocks
from testing.race import control
from testing.race import disks
from testing.race import history
from testing.race import hosts
from testing.race import outcomes
from testing.race import parties
from testing.race import primary as primaries
from testing.race import processes
from testing.race import site as sites
from testing.race import steps
from testing.race import writer

_PRIMARY, _RESTARTED, _BACKUP = 1, 2, 3
_AFTERLIFE_S = 0.2
# TCP repeats what a link has lost at growing intervals.
_HEALED_S = 4.0
_BUSY_S = 40.0
# Ceph forgets a client after 30 s of silence, and later if an OSD fails meanwhile.
_FORGOTTEN_S = 120.0
# A map with one entry, as librbd encodes it.
_NOTE = b'\1\0\0\0\4\0\0\0note\1\0\0\0x'


def _sockets(directory: str, names: list[str]) -> list[str]:
    return [name for name in names if pathlib.Path(directory, name).is_socket()]


class Round:
    """A set of volumes, their primary, and perhaps their backup.

    :param seed: of everything that the writers do
    :param story: what happens is appended to this list
    :ivar story: what happened so far
    :ivar attacks: what happened to the primary, the backup and the superposition so far
    :ivar broken: a step failed, and the round cannot continue; or the race is lost
    """

    def __init__(self, site: sites.Site, shape: disks.Shape, seed: int,
                 story: list[str] | None = None) -> None:
        self._site = site
        self._shape = shape
        self._seed = seed
        self._directory = pathlib.Path(tempfile.mkdtemp(prefix='r', dir=site.directory))
        self._resources = contextlib.ExitStack()
        self._disks = disks.Disks(site, shape)
        self._record: superposition.Record | None = None
        self._racer: backup.Racer | None = None
        self._attempts = 0
        self._outcome = outcomes.UNDECIDED
        self._window_s: float | None = None
        self._cut = self._decided = 0.0
        self._barrier = (0.0, 0.0)
        self._at_once: list[blocks.Values] = []
        self._merged = False
        self._kind = 'idle'
        self._violations: list[str] = []
        self._exposed: list[str] = []
        self.broken = False
        self.attacks: list[str] = []
        self.story: list[str] = [] if story is None else story
        self.story.append(f'{shape}, seed {seed}')
        try:
            self._resources.callback(self._disks.remove)
            for host in filter(None, site.hosts):
                self._resources.callback(host.heal)
            self._disks.create()
            self._start = history.Contents.zeroes(
                size // blocks.SIZE for size in self._disks.sizes)
            self.primary = self._writer('primary', _PRIMARY, shape.fill, site.hosts[0])
        except BaseException:
            self.close()
            raise

    # The primary

    def pace(self, mode: control.Mode, target: control.Target | None = None) -> None:
        """Change the mode of the primary."""
        self._note(f'primary {mode.name.lower()}')
        self.primary.mode(mode, target)

    def hang(self, *, cut: bool = False) -> None:
        """Stop the primary, so that it hangs.

        :param cut: cut its host off instead, if it has one
        """
        if cut and self.primary.cut():
            self._attack('primary is cut off')
            return
        self._attack('primary hangs')
        self.primary.stop()

    def forget(self, seconds: float) -> None:
        """Let Ceph forget a primary that hangs."""
        self._attack('primary hangs until its watches have expired')
        time.sleep(seconds)

    def wake(self) -> None:
        """Wake a primary that hangs."""
        self._attack('primary wakes up')
        self.primary.wake()

    def die(self) -> None:
        """Kill the primary."""
        self._attack('primary dies')
        self.primary.kill()

    def run(self, seconds: float) -> None:
        """Let all processes run for a while."""
        self._note(f'run for {seconds * 1e3:.0f} ms')
        time.sleep(seconds)

    # The protocol

    @steps.step
    def superpose(self) -> None:
        """Put the volumes into superposition."""
        cuts: list[float] = []

        def observer(event: trace.Event) -> None:
            if (event.name, event.phase) == ('cut', 'after'):
                cuts.append(event.at)
        with trace.observe(observer):
            self._record = self._site.protocol.super(self._disks.refs, reason='race')
        self._cut = max(cuts)
        self._kind = primaries.kind(self.primary)
        self._note(f'superposed, cut at {self._cut:.6f}')
        if any(volume.handed for volume in self._record.volumes):
            self._attack('primary hands over a lock')

    @steps.step
    def again(self, *, backup_ends: bool) -> None:
        """Abandon an undecided attempt, and put the volumes into superposition again.

        The primary is left as it is: one that hangs has not heard of the first attempt.

        :param backup_ends: the backup is ended before its version is dropped, not fenced
        """
        if self._record is None or self._outcome != outcomes.UNDECIDED:
            return
        self._attack('a second attempt, whose first backup '
                     f'{"ends" if backup_ends else "is fenced"}')
        if self._racer is not None and backup_ends:
            self._racer.stop()
        self._site.protocol.abort(self._record)
        if self._racer is not None:
            self._racer.drop()
        self._record = self._racer = None
        self._attempts += 1
        self.superpose()

    @steps.step
    def check(self) -> None:
        """Sweep an undecided superposition."""
        if self._record is not None and self._outcome == outcomes.UNDECIDED:
            report = self._site.protocol.check(self._record)
            self._note(f'check: {report.first or "clean"}')

    @steps.step
    def note(self) -> None:
        """Change the headers of an undecided superposition, as a new option of an image does."""
        if self._record is not None and self._outcome == outcomes.UNDECIDED:
            self._attack('headers change')
            for volume in self._record.volumes:
                with self._site.cluster.ioctx(volume.pool, volume.namespace) as io:
                    io.execute(f'rbd_header.{volume.image_id}', 'rbd', 'metadata_set', _NOTE)

    @steps.step
    def collapse(self, disturbance: primaries.Disturbance = primaries.Disturbance.NONE,
                 delay: float = 0.0) -> None:
        """Collapse, for the backup unless the primary has written.

        :param disturbance: event of the primary after ``delay`` seconds
        """
        assert self._record is not None
        self._note(f'collapse; the primary: {disturbance.value}, {delay * 1e3:.0f} ms later')
        if disturbance is not primaries.Disturbance.NONE:
            self.attacks.append(f'primary {disturbance.value} during the collapse')
        sweeps: list[float] = []

        def observer(event: trace.Event) -> None:
            if (event.name, event.phase) == ('sweep', 'after'):
                sweeps.append(event.at)
        self._kind = primaries.kind(self.primary)
        began = time.monotonic()
        with primaries.disturbed(self.primary, disturbance, delay), trace.observe(observer):
            report = self._site.protocol.collapse(
                self._record, backup=self._racer.hook() if self._racer is not None else None)
        self._decided = sweeps[-1]
        self._outcome = report.outcome
        if report.sweep2 is not None:
            self._window_s = report.window_s
        self._note(f'outcome {self._outcome}, decided at {self._decided:.6f} '
                   f'({report.sweep1.first}; {report.sweep2 and report.sweep2.first})')
        self._barrier = (began, time.monotonic())
        if self._outcome == outcomes.LATE_DIRTY:
            self._at_once = self._disks.read()
        if self._outcome != outcomes.PROMOTED and self._racer is not None:
            self._racer.drop()

    @steps.step
    def abort(self) -> None:
        """Decide for the primary."""
        assert self._record is not None
        self._attack('abort')
        self._site.protocol.abort(self._record)
        self._outcome = outcomes.ABORTED
        if self._racer is not None:
            self._racer.drop()

    # The backup

    @steps.step
    def start_backup(self, mode: control.Mode) -> None:
        """Start a backup with a mode."""
        if self._record is None or self._outcome != outcomes.UNDECIDED:
            return
        self._note(f'backup is {mode.name.lower()}')
        self._attack('backup starts')
        # What the backup of an earlier attempt has written is of another origin.
        origin = _BACKUP + self._attempts
        directory = self._directory / f'b{self._attempts}'
        directory.mkdir()
        self._racer = backup.Racer(
            self._site.cluster, self._record, directory,
            writer.Spec(seed=self._seed * 4 + origin, origin=origin), self._disks.sizes,
            self._site.hosts[1])
        self._resources.callback(self._racer.kill)
        self._racer.mode(mode)

    def pace_backup(self, mode: control.Mode) -> None:
        """Change the mode of the backup."""
        if self._racer is not None:
            self._note(f'backup {mode.name.lower()}')
            self._racer.mode(mode)

    @steps.step
    def kill_backup(self) -> None:
        """Kill a promoted backup with its caches."""
        if self._outcome == outcomes.PROMOTED and self._racer is not None:
            self._attack('backup dies')
            self._racer.kill()
            volumes = self._record.volumes if self._record is not None else ()
            self._site.evict([volume.overlay_ref for volume in volumes] + self._disks.refs)

    @steps.step
    def hang_backup(self, *, cut: bool = False) -> None:
        """Let a promoted backup hang until it was merged offline, and then wake.

        :param cut: cut its host off instead, if it has one
        """
        if (self._outcome != outcomes.PROMOTED or self._racer is None or not self._racer.running
                or self._merged or self._record is None):
            return
        hangs = 'backup is cut off' if cut and self._site.hosts[1] else 'backup hangs'
        self._note(f'{hangs}; merge, offline')
        self._racer.hang(cut=cut)
        try:
            self._merge_offline(self._record, _FORGOTTEN_S)
        except superposition.OverlayBusy:
            # Each OSD that takes a placement group over lists the client for half a minute more.
            self._attack(f'{hangs} and wakes up, as Ceph has not forgotten it')
            self._racer.wake()
            return
        self._merged = True
        merged = self._disks.read()
        self._attack(f'{hangs}, is merged offline and wakes up')
        self._racer.wake()
        time.sleep(_HEALED_S if cut else _AFTERLIFE_S)
        self._racer.kill()
        if not all(map(numpy.array_equal, self._disks.read(), merged)):
            self._violations.append('the backup wrote after it was merged and had hung')

    @steps.step
    def merge(self, *, online: bool) -> None:
        """Merge a promoted backup, running or stopped."""
        if self._outcome != outcomes.PROMOTED or self._merged or self._record is None:
            return
        if online and self._racer is not None and self._racer.running:
            self._attack('merge, online')
            self._site.protocol.merge(self._record, backup=self._racer.hook(), rate=0)
        else:
            self._attack('merge, offline')
            if self._racer is not None:
                self._racer.stop()
            self._merge_offline(self._record)
        self._merged = True

    def _merge_offline(self, record: superposition.Record, patience_s: float = _BUSY_S) -> None:
        """Merge once Ceph lists no client of the overlays, as the volume service does.

        A client that was killed is listed until its OSD has the osdmap with its eviction, and one
        that hangs until its watch expires.
        """
        limit = deadline.Deadline(patience_s)
        for attempt in tenacity.Retrying(
                retry=tenacity.retry_if_exception_type(superposition.OverlayBusy), reraise=True,
                stop=lambda _state: limit.passed, wait=tenacity.wait_fixed(0.2)):
            with attempt:
                self._site.protocol.merge(record, rate=0)

    # The end

    @steps.step
    def finish(self) -> outcomes.Result:
        """Let the primary try to write once more, end all processes, and check the contents."""
        if self._record is not None and self._outcome == outcomes.UNDECIDED:
            self.collapse()
        self._afterlife()
        examine = {outcomes.PROMOTED: self._promoted, outcomes.LATE_DIRTY: self._late_dirty}.get(
            self._outcome, self._untouched)
        violations = self._violations + examine()
        self.broken |= bool(violations)
        for line in violations:
            self._note(f'VIOLATION: {line}')
        if self._exposed:
            self._attack('primary acknowledges flushes in vain as it wakes behind the fence')
        for line in self._exposed:
            self._note(f'exposed: {line}')
        return outcomes.Result(self._kind, self._outcome, self._window_s, violations,
                               tuple(self.attacks), tuple(self._exposed))

    def close(self) -> None:
        """End all processes, and remove images and files; the site may keep files after a loss."""
        # After an error: librbd waits for ever to remove a volume whose latch is closed.
        record = self._record
        if record is not None:
            for volume in record.volumes:
                with contextlib.suppress(superposition.SuperError):
                    self._site.protocol.latch.open(volume, record.id)
        try:
            self._resources.close()
        finally:
            if self.broken and self._site.kept is not None:
                shutil.copytree(self._directory, self._site.kept / self._directory.name,
                                ignore=_sockets)
            shutil.rmtree(self._directory, ignore_errors=True)

    def _afterlife(self) -> None:
        if self.primary.gone:
            return
        cut = self.primary.is_cut
        if self.primary.stopped:
            self.wake()
        self.primary.mode(control.Mode.STEADY)
        time.sleep(_HEALED_S if cut else _AFTERLIFE_S)
        if self._outcome in (outcomes.PROMOTED, outcomes.LATE_DIRTY):
            self.primary.kill()
        else:
            self.primary.quit()

    def _promoted(self) -> list[str]:
        readings = []
        backup_party = history.Party([])
        if self._racer is not None and self._racer.running:
            self._racer.rest()
            readings.append(self._racer.read())
        self.merge(online=False)
        readings.append(self._disks.read())
        if self._racer is not None:
            backup_party = self._racer.party(self._barrier)
        return self._judged(lambda primary: [
            line for contents in readings for line in history.promoted(
                self._start, primary, self._cut, backup_party, contents)])

    def _judged(self, judge: Callable[[history.Party], list[str]]) -> list[str]:
        """Return the violations of a primary that was fenced, and note what is only exposed.

        The difference is a window that the protocol states: a primary with a cache that wakes
        while it is fenced, or later, may acknowledge flushes in vain.
        """
        woke = min((at for at in self.primary.wakes if at >= self._barrier[0]), default=math.inf)
        violations = judge(parties.party(self._shape, self.primary, doubted=woke))
        self._exposed += [line for line in judge(self._party(self.primary))
                          if line not in violations]
        return violations

    def _untouched(self) -> list[str]:
        return history.untouched(self._start, self._party(self.primary), self._disks.read())

    def _late_dirty(self) -> list[str]:
        """Check the contents, then restart the primary's version, as an evacuation would."""
        contents = self._disks.read()
        wrong = self._judged(lambda primary: history.late_dirty(
            self._start, primary, self._decided, self._at_once, contents))
        again = self._writer('restarted', _RESTARTED, False, self._site.hosts[2])
        again.mode(control.Mode.STEADY)
        time.sleep(_AFTERLIFE_S)
        again.quit()
        return wrong + history.untouched(history.Contents.exactly(self._at_once),
                                         self._party(again), self._disks.read())

    # Helpers

    def _attack(self, what: str) -> None:
        self.attacks.append(what)
        self._note(what)

    def _note(self, line: str) -> None:
        self.story.append(f'{time.monotonic():.6f} {line}')

    def _writer(self, name: str, origin: int, fill: bool,
                host: hosts.Host | None) -> processes.WriterProcess:
        process = parties.start(
            self._site, self._shape, self._disks, self._directory, name,
            writer.Spec(seed=self._seed * 4 + origin, origin=origin, fill=fill), host)
        self._resources.callback(process.kill)
        process.ready()
        return process

    def _party(self, process: processes.WriterProcess) -> history.Party:
        return parties.party(self._shape, process)

# SPDX-License-Identifier: Apache-2.0
"""The merge of one running server: libvirt copies its overlays into its volumes.

The merge may be cut off at any point and started again: until the record says merged, the overlays
hold everything. Its end is in :mod:`specreds_nova.host.merge.pivot`.
"""

from collections.abc import Callable, Iterator
import contextlib
import dataclasses
import threading
import time
from typing import Any

import libvirt
from oslo_log import log as logging

from specreds_cinder.superposition.overlay import merge_rate
from specreds_cinder.superposition.truth import states
from specreds_nova.host.disks import durable
from specreds_nova.host.disks import nodes as disk_nodes
from specreds_nova.host.disks import qmp
from specreds_nova.host.merge import brake
from specreds_nova.host.merge import errors
from specreds_nova.host.merge import pivot

LOG = logging.getLogger(__name__)

# How often the progress is read: each look takes time from libvirt and QEMU, so the time between
# two looks grows with the number of disks that the host merges.
_POLL_S = (0.1, 1.0)
_POLL_PER_DISK_S = 0.02
_RETRY_S = 1.0
_ATTEMPTS = 10
# How often a merge checks that its server is still this host's, and its record still exists. Each
# check asks Cinder and Nova: where many disks are merged, the checks of all of them are this many
# per second. The end of a merge always checks.
_CHECK_S = 5.0
_CHECKS = 2.0
# So few bytes are copied in a fraction of a second, for which the guest is suspended.
_ENOUGH = 1 << 20
_NS = 1e-9
# libvirt's names of the kinds of a guest's requests.
_KINDS = ('rd', 'wr', 'flush')
# Guests that are suspended at a time. libvirt serves 5 requests of a client at a time by default
# (max_client_requests), and merges must leave some to everything else.
_SUSPENDED = 3
# Seconds after which a merge that waits for its turn looks whether it still should.
_TURN_S = 0.5


@dataclasses.dataclass
class Progress:
    """Progress of a merge.

    :ivar state: waiting, merging, copied, switching, merged or failed
    :ivar volumes: by device: bytes copied, bytes in total, and whether the job mirrors writes
    :ivar timings_ms: duration of each step, in milliseconds
    """

    state: str = 'waiting'
    done: int = 0
    total: int = 0
    volumes: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    error: str | None = None
    timings_ms: dict[str, float] = dataclasses.field(default_factory=dict)


class Turns:
    """The merges of a host. May be used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._disks = 0
        self._turns = threading.Semaphore(_SUSPENDED)

    @contextlib.contextmanager
    def copying(self, disks: int) -> Iterator[None]:
        """Count some more disks while they are copied."""
        with self._lock:
            self._disks += disks
        try:
            yield
        finally:
            with self._lock:
                self._disks -= disks

    @contextlib.contextmanager
    def turn(self, wait: Callable[[float], None]) -> Iterator[None]:
        """Wait for a turn to suspend a guest and copy the rest, and keep the turn meanwhile.

        :param wait: called again and again with 0 seconds; ends the waiting by an error
        """
        while not self._turns.acquire(timeout=_TURN_S):
            wait(0.0)
        try:
            yield
        finally:
            self._turns.release()

    @property
    def disks(self) -> int:
        """The number of disks that are copied."""
        return self._disks


class MergeJob:
    """Merges the disks of one domain.

    :param find: returns the domain, each time anew, as libvirt may have been restarted; raises
        :class:`errors.Gone` or :class:`errors.Unavailable`
    :param owned: returns whether the server is this host's, or is to be; called every few seconds
    :param adopted: returns whether Nova has adopted the server here: the merge does not end before
    :param shared: the merges of the host
    :param tell: called with the progress whenever it has changed
    :param stop: set when this process is about to end
    :param leaving: returns whether Nova evacuates the server, or has; raises
        :class:`errors.Interrupted` if that is unknown
    """

    def __init__(self, find: Callable[[], qmp.Domain], superposition_id: str,
                 record: pivot.Record, owned: Callable[[], bool], adopted: Callable[[], bool],
                 shared: Turns, tell: Callable[[Progress], None],
                 stop: threading.Event, leaving: Callable[[], bool]) -> None:
        self._find = find
        self._superposition_id = superposition_id
        self._record = record
        self._owned = owned
        self._adopted = adopted
        self._checked = 0.0
        self._turns = shared
        self._braked = False
        self._tell = tell
        self._stop = stop
        self._leaving = leaving
        self.progress = Progress()

    def run(self) -> None:
        """Merge, continuing from where an earlier attempt ended.

        :raises Gone: the domain does not run; start it as the record says
        :raises Overtaken: the overlays are not the real version; the volumes are unchanged
        :raises Stopped: this process ends
        :raises Interrupted: try again later
        """
        began = time.monotonic()
        self._report(state='merging', error=None)
        for attempt in range(_ATTEMPTS):
            if attempt:
                self._wait(_RETRY_S)
            try:
                self._merge(self._running())
            except errors.Overtaken:
                self._cancel()
                raise
            except (durable.NotDurable, qmp.MonitorError, errors.Interrupted) as exc:
                error = str(exc)
                if not self._again(exc):
                    break
            except (libvirt.libvirtError, errors.Unavailable) as exc:
                if _no_domain(exc):
                    raise errors.Gone(str(exc)) from exc
                # libvirt was restarted, or QEMU has died: the next attempt finds out.
                error = str(exc)
            else:
                self._took('total', began)
                self._report(state='merged', error=None, done=self.progress.total)
                return
            LOG.info('merge of superposition %s: %s', self._superposition_id, error)
            self._report(error=error)
        raise errors.Interrupted(error)

    def _again(self, exc: Exception) -> bool:
        """Return whether to try again at once."""
        if isinstance(exc.__cause__, libvirt.libvirtError):
            return True
        try:
            # A suspended guest must not wait for the next scan.
            return pivot.note_of(self._running().XMLDesc(0)) is not None
        except (libvirt.libvirtError, errors.Unavailable):
            return True

    def _running(self) -> qmp.Domain:
        domain = self._find()
        if not domain.isActive():
            raise errors.Gone(f'domain {domain.name()} does not run')
        return domain

    def _merge(self, domain: qmp.Domain) -> None:
        noted = pivot.note_of(domain.XMLDesc(0))
        chained = disk_nodes.chained(domain)
        if noted is None and not chained:
            return
        if noted is not None and domain.state()[0] == libvirt.VIR_DOMAIN_RUNNING:
            # It was cut off before the suspension or after the guest was resumed.
            pivot.forget(domain)
            noted = None
        durable.harden(domain)
        brake.release(domain)
        if noted is None:
            if not chained:
                return
            self._begin()
            try:
                self._converge(domain)
                with self._turns.turn(lambda seconds: self._unbraked(domain, seconds)):
                    self._approach(domain, lambda rate: self._brake(domain, rate))
                    self._switch(domain, None)
            finally:
                self._try_to_release(domain)
        else:
            # The guest is suspended already.
            self._switch(domain, noted)

    def _begin(self) -> None:
        try:
            state = self._record.state()
            if state == states.MERGED:
                return
            if state is None:
                raise errors.Overtaken(pivot.gone(self._superposition_id))
            if state not in states.THROUGH_OVERLAY:
                raise errors.Interrupted(
                    f'superposition {self._superposition_id} is {state}: only a promoted one '
                    f'can be merged')
            self._record.step('begin')
        except pivot.NO_ANSWER as exc:
            raise errors.Interrupted(str(exc)) from exc

    def _converge(self, domain: qmp.Domain) -> None:
        """Copy while the guest runs, until the rest can be copied while it is suspended.

        The jobs then go on with what the guest writes until Nova has adopted the server.
        """
        began = time.monotonic()
        with self._turns.copying(len(disk_nodes.chained(domain))):
            pivot.commit(domain, 0)
            self._approach(domain, None)
            self._took('copy', began)
            if not self._adopted():
                self._report(state='copied')
                while not self._adopted():
                    self._next()
            # Nothing waits for Nova any more: the guest may be slowed down.
            self._approach(domain, lambda rate: self._brake(domain, rate))

    def _approach(self, domain: qmp.Domain, slow: Callable[[int], None] | None) -> None:
        merge_rate.approach(
            f'domain {domain.name()}', 0, _ENOUGH, lambda: self._look(domain),
            lambda rate: pivot.commit(domain, rate), self._next, slow)

    def _brake(self, domain: qmp.Domain, rate: int) -> None:
        self._braked = True
        brake.press(domain, rate)

    def _release(self, domain: qmp.Domain) -> None:
        if self._braked:
            brake.release(domain)
            self._braked = False

    def _try_to_release(self, domain: qmp.Domain) -> None:
        with contextlib.suppress(libvirt.libvirtError):
            self._release(domain)

    def _unbraked(self, domain: qmp.Domain, seconds: float) -> None:
        """Wait for a turn, which may take for as long as other merges wait for Cinder."""
        self._try_to_release(domain)
        self._wait(seconds)

    def _next(self) -> None:
        """Wait until the progress is to be read again."""
        disks = self._turns.disks
        shortest, longest = _POLL_S
        self._wait(min(longest, max(shortest, disks * _POLL_PER_DISK_S)))
        if time.monotonic() >= self._checked + max(_CHECK_S, disks / _CHECKS):
            self._check()

    def _check(self) -> None:
        """Check that the overlays are still the real version.

        :raises Overtaken: they are not
        """
        self._checked = time.monotonic()
        if not self._owned():
            raise errors.Overtaken(
                f'the server has left this host: its merge in superposition '
                f'{self._superposition_id} ends here')
        # Without an answer nothing is known; the end of the merge insists on one.
        with contextlib.suppress(*pivot.NO_ANSWER):
            if self._record.state() is None:
                raise errors.Overtaken(pivot.gone(self._superposition_id))

    def _stays(self) -> None:
        """Check that Nova does not evacuate the server.

        :raises Interrupted: Nova does, or does not answer
        """
        if self._leaving():
            raise errors.Interrupted(
                'Nova evacuates the server from this host: its merge ends if the server stays')

    def _cancel(self) -> None:
        """End the copies without switching to the volumes."""
        with contextlib.suppress(libvirt.libvirtError, errors.Unavailable):
            domain = self._find()
            for disk in disk_nodes.chained(domain):
                if disk.job is not None:
                    domain.blockJobAbort(disk.target, 0)

    def _look(self, domain: qmp.Domain) -> merge_rate.Look:
        """Return how far the copy is."""
        disks = disk_nodes.chained(domain)
        volumes, done, total, counted = {}, 0, 0, True
        waited = requests = 0
        for disk in disks:
            if disk.job is None:
                raise errors.Interrupted(
                    f'the merge of {disk.target} of domain {domain.name()} ended early: check '
                    f'the health of Ceph; the merge starts again')
            job = domain.blockJobInfo(disk.target, 0) or {'cur': 0, 'end': 0}
            # Until a job has counted its work, libvirt reports 0 of 1.
            counted = counted and (disk.ready or job['end'] > 1)
            volumes[disk.target] = {'done': job['cur'], 'total': job['end'],
                                    'ready': disk.ready}
            done += job['cur']
            total += job['end']
            guest = domain.blockStatsFlags(disk.target, 0)
            waited += sum(guest.get(f'{kind}_total_times', 0) for kind in _KINDS)
            requests += sum(guest.get(f'{kind}_operations', 0) for kind in _KINDS)
        self._report(done=done, total=total, volumes=volumes)
        return merge_rate.Look(total - done if counted else merge_rate.UNKNOWN, done,
                               waited * _NS, requests)

    def _switch(self, domain: qmp.Domain, noted: pivot.Note | None) -> None:
        switch = pivot.Pivot(domain, self._superposition_id, self._record,
                             lambda error: self._report(error=error), self._wait, self._stays)
        if disk_nodes.chained(domain):
            self._check()
        if noted is None:
            self._stays()
        state = switch.prepare(noted)
        began = time.monotonic()
        if noted is None:
            noted = switch.suspend()
            try:
                self._release(domain)
            except libvirt.libvirtError:
                # Nobody would release the brake of a domain without overlays.
                switch.resume(noted)
                raise
        self._report(state='switching')
        switch.finish(state, noted)
        self._took('suspended', began)

    def _wait(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise errors.Stopped

    def _took(self, what: str, began: float) -> None:
        self.progress.timings_ms[what] = round((time.monotonic() - began) * 1e3, 1)

    def _report(self, **changes: Any) -> None:
        for name, value in changes.items():
            setattr(self.progress, name, value)
        self._tell(self.progress)


def _no_domain(exc: Exception) -> bool:
    return (isinstance(exc, libvirt.libvirtError)
            and exc.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN)

# SPDX-License-Identifier: Apache-2.0
"""The conductor takes the jobs of recoveries in order, as many at a time as it has slots."""

from collections.abc import Callable, Sequence
import functools
import math
import threading
import time
from typing import Any

from oslo_log import log as logging

from specreds_nova import progress
from specreds_nova.engine import exception
from specreds_nova.engine import fibers as all_fibers
from specreds_nova.engine import jobs
from specreds_nova.engine import model
from specreds_nova.engine.recovery import context as contexts
from specreds_nova.engine.recovery import order as orders
from specreds_nova.engine.recovery import policies
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import sequence
from specreds_nova.engine.recovery import worker as workers

LOG = logging.getLogger(__name__)

# Seconds to wait for more jobs after the first one.
_GATHER = 0.03
# Pause after a look at the board, in durations of the look.
_REST = 3.0
# Seconds between two looks for other engines that have fallen silent.
_LOOK = 0.1
# Seconds without progress after which a thread hangs that asks etcd and the database.
_HANGS = 600.0
# Renewals of the claims within the time of one lease.
_KEPT = 3


class Conductor:
    """A thread that takes jobs, a thread that renews claims, and one fiber per recovery.

    :param fibers: runs recoveries; ``context`` sleeps and calls services by it
    :param name: name of the engine
    :param slots: recoveries that may race at once, at least
    :param lease: seconds for which claims hold without a renewal
    :param interval: seconds between two looks at the board
    :param attempt: makes one attempt of a recovery
    :param silent: returns the other engines that seem to have died, whose jobs are taken over
    """

    def __init__(self, context: contexts.Context, board: jobs.Board, fibers: all_fibers.Fibers,
                 name: str, slots: int, lease: float, interval: float,
                 attempt: Callable[[runs.Run], object] = sequence.attempt,
                 silent: Callable[[], frozenset[str]] = frozenset) -> None:
        self._context = context
        self._board = board
        self._fibers = fibers
        self._name = name
        self._worker = workers.RecoveryWorker(context, attempt, name)
        self._slots = slots
        self._order = orders.Order(slots, context.settings.tenant_priority_max)
        self._lease = lease
        self._interval = interval
        self._dead = silent
        self._dead_before: frozenset[str] = frozenset()
        # Silent engines, each with a recovery that was taken over from it.
        self._taken: set[tuple[str | None, str]] = set()
        self._lock = threading.Lock()
        # All recoveries on which this engine works; those that race have a slot.
        self._running: set[str] = set()
        self._capacity = context.capacity
        self._capacity.freed = self._freed
        # By recovery: further jobs of it, which were posted or claimed again.
        self._also: dict[str, list[jobs.Posted]] = {}
        self._wake = threading.Event()
        # Whether jobs may wait on the board for a slot of this engine.
        self._left = True
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._take_all, name='conductor', daemon=True),
                         threading.Thread(target=self._keep, name='claims', daemon=True)]
        self._takes, self._keeps = [progress.Progress(thread, _HANGS + lease)
                                    for thread in self._threads]
        self._silent = False
        self._monotonic = time.monotonic

    def start(self) -> None:
        """Start the threads."""
        self._fibers.start()
        for thread in self._threads:
            thread.start()

    def problems(self) -> list[str]:
        """Return the threads that have ended or hang."""
        return [*self._takes.problems(), *self._keeps.problems()]

    # For the dispatcher

    def expect(self, recoveries: Sequence[model.Recovery]) -> None:
        """Note the recoveries that are about to be created."""
        self._order.note(map(policies.of, recoveries), self._context.clock.now())

    def reserve(self, recovery: model.Recovery) -> bool:
        """Reserve a slot for a recovery that is about to be created; False if there is none."""
        try:
            if self._stopped.is_set() or self._capacity.full():
                return False
        except exception.Unreachable:
            return False
        wanted, now = policies.of(recovery), self._context.clock.now()
        self._order.slots = self._capacity.slots(self._slots)
        with self._lock:
            if not self._order.admits(wanted, self._capacity.held(), now):
                return False
            self._running.add(recovery.id)
            self._capacity.enter(recovery.id)
        return True

    def release(self, recovery_id: str) -> None:
        """Free the slot of a recovery that was not created."""
        self._forget(recovery_id)

    def begin(self, recovery: model.Recovery, server: model.Server | None = None) -> None:
        """Start the work on a created recovery: here if a slot is reserved, or on any engine.

        :param server: its server, if that was just read
        :raises exception.Unreachable: its job cannot be posted
        """
        if recovery.epoch:
            self._fibers.spawn(self._work_on, recovery, server)
        else:
            self.post(recovery)

    def post(self, recovery: model.Recovery) -> None:
        """Post the job of a recovery, for any engine.

        :raises exception.Unreachable: etcd does not answer
        """
        self._board.post(recovery)
        self._wake.set()

    def stop(self, patience: float) -> bool:
        """Stop, and leave unfinished recoveries to other engines.

        :param patience: seconds that a step may take until it can be interrupted
        :returns: False if a step has not been interrupted in time
        """
        self._stopped.set()
        self._wake.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(patience)
        self._fibers.stop()
        until = time.monotonic() + patience
        while (busy := self._busy()) and time.monotonic() < until:
            time.sleep(_GATHER)
        try:
            self._board.close()
        except exception.Unreachable as exc:
            LOG.warning('claims of this engine are not released, and expire after the lease: %s',
                        exc)
        self._fibers.close()
        return not busy

    def _busy(self) -> bool:
        with self._lock:
            return bool(self._running)

    # Threads

    def _take_all(self) -> None:
        while not self._stopped.is_set():
            self._takes.note()
            self._wait()
            self._wake.clear()
            began = self._monotonic()
            try:
                self._take()
            except exception.Unreachable as exc:
                if not self._silent:
                    LOG.warning('no jobs are taken until etcd and the database answer: %s', exc)
                self._silent = True
            except Exception:
                LOG.exception('jobs cannot be taken; they are tried again')
            else:
                self._silent = False
            rest = _REST * (self._monotonic() - began)
            if rest > _GATHER:
                # A look reads all jobs, which takes long if there are thousands.
                self._stopped.wait(rest)

    def _wait(self) -> None:
        """Wait until the board may have jobs to take."""
        looks = math.ceil(self._interval / _LOOK)
        for _ in range(looks):
            if self._wake.wait(self._interval / looks):
                # More jobs follow the first one.
                self._stopped.wait(_GATHER)
                return
            dead, self._dead_before = self._dead_before, self._dead()
            if not self._dead_before <= dead:
                LOG.warning('engines %s are silent: their recoveries are taken over',
                            ', '.join(sorted(self._dead_before)))
                return

    def _keep(self) -> None:
        self._keeps.note()
        while not self._stopped.wait(self._lease / _KEPT):
            self._keeps.note()
            try:
                self._board.keep()
            except Exception as exc:
                LOG.warning('the claims of this engine are not renewed, and may expire: %s', exc)

    def _take(self) -> None:
        """Take jobs for the free slots, in order."""
        self._left = True
        if not self._free():
            return
        # A request to etcd may take effect although its answer is lost. Then this engine has
        # claimed jobs on which it does not work, or keeps the job of a recovery that has ended.
        dead = self._dead()
        with self._lock:
            running = set(self._running)
        # An engine that claims again what was taken over from it lives, and only is not heard. Two
        # engines that do not hear each other would else take a recovery from each other for ever.
        self._taken = {taken for taken in self._taken if taken[0] in dead}
        mine = {(self._name, recovery_id) for recovery_id in running}
        free = self._board.unclaimed({*dead, self._name}, self._taken | mine)
        with self._lock:
            # Their jobs were posted after the first look at what runs, and do not wait.
            reserved = self._running - running
        jobs_by_id = {posted.recovery: posted for posted in free
                      if posted.recovery not in reserved}
        self._left = bool(jobs_by_id)
        ours = running & jobs_by_id.keys()
        for recovery_id in ours:
            # The lease has expired meanwhile, or the job was posted again.
            posted = jobs_by_id.pop(recovery_id)
            if self._board.claim(posted):
                self._taken.add((posted.owner, recovery_id))
                self._add(posted)
        waiting = [posted.waiting for posted in jobs_by_id.values()]
        self._order.slots = self._capacity.slots(self._slots)
        # The jobs that are about to be claimed.
        wanted: dict[str, jobs.Posted] = {}
        try:
            clock = self._context.clock
            for turn in self._order.begin(waiting, self._capacity.held, clock.now(),
                                          clock.wall() - clock.now()):
                if self._stopped.is_set() or self._capacity.full():
                    break
                if self._enter(turn.id):
                    wanted[turn.id] = jobs_by_id[turn.id]
            for posted in self._board.claim_all(list(wanted.values())):
                del wanted[posted.recovery]
                self._taken.add((posted.owner, posted.recovery))
                self._fibers.spawn(self._work, posted)
        finally:
            for recovery_id in wanted:
                self._forget(recovery_id)

    def _enter(self, recovery_id: str) -> bool:
        """Take a slot for a recovery; return False if this engine works on the recovery."""
        with self._lock:
            if recovery_id in self._running:
                return False
            self._running.add(recovery_id)
            self._capacity.enter(recovery_id)
        return True

    def _add(self, posted: jobs.Posted) -> None:
        """Release a job together with the first job of its recovery."""
        with self._lock:
            running = posted.recovery in self._running
            if running:
                self._also.setdefault(posted.recovery, []).append(posted)
        if not running:
            # The recovery has just ended or was left: the engine that takes the job finds out.
            self._board.abandon(posted)

    def _free(self) -> bool:
        return self._capacity.count() < self._capacity.slots(self._slots)

    def _forget(self, recovery_id: str) -> list[jobs.Posted]:
        """Free the slot of a recovery, and return the jobs that were claimed meanwhile."""
        self._capacity.leave(recovery_id)
        with self._lock:
            self._running.discard(recovery_id)
            others = self._also.pop(recovery_id, [])
        self._freed()
        return others

    def _freed(self) -> None:
        """Look at the board if jobs may wait for a slot: a look reads all jobs."""
        if self._left:
            self._wake.set()

    # A recovery

    def _work_on(self, recovery: model.Recovery, server: model.Server | None) -> None:
        """Work on a recovery that this engine has created, and post its job.

        :param server: its server, if that was just read
        """
        self._context.preparations.take(recovery.id)
        # The recovery does not wait for its job, which only other engines need.
        both: list[Callable[[], Any]] = [
            functools.partial(self._post_ours, recovery),
            functools.partial(self._bring_to_end, recovery.id, recovery, server)]
        posted, done = self._fibers.together(both)
        self._leave(recovery.id, posted, done=done)

    def _work(self, posted: jobs.Posted) -> None:
        """Work on the recovery of a job that this engine has claimed."""
        done = self._bring_to_end(posted.recovery)
        self._leave(posted.recovery, posted, done=done)

    def _post_ours(self, recovery: model.Recovery) -> jobs.Posted | None:
        """Post and claim the job of a recovery; return None if etcd does not answer."""
        try:
            return self._fibers.keep(self._board.post, recovery, ours=True)
        except (exception.Unreachable, exception.Interrupted) as exc:
            LOG.warning('recovery %s: its job is not posted, so other engines find it later: %s',
                        recovery.id, exc)
            return None

    def _bring_to_end(self, recovery_id: str, begun: model.Recovery | None = None,
                      server: model.Server | None = None) -> bool:
        """Work on a recovery until it has ended, or another engine has it; return if it ended."""
        try:
            self._worker.bring_to_end(recovery_id, begun, server)
        except (exception.Superseded, exception.Interrupted) as exc:
            LOG.info('recovery %s is left to another engine: %s', recovery_id, exc)
        except Exception:
            LOG.exception('recovery %s cannot be continued by this engine', recovery_id)
        else:
            return True
        return False

    def _leave(self, recovery_id: str, posted: jobs.Posted | None, *, done: bool) -> None:
        """End the work on a recovery."""
        self._end([posted] if posted else [], done=done)
        self._context.preparations.leave(recovery_id)
        self._end(self._forget(recovery_id), done=done)

    def _end(self, posted: Sequence[jobs.Posted], *, done: bool) -> None:
        """Remove jobs that are done, and release others."""
        for job in posted:
            try:
                self._fibers.keep(self._board.consume if done else self._board.abandon, job)
            except (exception.Unreachable, exception.Interrupted) as exc:
                LOG.warning('recovery %s: its job stays on the board: %s', job.recovery, exc)

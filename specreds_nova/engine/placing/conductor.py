# SPDX-License-Identifier: Apache-2.0
"""The conductor takes recoveries in order, as many at a time as it has slots.

It claims a recovery by a conditional change of the recovery's row. Claims keep two engines from
the same work; the epoch of the recovery keeps them from doing harm if both work all the same.
"""

from collections.abc import Callable
import math
import threading
import time

from oslo_log import log as logging

from specreds_nova import progress
from specreds_nova.engine import exception
from specreds_nova.engine import fibers as all_fibers
from specreds_nova.engine import model
from specreds_nova.engine.placing import order
from specreds_nova.engine.recovery import context as contexts
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import worker as workers

LOG = logging.getLogger(__name__)

# Seconds between two looks for recoveries that no engine works on.
_INTERVAL = 0.5
# Seconds to wait for more recoveries after the first one.
_GATHER = 0.03
# Pause after a look at the recoveries, in durations of the look, and in seconds at most.
_REST = 3.0
_LONGEST_REST = 2.0
# Seconds between two looks for other engines whose leases are over.
_LOOK = 0.02
# Seconds for which a recovery is left to another process with the name of this engine.
_TWIN = 60.0
# Seconds without progress after which a thread hangs that asks the database.
_HANGS = 600.0


class Conductor:
    """A thread that takes recoveries, and one fiber per recovery.

    :param fibers: runs recoveries; ``context`` sleeps and calls services by it
    :param name: name of the engine
    :param slots: recoveries that may race at once, at least
    :param ended: returns the other engines whose leases are over: Votes.ended
    :param attempt: makes one attempt of a recovery
    """

    def __init__(self, context: contexts.Context, fibers: all_fibers.Fibers, name: str,
                 slots: int, ended: Callable[..., frozenset[str]],
                 attempt: Callable[[runs.Run], object] = workers.attempt) -> None:
        self._context = context
        self._fibers = fibers
        self._name = name
        self._worker = workers.RecoveryWorker(context, attempt)
        self._slots = slots
        self._ended = ended
        self._ended_before: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        # All recoveries on which this engine works; those that race have a slot.
        self._running: set[str] = set()
        # Recoveries that another process of this name has taken over from this one, and until when
        # they are left to it. Both would else take them from each other for ever.
        self._twin: dict[str, float] = {}
        self._capacity = context.capacity
        self._capacity.freed = self._freed
        self._wake = threading.Event()
        # Whether recoveries may wait for a slot of this engine.
        self._left = True
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._take_all, name='conductor', daemon=True)
        self._takes = progress.Progress(self._thread, _HANGS)
        self._silent = False
        self._monotonic = time.monotonic

    def start(self) -> None:
        """Start the thread and the fibers."""
        self._fibers.start()
        self._thread.start()

    def problems(self) -> list[str]:
        """Return whether the thread has ended or hangs."""
        return self._takes.problems()

    # For the dispatcher

    def reserve(self, recovery: model.Recovery) -> bool:
        """Reserve a slot for a recovery that is about to be created; False if there is none."""
        try:
            if self._stopped.is_set() or self._capacity.full():
                return False
        except exception.Unreachable:
            return False
        with self._lock:
            if not self._free():
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
        """
        if recovery.epoch:
            self._fibers.spawn(self._begin, recovery, server)
        else:
            self._wake.set()

    def stop(self, patience: float) -> bool:
        """Stop, and leave unfinished recoveries to other engines.

        :param patience: seconds that a step may take until it can be interrupted
        :returns: False if a step has not been interrupted in time
        """
        self._stopped.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(patience)
        self._fibers.stop()
        until = time.monotonic() + patience
        while (busy := self._busy()) and time.monotonic() < until:
            time.sleep(_GATHER)
        self._fibers.close()
        return not busy

    def _busy(self) -> bool:
        with self._lock:
            return bool(self._running)

    # The thread

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
                    LOG.warning('no recoveries are taken until the database answers: %s', exc)
                self._silent = True
            except Exception:
                LOG.exception('recoveries cannot be taken; they are tried again')
            else:
                self._silent = False
            rest = min(_REST * (self._monotonic() - began), _LONGEST_REST)
            if rest > _GATHER:
                # A look reads all free recoveries, which takes long if there are thousands.
                self._stopped.wait(rest)

    def _wait(self) -> None:
        """Wait until there may be recoveries to take."""
        looks = math.ceil(_INTERVAL / _LOOK)
        for _ in range(looks):
            if self._wake.wait(_INTERVAL / looks):
                # More recoveries follow the first one.
                self._stopped.wait(_GATHER)
                return
            before, self._ended_before = self._ended_before, self._ended()
            if not self._ended_before <= before:
                LOG.warning('the leases of engines %s are over: their recoveries are taken over',
                            ', '.join(sorted(self._ended_before)))
                return

    def _take(self) -> None:
        """Take recoveries for the free slots, in order."""
        self._left = True
        if not self._free():
            return
        with self._lock:
            running = set(self._running)
        # An answer of the database may be lost: this engine may have claimed recoveries on which
        # it does not work.
        ended = {*self._ended(), self._name, None}
        free = self._context.store.free({name for name in ended if name is not None})
        # Some of their engines have no row, or had none in this reading.
        ended |= self._ended({recovery.engine for recovery in free} - ended)
        with self._lock:
            running |= self._running
        now = self._context.clock.now()
        self._twin = {recovery_id: until for recovery_id, until in self._twin.items()
                      if until > now}
        running |= self._twin.keys()
        wanted = [recovery for recovery in free
                  if recovery.engine in ended and recovery.id not in running]
        self._left = bool(wanted)
        for turn in order.ordered(wanted, self._context.settings.tenant_priority_max,
                                  self._context.clock.wall()):
            if self._stopped.is_set() or not self._free() or self._capacity.full():
                break
            if self._enter(turn.id):
                self._fibers.spawn(self._take_over, turn)

    def _enter(self, recovery_id: str) -> bool:
        """Take a slot for a recovery; return False if this engine works on the recovery."""
        with self._lock:
            if recovery_id in self._running:
                return False
            self._running.add(recovery_id)
            self._capacity.enter(recovery_id)
        return True

    def _free(self) -> bool:
        return self._capacity.count() < self._capacity.slots(self._slots)

    def _forget(self, recovery_id: str) -> None:
        """Free the slot of a recovery."""
        self._capacity.leave(recovery_id)
        with self._lock:
            self._running.discard(recovery_id)
        self._freed()

    def _freed(self) -> None:
        """Look for recoveries if some may wait for a slot: a look reads all of them."""
        if self._left:
            self._wake.set()

    # A recovery

    def _begin(self, recovery: model.Recovery, server: model.Server | None) -> None:
        """Work on a recovery that this engine has created.

        :param server: its server, if that was just read
        """
        self._context.preparations.take(recovery.id)
        self._work(recovery.id, lambda: self._bring_to_end(recovery, server))

    def _take_over(self, recovery: model.Recovery) -> None:
        """Claim a recovery, and work on it."""
        self._work(recovery.id, lambda: self._bring_to_end(
            self._context.store.take_over(recovery, self._name)))

    def _bring_to_end(self, recovery: model.Recovery, server: model.Server | None = None) -> None:
        try:
            self._worker.bring_to_end(recovery, server)
        except exception.Superseded:
            stored = self._context.store.get(recovery.id)
            if stored is not None and stored.state != model.ENDED and stored.engine == self._name:
                LOG.error('recovery %s was taken over by another process with the name of this '
                          'engine, %s: give each engine a name of its own', recovery.id,
                          self._name)
                self._twin[recovery.id] = self._context.clock.now() + _TWIN
            raise

    def _work(self, recovery_id: str, work: Callable[[], object]) -> None:
        """Work on a recovery until it has ended, or another engine has it."""
        try:
            work()
        except (exception.Superseded, exception.Interrupted, exception.Unreachable) as exc:
            LOG.info('recovery %s is left to another engine: %s', recovery_id, exc)
        except Exception:
            LOG.exception('recovery %s cannot be continued by this engine', recovery_id)
        self._context.preparations.leave(recovery_id)
        self._forget(recovery_id)

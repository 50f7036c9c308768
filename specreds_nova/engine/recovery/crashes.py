# SPDX-License-Identifier: Apache-2.0
"""The queue of servers whose domains have crashed, by themselves or with their host.

A crash that has to wait is tried again, and is recorded in the database until it has been acted
on. Every engine that has heard of it acts on it, and the first recovery counts.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
import dataclasses
import queue
import threading
from typing import Any

from oslo_log import log as logging

from specreds_nova import exception as backup_errors
from specreds_nova import progress
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.clients import backups as backup_clients
from specreds_nova.engine.clients import clock as clocks
from specreds_nova.engine.clients import compute as nova_clients
from specreds_nova.engine.store import store as stores
from specreds_nova.engine.suspicion import evidence
from specreds_nova.engine.suspicion import suspects as all_suspects

LOG = logging.getLogger(__name__)

Why = Sequence[Mapping[str, Any]]
Act = Callable[[str, str, Why], str | None]

# Seconds without progress after which the thread hangs that asks other services.
_HANGS = 600.0
# Share of a crash's age until the next attempt, if it is longer than the interval of attempts, and
# seconds until then at most: Ceph, Nova or the host may be away for hours.
_SHARE, _RARELY = 0.1, 60.0
_RUNS, _STOPPED = 'ACTIVE', 'SHUTOFF'


@dataclasses.dataclass
class _Waiting:
    """A crash, and the time of the next attempt.

    :ivar since: when it was heard, by the engine's own clock
    :ivar held: why it has to wait
    :ivar kept: it is recorded in the database; None if the database has not said so
    :ivar over: nothing is left to do but to remove it from the database
    """

    crash: model.Crash
    since: float
    due: float
    held: str | None = None
    kept: bool | None = False
    over: bool = False


@dataclasses.dataclass(frozen=True)
class _Booted:
    """A boot of a host."""

    host: str
    kernel: str


class Crashes:
    """A thread that acts on crashes, so that no suspicion of a host waits for a single server.

    :param act: acts on one crash, and returns why it has to wait: Dispatcher.crashed
    :param memory: records crashes that have to wait: this engine may be restarted meanwhile, and
        hosts report a crash for a short time only
    :param again: seconds between two tries
    """

    def __init__(self, act: Act, clock: clocks.Clock, memory: stores.Store,
                 again: float = 1.0) -> None:
        self._act = act
        self._clock = clock
        self._memory = memory
        self._again = again
        self._news: queue.Queue[_Waiting | _Booted | None] = queue.Queue()
        # By host: a boot that is to be recorded.
        self._boots: dict[str, str] = {}
        self._thread = threading.Thread(target=self._run, name='crashes', daemon=True)
        self._progress = progress.Progress(self._thread, _HANGS)

    def start(self) -> None:
        """Start the thread, with the crashes that an engine has recorded.

        :raises exception.Unreachable: the database does not answer
        """
        now = self._clock.now()
        for crash in self._memory.crashes():
            # Of a crash by a clock that was ahead, nobody knows the age: it is tried.
            age = max(0.0, self._clock.wall() - crash.heard)
            self._news.put(_Waiting(crash, now - age, now, kept=True))
        self._thread.start()

    def stop(self, patience: float) -> None:
        """Stop the thread; crashes that wait are left to engines that start after this one."""
        self._news.put(None)
        self._thread.join(patience)

    def problems(self) -> list[str]:
        """Return whether the thread has ended or hangs."""
        return self._progress.problems()

    def tell(self, host: str, server: str, why: Why) -> None:
        """Add the crash of a server. Returns at once."""
        now = self._clock.now()
        crash = model.Crash(host, server, tuple(why), self._clock.wall())
        self._news.put(_Waiting(crash, now, now))

    def booted(self, host: str, kernel: str) -> None:
        """Add another boot of a host, after the crashes that it has caused. Returns at once.

        It is recorded when none of those is left that only this engine knows.
        """
        self._news.put(_Booted(host, kernel))

    def _run(self) -> None:
        waiting: list[_Waiting] = []
        due: list[_Waiting | _Booted | None]
        while True:
            self._progress.rest()
            try:
                due = [self._news.get(timeout=self._again if waiting or self._boots else None)]
            except queue.Empty:
                now = self._clock.now()
                due = [entry for entry in waiting if entry.due <= now]
                waiting = [entry for entry in waiting if entry.due > now]
            self._progress.note()
            for entry in due:
                self._progress.note()
                if entry is None:
                    return
                if isinstance(entry, _Booted):
                    self._boots[entry.host] = entry.kernel
                    continue
                entry.over = entry.over or not self._waits(entry)
                recorded = self._record(entry, waits=not entry.over)
                # An engine that starts later would act again on a crash that is not removed.
                if not entry.over or not recorded:
                    # The database keeps the latest crash of a server on a host, too.
                    waiting = [other for other in waiting if not _replaces(entry, other)]
                    waiting.append(entry)
            # A crash of any server may have just added those that it concerns.
            if self._boots and not self._news.qsize():
                self._record_boots({entry.crash.host for entry in waiting if not entry.kept})

    def _record_boots(self, uncertain: Collection[str]) -> None:
        """Record boots of hosts, for engines that start after the next boot.

        :param uncertain: hosts with a crash that only this engine knows
        """
        for host, kernel in [*self._boots.items()]:
            if host in uncertain:
                continue
            try:
                self._memory.booted(host, kernel)
            except exception.EngineError as exc:
                LOG.warning('the boot of host %s is recorded later: %s', host, exc)
                return
            except Exception:
                LOG.exception('the boot of host %s is not recorded', host)
            del self._boots[host]

    def _waits(self, entry: _Waiting) -> bool:
        """Act on a crash, and return whether to try again."""
        crash = entry.crash
        try:
            held = self._act(crash.host, crash.server, crash.why)
        except exception.EngineError as exc:
            held = str(exc)
        except Exception as exc:
            held = f'an unexpected error: {exc!r}'
            if held != entry.held:
                LOG.exception('the crash of server %s on %s is tried again', crash.server,
                              crash.host)
        if held is None:
            return False
        self._postpone(entry)
        if held != entry.held:
            LOG.warning('server %s crashed on %s, and is not restarted yet: %s', crash.server,
                        crash.host, held)
        entry.held = held
        return True

    def _postpone(self, entry: _Waiting) -> None:
        """Set the time of the next attempt."""
        now = self._clock.now()
        entry.due = now + max(self._again, min(_SHARE * (now - entry.since), _RARELY))

    def _record(self, entry: _Waiting, *, waits: bool) -> bool:
        """Record a crash that has to wait, and remove one that does not.

        :returns: whether the database has answered
        """
        if entry.kept == waits:
            return True
        try:
            if waits:
                self._memory.keep_crash(entry.crash)
            else:
                self._memory.drop_crash(entry.crash)
        except exception.EngineError as exc:
            LOG.warning('the crash of server %s on %s is %s later: %s', entry.crash.server,
                        entry.crash.host, 'recorded' if waits else 'removed', exc)
            # Only the answer may have been lost.
            entry.kept = None
            self._postpone(entry)
            return False
        except Exception:
            # Such as a name that the database refuses, which it would refuse again.
            LOG.exception('the crash of server %s on %s is not %s', entry.crash.server,
                          entry.crash.host, 'recorded' if waits else 'removed')
        entry.kept = waits
        return True


def _replaces(entry: _Waiting, other: _Waiting) -> bool:
    """Return whether nothing is to be done about another crash any more, as a later one waits."""
    return (not entry.over and (entry.crash.host, entry.crash.server)
            == (other.crash.host, other.crash.server))


Told = tuple[Mapping[str, Any], ...]
Tell = Callable[[str, str, Told], object]


class LostServers:
    """Names the servers that ended with their host, as Nova knows them.

    A host that lost power lists after its boot which domains run, but not which ones are lost. The
    list from before the boot may be old: the broker may have lost later ones, or the engine may
    have heard none. A server that Nova takes for active, and whose domain does not run, is lost;
    so is one that Nova itself has marked as stopped after the boot of the host, because its domain
    does not run. One that Nova has stopped before the boot was shut down by its user, from within.

    :param act: acts on the crash of one server: Dispatcher.crashed
    :param tell: receives the crash of each server that is lost
    """

    def __init__(self, act: Act, tell: Tell, compute: nova_clients.Compute,
                 suspects: all_suspects.Suspects, hosts: backup_clients.Backups,
                 clock: clocks.Clock) -> None:
        self._act = act
        self._tell = tell
        self._compute = compute
        self._suspects = suspects
        self._hosts = hosts
        self._clock = clock

    def crashed(self, host: str, server: str, why: Why) -> str | None:
        """Act on the crash of a server, or name the servers that are lost.

        This reads the servers from Nova at once, even if their crashes have to wait: Nova soon
        shows them as stopped, like servers that users have shut down from within.

        :returns: why the crash has to wait; None if the engine has acted on it, or need not
        :raises exception.Unreachable: Nova, the host or the database does not answer: call again
        """
        if server != model.ANY_SERVER:
            return self._act(host, server, why)
        statuses = {known.id: known.status for known in self._compute.servers(host)
                    if known.status in (_RUNS, _STOPPED)}
        runs = {name: self._suspects.running(host, name) for name in statuses}
        if None in runs.values():
            return f'{host} has not listed its domains'
        missing = [name for name in statuses if not runs[name]]
        stopped = [name for name in missing if statuses[name] == _STOPPED]
        marked = self._marked(host, stopped)
        for name in missing:
            if statuses[name] == _RUNS or name in marked:
                self._tell(host, name, _about(name, why))
        return None

    def _marked(self, host: str, stopped: Sequence[str]) -> frozenset[str]:
        """Return the stopped servers that Nova has marked so after the boot of their host."""
        if not stopped:
            return frozenset()
        try:
            booted = self._clock.wall() - float(self._hosts.boot(host)['uptime'])
        except backup_errors.BackupError as exc:
            LOG.warning('servers of %s that Nova has marked as stopped since its boot stay '
                        'stopped, as the host does not report its uptime: %s', host, exc)
            return frozenset()
        return frozenset(name for name in stopped
                         if self._compute.stopped_by_itself(name, booted))


def _about(server: str, why: Why) -> Told:
    """Return evidence about a server instead of that about any server."""
    return tuple(evidence.of(evidence.CRASH, server, float(fact['at'])).told()
                 if fact.get('kind') == evidence.CRASH else fact for fact in why)

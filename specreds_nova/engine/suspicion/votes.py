# SPDX-License-Identifier: Apache-2.0
"""The other engines: which of them live, and what they hear.

Each engine has a row in the database. A lease of the engine is the row's counter, which the engine
raises every ``_REPEAT`` seconds. The lease is over when another engine has read the same counter
for ``LEASE`` seconds by its own clock: the clock of a database may change with its node. So may
the rows: a counter that is read lower than before, or a row that is missing, counts as the same.

If an engine reads its own counter as the same for ``_BEHIND`` seconds, leases are longer by three
times that time: other engines may be as late. After an outage of the database the time begins
``_WRITTEN`` seconds later, as other engines may still wait for their time-outs: each living engine
has written again by then.

A wrong verdict only moves recoveries to another engine: the database refuses every later change by
the former one.

A host is dead only if no engine hears it.

An engine whose own link loses the beats of some hosts hears its echo and other hosts all the
same, so it cannot know by itself that it is at fault. Each engine writes into its row which hosts
it does not hear, at once when that changes. A decision about a host needs that each engine that is
alive has it among those. So that no vote blocks for ever:

* a vote counts for ``STALE`` seconds after this engine has seen its counter rise, or longer if
  its own counter rises as rarely: the vote of an engine that has died or hangs does not;
* the vote of an engine that does not hear its own echo does not count either;
* an engine that expects the silence of a host after a goodbye does not hear the host: it keeps
  other engines from suspecting the host, but is no reason to trust it again;
* a host that an engine does not know counts as not heard by it.

A vote also says which servers run on a host that another engine does not hear: a host that has
rebooted is heard, and yet its servers are dead.
"""

import collections
from collections.abc import Collection
import dataclasses
import threading

from oslo_log import log as logging

from specreds_nova.beats import pulse
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.clients import clock as clocks
from specreds_nova.engine.store import store as stores
from specreds_nova.engine.suspicion import monitor as monitors

LOG = logging.getLogger(__name__)

# Seconds between two looks at monitor and rows, and between two votes that are the same.
_LOOK = 0.05
_REPEAT = 0.2
# Seconds for which a counter is the same until the lease of its engine is over.
LEASE = 0.8
# Seconds after which a read is too old to say which engines have ended.
_LATE = 0.4
# Seconds for which the own counter may be the same before leases are longer.
_BEHIND = 0.6
# Seconds after an outage until each living engine has written again: the time-out of its rows.
_WRITTEN = 2.0
# Seconds for which a vote counts that does not change.
STALE = 2.0
# Seconds that one vote and one read take at most, with the time-out of each of their statements.
_LONGEST_LAG = 8.0
# Seconds after which the row of an engine that is gone is removed.
_GONE = 3600.0


class Votes(pulse.Pulse):
    """The thread that votes, and the votes of the other engines.

    :param engine: name of this engine
    """

    def __init__(self, engine: str, heard: monitors.Monitor, database: stores.Store,
                 clock: clocks.Clock) -> None:
        super().__init__('specreds-votes', _LOOK)
        self._engine = engine
        self._heard = heard
        self._database = database
        self._clock = clock
        self._lock = threading.Lock()
        self._cast: model.Vote | None = None
        self._cast_at = float('-inf')
        # By engine, this one included: its latest vote, and when its counter was first seen. A row
        # is kept for an hour after it has gone.
        self._rows: dict[str, tuple[model.Vote, float]] = {}
        # By engine: a time before its latest vote was taken, and one before that was written.
        self._taken: dict[str, tuple[float, float]] = {}
        self._read_began = float('-inf')
        # The end of the latest read, the time from which on counters have been read in time, and
        # the end of the first read.
        self._read_at = self._since = float('-inf')
        self._began = float('inf')
        self._ended: frozenset[str] = frozenset()
        # The latest times between two changes of the own counter, as it was read.
        self._lags: collections.deque[float] = collections.deque([0.0], maxlen=5)
        # Seconds for which leases and votes count longer, as the database is slow for this engine,
        # and may be so for the others.
        self._slow = 0.0
        self._failing = False

    def start(self) -> None:
        """Vote, and begin: other engines take over the recoveries of an engine without a row.

        :raises exception.Unreachable: the database does not answer
        """
        self._look()
        super().start()

    def beat(self) -> None:
        """Vote if that is due, and read the rows of all engines."""
        try:
            self._look()
        except Exception as exc:
            # The database may be away: then nothing is decided either.
            if not self._failing:
                LOG.warning('the rows of engines are not read and written: %r', exc)
            self._failing = True
        else:
            self._failing = False

    def delay(self) -> float:
        """Return the seconds until the next beat, which comes early for the end of a lease."""
        with self._lock:
            left = [end - self._clock.now() for name in self._rows
                    if (end := self._end(name)) > self._read_at]
        return max(0.0, min([_LOOK, *left]))

    def read(self) -> None:
        """Read the rows of all engines.

        :raises exception.Unreachable: the database does not answer, or with rows that are old
        """
        began = self._clock.now()
        votes = self._database.votes()
        now = self._clock.now()
        with self._lock:
            if self._failing:
                self._since = max(self._since, now + _WRITTEN)
            self._read_at, self._began = now, min(self._began, now)
            before = self._rows.get(self._engine)
            for vote in votes:
                known = self._rows.get(vote.engine)
                if known is None or vote.counter > known[0].counter:
                    self._rows[vote.engine] = vote, now
                    # An engine takes a vote when it has written the one before, which the read
                    # before did not show.
                    never = float('-inf'), float('-inf')
                    _, written = self._taken.get(vote.engine, never)
                    self._taken[vote.engine] = written, self._read_began
            self._read_began = began
            own = self._rows.get(self._engine)
            behind = 0.0 if own is None else now - own[1]
            if own is not None and before is not None and own[1] != before[1]:
                self._lags.append(min(own[1] - before[1], _LONGEST_LAG))
            if own is None:
                self._since = max(self._since, now)
            lag = max(behind, *self._lags)
            self._slow = 3.0 * lag if lag > _BEHIND else 0.0
            self._ended = frozenset(name for name in self._rows if self._end(name) <= began)
        if behind >= STALE:
            raise exception.Unreachable(
                f'this engine has read the same counter of its own row for {behind:.1f} s: its '
                'writes hang, or it reads a replica that is behind')

    def ended(self, named: Collection[str] = ()) -> frozenset[str]:
        """Return the other engines whose leases are over.

        :param named: engines that may have no row: for a lease, this engine must have seen none
        """
        with self._lock:
            if self._clock.now() - self._read_at > _LATE:
                return frozenset()
            began = max(self._began, self._since)
            gone = {name for name in named if name not in self._rows} \
                if self._read_at - began >= LEASE + self._slow else set()
            return (self._ended | gone) - {self._engine}

    def _end(self, engine: str) -> float:
        """Return the time at which the lease of an engine is over, unless it is renewed."""
        return max(self._rows[engine][1], self._since) + LEASE + self._slow

    def hearing(self, host: str) -> tuple[str, ...]:
        """Return the other engines that hear a host."""
        return tuple(vote.engine for vote in self._fresh()
                     if not vote.deaf and host not in vote.silent and host not in vote.expected)

    def holding(self, host: str) -> tuple[str, ...]:
        """Return the other engines that hear a host, or expect its silence."""
        return tuple(vote.engine for vote in self._fresh()
                     if not vote.deaf and host not in vote.silent)

    def missing(self, host: str) -> tuple[str, ...]:
        """Return the other engines that do not hear a host."""
        return tuple(vote.engine for vote in self._fresh()
                     if not vote.deaf and host in vote.silent)

    def running(self, host: str, server: str) -> bool | None:
        """Return whether the other engines hear that a server runs on a host; None if unknown."""
        reports = [servers for vote in self._fresh()
                   if not vote.deaf and (servers := vote.heard.get(host)) is not None]
        return any(server in servers for servers in reports) if reports else None

    def last_heard(self, host: str, since: float) -> float | None:
        """Return a time after which no engine has heard a host; None if an engine has not said.

        :param since: what an engine hears later does not matter, but it has to have voted later
        """
        with self._lock:
            if self._engine not in self._rows or self._clock.now() - self._read_at > _LATE:
                return None
            latest = float('-inf')
            for engine, (vote, seen) in self._rows.items():
                age = None if vote.deaf else vote.ages.get(host)
                if age is None or self._taken[engine][0] < since:
                    return None
                latest = max(latest, seen - age)
            return latest

    def _fresh(self) -> list[model.Vote]:
        now = self._clock.now()
        with self._lock:
            return [vote for vote, seen in self._rows.values()
                    if vote.engine != self._engine and now - seen < STALE + self._slow]

    def _look(self) -> None:
        contested = {host for vote in self._fresh() for host in vote.silent}
        vote, now = self._heard.vote(self._engine, contested), self._clock.now()
        if vote != self._cast or now - self._cast_at >= _REPEAT:
            self._database.vote(dataclasses.replace(vote, counter=self._counter() + 1))
            self._cast, self._cast_at = vote, now
        self.read()
        self._clean()

    def _counter(self) -> int:
        """Return the own counter, which is greater after each start: other engines remember it.

        Its row may have been removed while the engine was down.
        """
        own = self._rows.get(self._engine)
        return int(self._clock.wall() * 1000) if own is None else own[0].counter

    def _clean(self) -> None:
        now = self._clock.now()
        with self._lock:
            gone = [vote for vote, seen in self._rows.values()
                    if vote.engine in self._ended and now - seen > _GONE]
        for vote in gone:
            self._database.withdraw(vote)
            with self._lock:
                del self._rows[vote.engine]
                self._taken.pop(vote.engine, None)

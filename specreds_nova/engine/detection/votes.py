# SPDX-License-Identifier: Apache-2.0
"""What the other engines hear: a host is dead only if no engine hears it.

An engine whose own link loses the beats of some hosts hears its echo and other hosts all the same,
so it cannot know by itself that it is at fault. Each engine writes into the database which hosts
it does not hear, whenever that changes and every half second. A decision about a host needs that
each engine that is alive has it among those. So that no vote blocks for ever:

* a vote counts for ``STALE`` seconds after this engine has seen it change, so that of an engine
  that has died or hangs does not;
* that of an engine that does not hear its own echo does not count either;
* an engine that expects the silence of a host after a goodbye does not hear the host: it keeps
  other engines from suspecting the host, but is no reason to trust it again;
* a host that an engine does not know counts as not heard by it.

A vote also says which servers run on a host that another engine does not hear: a host that has
rebooted is heard, and yet its servers are dead.
"""

from collections.abc import Collection
import dataclasses
import threading
from typing import Protocol
import uuid

from oslo_log import log as logging

from specreds_nova.engine import exception
from specreds_nova.engine import interfaces
from specreds_nova.engine import model
from specreds_nova.heartbeat import pulse

LOG = logging.getLogger(__name__)

# Seconds between two looks at the monitor, and between two votes that are the same.
_LOOK = 0.1
_REPEAT = 0.5
# Seconds for which a vote counts that does not change.
STALE = 2.0
# Seconds after which the vote of an engine that is gone is removed.
_GONE = 3600.0


class Database(Protocol):
    """The part of the store that votes need."""

    def vote(self, vote: model.Vote) -> None:
        """Replace the vote of an engine."""

    def votes(self) -> list[model.Vote]:
        """Return the votes of all engines."""

    def withdraw(self, vote: model.Vote) -> None:
        """Remove a vote."""


class Heard(Protocol):
    """The part of the monitor that votes need."""

    def vote(self, engine: str, ballot: str, contested: Collection[str]) -> model.Vote:
        """Return what an engine hears."""


class Votes(pulse.Pulse):
    """The thread that votes, and the votes of the other engines.

    :param engine: name of this engine
    """

    def __init__(self, engine: str, heard: Heard, database: Database,
                 clock: interfaces.Clock) -> None:
        super().__init__('specreds-votes', _LOOK)
        self._engine = engine
        self._heard = heard
        self._database = database
        self._clock = clock
        self._lock = threading.Lock()
        self._cast: model.Vote | None = None
        self._cast_at = float('-inf')
        # By engine: its latest vote, and when that was first seen.
        self._others: dict[str, tuple[model.Vote, float]] = {}
        self._failing = False

    def beat(self) -> None:
        """Vote if that is due, and read the other votes."""
        try:
            self._look()
        except Exception as exc:
            # The database may be away: then nothing is decided either.
            if not self._failing:
                LOG.warning('the votes of engines are not exchanged: %r', exc)
            self._failing = True
        else:
            self._failing = False

    def end(self) -> None:
        """Withdraw the vote, so that no engine waits until it is stale."""
        try:
            if self._cast is not None:
                self._database.withdraw(self._cast)
        except exception.EngineError as exc:
            LOG.warning('the vote of this engine is not withdrawn: %s', exc)

    def read(self) -> None:
        """Read the votes of all engines.

        :raises exception.Unreachable: the database does not answer
        """
        votes = [vote for vote in self._database.votes() if vote.engine != self._engine]
        now = self._clock.now()
        with self._lock:
            known, self._others = self._others, {}
            for vote in votes:
                before = known.get(vote.engine)
                fresh = before is None or before[0].ballot != vote.ballot
                self._others[vote.engine] = vote, now if fresh or before is None else before[1]

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

    def _fresh(self) -> list[model.Vote]:
        now = self._clock.now()
        with self._lock:
            return [vote for vote, seen in self._others.values() if now - seen < STALE]

    def _look(self) -> None:
        contested = {host for vote in self._fresh() for host in vote.silent}
        vote = self._heard.vote(self._engine, uuid.uuid4().hex, contested)
        same = self._cast is not None and dataclasses.replace(
            vote, ballot=self._cast.ballot) == self._cast
        now = self._clock.now()
        if same and now - self._cast_at < _REPEAT:
            return
        self._database.vote(vote)
        self._cast, self._cast_at = vote, now
        self.read()
        self._clean()

    def _clean(self) -> None:
        now = self._clock.now()
        with self._lock:
            gone = [vote for vote, seen in self._others.values() if now - seen > _GONE]
        for vote in gone:
            self._database.withdraw(vote)

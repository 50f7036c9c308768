# SPDX-License-Identifier: Apache-2.0
"""What the engine knows: hosts, recoveries, and their steps. Times are seconds since the epoch."""

from collections.abc import Mapping
import dataclasses
from typing import Any

# States of a host.
TRUSTED = 'trusted'
# Its servers have backups, or are about to.
SUSPECTED = 'suspected'
# A server of it was promoted elsewhere: it has to be cleaned before it takes work again.
FENCED = 'fenced'

# As others are told: trusted yet, although an engine takes it for dead, as a gate is shut.
HELD = 'held'

HOST_STATES = (TRUSTED, HELD, SUSPECTED, FENCED)

# What an operator may say of a host.
SUSPECT = 'suspect'
CLEAR = 'clear'

# States of a recovery.
QUEUED = 'queued'
RACING = 'racing'
# Past the commit point: it can only go on to its end.
COMMITTED = 'committed'
# The server serves, and is Nova's again; its disks are being merged.
MERGING = 'merging'
ENDED = 'ended'

STATES = (QUEUED, RACING, COMMITTED, MERGING, ENDED)
# The primary may still win.
BEFORE_COMMIT = (QUEUED, RACING)
# There is a backup that counts as one, or is about to be.
WITH_BACKUP = (RACING, COMMITTED)

# How a recovery ends.
RECOVERED = 'recovered'
# The primary lives; nobody noticed.
PRIMARY = 'primary'
# The primary had written until it was fenced: its version was started again.
RESTARTED = 'restarted'
# There was no backup (no capacity, not supported): fenced and evacuated as Nova always did.
EVACUATED = 'evacuated'
# An operator ended it, or users asked for something that it would undo.
ABORTED = 'aborted'
FAILED = 'failed'

OUTCOMES = (RECOVERED, PRIMARY, RESTARTED, EVACUATED, ABORTED, FAILED)


@dataclasses.dataclass(frozen=True)
class Host:
    """A host, as all engines see it.

    :ivar generation: changes with each change; what is written is conditional on it
    :ivar why: the evidence for which it is suspected: kind, words, time
    :ivar word: what an operator said: ``SUSPECT``, ``CLEAR`` or None
    :ivar goodbye: the kind of its goodbye if it said goodbye and was not heard since
    :ivar goodbye_at: when it did
    :ivar maintenance: why an operator works on it; None if nobody does
    :ivar held: why nothing is done about it, although an engine takes it for dead
    """

    name: str
    state: str = TRUSTED
    generation: int = 0
    since: float = 0.0
    why: tuple[Mapping[str, Any], ...] = ()
    word: str | None = None
    word_reason: str | None = None
    flaps: int = 0
    goodbye: str | None = None
    goodbye_at: float | None = None
    maintenance: str | None = None
    held: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """Its state as others are told."""
        return HELD if self.held and self.state == TRUSTED else self.state


@dataclasses.dataclass(frozen=True)
class Server:
    """What the engine has to know of a server.

    :ivar metadata: of the server
    :ivar status: as Nova says, such as ACTIVE; `task` is what is done to it, if anything
    :ivar volumes: ids, the one that it boots from first
    :ivar group: the server group that it is in: id, policy, members; None if it is in none
    """

    id: str
    name: str
    project: str
    host: str
    status: str
    task: str | None
    locked: bool
    zone: str | None
    flavor: Mapping[str, Any]
    volumes: tuple[str, ...]
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)
    group: Mapping[str, Any] | None = None
    boots_from_volume: bool = True


@dataclasses.dataclass(frozen=True)
class Step:
    """One step of a recovery, as often as it was begun.

    :ivar ended: None while it is under way, or if it was cut off
    """

    name: str
    attempt: int
    engine: str
    began: float
    ended: float | None = None
    detail: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Recovery:
    """One recovery of one server.

    :ivar epoch: changes whenever an engine takes it over: who has an older one must not go on
    :ivar suspected: when its host was
    :ivar abort: an operator wants it to end
    :ivar bytes: how much the backup had written that was merged
    """

    id: str
    server: str
    server_name: str
    project: str
    host: str
    suspected: float
    state: str = QUEUED
    epoch: int = 0
    engine: str | None = None
    why: tuple[Mapping[str, Any], ...] = ()
    priority: int = 0
    expected: float | None = None
    destination: str | None = None
    superposition: str | None = None
    outcome: str | None = None
    error: str | None = None
    abort: bool = False
    bytes: int | None = None
    created: float = 0.0
    updated: float = 0.0
    ended: float | None = None
    steps: tuple[Step, ...] = ()

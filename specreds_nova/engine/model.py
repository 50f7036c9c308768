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

# Kinds of goodbye of a host: only nova-compute was stopped, and the guests go on; or the system is
# going down, and the guests with it.
SERVICE = 'service'
SYSTEM = 'system'

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
# An operator ended it.
ABORTED = 'aborted'
FAILED = 'failed'

OUTCOMES = (RECOVERED, PRIMARY, RESTARTED, EVACUATED, ABORTED, FAILED)


@dataclasses.dataclass(frozen=True)
class Beat:
    """What a host says of itself, several times a second.

    :ivar boot: another one after each start of nova-compute
    :ivar number: counts from 0 after each start
    :ivar interval: seconds until the next one
    :ivar libvirt_age: seconds since libvirt has answered; None if that is not looked at
    :ivar storage_age: seconds since Ceph has answered; None if that is not looked at
    :ivar ended: UUIDs of servers whose domain has crashed or panicked lately
    :ivar ready: ids of backups on it that have become ready lately
    :ivar leaving: nova-compute is being stopped: its silence means nothing for a while
    :ivar goodbye: why, in a beat that is leaving: ``SERVICE`` or ``SYSTEM``; empty for the former
    :ivar kernel: another one after each boot of the host; empty from a host that does not say it
    :ivar running: digest of the UUIDs of the domains that run; empty until libvirt has answered
    :ivar domains: these UUIDs, in a beat now and then and after each change; None in the others
    """

    host: str
    boot: str
    number: int
    interval: float
    libvirt_age: float | None = None
    storage_age: float | None = None
    ended: tuple[str, ...] = ()
    ready: tuple[str, ...] = ()
    leaving: bool = False
    kernel: str = ''
    running: str = ''
    domains: tuple[str, ...] | None = None
    goodbye: str = ''


@dataclasses.dataclass(frozen=True)
class Host:
    """A host, as all engines see it.

    :ivar generation: changes with each change; what is written is conditional on it
    :ivar why: the evidence for which it is suspected: kind, words, time
    :ivar word: what an operator said: ``SUSPECT``, ``CLEAR`` or None
    :ivar goodbye: ``SERVICE`` or ``SYSTEM`` if it said goodbye and was not heard since
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

# SPDX-License-Identifier: Apache-2.0
"""Hosts, servers, recoveries and their steps. Times are seconds since the epoch."""

from collections.abc import Mapping
import dataclasses
from typing import Any, NamedTuple

from specreds_nova import protected

# States of a host.
TRUSTED = 'trusted'
# Its servers have backups, or are about to have them.
SUSPECTED = 'suspected'
# One of its servers was fenced: the host has to be cleaned before it is trusted again.
FENCED = 'fenced'

# Shown to users for a trusted host that seems to have failed, but is held back by gates.
HELD = 'held'

# Nova's task of a server whose deletion was requested.
_DELETING = 'deleting'

HOST_STATES = (TRUSTED, HELD, SUSPECTED, FENCED)

# States of the sentinel of a host, by the host's report.
LIVE = 'live'
# It has not looked at the servers lately: none is ended or hidden.
SILENT = 'silent'
# It has never heard an engine, or cannot read the records of some servers: these are not hidden,
# whatever the mode is.
UNLEASED = 'unleased'

SENTINEL_STATES = (LIVE, SILENT, UNLEASED)

# Which of its two voices engines hear of a host: nova-compute by the broker, and the sentinel by
# UDP, which may not hear the engine, or may have a wrong key. ``SILENT`` if neither is heard.
BOTH = 'both'
NOVA_ALONE = 'nova-compute'
SENTINEL_ALONE = 'sentinel'
HALF_DEAF = 'half-deaf'
UNAUTHENTICATED = 'unauthenticated'

VOICES = (BOTH, NOVA_ALONE, SENTINEL_ALONE, HALF_DEAF, UNAUTHENTICATED, SILENT)

# The words that an operator may say of a host.
SUSPECT = 'suspect'
CLEAR = 'clear'

# Modes of a host. Engines recover its servers, record what they would do, or do nothing.
ACT = 'act'
OBSERVE = 'observe'
PAUSE = 'pause'

# From the least to the greatest consequence.
MODES = (PAUSE, OBSERVE, ACT)

# What a mode is set for, from the most specific to the least.
HOST = 'host'
AGGREGATE = 'aggregate'
ZONE = 'zone'
CLOUD = 'cloud'

SCOPES = (HOST, AGGREGATE, ZONE, CLOUD)

# States of a recovery.
QUEUED = 'queued'
RACING = 'racing'
# Past the commit point: there is no way back.
COMMITTED = 'committed'
# The server serves, and Nova has it on its new host; its disks are being merged.
MERGING = 'merging'
ENDED = 'ended'

STATES = (QUEUED, RACING, COMMITTED, MERGING, ENDED)
# The primary may still win.
BEFORE_COMMIT = (QUEUED, RACING)
# A backup exists or is about to, and counts against the limits.
WITH_BACKUP = (RACING, COMMITTED)

# Outcomes of a recovery.
RECOVERED = 'recovered'
# The primary lives; its users noticed nothing.
PRIMARY = 'primary'
# The primary has written until it was fenced: the server was started from its version.
RESTARTED = 'restarted'
# No backup was possible: the server was fenced, and evacuated as without SpecREDS.
EVACUATED = 'evacuated'
# An operator ended it, or users asked for something that it would undo.
ABORTED = 'aborted'
FAILED = 'failed'
# The mode of the host was to observe: nothing was done.
OBSERVED = 'observed'

OUTCOMES = (RECOVERED, PRIMARY, RESTARTED, EVACUATED, ABORTED, FAILED, OBSERVED)


@dataclasses.dataclass(frozen=True)
class Host:
    """A host, as all engines see it.

    :ivar generation: changes with each change of the host, which is conditional on it
    :ivar why: the evidence against the host: kind, words, time
    :ivar word: the word of an operator: ``SUSPECT``, ``CLEAR`` or None
    :ivar goodbye: the kind of its goodbye, if the host was not heard since
    :ivar goodbye_at: time of the goodbye
    :ivar held: the reasons that hold the recoveries of a host back that seems to have failed
    :ivar kernel: the latest boot of the host up to which all servers are known that boots have
        ended; None if the host was never heard
    :ivar sentinel: the state of its sentinel; None until the host has reported that
    :ivar dead_at: when somebody who knows has said that it is dead. That is void once an engine
        has heard it since
    :ivar voices: which of its voices are heard; None where engines have no key
    :ivar silent_since: since when no engine hears either voice; None if one does, or for unknown
    :ivar shows: engines have told it, or are about to tell it, to hide no server
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
    held: tuple[str, ...] = ()
    kernel: str | None = None
    sentinel: str | None = None
    voices: str | None = None
    silent_since: float | None = None
    shows: bool = False
    dead_at: float | None = None

    @property
    def notable(self) -> bool:
        """Return whether an engine may have to do something about the host."""
        return (self.state != TRUSTED or self.word is not None or bool(self.held)
                or bool(self.flaps))

    @property
    def shown(self) -> str:
        """Return the state that is shown to users."""
        return HELD if self.held and self.state == TRUSTED else self.state


@dataclasses.dataclass(frozen=True)
class Mode:
    """A mode that an operator has set.

    A scope may have one mode that lasts, and one that ends by itself and goes first until then.

    :ivar scope: one of ``SCOPES``
    :ivar name: of the host, aggregate or availability zone; empty for the cloud
    :ivar user: id of the user who has set it
    :ivar since: when it was set
    :ivar until: when it ends; None if it lasts
    """

    scope: str
    name: str
    mode: str
    reason: str
    user: str
    since: float
    until: float | None = None


# Stands in a crash for each server that has run on the host and does not run any more.
ANY_SERVER = '*'


@dataclasses.dataclass(frozen=True)
class Crash:
    """The crash of a server's domain on a healthy host.

    :ivar why: the evidence: kind, words, time
    :ivar heard: when an engine first heard of it
    """

    host: str
    server: str
    why: tuple[Mapping[str, Any], ...]
    heard: float


@dataclasses.dataclass(frozen=True)
class Vote:
    """What one engine hears.

    :ivar deaf: the engine does not hear itself, so that its vote means nothing
    :ivar silent: the hosts that it does not hear, or that report problems
    :ivar heard: by host that it hears and another engine does not: the servers that run there by
        the host's report, None before a report
    :ivar expected: the hosts whose silence it expects after a goodbye: it does not hear them
    :ivar counter: changes with each vote that is stored, so that others see that the engine lives
    :ivar ages: by silent host: for how many seconds it was not heard when the engine voted. A host
        that was never heard may have been heard until the engine started
    """

    engine: str
    deaf: bool = False
    silent: tuple[str, ...] = ()
    heard: Mapping[str, tuple[str, ...] | None] = dataclasses.field(default_factory=dict)
    expected: tuple[str, ...] = ()
    counter: int = 0
    ages: Mapping[str, float] = dataclasses.field(default_factory=dict, compare=False)


# What has become of a request for an evacuation: Nova's conductor has given it up, or not.
GIVEN_UP = 'given-up'
PENDING = 'pending'


@dataclasses.dataclass(frozen=True)
class Evacuation:
    """An evacuation of a server by Nova that is under way.

    :ivar host: its destination; empty if Nova's scheduler has not chosen it
    :ivar claimed: the destination's nova-compute has begun
    :ivar updated: when Nova has noted something of it last, by Nova's clock in seconds since the
        epoch
    """

    host: str
    claimed: bool
    updated: float = 0.0


class Move(NamedTuple):
    """A migration or a resize of a server that has not ended.

    :ivar host: the other host, beside the one on which Nova shows the server
    :ivar begun: the host that it leaves has taken the request from its queue
    """

    host: str
    begun: bool


@dataclasses.dataclass(frozen=True)
class Server:
    """A server, as Nova describes it.

    :ivar status: status in Nova, such as ACTIVE
    :ivar task: task state in Nova; None if Nova does nothing with the server
    :ivar off: it was stopped when Nova began to move it
    :ivar volumes: ids of the volumes, the boot volume first
    :ivar group: id, policy and members of the server group; None without a group
    :ivar image: id of the image from which it boots; None if it boots from a volume
    :ivar disks: Nova's names of disks that Nova keeps in RBD, such as ``disk``; backups have them
    :ivar macs: MAC addresses of the ports that have an IP address
    :ivar aggregates: the aggregates of its host, with name and metadata
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
    image: str | None = None
    disks: tuple[str, ...] = ()
    macs: tuple[str, ...] = ()
    off: bool = False
    aggregates: tuple[Mapping[str, Any], ...] = ()

    @property
    def rules(self) -> protected.Rules:
        """The rules by which it is recovered."""
        return protected.Rules(self.flavor.get('extra_specs') or {}, self.aggregates,
                               self.metadata)

    @property
    def deleting(self) -> bool:
        """Whether a user has deleted it, and its host has still to do that."""
        return self.task == _DELETING

    @property
    def boots_from_volume(self) -> bool:
        """Whether its first disk is a volume."""
        return self.image is None

    def disk_images(self) -> list[str]:
        """Return the images of its disks that Nova keeps in RBD."""
        return [f'{self.id}_{disk}' for disk in self.disks]


class Eligibility(NamedTuple):
    """What a recovery can do with a volume at the moment, as Cinder reports it.

    :ivar reasons: why it cannot be superposed; empty if it can
    :ivar fenceable: whether the host of its server can be shut out of it
    :ivar movable: whether Nova can attach it to another host
    """

    reasons: tuple[str, ...] = ()
    fenceable: bool = True
    movable: bool = True


@dataclasses.dataclass(frozen=True)
class Step:
    """One attempt of one step of a recovery.

    :ivar ended: None while the step lasts, or if its engine died
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

    :ivar epoch: changes when an engine takes over; an engine with an older one must not continue
    :ivar suspected: time at which the host was suspected
    :ivar expected: seconds that the backup is expected to take until it is ready
    :ivar abort: who wants the recovery to end, in words; None if nobody does
    :ivar bytes: bytes of the backup that were merged
    :ivar ended: when it has ended; for one that was only observed, when its host was back
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
    abort: str | None = None
    bytes: int | None = None
    created: float = 0.0
    updated: float = 0.0
    ended: float | None = None
    steps: tuple[Step, ...] = ()


class BackupPlace(NamedTuple):
    """A recovery that has a backup or is about to have one, and where.

    :ivar host: the host that has failed
    :ivar destination: the host of the backup; None if it is not chosen yet
    """

    id: str
    server: str
    host: str
    state: str
    destination: str | None

# SPDX-License-Identifier: Apache-2.0
"""Schedules of faults, which a seed determines.

Each schedule has few kinds of faults, but any of them: a swarm of schedules finds more than
schedules that all have every kind.
"""

from collections.abc import Sequence
import dataclasses
import math
import random
from typing import Any

# Seconds from the start of a simulation in which faults begin, and after which all are mended.
BEGIN, END = 6.0, 75.0
_LENGTHS = (1.0, 3.0, 6.0, 12.0, 25.0, 60.0)
# Seconds that a host takes to boot, at least.
_BOOT = 15.0

# Kinds of faults by their target.
HOST = ('power', 'reboot', 'service', 'crash_compute', 'control', 'storage', 'tenant', 'isolated',
        'all_links', 'pause', 'stall')
ENGINE = ('engine_killed', 'engine_frozen', 'engine_deaf', 'engine_cut', 'engine_without')
SERVICE = ('away', 'slow', 'lost', 'late', 'twice', 'refused')
NODE = ('node', 'split', 'broker')
SERVER = ('crash', 'stop', 'delete', 'attach', 'late_write')
OPERATOR = ('suspect', 'clear', 'abort', 'mode')
KINDS = (*HOST, *ENGINE, *SERVICE, *NODE, *SERVER, *OPERATOR)
# Kinds that few schedules have, from a stream of its own: the others stay as they are.
REFUSED, SENTINEL = 'refused_volumes', 'sentinel'
# Nova's conductor gives up a request for the evacuation of a server.
CONDUCTOR = 'conductor'
# The system clock of an engine is set, and is set back later.
CLOCK = 'clock_jump'
# The nova-compute of a host dies, whose servers are idle and whose sentinel answers.
DRILL = 'drill'
# A whole host stands still for so many seconds, and goes on. Its sentinel answers when it runs.
STANDS, _STANDS = 'stands', (3.0, 5.0, 10.0, 20.0)
# All hosts lose power at once, and boot one after the other; the hosts of an availability zone
# lose their links to the control plane at once; a host loses that link again and again. Schedules
# with them have zones, and beats with the uptime and the broker node of their host.
SITE, SWITCH, FLAPPING = 'site', 'switch', 'flapping'
# Likewise they lose their links to Ceph.
CEPH_SWITCH = 'ceph_switch'
MANY = (SITE, SWITCH, FLAPPING, CEPH_SWITCH)
# Datagrams between a host and all engines are lost one way or both; a sentinel is stopped in good
# order; it has the key of another cloud; somebody sends its beats once more. In a mix, the word
# VOICES lets sentinels speak without such a fault.
VOICES = 'voices'
UDP, FAREWELL, KEY, REPLAY = VOICE = ('udp', 'farewell', 'key', 'replay')
# Seconds for which somebody does so: longer than a dead server may be without a recovery.
_REPLAY = 200.0
_WAYS = ('up', 'down', 'both')
# A server has another state than ACTIVE, or Nova a task for it, for so many seconds.
BUSY, _BUSY = 'busy', 200.0
_STATES = ('MIGRATING migrating', 'RESIZE resize_prep', 'VERIFY_RESIZE', 'PAUSED', 'SUSPENDED',
           'ERROR', 'ACTIVE image_uploading')
# An engine reads late, and all at once, for so many seconds.
OVERLOAD, _OVERLOAD = 'overload', 150.0
# Somebody sends messages in the name of a host, while that beats.
FORGED = 'forged'
_FORGERIES = ('malformed', 'twice', 'old', 'ahead', 'other', 'echo')
# Nova's conductor dies with a request for the evacuation of a server: nobody gives that up.
CONDUCTOR_DIES = 'conductor_dies'
# A service is away for so many seconds.
HOURS, _HOURS = 'hours', 3000.0
# Not a kind, but the word of a mix: some faults of a schedule never end. These may not.
ENDLESS = 'endless'
NEVER_MENDED = ('power', 'reboot', 'storage', 'isolated', 'all_links', 'pause', 'crash_compute')
# Seconds within which a link that flaps works, and does not.
WORKS, BROKEN = 5.0, 8.0
# Most of what an engine does needs the database, which fails as often as two others.
_SERVICES = ('nova', 'cinder', 'host', 'store', 'store')
# Seconds by which a system clock is ahead of the time at most: engines take the clocks of two of
# them to be less than 5 s apart.
_AHEAD = 2.0
# How much faster or slower the clock of a host runs at most than the clock of an engine:
# network_lease_margin allows for 1 s in a lease of 12 s.
_DRIFT = 0.05
# Shares of schedules with faults that never end, with a server that is busy, with an engine that
# reads late, with forged messages, and with a service that is away for long.
_ENDLESS, _SHARE_BUSY, _SHARE_LATE, _SHARE_FORGED, _SHARE_RARE = 0.15, 0.1, 0.05, 0.1, 0.01
# The same of those whose engines hear sentinels.
_SHARE_VOICES = 0.3
# Kinds that are chosen more often: most of what engines do needs a host that is gone.
_OFTEN = ('power', 'reboot', 'isolated', 'control', 'power', 'engine_killed')


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault: it begins after some seconds, and is mended after some more, or never."""

    at: float
    kind: str
    target: str
    lasts: float
    detail: str = ''

    def __str__(self) -> str:
        words = f'{self.kind} {self.target}' + (f' {self.detail}' if self.detail else '')
        return f'{self.at:6.1f} s for {self.lasts:4.1f} s: {words}'


@dataclasses.dataclass(frozen=True)
class Schedule:
    """The cloud of a simulation, and its faults.

    :ivar servers: by name: host, seconds between writes (0 for an idle one), seconds until a
        backup is ready
    :ivar clocks: by engine: rate of its clock, and by how much its system clock is ahead
    :ivar rates: by host: rate of its clock
    :ivar second_opinion: sentinels answer through Ceph which servers run
    :ivar voices: engines hear sentinels by datagrams
    :ivar frames: by server without a condition of its owner: seconds until the first frame of a
        backup
    :ivar metadata: of servers
    :ivar zones: by host: its availability zone; with zones, beats have the uptime of their host
    :ivar options: options of engines that differ from the options in :mod:`play`
    """

    seed: int
    hosts: tuple[str, ...]
    engines: tuple[str, ...]
    nodes: int
    servers: dict[str, tuple[str, float, float]]
    clocks: dict[str, tuple[float, float]]
    options: dict[str, Any]
    faults: tuple[Fault, ...]
    rates: dict[str, float] = dataclasses.field(default_factory=dict)
    second_opinion: bool = False
    voices: bool = False
    frames: dict[str, float] = dataclasses.field(default_factory=dict)
    zones: dict[str, str] = dataclasses.field(default_factory=dict)
    metadata: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)

    @property
    def endless(self) -> frozenset[str]:
        """The hosts of faults that never end."""
        targets = {fault.target for fault in self.faults if math.isinf(fault.lasts)}
        return frozenset(host for host in self.hosts
                         if host in targets or self.zones.get(host) in targets)

    def with_faults(self, faults: Sequence[Fault]) -> 'Schedule':
        """Return the schedule with other faults."""
        return dataclasses.replace(self, faults=tuple(faults))


def generate(seed: int, mix: Sequence[str] = ()) -> Schedule:
    """Return the schedule of a seed.

    :param mix: the only kinds of faults, each as likely as it is often in it, with a colon and a
        target if that is not left to the seed; none for all kinds
    """
    source = random.Random(f'schedule {seed}')
    hosts = tuple(f'h{number + 1}' for number in range(source.choice((3, 4, 4, 5))))
    engines = tuple(f'e{number + 1}' for number in range(source.choice((1, 2, 2, 2, 3))))
    nodes = source.choice((1, 2, 3))
    servers = {f's{number + 1}': (
        source.choice(hosts[:2]), source.choice((0.0, 0.8, 3.0)),
        source.choice((2.0, 6.0, 15.0, 40.0, -1.0))) for number in range(source.randint(1, 4))}
    clocks = {engine: (source.uniform(0.99, 1.01), source.uniform(-2.0, 2.0))
              for engine in engines if source.random() < 0.3}
    # A stream of its own, so that what is added leaves the rest of each schedule as it is.
    more = random.Random(f'lease {seed}')
    if more.random() < 0.3:
        # Backups that are ready at once are decided on while the lease of their primary may run.
        servers = {name: (host, 0.0, 0.5) for name, (host, _, _) in servers.items()}
    options: dict[str, Any] = {
        'sentinel_network_lease': more.choice((4.0, 12.0)),
        'slots': source.choice((1, 2, 4)), 'max_backups_per_host': source.choice((1, 2, 20)),
        'evacuate_after': source.choice((15.0, 30.0)), 'again_after': source.choice((10.0, 30.0)),
        'ready_timeout': source.choice((20, 60))}
    never, speak = ENDLESS in mix, VOICES in mix or any(kind in VOICE for kind in mix)
    mix = tuple(kind for kind in mix if kind not in (ENDLESS, VOICES))
    kinds = list(mix) or [*source.sample(KINDS, source.randint(1, 4)), source.choice(_OFTEN)]
    faults = [_fault(source, source.choice(kinds), hosts, engines, nodes, tuple(servers))
              for _ in range(source.randint(1, 7))]
    few = random.Random(f'volumes {seed}')
    if not mix and few.random() < 0.1:
        kind = few.choice((REFUSED, SENTINEL))
        targets = hosts[:2] if kind == SENTINEL else tuple(servers)
        faults.append(Fault(BEGIN, kind, few.choice(targets), END - BEGIN))
    losses = random.Random(f'evacuations {seed}')
    if not mix and losses.random() < 0.1:
        faults.append(Fault(BEGIN, CONDUCTOR, losses.choice(tuple(servers)), 1.0))
    rare = random.Random(f'rare {seed}')
    if not mix and rare.random() < _SHARE_RARE:
        faults.append(_fault(rare, HOURS, hosts, engines, nodes, tuple(servers)))
    if not mix and rare.random() < 0.1:
        faults.append(_fault(rare, CONDUCTOR_DIES, hosts, engines, nodes, tuple(servers)))
    late = random.Random(f'overload {seed}')
    if not mix and late.random() < _SHARE_LATE:
        faults.append(_fault(late, OVERLOAD, hosts, engines, nodes, tuple(servers)))
    if not mix and late.random() < _SHARE_FORGED:
        faults.append(_fault(late, FORGED, hosts, engines, nodes, tuple(servers)))
    busy = random.Random(f'busy {seed}')
    if not mix and busy.random() < _SHARE_BUSY:
        faults.append(_fault(busy, BUSY, hosts, engines, nodes, tuple(servers)))
    if not mix and losses.random() < 0.1:
        # Nova is away for longer than an evacuation may take.
        options['adopt_timeout'] = 15.0
        faults.append(Fault(round(losses.uniform(BEGIN, 40.0), 1), 'away', 'nova', 30.0))
    drift, rates = random.Random(f'clocks {seed}'), {}
    if not mix and drift.random() < 0.2:
        rates = {host: drift.uniform(1.0 - _DRIFT, 1.0 + _DRIFT) for host in hosts}
        faults += [_fault(drift, CLOCK, hosts, engines, nodes, tuple(servers))
                   for _ in range(drift.randint(0, 2))]
    endless = random.Random(f'endless {seed}')
    lasting = any(math.isinf(fault.lasts) for fault in faults)
    if endless.random() < (0.0 if lasting else 1.0 if never else 0.0 if mix else _ENDLESS):
        faults += [_never_mended(endless, hosts) for _ in range(endless.choice((1, 1, 2)))]
    opinion = random.Random(f'opinion {seed}').random() < 0.1 and not mix
    opinion = opinion or STANDS in mix
    if DRILL in mix:
        opinion = True
        servers = {name: (host, 0.0, boot) for name, (host, _, boot) in servers.items()}
    source, frames = random.Random(f'frames {seed}'), {}
    if opinion:
        # A guest that is never ready may send frames all the same.
        frames = {name: source.uniform(0.2, 0.9) * (boot if boot > 0 else 20.0)
                  for name, (_, _, boot) in servers.items() if source.random() < 0.7}
    zones = {}
    if any(kind in MANY for kind in mix):
        size = random.Random(f'zones {seed}').choice((2, len(hosts) - 1))
        zones = {host: 'z1' if number < size else 'z2' for number, host in enumerate(hosts)}
    spoken = random.Random(f'voices {seed}')
    if not mix and spoken.random() < _SHARE_VOICES:
        speak = True
        faults += [_fault(spoken, spoken.choice((*VOICE, SENTINEL, 'crash_compute')), hosts,
                          engines, nodes, tuple(servers)) for _ in range(spoken.randint(0, 3))]
    faults.sort(key=lambda fault: (fault.at, fault.kind, fault.target))
    return Schedule(seed, hosts, engines, nodes, servers, clocks, options, tuple(faults),
                    rates, opinion, speak, frames, zones)


def _never_mended(source: random.Random, hosts: Sequence[str]) -> Fault:
    return Fault(round(source.uniform(BEGIN, END - 25.0), 1), source.choice(NEVER_MENDED),
                 source.choice(hosts[:2]), math.inf)


def _fault(source: random.Random, kind: str, hosts: Sequence[str], engines: Sequence[str],
           nodes: int, servers: Sequence[str]) -> Fault:
    kind, _, wanted = kind.partition(':')
    at = round(source.uniform(BEGIN, END - 25.0), 1)
    lasts = round(source.choice(_LENGTHS) * source.uniform(0.7, 1.3), 1)
    detail = ''
    if kind in ('power', 'reboot'):
        lasts = max(lasts, _BOOT)
    if kind == STANDS:
        lasts = source.choice(_STANDS)
    if kind in (*HOST, *VOICE, SENTINEL, DRILL, STANDS):
        # Most faults concern the hosts that have servers.
        target = source.choice(hosts[:2] if source.random() < 0.7 else hosts)
        detail = source.choice(_WAYS) if kind == UDP else ''
        if kind == REPLAY:
            return Fault(at, kind, wanted or target, _REPLAY)
    elif kind in (*ENGINE, CLOCK):
        target = source.choice(engines)
        if kind == CLOCK:
            detail = f'{source.uniform(-_AHEAD, _AHEAD):+.1f}'
        elif kind == 'engine_deaf':
            detail = source.choice(hosts)
        elif kind == 'engine_without':
            detail = source.choice(_SERVICES)
    elif kind in SERVICE:
        target = source.choice(_SERVICES)
        detail = str(round(source.uniform(0.1, 0.5), 2))
    elif kind in NODE:
        target = f'b{source.randint(1, nodes)}'
        detail = f'b{source.randint(1, nodes)}' if kind == 'split' else ''
    elif kind in SERVER or kind in ('abort', REFUSED, CONDUCTOR_DIES):
        target = source.choice(servers)
    elif kind == BUSY:
        target, detail = source.choice(servers), source.choice(_STATES)
        return Fault(BEGIN, kind, wanted or target, _BUSY, detail)
    elif kind == HOURS:
        return Fault(at, kind, wanted or source.choice(_SERVICES), _HOURS)
    elif kind == FORGED:
        return Fault(at, kind, wanted or source.choice(hosts[:2]), END - at,
                     source.choice(_FORGERIES))
    elif kind == OVERLOAD:
        return Fault(at, kind, wanted or source.choice(engines), _OVERLOAD,
                     f'{source.uniform(1.0, 3.0):.1f}')
    elif kind == SITE:
        # The hosts boot so many seconds one after the other.
        target, detail = 'all', f'{source.uniform(0.5, 12.0):.1f}'
        lasts = max(lasts, _BOOT)
    elif kind in (SWITCH, CEPH_SWITCH):
        target = source.choice(('z1', 'z1', 'z2'))
        if kind == CEPH_SWITCH:
            lasts = math.inf
    else:
        target = source.choice(hosts[:2])
        if kind == FLAPPING:
            at, lasts = BEGIN + at / 10.0, END
    return Fault(at, kind, wanted or target, lasts if math.isinf(lasts) else min(lasts, END - at),
                 detail)

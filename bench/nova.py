# SPDX-License-Identifier: Apache-2.0
"""Measure what a backup costs and how fast it serves, on compute hosts of a cloud.

*win*
    the primary's QEMU is killed; a backup is started, promoted and adopted. How long the RPC takes
    until the domain runs (without Cinder's super), how long from the RPC that promotes until the
    first packet of the backup leaves the box, what leaks before, and its memory.
*talkers*
    the primary lives, idle, on a host that is cut off from the control plane; its backup is
    promoted. The time for which both guests answer under their address.
*lose*
    transactions of a client of a primary's PostgreSQL while there is a backup, and before. It is
    paced: here all hosts share the processors of one machine, and in production the backup
    takes none from the primary.
*merge*
    transactions of a PostgreSQL client until its server is merged, and afterwards.
"""

from collections.abc import Iterator, Sequence
import contextlib
import itertools
import os
import pathlib
import signal
import tempfile
import time
from typing import Any, TypeVar

from bench import progress
from bench import stats
from cloud import cloud as openstack_cloud
from cloud import drill as drills
from cloud import users
from cloud.hosts import layout as hosts_layout
from cloud.hosts import packets
from cloud.hosts import services

_PRIMARY, _BACKUP = 'cn1', 'cn2'
# Seconds that the database is used by itself.
_BEFORE = 15.0
_PAYLOAD = '4000'
# Seconds after which all services have finished with a primary that was booted.
_SETTLED = 5.0
# Enough data for a merge that takes more than a moment.
_MERGED_PAYLOAD = '100000'
# Seconds between two questions who has an address, and for which answers are awaited: of guests
# without KVM on two processors.
_ASK = 0.1
# Seconds between two transactions of a paced client.
_PACE = '0.05'
_MIB = 1 << 20

_User = TypeVar('_User', bound=users.User)


class _Bench:
    """Measures on one cloud.

    :param scratch: for what clients say, and for packets
    """

    def __init__(self, drill: drills.Drill, scratch: pathlib.Path) -> None:
        self._drill = drill
        self._cloud = drill.cloud
        self._scratch = scratch
        self._count = 0
        self._users: list[users.User] = []

    @contextlib.contextmanager
    def server(self, image: str, **metadata: str) -> Iterator[drills.Server]:
        """Run a server on the primary's host while the context lasts."""
        self._count += 1
        server = self._drill.boot(f'bench-{self._count}', _PRIMARY, image=image,
                                  metadata=metadata)
        try:
            self._drill.wait(f'{server.name} to answer',
                             lambda: self._cloud.tenant.answers(server.address))
            yield server
        finally:
            while self._users:
                self._users.pop().close()
            self._drill.delete(server.id)

    def directory(self) -> pathlib.Path:
        """Return a new directory."""
        return pathlib.Path(tempfile.mkdtemp(dir=self._scratch))

    def pinger(self) -> users.Pinger:
        """Return a user that ends with the server at the latest."""
        return self._ending(users.Pinger(self._cloud, self.directory()))

    def client(self, server: drills.Server) -> users.Postgres:
        """Return a user of the server's database that ends with the server at the latest."""
        return self._ending(users.Postgres(self._cloud, self.directory(), server.address))

    def _ending(self, user: _User) -> _User:
        self._users.append(user)
        return user

    def kill(self, server: drills.Server) -> None:
        """Kill the primary's QEMU, and the service that would report its end to Nova."""
        self._cloud.host(_PRIMARY).kill_program(services.COMPUTE)
        pid = self._drill.pid(server, server.host)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def mend(self) -> None:
        """Restart what was killed on the primary's host."""
        self._cloud.host(_PRIMARY).heal()
        self._drill.restart_compute(_PRIMARY)

    # Figures

    def win(self) -> dict[str, float]:
        """Measure one recovery of a dead primary."""
        drill = self._drill
        with self.server('g1') as server:
            mac = drill.mac(server)
            pinger = self.pinger()
            seen = self.directory() / 'packets'
            time.sleep(_SETTLED)
            self.kill(server)
            superposition = drill.superpose(server)
            # On another host, ovn-controller still announces the dead guest.
            with self._cloud.host(_BACKUP).capture(
                    hosts_layout.TENANT, seen, f'outbound and ether src {mac}'):
                began = time.monotonic()
                recovery = drill.start(server, _BACKUP, superposition)
                started = time.monotonic() - began
                # The RPC also waits for the network service, while the guest boots.
                started -= drill.status(recovery)['timings_ms']['attached'] / 1e3
                drill.ready(recovery)
            memory = _memory(drill, recovery)
            pinger.start(server.address)
            outcome = drill.collapse(recovery)
            if outcome != 'promoted':
                raise RuntimeError(f'the primary is dead, and yet the collapse ended {outcome}')
            promoting = time.time()
            drill.backups.promote({}, _BACKUP, recovery.id)
            drill.wait('the first packet', lambda: pinger.events('talker'))
            first = pinger.events('talker')[0]['at'] - promoting
            pinger.stop()
            drill.adopt(recovery)
            drill.merged(recovery)
            self.mend()
        return {'rpc_to_running_ms': started * 1e3, 'promote_to_first_packet_ms': first * 1e3,
                'frames_leaked_from_box': float(len(packets.read(seen))),
                'backup_memory_mib': memory / _MIB}

    def talkers(self) -> float:
        """Measure for how many seconds two guests answered."""
        drill = self._drill
        with self.server('g1') as server:
            self._cloud.host(_PRIMARY).cut(control=True)
            recovery = drill.start(server, _BACKUP)
            drill.ready(recovery)
            pinger = self.pinger()
            pinger.start(server.address, 'arp', _ASK)
            drill.promote(recovery)
            drill.wait('the primary to be gone',
                       lambda: drill.pid(server, _PRIMARY) is None)
            time.sleep(1)
            pinger.stop()
            doubles = [event['at'] for event in pinger.events('double')]
            drill.adopt(recovery)
            drill.merged(recovery)
            self.mend()
        return doubles[-1] - doubles[0] if doubles else 0.0

    def lose(self) -> float:
        """Measure transactions per second while there is a backup ÷ before."""
        drill = self._drill
        with self.server('g2', **drills.READY['g2']) as server:
            client = self.client(server)
            client.start('--payload', _PAYLOAD, '--interval', _PACE, '--timeout', '60')
            drill.wait_guest(server, 'the database to be used',
                             lambda: client.acknowledged() > 0)
            with self._cloud.alone(_PRIMARY):
                counts = [(time.monotonic(), client.acknowledged())]
                time.sleep(_BEFORE)
                counts.append((time.monotonic(), client.acknowledged()))
                recovery = drill.start(server, _BACKUP)
                drill.ready(recovery)
                time.sleep(_BEFORE / 3)
                counts.append((time.monotonic(), client.acknowledged()))
            drill.abort(recovery)
            summary = client.stop()
        if failed := users.failed(summary):
            raise RuntimeError(f'the client of the primary saw errors: {failed}')
        return _ratio(counts)

    def merge(self) -> float:
        """Measure transactions per second until a server is merged ÷ afterwards."""
        drill = self._drill
        with self.server('g2', **drills.READY['g2']) as server:
            self.kill(server)
            recovery = drill.start(server, _BACKUP)
            drill.ready(recovery)
            drill.promote(recovery)
            client = self.client(server)
            client.start('--payload', _MERGED_PAYLOAD, '--interval', '0')
            drill.wait_guest(server, 'the database to be used',
                             lambda: client.acknowledged() > 0, host=_BACKUP)
            began = time.time()
            drill.adopt(recovery)
            drill.wait('the end of the merge', lambda: self._phase(recovery) == 'merged')
            merged = time.time()
            time.sleep(_BEFORE)
            ended = time.time()
            client.stop()
            done = list(client.ledger().values())
            drill.merged(recovery)
            self.mend()
        return _rate(done, began, merged) / _rate(done, merged, ended)

    def _phase(self, recovery: drills.Recovery) -> str:
        return str(self._drill.status(recovery)['phase'])


def run(cloud: openstack_cloud.Cloud, tell: progress.Progress, rounds: int) -> dict[str, float]:
    """Measure on a cloud with compute hosts, and return the figures by their keys.

    :param rounds: number of runs of each; half as many of the database with a backup
    """
    losing = max(1, rounds // 2)
    tell.section('nova', 3 * rounds + losing)
    drill = drills.Drill(cloud)
    wins: list[dict[str, float]] = []
    talkers: list[float] = []
    ratios: list[float] = []
    primaries: list[float] = []
    with contextlib.closing(drill), tempfile.TemporaryDirectory(
            prefix='specreds-bench-') as scratch:
        bench = _Bench(drill, pathlib.Path(scratch))
        for number in range(rounds):
            tell.step(f'a dead primary, round {number + 1} of {rounds}')
            wins.append(bench.win())
            tell.say(', '.join(f'{key} {value:g}' for key, value in wins[-1].items()))
            tell.step(f'a primary that is cut off, round {number + 1} of {rounds}')
            talkers.append(bench.talkers())
            tell.say(f'both talked for {talkers[-1]:.2f} s')
        for number in range(losing):
            tell.step(f'a database with a backup, round {number + 1} of {losing}')
            primaries.append(bench.lose())
        for number in range(rounds):
            tell.step(f'a merge under a database, round {number + 1} of {rounds}')
            ratios.append(bench.merge())
            tell.say(f'throughput {ratios[-1]:.3f} of what it was before')
    measured: dict[str, Any] = {}
    for key in wins[0]:
        measured |= stats.summary([win[key] for win in wins]).entries(f'nova.{key}')
    # Of these the worst counts, not the median.
    measured['nova.frames_leaked_from_box'] = max(
        win['frames_leaked_from_box'] for win in wins)
    measured |= stats.summary(talkers).entries('nova.two_talkers_median_s')
    measured['nova.two_talkers_s'] = max(talkers)
    measured |= stats.summary(primaries).entries('nova.primary_throughput_ratio')
    return measured | stats.summary(ratios).entries('nova.merge_throughput_ratio')


def _rate(done: Sequence[float], began: float, ended: float) -> float:
    """Return the rate of events in a stretch of time, per second.

    :param done: times of the events
    """
    return sum(began <= moment < ended for moment in done) / (ended - began)


def _ratio(counts: Sequence[tuple[float, int]]) -> float:
    """Return the rate in the last stretch ÷ that in the first one.

    :param counts: times in seconds, and the number of events until then
    """
    rates = [(second[1] - first[1]) / (second[0] - first[0])
             for first, second in itertools.pairwise(counts)]
    return rates[-1] / rates[0]


def _memory(drill: drills.Drill, recovery: drills.Recovery) -> float:
    """Bytes that a backup takes, with what belongs to its box: shared pages by their share."""
    host = drill.cloud.host(recovery.host)
    mine = (recovery.server.id, recovery.id, *(port[:11] for port in drill.ports(
        recovery.server)))
    total = 0
    for pid in host.members():
        with contextlib.suppress(OSError):
            words = pathlib.Path(f'/proc/{pid}/cmdline').read_text()
            if any(name in words for name in mine):
                rollup = pathlib.Path(f'/proc/{pid}/smaps_rollup').read_text()
                total += next(int(line.split()[1]) << 10 for line in rollup.splitlines()
                              if line.startswith('Pss:'))
    return float(total)

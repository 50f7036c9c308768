# SPDX-License-Identifier: Apache-2.0
"""Accidents of a Ceph cluster that happen while primaries and backups race on it."""

from collections.abc import Callable
import enum
import random
import signal
import threading
from typing import Any

from cloud import ceph
from cloud import commands
from cloud import deadline

Command = Callable[..., Any]

_PAUSE_S = (0.5, 4.0)
_HANG_S = (0.2, 3.0)
_GROUPS = (32, 40)
# A dead monitor's peers call for an election after 10 s without its lease, or at once.
_DEAD_S = (1.0, 12.0)
_CLEAN_S = 180.0
_ENDLESS = '1000000'
_LOOK_S = 0.5
# OSDs of a placement group: with one more, its data can move.
_REPLICAS = 3
# Placement groups that move at a time, by the names of objects that are in them.
_MOVES, _PROBES = 4, 1 << 16


class Accident(enum.Enum):
    """What happens to the cluster."""

    DOWN = 'an OSD that lives is marked down'
    PRIMARY = 'placement groups get other primary OSDs'
    HANG = 'an OSD hangs'
    DEATH = 'an OSD dies, and starts again'
    SPLIT = 'placement groups are split or merged'
    UPMAP = 'placement groups move to other OSDs'
    # Nothing is committed to the osdmap meanwhile if the monitor is the leader.
    MONITOR = 'a monitor hangs'
    ELECTION = 'a monitor dies, and others are elected'


class Weather:
    """Causes one accident after the other while the context lasts, then heals the cluster.

    :param command: sends a command to a monitor, by its words, and returns the answer
    :param pool: of which placement groups are split and merged, and moved
    :ivar happened: how often each accident happened
    """

    def __init__(self, cluster: ceph.Ceph, command: Command, pool: str, seed: int) -> None:
        self._ceph = cluster
        self._command = command
        self._pool = pool
        self._chance = random.Random(seed)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._loop, name='weather')
        self._osds = [name for name in cluster.settings.daemons if name.startswith('osd.')]
        self._monitors = [name for name in cluster.settings.daemons if name.startswith('mon.')]
        self._causes: dict[Accident, Callable[[], None]] = {
            Accident.DOWN: self._down, Accident.PRIMARY: self._primary,
            Accident.HANG: lambda: self._stop(self._osd), Accident.DEATH: self._death,
            Accident.SPLIT: self._split, Accident.MONITOR: lambda: self._stop(self._monitor)}
        if len(self._monitors) > 2:
            self._causes[Accident.ELECTION] = self._election
        if len(self._osds) > _REPLICAS:
            self._causes[Accident.UPMAP] = self._upmap
        self.happened = dict.fromkeys(self._causes, 0)
        self.error: Exception | None = None

    def __enter__(self) -> 'Weather':
        # An OSD that was marked down too often ends itself.
        self._command('config set', who='osd', name='osd_max_markdown_count', value=_ENDLESS)
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._ended.set()
        self._thread.join()
        for osd in self._osds:
            self._command('osd primary-affinity', id=_number(osd), weight=1.0)
        for moved in self._command('osd dump')['pg_upmap_items']:
            self._command('osd rm-pg-upmap-items', pgid=moved['pgid'])
        self.check()

    def check(self) -> None:
        """Raise the error that has ended the accidents, if one has."""
        if self.error is not None:
            raise self.error

    def _loop(self) -> None:
        try:
            while not self._ended.wait(self._chance.uniform(*_PAUSE_S)):
                accident = self._chance.choice(list(self._causes))
                self._causes[accident]()
                self.happened[accident] += 1
        except Exception as exc:
            self.error = exc

    @property
    def _osd(self) -> str:
        return self._chance.choice(self._osds)

    @property
    def _monitor(self) -> str:
        """A monitor, in half of the cases the first one, which leads if it lives."""
        return self._chance.choice([self._monitors[0], self._chance.choice(self._monitors)])

    def _down(self) -> None:
        self._command('osd down', ids=[str(_number(self._osd))])

    def _primary(self) -> None:
        self._command('osd primary-affinity', id=_number(self._osd),
                      weight=self._chance.choice((0.0, 0.5, 1.0)))

    def _stop(self, daemon: str) -> None:
        self._ceph.signal_daemon(daemon, signal.SIGSTOP)
        try:
            self._ended.wait(self._chance.uniform(*_HANG_S))
        finally:
            self._ceph.signal_daemon(daemon, signal.SIGCONT)

    def _kill(self, daemon: str, seconds: tuple[float, float]) -> None:
        self._ceph.kill_daemon(daemon)
        try:
            self._ended.wait(self._chance.uniform(*seconds))
        finally:
            self._ceph.start_daemon(daemon)

    def _death(self) -> None:
        # One at a time: two dead OSDs would leave groups without an answer for minutes.
        self._kill(self._osd, _HANG_S)
        self._wait('the placement groups are not clean', self._clean)

    def _clean(self) -> bool:
        status = self._command('status')
        groups = status['pgmap']
        clean = sum(state['count'] for state in groups.get('pgs_by_state', ())
                    if {'active', 'clean'} <= set(state['state_name'].split('+')))
        up: int = status['osdmap']['num_up_osds']
        return up == len(self._osds) and clean == int(groups['num_pgs'])

    def _election(self) -> None:
        self._kill(self._monitor, _DEAD_S)
        # Two dead monitors of three would leave clients without an answer.
        self._wait('not all monitors are in the quorum', lambda: len(
            self._command('status')['quorum_names']) == len(self._monitors))

    def _wait(self, what: str, met: Callable[[], bool]) -> None:
        limit = deadline.Deadline(_CLEAN_S)
        while not met():
            if limit.passed:
                raise commands.CloudError(f'{what} after {limit.elapsed:.0f} s')
            self._ended.wait(_LOOK_S)

    def _split(self) -> None:
        self._command('osd pool set', pool=self._pool, var='pg_num',
                      val=str(self._chance.choice(_GROUPS)))


    def _upmap(self) -> None:
        """Move the data of placement groups from one of their OSDs to another, under load."""
        for _ in range(_MOVES):
            probe = f'probe-{self._chance.randrange(_PROBES)}'
            mapping = self._mapping(probe)
            spare = sorted({_number(osd) for osd in self._osds} - set(mapping['up']))
            # An OSD that is down is not among the OSDs of a group, and another one may be.
            used = sorted(set(mapping['up']) & {_number(osd) for osd in self._osds})
            if not spare or not used:
                continue
            try:
                self._command('osd pg-upmap-items', pgid=mapping['pgid'],
                              id=[self._chance.choice(used), self._chance.choice(spare)])
            except commands.CloudError:
                # A group that was merged meanwhile does not exist.
                if self._mapping(probe)['pgid'] == mapping['pgid']:
                    raise

    def _mapping(self, name: str) -> dict[str, Any]:
        mapping: dict[str, Any] = self._command('osd map', pool=self._pool, object=name)
        return mapping


def _number(osd: str) -> int:
    return int(osd.removeprefix('osd.'))

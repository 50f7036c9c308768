# SPDX-License-Identifier: Apache-2.0
"""Accidents of a Ceph cluster that happen while primaries and backups race on it."""

from collections.abc import Callable
import enum
import random
import signal
import threading

from cloud import ceph

_OSDS = 3
_PAUSE_S = (0.5, 4.0)
_HANG_S = (0.2, 3.0)
_GROUPS = (32, 40)


class Accident(enum.Enum):
    """What happens to the cluster."""

    DOWN = 'an OSD that lives is marked down'
    PRIMARY = 'placement groups get other primary OSDs'
    HANG = 'an OSD hangs'
    DEATH = 'an OSD dies, and starts again'
    SPLIT = 'placement groups are split or merged'
    # Nothing is committed to the osdmap meanwhile, as in an election.
    MONITOR = 'the monitor hangs'


class Weather:
    """Causes one accident after the other while the context lasts, then heals the cluster.

    :param pool: of which placement groups are split and merged
    :ivar happened: how often each accident happened
    """

    def __init__(self, cluster: ceph.Ceph, pool: str, seed: int) -> None:
        self._ceph = cluster
        self._pool = pool
        self._chance = random.Random(seed)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._loop, name='weather')
        self._causes: dict[Accident, Callable[[int], None]] = {
            Accident.DOWN: self._down, Accident.PRIMARY: self._primary,
            Accident.HANG: self._hang, Accident.DEATH: self._death, Accident.SPLIT: self._split,
            Accident.MONITOR: lambda _osd: self._stop('mon.a')}
        self.happened = dict.fromkeys(Accident, 0)
        self.error: Exception | None = None

    def __enter__(self) -> 'Weather':
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._ended.set()
        self._thread.join()
        for osd in range(_OSDS):
            self._ceph.admin(['osd', 'primary-affinity', f'osd.{osd}', '1'])
        if self.error is not None:
            raise self.error

    def _loop(self) -> None:
        try:
            while not self._ended.wait(self._chance.uniform(*_PAUSE_S)):
                accident = self._chance.choice(list(Accident))
                self._causes[accident](self._chance.randrange(_OSDS))
                self.happened[accident] += 1
        except Exception as exc:
            self.error = exc

    def _down(self, osd: int) -> None:
        self._ceph.admin(['osd', 'down', str(osd)])

    def _primary(self, osd: int) -> None:
        self._ceph.admin(['osd', 'primary-affinity', f'osd.{osd}',
                          self._chance.choice(('0', '0.5', '1'))])

    def _hang(self, osd: int) -> None:
        self._stop(f'osd.{osd}')

    def _stop(self, daemon: str) -> None:
        self._ceph.signal_daemon(daemon, signal.SIGSTOP)
        try:
            self._ended.wait(self._chance.uniform(*_HANG_S))
        finally:
            self._ceph.signal_daemon(daemon, signal.SIGCONT)

    def _death(self, osd: int) -> None:
        # One at a time: two dead OSDs would leave groups without an answer for minutes.
        self._ceph.kill_daemon(f'osd.{osd}')
        try:
            self._ended.wait(self._chance.uniform(*_HANG_S))
        finally:
            self._ceph.start_daemon(f'osd.{osd}')
        self._ceph.wait_clean()

    def _split(self, _osd: int) -> None:
        self._ceph.admin(['osd', 'pool', 'set', self._pool, 'pg_num',
                          str(self._chance.choice(_GROUPS))])

# SPDX-License-Identifier: Apache-2.0
"""Measure what claims of recoveries cost in etcd, and in the database by conditional updates.

The board is the engine's own. The database has the engine's table of recoveries, in which the
columns ``engine`` and ``epoch`` hold the claims, and a table of the engines' leases. Both run on
this machine and have nothing else to do; processor time is that of client and server.
"""

from collections.abc import Callable, Iterator
import contextlib
import dataclasses
import time
from typing import Any
import uuid

import psutil  # type: ignore[import-untyped]
import sqlalchemy as sa

from bench.scale import engine
from bench.scale import services
from cloud import commands
from specreds_nova.engine import jobs
from specreds_nova.engine import model
from specreds_nova.engine.db import connection as db_connection
from specreds_nova.engine.db import migration
from specreds_nova.engine.db import store as stores
from specreds_nova.engine.db import tables

_NAME = 'scale.claims'
_COUNT, _QUICK_COUNT = 4000, 400
# Claims of one request, renewals, and lists of all jobs.
_BATCH, _RENEWALS, _LISTS = 60, 100, 3
_LEASE = 600
_ETCD, _DATABASE = 'etcd', 'database'
_SERVERS = {_ETCD: 'etcd', _DATABASE: 'mariadbd'}
_T = tables.RECOVERIES
LEASES = sa.Table('claims_leases', sa.MetaData(),
                   sa.Column('engine', sa.String(255), primary_key=True),
                   sa.Column('expires', sa.Double, nullable=False))


def run(quick: bool) -> dict[str, float]:
    """Measure, and return the figures by their keys.

    :raises CloudError: not all recoveries were claimed
    """
    wanted = [recovery(number) for number in range(_QUICK_COUNT if quick else _COUNT)]
    with services.services() as (url, port):
        conf = engine.configuration(url, port)
        conf.set_override('name', 'bench', 'engine')
        # Nothing renews it while jobs are posted.
        conf.set_override('job_lease', _LEASE, 'engine')
        database = db_connection.connect(conf)
        migration.sync(database)
        stores.Store(database).create(wanted)
        LEASES.create(database)
        meter = Meter()
        _on_etcd(meter, jobs.from_conf(conf), wanted)
        in_database = Claims(database, 'bench')
        with meter.of('claim', _DATABASE):
            claimed = in_database.claim([entry.id for entry in wanted])
        _check(len(claimed), len(wanted))
        _repeat(meter, 'renew', _DATABASE, in_database.renew, _RENEWALS)
        _repeat(meter, 'list', _DATABASE, in_database.jobs, _LISTS)
        database.dispose()
        return meter.figures


def _on_etcd(meter: 'Meter', board: jobs.Board, wanted: list[model.Recovery]) -> None:
    board.keep()
    with meter.of('post', _ETCD):
        for entry in wanted:
            board.post(entry)
    free = board.unclaimed()
    with meter.of('claim', _ETCD):
        claimed = board.claim_all(free)
    _check(len(claimed), len(wanted))
    _repeat(meter, 'renew', _ETCD, board.keep, _RENEWALS)
    _repeat(meter, 'list', _ETCD, board.unclaimed, _LISTS)
    board.close()


def _repeat(meter: 'Meter', what: str, where: str, do: Callable[[], object], times: int) -> None:
    with meter.of(what, where):
        for _ in range(times):
            do()


def _check(claimed: int, wanted: int) -> None:
    if claimed != wanted:
        raise commands.CloudError(f'{claimed} of {wanted} recoveries were claimed')


class Claims:
    """Claims as conditional updates of the table of recoveries.

    :param who: name of the engine
    """

    def __init__(self, database: sa.Engine, who: str) -> None:
        self._database = database
        self._who = who

    def claim(self, wanted: list[str]) -> list[str]:
        """Claim active recoveries that no engine has claimed, and return those."""
        claimed: list[str] = []
        for first in range(0, len(wanted), _BATCH):
            batch = wanted[first:first + _BATCH]
            with self._database.begin() as connection:
                connection.execute(
                    sa.update(_T).where(_T.c.id.in_(batch), _T.c.active == 1,
                                        _T.c.engine.is_(None))
                    .values(engine=self._who, epoch=_T.c.epoch + 1))
                claimed += connection.execute(
                    sa.select(_T.c.id).where(_T.c.id.in_(batch), _T.c.engine == self._who)
                ).scalars()
        return claimed

    def renew(self) -> None:
        """Renew the lease of the engine, which holds for all its claims."""
        expires = time.time() + _LEASE
        with self._database.begin() as connection:
            renewed = connection.execute(sa.update(LEASES).where(
                LEASES.c.engine == self._who).values(expires=expires))
            if not renewed.rowcount:
                connection.execute(sa.insert(LEASES).values(engine=self._who, expires=expires))

    def jobs(self) -> list[Any]:
        """Return all active recoveries as far as claims need them."""
        with self._database.connect() as connection:
            return list(connection.execute(
                sa.select(_T.c.id, _T.c.project, _T.c.host, _T.c.priority, _T.c.expected,
                          _T.c.created, _T.c.engine).where(_T.c.active == 1)))


@dataclasses.dataclass
class Meter:
    """The processor time of this process and of the two servers, which are its children.

    :ivar figures: milliseconds by key
    """

    figures: dict[str, float] = dataclasses.field(default_factory=dict)

    @contextlib.contextmanager
    def of(self, what: str, where: str) -> Iterator[None]:
        """Measure a block."""
        [server] = [child for child in psutil.Process().children(recursive=True)
                    if child.name() == _SERVERS[where]]
        before = time.process_time(), _used(server)
        yield
        for name, spent in (('client', time.process_time() - before[0]),
                            ('server', _used(server) - before[1])):
            self.figures[f'{_NAME}_{what}_{where}_{name}_ms'] = round(1000 * spent, 1)


def _used(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def recovery(number: int) -> model.Recovery:
    """Return a recovery that no engine has claimed."""
    name = str(uuid.uuid5(uuid.NAMESPACE_OID, f'claim{number}'))
    return model.Recovery(id=name, server=name, server_name=f'vm{number}', project='p',
                          host=f'dead{number % 40}', suspected=0.0, state=model.QUEUED)

# SPDX-License-Identifier: Apache-2.0
"""Measure the time from a suspicion to the request for the last of 60 backups.

The engine is whole: its dispatcher, board of jobs, conductor and fibers, on a
MariaDB and an etcd of their own. Nova, Placement, Cinder and the hosts are simulated, with the
latencies of the real ones without load, so the figure is the engine's own share. As in a running
engine, the servers are read from Nova at the first late beat, before the suspicion.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import os
import pathlib
import random
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from typing import Any
import uuid

import etcd3gw
from oslo_config import cfg
from oslo_db import options as db_options
import pymysql
import requests

from cloud import commands
from specreds_nova.engine import conductor as conductors
from specreds_nova.engine import conf as engine_conf
from specreds_nova.engine import fibers as all_fibers
from specreds_nova.engine import jobs
from specreds_nova.engine import model
from specreds_nova.engine import service as engine_service
from specreds_nova.engine.clients import clock as clocks
from specreds_nova.engine.db import connection as db_connection
from specreds_nova.engine.db import migration
from specreds_nova.engine.db import store as stores
from specreds_nova.engine.detection import accrual
from specreds_nova.engine.detection import conf as detection_conf
from specreds_nova.engine.detection import gates
from specreds_nova.engine.detection import settings as monitoring
from specreds_nova.engine.recovery import context as contexts
from specreds_nova.engine.recovery import dispatch
from specreds_nova.engine.recovery import nova_prefetch
from specreds_nova.engine.recovery import observer as observers

SERVERS = 60
HOSTS = 6
# The evidence against a host.
WHY = ({'kind': 'silence', 'words': 'no beat for 0.8 s'},)
_TIMEOUT = 60.0
_PAUSE = 0.1

# Shortest and longest duration of the calls, in seconds.
LIST = (0.15, 0.3)
NOVA = (0.03, 0.08)
SUPER = (0.08, 0.25)
START = (1.5, 3.0)
RPC = (0.005, 0.02)


def run(servers: int = SERVERS) -> dict[str, float]:
    """Measure, and return the figures by their keys."""
    with services() as (url, port), Simulation(Cloud(servers), url, port) as simulation:
        return {'scale.sixty_servers_s': round(simulation.last_started(), 3)}


@contextlib.contextmanager
def services() -> Iterator[tuple[str, int]]:
    """Run a database and an etcd, and return the URL of one and the port of the other."""
    with tempfile.TemporaryDirectory(prefix='specreds-scale-') as directory:
        place = pathlib.Path(directory)
        with _database(place) as url, _etcd(place) as port:
            yield url, port


class Simulation:
    """An engine whose services and hosts are simulated.

    :param url: of the database
    :param port: of etcd
    :param name: of the engine
    :param silent: returns the other engines that seem to have died
    """

    def __init__(self, cloud: 'Cloud', url: str, port: int, name: str = 'bench',
                 silent: Callable[[], frozenset[str]] = frozenset) -> None:
        self.cloud = cloud
        conf = _configuration(url, port)
        conf.set_override('name', name, 'engine')
        migration.sync(db_connection.connect(conf))
        self._stopping = threading.Event()
        self.fibers = all_fibers.Fibers(engine_service.CALLERS)
        self.clock = clocks.FiberClock(self.fibers, self._stopping)
        cloud.sleep = self.clock.sleep
        self.store = stores.from_conf(conf)
        observer = _Observer()
        context = contexts.in_fibers(
            self.fibers, self.clock, cloud, self.store, conf.engine, suspects=cloud,
            limits=detection_conf.limits(conf.engine), stopping=self._stopping.is_set,
            observer=observer)
        self.conductor = conductors.Conductor(
            context, jobs.from_conf(conf), self.fibers, name, conf.engine.slots,
            conf.engine.job_lease, conf.engine.job_interval, silent=silent)
        observer.conductor = self.conductor
        self.prefetch = nova_prefetch.NovaPrefetch(cloud, self.clock)
        self.dispatcher = dispatch.Dispatcher(
            context,
            lambda host, service: gates.Facts(host, known=cloud.hosts, service=service or {}),
            detection_conf.host_gates(conf.engine), detection_conf.server_gates(conf.engine),
            self.conductor, name, nova=self.prefetch)

    def __enter__(self) -> 'Simulation':
        self.conductor.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stopping.set()
        self.conductor.stop(5.0)
        self.prefetch.close()

    def last_started(self) -> float:
        """Suspect a host, and return the seconds until the last backup is to start."""
        heard = self.clock.now()
        self.prefetch.doubt('dead')
        self.clock.sleep(_doubted())
        began = time.monotonic()
        self.dispatcher.suspect('dead', WHY, heard)
        return self.cloud.started(_TIMEOUT) - began


class _Observer(observers.Observer):
    """Passes on which recoveries race."""

    conductor: conductors.Conductor

    def serves(self, recovery_id: str) -> None:
        """Free a slot."""
        self.conductor.serves(recovery_id)

    def races(self, recovery_id: str) -> None:
        """Take a slot again."""
        self.conductor.races(recovery_id)


def _configuration(url: str, port: int) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    engine_conf.register(conf)
    conf.register_opts(db_options.database_opts, 'database')
    conf([], default_config_files=[])
    for option, value in (('connection', url), ('max_pool_size', 48), ('max_overflow', 200)):
        conf.set_override(option, value, 'database')
    conf.set_override('jobboard_host', '127.0.0.1', 'engine')
    conf.set_override('jobboard_port', port, 'engine')
    return conf


def _doubted() -> float:
    """Return the seconds between the doubt about a host with even beats and its suspicion."""
    settings = monitoring.Settings()
    patience = accrual.Accrual(settings.detector, 0.0, settings.interval).deadline
    return patience - settings.doubt * settings.interval


@dataclasses.dataclass
class Cloud:
    """Simulated Nova, Placement, Cinder and hosts, with latencies.

    :ivar hosts: number of hosts that live
    """

    servers_there: int
    hosts: int = HOSTS
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        self.compute = self.volumes = self.backups = self
        self._random = random.Random(1)
        self._lock = threading.Lock()
        self._asked: dict[str, float] = {}
        # By backup that was begun: the time at which it runs.
        self._until: dict[str, float] = {}
        self._unforeseen: set[str] = set()
        self._all = threading.Event()
        self._servers = [self._server(number) for number in range(self.servers_there)]

    def started(self, timeout: float) -> float:
        """Wait until every backup is requested, and return the time of the last request.

        :raises CloudError: a request did not come in time, or a call is not simulated
        """
        waited = self._all.wait(timeout)
        if self._unforeseen:
            raise commands.CloudError(
                f'the engine asked for {", ".join(sorted(self._unforeseen))}, which the simulated '
                f'cloud does not know')
        if not waited:
            raise commands.CloudError(
                f'{len(self._asked)} of {self.servers_there} backups were asked for in '
                f'{timeout:g} s')
        return max(self._asked.values())

    def takes(self, between: tuple[float, float]) -> None:
        time.sleep(self._random.uniform(*between))

    @staticmethod
    def _server(number: int) -> model.Server:
        # The same in each process, as an engine may continue the work of another one.
        server, volume = (str(uuid.uuid5(uuid.NAMESPACE_OID, f'{kind}{number}'))
                          for kind in ('vm', 'volume'))
        return model.Server(
            id=server, name=f'vm{number}', project='p', host='dead', status='ACTIVE', task=None,
            locked=False, zone='nova', flavor={'vcpus': 1, 'ram': 64, 'disk': 0},
            volumes=(volume,))

    # Suspects

    def suspected(self, host: str) -> bool:
        """Return whether this is the host that dies."""
        return host == 'dead'

    def healthy(self) -> list[str]:
        """Return the other hosts."""
        return [f'host{number}' for number in range(self.hosts)]

    def await_ready(self, host: str, backup: str, seconds: float) -> bool:
        """Report that no backup is ready."""
        self.sleep(seconds)
        return False

    def flaps(self, host: str) -> int:
        """Report that no suspicion was wrong."""
        del host
        return 0

    def running(self, host: str, server: str) -> bool | None:
        """Report that the state is unknown."""
        del host, server
        return None

    def heard_after(self, host: str, at: float) -> bool:
        """Return whether a host lives."""
        return self.is_well(host)

    def is_well(self, host: str) -> bool:
        """Report that all other hosts beat."""
        return host != 'dead'

    # Compute

    def servers(self, host: str) -> list[model.Server]:
        """Return all servers."""
        self.takes(LIST)
        return self._servers

    def server(self, server_id: str) -> model.Server | None:
        """Return one server."""
        self.takes(NOVA)
        return next(server for server in self._servers if server.id == server_id)

    def candidates(self, server: model.Server, placed: Mapping[str, str] | None = None,
                   avoid: Collection[str] = ()) -> list[str]:
        """Return the living hosts as candidates."""
        del placed, avoid
        self.takes(NOVA)
        return self.healthy()

    def suits_group(self, server: model.Server, host: str, placed: Mapping[str, str]) -> bool:
        """Return that every host suits."""
        del server, host, placed
        return True

    def permits(self, server: model.Server, host: str) -> bool:
        """Return that every host is allowed."""
        del server, host
        return True

    def immovable(self, server: model.Server) -> str | None:
        """Report that Nova evacuates every server."""
        del server
        return None

    def service(self, host: str) -> Mapping[str, Any]:
        """Report that the service is up."""
        self.takes(NOVA)
        return {'up': True, 'enabled': True, 'forced_down': False, 'updated': 0.0}

    # Volumes

    def superpose(self, server: model.Server, recovery_id: str, reason: str) -> str:
        """Return a new superposition."""
        self.takes(SUPER)
        return str(uuid.uuid4())

    def dirty(self, superposition_id: str) -> bool:
        """Report that the primary has not written."""
        self.takes(NOVA)
        return False

    def state(self, superposition_id: str) -> str | None:
        """Report that the superposition is superposed."""
        self.takes(NOVA)
        return 'superposed'

    # Backups

    def start(self, host: str, backup_id: str, server_id: str,
              superposition_id: str) -> Mapping[str, Any]:
        """Record the time of the request."""
        self._begun(server_id)
        self.takes(RPC if backup_id in self._until else START)
        return {'phase': 'running'}

    def begin(self, host: str, backup_id: str, server_id: str, superposition_id: str) -> None:
        """Record the time of the request."""
        self.takes(RPC)
        self._begun(server_id)
        with self._lock:
            self._until[backup_id] = time.monotonic() + self._random.uniform(*START)

    def _begun(self, server_id: str) -> None:
        with self._lock:
            self._asked.setdefault(server_id, time.monotonic())
            if len(self._asked) >= self.servers_there:
                self._all.set()

    def status(self, host: str, backup_id: str) -> Mapping[str, Any]:
        """Report that the backup is not ready."""
        self.takes(RPC)
        if time.monotonic() < self._until.get(backup_id, 0.0):
            return {'phase': 'starting', 'ready': False, 'domain': None}
        return {'phase': 'running', 'ready': False, 'domain': {'state': 'running'}}

    def __getattr__(self, name: str) -> Any:
        # Engines survive unforeseen errors, and the figure would be wrong.
        self._unforeseen.add(name)
        raise AttributeError(f'nobody asks for {name} before the backups have started')


@contextlib.contextmanager
def _database(place: pathlib.Path) -> Iterator[str]:
    """Run a MariaDB, and return SQLAlchemy's URL of an empty database."""
    data, where = place / 'mariadb', place / 'mariadb.sock'
    user = ['--user=root'] if os.getuid() == 0 else []
    commands.run(['mariadb-install-db', '--no-defaults', f'--datadir={data}', '--skip-test-db',
                  '--auth-root-authentication-method=normal', *user], timeout=120)
    with _running(['/usr/sbin/mariadbd', '--no-defaults', f'--datadir={data}',
                   f'--socket={where}', '--skip-networking', '--max-connections=1024',
                   '--innodb-flush-log-at-trx-commit=2', *user], place / 'mariadb.log'):
        connection = _waited(lambda: pymysql.connect(unix_socket=str(where), user='root'),
                             pymysql.Error)
        with connection, connection.cursor() as cursor:
            cursor.execute('CREATE DATABASE specreds CHARACTER SET utf8mb4')
        yield f'mysql+pymysql://root@localhost/specreds?unix_socket={where}&charset=utf8mb4'


@contextlib.contextmanager
def _etcd(place: pathlib.Path) -> Iterator[int]:
    """Run an etcd, and return its port."""
    port, peers = _free_ports(2)
    urls = [f'http://127.0.0.1:{port}', f'http://127.0.0.1:{peers}']
    program = shutil.which('etcd')
    if program is None:
        raise commands.CloudError('there is no etcd: install etcd-server')
    with _running([program, '--data-dir', str(place / 'etcd'),
                   '--listen-client-urls', urls[0], '--advertise-client-urls', urls[0],
                   '--listen-peer-urls', urls[1], '--initial-advertise-peer-urls', urls[1],
                   '--initial-cluster', f'default={urls[1]}'], place / 'etcd.log'):
        client = etcd3gw.Etcd3Client(host='127.0.0.1', port=port, api_path='/v3/')
        _waited(lambda: client.get('/'), Exception)
        yield port


@contextlib.contextmanager
def _running(argv: Sequence[str], log: pathlib.Path) -> Iterator[None]:
    with log.open('wb') as output, subprocess.Popen(
            argv, stdout=output, stderr=output) as process:
        try:
            yield
        finally:
            process.terminate()


def _waited(ask: Any, failures: type[Exception]) -> Any:
    until = time.monotonic() + _TIMEOUT
    while True:
        try:
            return ask()
        except (failures, requests.RequestException) as exc:
            if time.monotonic() > until:
                raise commands.CloudError(f'it does not answer: {exc}') from exc
        time.sleep(_PAUSE)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in sockets:
            sock.bind(('127.0.0.1', 0))
        return [int(sock.getsockname()[1]) for sock in sockets]

# SPDX-License-Identifier: Apache-2.0
"""A whole engine as a process, with services and hosts that are other processes."""

from collections.abc import Iterator, Mapping
import contextlib
import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

import psutil  # type: ignore[import-untyped]
import requests
import sqlalchemy as sa

from bench.scale import engine
from bench.scale import services
from bench.scale.simulated import inventory as inventories
from bench.scale.simulated import openstack
from cloud import commands
from cloud.openstack import files as private
from specreds_nova.engine.store import connection as db_connection
from specreds_nova.engine.store import migration
from specreds_nova.engine.store import store as stores

_NAME = 'bench'
_TIMEOUT, _PAUSE = 60.0, 0.25
_MIB = float(1 << 20)
_BEATS = re.compile(r'^specreds_heartbeats_total (\S+)$', re.MULTILINE)


@dataclasses.dataclass
class Hosts:
    """The process that plays the hosts."""

    process: 'subprocess.Popen[str]'

    def say(self, word: str) -> dict[str, Any]:
        """Send a command, and return what the hosts report.

        :raises CloudError: they have ended
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f'{word}\n')
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise commands.CloudError('the simulated hosts have ended')
        report: dict[str, Any] = json.loads(line)
        return report


class Engine:
    """The process of an engine, and the resources that it uses.

    :ivar threads: greatest number of its threads
    :ivar memory: greatest resident memory in MiB
    """

    def __init__(self, pid: int, metrics: str) -> None:
        self._process = psutil.Process(pid)
        self._metrics = metrics
        self.threads = 0
        self.memory = 0.0
        self._stopped = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    @property
    def cpu(self) -> float:
        """Seconds of processor time that the engine has used."""
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def beats(self) -> float:
        """Return the number of beats that the engine has heard."""
        match = _BEATS.search(requests.get(f'{self._metrics}/metrics', timeout=_TIMEOUT).text)
        return float(match[1]) if match else 0.0

    def well(self) -> bool:
        """Return whether the engine reports that it is healthy."""
        return requests.get(f'{self._metrics}/health', timeout=_TIMEOUT).status_code == 200

    def stop(self) -> None:
        """Stop recording the resources."""
        self._stopped.set()
        self._watcher.join(_TIMEOUT)

    def _watch(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            while not self._stopped.wait(_PAUSE):
                self.threads = max(self.threads, self._process.num_threads())
                self.memory = max(self.memory, self._process.memory_info().rss / _MIB)


@dataclasses.dataclass
class Stage:
    """The engine that is measured, and the simulated cloud around it."""

    inventory: inventories.Inventory
    hosts: Hosts
    engine: Engine
    store: stores.Store
    log: pathlib.Path
    url: str
    tables: sa.Engine

    def counts(self) -> dict[str, float]:
        """Return what the engine has sent so far: statements of SQL, requests and calls.

        ``controllers_ms`` are the milliseconds for which the requests have occupied workers of
        Keystone, Nova, Placement and Cinder.
        """
        with self.tables.connect() as connection:
            statements = float(connection.execute(sa.text(
                "SHOW GLOBAL STATUS LIKE 'Questions'")).one()[1])
        answered = requests.get(f'{self.url}{openstack.COUNT}', timeout=_TIMEOUT).json()
        return {'statements': statements, 'requests': float(answered['requests']),
                'calls': float(self.hosts.say('report')['calls']),
                'controllers_ms': 1000 * float(answered['busy'])}


@contextlib.contextmanager
def stage(inventory: inventories.Inventory, interval: float, port: int,
          options: Mapping[str, str] | None = None,
          program: str = 'bench.scale.placed') -> Iterator[Stage]:
    """Run an engine that hears all hosts.

    :param interval: seconds between two beats of a host
    :param port: first of the ports of a cloud
    :param options: further options of the group ``[engine]``
    :param program: module of the engine's process
    :raises CloudError: the engine ends, or does not hear hosts in time
    """
    with contextlib.ExitStack() as stack:
        place = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix='specreds-')))
        database = stack.enter_context(services.database())
        broker = stack.enter_context(services.broker(place / 'broker', port))
        # The ports that a cloud's Keystone and Nova would have.
        web, metrics = port, port + 3
        stack.enter_context(services.running(
            [sys.executable, '-m', 'bench.scale.simulated.openstack', str(web), str(inventory)],
            place / 'openstack.out'))
        hosts = Hosts(stack.enter_context(_hosts(broker, inventory, interval,
                                                place / 'hosts.out')))
        conf = place / 'engine.conf'
        configured = _configuration(broker, database, web, metrics, place)
        private.write(conf, private.ini(private.merged(configured, {'engine': options or {}})))
        tables = db_connection.connect(engine.configuration(database))
        migration.sync(tables)
        store = stores.Store(tables)
        stack.callback(store.close)
        store.set_mode(engine.ACTING)
        log = place / 'engine.out'
        process = stack.enter_context(services.running(
            [sys.executable, '-m', program, '--config-file', str(conf)], log))
        watched = Engine(process.pid, f'http://127.0.0.1:{metrics}')
        stack.callback(watched.stop)
        _wait(watched, process, log)
        yield Stage(inventory, hosts, watched, store, log, f'http://127.0.0.1:{web}', tables)


@contextlib.contextmanager
def _hosts(broker: str, inventory: inventories.Inventory, interval: float, log: pathlib.Path
           ) -> Iterator['subprocess.Popen[str]']:
    match = re.fullmatch(r'rabbit://([^:]+):([^@]+)@([^/]+)/', broker)
    assert match is not None
    user, password, address = match.groups()
    with log.open('wb') as errors, subprocess.Popen(
            [sys.executable, '-m', 'bench.scale.simulated.hosts', address, user, password,
             str(inventory), str(interval)], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors) as process:
        try:
            yield process
        finally:
            process.terminate()


def _configuration(broker: str, database: str, web: int, metrics: int, place: pathlib.Path
                   ) -> private.Conf:
    return {
        'DEFAULT': {'transport_url': broker, 'debug': 'false'},
        'database': {'connection': database},
        'engine': {'name': _NAME, 'metrics_host': '127.0.0.1', 'metrics_port': str(metrics)},
        'oslo_concurrency': {'lock_path': str(place)},
        'service_auth': {'auth_type': 'v3password', 'username': 'specreds', 'password': 'secret',
                         'auth_url': f'http://127.0.0.1:{web}/identity/v3',
                         'user_domain_id': 'default', 'project_domain_id': 'default',
                         'project_name': 'service'},
    }


def _wait(watched: Engine, process: 'subprocess.Popen[bytes]', log: pathlib.Path) -> None:
    """Wait until an engine hears, and trusts what it hears."""
    until = time.monotonic() + _TIMEOUT
    while True:
        with contextlib.suppress(requests.RequestException):
            if watched.well() and watched.beats():
                return
        if process.poll() is not None or time.monotonic() > until:
            raise commands.CloudError(
                f'the engine does not hear hosts:\n{log.read_text()[-2000:]}')
        time.sleep(_PAUSE)

# SPDX-License-Identifier: Apache-2.0
"""Measure the time from a suspicion to the request for the last of 60 backups.

The engine is whole: its dispatcher, conductor, row and fibers, on a MariaDB of their own. Nova,
Placement, Cinder and the hosts are simulated, with the latencies of the real ones without load, so
the figure is the engine's own share. As in a running engine, the servers are read from Nova at the
first late beat, before the suspicion.
"""

from collections.abc import Collection
import threading
import time
from typing import Any

from oslo_config import cfg
from oslo_db import options as db_options

from bench.scale import cloud as clouds
from bench.scale import services
from specreds_nova.engine import conf as engine_conf
from specreds_nova.engine import events
from specreds_nova.engine import fibers as all_fibers
from specreds_nova.engine import model
from specreds_nova.engine import service as engine_service
from specreds_nova.engine.clients import clock as clocks
from specreds_nova.engine.placing import conductor as conductors
from specreds_nova.engine.recovery import context as contexts
from specreds_nova.engine.recovery import dispatch
from specreds_nova.engine.recovery import nova_prefetch
from specreds_nova.engine.store import connection as db_connection
from specreds_nova.engine.store import migration
from specreds_nova.engine.store import store as stores
from specreds_nova.engine.suspicion import accrual
from specreds_nova.engine.suspicion import conf as detection_conf
from specreds_nova.engine.suspicion import gates
from specreds_nova.engine.suspicion import settings as monitoring
from specreds_nova.engine.suspicion import votes

SERVERS = 60
# The evidence against a host.
WHY = ({'kind': 'silence', 'words': 'no beat for 0.8 s'},)
_TIMEOUT = 60.0

def run(servers: int = SERVERS) -> dict[str, float]:
    """Measure, and return the figures by their keys."""
    with (services.database() as url,
          Simulation(clouds.Cloud(servers), url) as simulation):
        return {'scale.sixty_servers_s': round(simulation.last_started(), 3)}


class _Ears:
    """An engine that hears every host."""

    def vote(self, engine: str, contested: Collection[str]) -> model.Vote:
        """Return what the engine hears."""
        del contested
        return model.Vote(engine)


# What lets the engines of a benchmark act on hosts that fail.
ACTING = model.Mode(model.CLOUD, '', model.ACT, 'a benchmark', '', 0.0)


class Simulation:
    """An engine whose services and hosts are simulated.

    :param url: of the database
    :param name: of the engine
    """

    def __init__(self, cloud: clouds.Cloud, url: str, name: str = 'bench') -> None:
        self.cloud = cloud
        conf = configuration(url)
        conf.set_override('name', name, 'engine')
        self._tables = db_connection.connect(conf)
        migration.sync(self._tables)
        self._stopping = threading.Event()
        self.fibers = all_fibers.Fibers(engine_service.CALLERS)
        self.clock = clocks.FiberClock(self.fibers, self._stopping)
        cloud.sleep = self.clock.sleep
        self.store = stores.from_conf(conf)
        self.store.set_mode(ACTING)
        clients: Any = cloud
        context = contexts.in_fibers(
            self.fibers, self.clock, clients, self.store, conf.engine, suspects=clients,
            stopping=self._stopping.is_set, observer=events.Observer())
        ears: Any = _Ears()
        self.votes = votes.Votes(name, ears, self.store, self.clock)
        self.conductor = conductors.Conductor(
            context, self.fibers, name, conf.engine.slots, self.votes.ended)
        self.prefetch = nova_prefetch.NovaPrefetch(clients, self.clock)
        self.dispatcher = dispatch.Dispatcher(
            context,
            lambda host, service: gates.Facts(host, known=cloud.hosts, service=service or {}),
            detection_conf.host_gates(conf.engine), detection_conf.server_gates(conf.engine),
            self.conductor, name, nova=self.prefetch)

    def __enter__(self) -> 'Simulation':
        self.votes.start()
        self.conductor.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stopping.set()
        self.conductor.stop(5.0)
        self.votes.stop(5.0)
        self.prefetch.close()
        self.store.close()
        self._tables.dispose()

    def last_started(self) -> float:
        """Suspect a host, and return the seconds until the last backup is to start."""
        heard = self.clock.now()
        self.prefetch.doubt('dead')
        self.clock.sleep(_doubted())
        began = time.monotonic()
        self.dispatcher.suspect_all([dispatch.Suspicion('dead', WHY, heard)])
        return self.cloud.started(_TIMEOUT) - began


def configuration(url: str) -> cfg.ConfigOpts:
    """Return the configuration of an engine with a database."""
    conf = cfg.ConfigOpts()
    engine_conf.register(conf)
    conf.register_opts(db_options.database_opts, 'database')
    conf([], default_config_files=[])
    for option, value in (('connection', url), ('max_pool_size', 48), ('max_overflow', 200)):
        conf.set_override(option, value, 'database')
    return conf


def _doubted() -> float:
    """Return the seconds between the doubt about a host with even beats and its suspicion."""
    settings = monitoring.Settings()
    patience = accrual.Accrual(settings.detector, 0.0, settings.interval).deadline
    return patience - settings.doubt * settings.interval

# SPDX-License-Identifier: Apache-2.0
"""The application for WSGI servers: ``specreds_nova.engine.api.wsgi:application``.

It reads the files in ``OS_SPECREDS_CONFIG_FILE`` (separated by ``;``), or those that
``--config-file`` names in the arguments of the process, or ``/etc/specreds/specreds-engine.conf``.
"""

from collections.abc import Collection
import functools
import os
import sys
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from specreds_nova.engine import conf as engine_conf
from specreds_nova.engine import exception
from specreds_nova.engine.api import application as api_application
from specreds_nova.engine.clients import connect
from specreds_nova.engine.placing import protection as protections
from specreds_nova.engine.store import store
from specreds_nova.engine.suspicion import conf as detection_conf
from specreds_nova.preflight import coverage

_FILES = 'OS_SPECREDS_CONFIG_FILE'


class _Nova:
    """What the API asks Nova, from its first use on: the API starts without Nova."""

    def __init__(self, conf: cfg.ConfigOpts, database: store.Store) -> None:
        self._conf = conf
        self._database = database

    @functools.cached_property
    def _clients(self) -> connect.Clients:
        try:
            return connect.Clients(self._conf, scheduled=False)
        except exception.Invalid as exc:
            # An error of the configuration, not of the request.
            raise RuntimeError(f'the configuration is incomplete: {exc}') from exc

    @functools.cached_property
    def _protection(self) -> protections.Protection:
        clients, options = self._clients, self._conf.engine
        return protections.Protection(
            clients.compute, clients.volumes, clients.backups,
            detection_conf.server_gates(options),
            protections.hosts(self._conf, self._database, clients.compute),
            unfenced=options.evacuate_unfenced)

    def check(self, server_id: str) -> protections.Answer:
        """Return whether a server is protected."""
        return self._protection.check(server_id)

    def places(self) -> Collection[str]:
        """Return all availability zones and aggregates, in words."""
        return self._protection.places()

    @functools.cached_property
    def all_servers(self) -> coverage.Coverage:
        """Return what is known of all servers."""
        return coverage.of(self._conf, self._database, self._clients, pairs=True)


def init_application() -> Any:
    """Return the configured application."""
    # The global configuration: oslo.messaging has its options of tracing only there. Nova, whose
    # options include some of group [api], is not loaded in this process.
    conf = cfg.CONF
    logging.register_options(conf)
    engine_conf.register(conf)
    files = os.environ.get(_FILES)
    conf([] if files else sys.argv[1:], project='specreds', prog='specreds-engine',
         default_config_files=files.split(';') if files else None)
    logging.setup(conf, 'specreds-api')
    database = store.from_conf(conf)
    nova = _Nova(conf, database)
    return api_application.load(conf, database, nova.check, nova.places,
                                lambda: nova.all_servers)


application = init_application()

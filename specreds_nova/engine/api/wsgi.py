# SPDX-License-Identifier: Apache-2.0
"""The application for WSGI servers: ``specreds_nova.engine.api.wsgi:application``.

It reads the files in ``OS_SPECREDS_CONFIG_FILE`` (separated by ``;``), or those that
``--config-file`` names in the arguments of the process, or ``/etc/specreds/specreds-engine.conf``.
"""

import functools
import os
import sys
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from specreds_nova.engine import conf as engine_conf
from specreds_nova.engine import exception
from specreds_nova.engine import protection as protections
from specreds_nova.engine.api import deploy
from specreds_nova.engine.api import protection
from specreds_nova.engine.db import store

_FILES = 'OS_SPECREDS_CONFIG_FILE'


def _check(conf: cfg.ConfigOpts, database: store.Store) -> protection.Check:
    """Return the check of protection, made at its first use: the API starts without Nova."""
    @functools.cache
    def checker() -> Any:
        try:
            return protections.from_conf(conf, database)
        except exception.Invalid as exc:
            # An error of the configuration, not of the request.
            raise RuntimeError(f'the configuration is incomplete: {exc}') from exc

    def check(server_id: str) -> protection.Answer:
        answer: protection.Answer = checker().check(server_id)
        return answer
    return check


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
    return deploy.load(conf, database, _check(conf, database))


application = init_application()

# SPDX-License-Identifier: Apache-2.0
"""For WSGI servers: ``specreds_nova.engine.api.wsgi:application``.

The configuration is what ``OS_SPECREDS_CONFIG_FILE`` names (several files with ``;`` between
them), or ``--config-file`` in the arguments of the process, or
``/etc/specreds/specreds-engine.conf``.
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


class _Protection:
    """Meets Nova and Cinder when somebody asks: the API starts without them."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf

    @functools.cached_property
    def _met(self) -> protection.Protection:
        try:
            # Its answers are plain dictionaries.
            found: Any = protections.from_conf(self._conf)
        except exception.Invalid as error:
            # It is not the caller who has to do something about it.
            raise RuntimeError(f'the configuration is not complete: {error}') from error
        met: protection.Protection = found
        return met

    def check(self, server_id: str) -> protection.Answer:
        """Ask."""
        return self._met.check(server_id)


def init_application() -> Any:
    """Give the application, as the configuration has it."""
    # Not one of its own: oslo.messaging looks for options of tracing in this one only.
    conf = cfg.CONF
    logging.register_options(conf)
    engine_conf.register(conf)
    files = os.environ.get(_FILES)
    conf([] if files else sys.argv[1:], project='specreds', prog='specreds-engine',
         default_config_files=files.split(';') if files else None)
    logging.setup(conf, 'specreds-api')
    return deploy.load(conf, store.from_conf(conf), _Protection(conf))


application = init_application()

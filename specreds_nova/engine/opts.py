# SPDX-License-Identifier: Apache-2.0
"""The options and policies of the engine, for the sample generators."""

import itertools
from typing import Any

from oslo_db import options as db_options

from specreds_nova.engine import conf
from specreds_nova.engine import policies
from specreds_nova.engine.clients import conf as clients_conf


def list_opts() -> list[tuple[str, list[Any]]]:
    """Return the options by group, for the entry point ``oslo.config.opts``."""
    return [(conf.GROUP, conf.OPTIONS),
            (clients_conf.GROUP, clients_conf.list_opts()),
            ('database', list(itertools.chain(db_options.database_opts)))]


def list_rules() -> list[Any]:
    """Return the policies, for the entry point ``oslo.policy.policies``."""
    return list(policies.list_rules())

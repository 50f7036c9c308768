# SPDX-License-Identifier: Apache-2.0
"""Reboots that a starting nova-compute completes, as its end has interrupted them.

Nova starts such a server, and an error ends the start of nova-compute. A server whose promoted
backup runs on another host, which is not adopted yet, cannot be started here.
"""

from collections.abc import Callable
import functools
from typing import Any

from nova import exception as nova_exception
from oslo_log import log as logging

from specreds_nova import exception
from specreds_nova.host import signatures

LOG = logging.getLogger(__name__)


def install(compute: Any) -> None:
    """Let nova-compute start although the plug-in refuses to reboot a server.

    :param compute: nova.compute.manager.ComputeManager, before it looks at its servers
    """
    initialize = compute._init_instance
    compute._init_instance = functools.partial(_initialize, initialize)


def _initialize(initialize: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    try:
        initialize(*args, **kwargs)
    except (exception.BackupError, nova_exception.UnexpectedTaskStateError) as exc:
        instance = signatures.arguments(initialize, *args, **kwargs)['instance']
        LOG.warning('the interrupted reboot of server %s is not completed on this host: %s',
                    instance.uuid, exc)

# SPDX-License-Identifier: Apache-2.0
"""Preparations that save the first backup of a host from waiting.

Each of them takes between half a second and two: getting tokens, connecting to other services,
starting the privileged helper processes.
"""

from collections.abc import Callable
from typing import Any

from oslo_log import log as logging

from specreds_nova.host.backup import host as backup_host

LOG = logging.getLogger(__name__)


class Warmup:
    """Preparations that have not succeeded yet; the services may start later than this host."""

    def __init__(self, host: backup_host.Host) -> None:
        context = backup_host.admin_context
        self._cold: list[Callable[[], Any]] = [
            host.box.warm_up_helpers,
            host.cinder.warm_up,
            lambda: host.claims.warm_up(context()),
            lambda: host.box.warm_up_network(context()),
            host.driver._host.get_cpu_model_names,
        ]

    def run(self) -> None:
        """Run the preparations that have not succeeded yet. Never raises."""
        for step in list(self._cold):
            try:
                step()
            except Exception as exc:
                LOG.info('the first backup will take longer to start: %s', exc)
            else:
                self._cold.remove(step)

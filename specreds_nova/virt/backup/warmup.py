# SPDX-License-Identifier: Apache-2.0
"""Preparations that save the first backup of a host from waiting.

Each of them takes between half a second and two: getting tokens, connecting to other services,
starting the privileged helper processes.
"""

from collections.abc import Callable
from typing import Any

from oslo_log import log as logging

from specreds_nova.virt.backup import host as backup_host

LOG = logging.getLogger(__name__)


class Warming:
    """Preparations that have not succeeded yet; the services may start later than this host."""

    def __init__(self, site: backup_host.Site) -> None:
        context = backup_host.admin_context
        self._cold: list[Callable[[], Any]] = [
            site.box.warm_up_helpers,
            site.storage.warm_up,
            lambda: site.claims.warm_up(context()),
            lambda: site.box.warm_up_network(context()),
            site.driver._host.get_cpu_model_names,
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

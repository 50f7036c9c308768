# SPDX-License-Identifier: Apache-2.0
"""Hosts whose service was deleted in Nova: engines forget them."""

from collections.abc import Collection

from oslo_log import log as logging

from specreds_nova.engine.clients import clock as clocks
from specreds_nova.engine.store import store as stores
from specreds_nova.engine.suspicion import monitor as monitors

LOG = logging.getLogger(__name__)

# Consecutive answers of Nova without a host. One answer may lack the hosts of a whole cell.
_LOOKS = 6
# Seconds of silence of a deleted host.
_SILENT = 60.0


class Decommissioned:
    """Forgets hosts that Nova does not list and nobody hears."""

    def __init__(self, store: stores.Store, heard: monitors.Monitor,
                 clock: clocks.Clock) -> None:
        self._store = store
        self._heard = heard
        self._clock = clock
        self._absent: dict[str, int] = {}

    def look(self, listed: Collection[str]) -> None:
        """Forget the hosts that Nova does not list; called about every 10 s.

        :param listed: the hosts with a nova-compute
        :raises exception.EngineError: the database does not answer
        """
        if not listed:
            # A Nova without hosts is probably being restored.
            return
        known = {host.name for host in self._store.hosts()} | {*self._heard.names()}
        self._absent = {name: self._absent.get(name, 0) + 1 for name in sorted(known)
                        if name not in listed and self._silent(name)}
        for name, looks in self._absent.items():
            if looks >= _LOOKS and self._store.forget(name):
                self._heard.forget(name)
                LOG.info('host %s is forgotten, as Nova has no nova-compute there', name)

    def _silent(self, name: str) -> bool:
        view = self._heard.look(name)
        return view is None or view.heard is None or self._clock.now() - view.heard >= _SILENT

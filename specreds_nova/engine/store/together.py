# SPDX-License-Identifier: Apache-2.0
"""The database for fibers: what recoveries wait for at the same time is one transaction."""

from collections.abc import Sequence
import functools
from typing import Any

from specreds_nova.engine import fibers as all_fibers
from specreds_nova.engine import model
from specreds_nova.engine.store import store as stores


class Store:
    """A client of the database.

    Thousands of recoveries change their rows and read what they depend on. A transaction costs
    more than the statements of most of them.
    """

    def __init__(self, fibers: all_fibers.Fibers, store: stores.Store) -> None:
        self._fibers, self._store = fibers, store
        self._changes = all_fibers.Gathered(fibers, store.change_all)
        self._refreshed = all_fibers.Gathered(fibers, store.refresh_all)
        self._hosts = all_fibers.Gathered(fibers, store.hosts_named)

    def change(self, recovery: model.Recovery, *, begun: Sequence[model.Step] = (),
               ended: Sequence[model.Step] = (), **values: Any) -> model.Recovery:
        """Change a recovery as the store does."""
        return self._changes.call(stores.Change(recovery, begun, ended, values))

    def refresh(self, recovery: model.Recovery) -> model.Recovery:
        """Return a recovery as the store does."""
        return self._refreshed.call(recovery)

    def host(self, name: str) -> model.Host:
        """Return a host as the store does."""
        return self._hosts.call(name)

    def __getattr__(self, name: str) -> Any:
        return functools.partial(self._fibers.keep, getattr(self._store, name))

# SPDX-License-Identifier: Apache-2.0
"""The store of the simulation behaves as the database does: the same tests, on that store."""

from typing import Any

from specreds_nova.tests.unit.engine.store import base
from specreds_nova.tests.unit.engine.store import test_backups
from specreds_nova.tests.unit.engine.store import test_crashes
from specreds_nova.tests.unit.engine.store import test_hosts
from specreds_nova.tests.unit.engine.store import test_recoveries
from specreds_nova.tests.unit.engine.store import test_votes
from testing.simulation import store as stores

# What nothing in the simulation calls, or, as the removal of old recoveries, has no effect there.
_UNUSED = frozenset({'prune', 'say', 'see'})


class _Used:
    """The store of the simulation, without the operations that the simulation does not use."""

    def __init__(self, store: stores.Store, skip: Any) -> None:
        self._store = store
        self._skip = skip

    def __getattr__(self, name: str) -> Any:
        if name in _UNUSED:
            self._skip(f'the simulation does not use {name}')
        return getattr(self._store, name)


class _Simulated(base.StoreTest):
    """Runs the tests of another class on the store of the simulation."""

    def make_store(self) -> Any:
        """Return a new store of the simulation."""
        return _Used(stores.Store(self.clock.now), self.skipTest)


class SimulatedHostsTest(_Simulated, test_hosts.HostsTest):
    """Hosts."""


class SimulatedBackupsTest(_Simulated, test_backups.BackupsTest):
    """Recoveries that have backups."""


class SimulatedCrashesTest(_Simulated, test_crashes.StoredCrashesTest):
    """Crashes that have to wait."""


class SimulatedVotesTest(_Simulated, test_votes.VotesTest):
    """Votes of engines."""


class SimulatedRecoveriesTest(_Simulated, test_recoveries.RecoveriesTest):
    """Recoveries and their changes."""


class SimulatedStepsTest(_Simulated, test_recoveries.StepsTest):
    """Steps of recoveries."""

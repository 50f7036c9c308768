# SPDX-License-Identifier: Apache-2.0
"""What all recoveries of an engine share: clients, store, limits and options."""

from collections.abc import Callable
import dataclasses
from typing import Any

from specreds_nova.engine import interfaces
from specreds_nova.engine.detection import leases as all_leases
from specreds_nova.engine.recovery import destination_limits
from specreds_nova.engine.recovery import observer as observers
from specreds_nova.engine.recovery import preparation_limit


@dataclasses.dataclass(frozen=True)
class Context:
    """The services and the shared state with which the steps of recoveries work.

    :ivar options: group ``[engine]``
    :ivar destinations: limits how many backups run at once, and where
    :ivar preparations: limits how many backups are prepared at once
    :ivar leases: times since which hosts have no network lease
    :ivar in_background: calls a function, on another thread if there is one
    :ivar stopping: returns whether the engine is being stopped
    :ivar observer: receives what recoveries do
    """

    clock: interfaces.Clock
    compute: interfaces.Compute
    backups: interfaces.Backups
    volumes: interfaces.Volumes
    suspects: interfaces.Suspects
    store: interfaces.Store
    options: Any
    destinations: destination_limits.DestinationLimits
    preparations: preparation_limit.PreparationLimit = dataclasses.field(
        default_factory=preparation_limit.PreparationLimit)
    leases: all_leases.Leases = dataclasses.field(default_factory=all_leases.Leases)
    in_background: Callable[[Callable[[], None]], object] = lambda act: act()
    stopping: Callable[[], bool] = lambda: False
    observer: observers.Observer = dataclasses.field(default_factory=observers.Observer)

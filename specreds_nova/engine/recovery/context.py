# SPDX-License-Identifier: Apache-2.0
"""What all recoveries of an engine share: clients, store, limits and options."""

from collections.abc import Callable, Collection, Sequence
import dataclasses
from typing import Any

from specreds_nova.engine import fibers as all_fibers
from specreds_nova.engine import modes as all_modes
from specreds_nova.engine.clients import backups as backup_clients
from specreds_nova.engine.clients import clock as clocks
from specreds_nova.engine.clients import compute as nova_clients
from specreds_nova.engine.clients import connect
from specreds_nova.engine.clients import starts
from specreds_nova.engine.clients import volumes as volume_clients
from specreds_nova.engine.placing import capacity as capacities
from specreds_nova.engine.placing import preparation_limit
from specreds_nova.engine.recovery import crowds as all_crowds
from specreds_nova.engine.recovery import observer as observers
from specreds_nova.engine.recovery import revocations as all_revocations
from specreds_nova.engine.recovery import settings as all_settings
from specreds_nova.engine.store import store as stores
from specreds_nova.engine.store import together
from specreds_nova.engine.suspicion import leases as all_leases
from specreds_nova.engine.suspicion import servers
from specreds_nova.engine.suspicion import suspects as all_suspects


@dataclasses.dataclass(frozen=True)
class Context:
    """The services and the shared state with which the steps of recoveries work.

    :ivar options: group ``[engine]``
    :ivar settings: those that no operator needs to change
    :ivar capacity: limits how many recoveries race at once, and where their backups run
    :ivar preparations: limits how many backups are prepared at once
    :ivar group_turns: lets the members of a server group choose hosts one after the other
    :ivar crowds: the recoveries that look for the same thing again and again
    :ivar revocations: recoveries that others may have changed
    :ivar modes: the modes of hosts
    :ivar leases: times since which hosts have no network lease
    :ivar rank: sets the rank of the calls of a recovery
    :ivar in_background: calls a function, on another thread if there is one
    :ivar together: calls functions, at the same time if that is possible, and returns their
        results
    :ivar stopping: returns whether the engine is being stopped
    :ivar observer: receives what recoveries do
    """

    clock: clocks.Clock
    compute: nova_clients.Compute
    backups: backup_clients.Backups
    volumes: volume_clients.Volumes
    suspects: all_suspects.Suspects
    store: stores.Store
    options: Any
    capacity: capacities.Capacity
    revocations: all_revocations.Revocations
    modes: all_modes.Modes
    settings: all_settings.Settings = dataclasses.field(default_factory=all_settings.Settings)
    preparations: preparation_limit.PreparationLimit = dataclasses.field(
        default_factory=preparation_limit.PreparationLimit)
    group_turns: preparation_limit.Turns = dataclasses.field(
        default_factory=preparation_limit.Turns)
    crowds: all_crowds.Crowds = dataclasses.field(default_factory=all_crowds.Crowds)
    leases: all_leases.Leases = dataclasses.field(default_factory=all_leases.Leases)
    rank: Callable[[int], None] = lambda rank: None
    in_background: Callable[[Callable[[], None]], object] = lambda act: act()
    together: Callable[[Sequence[Callable[[], Any]]], list[Any]] = (
        lambda functions: [function() for function in functions])
    stopping: Callable[[], bool] = lambda: False
    observer: observers.Observer = dataclasses.field(default_factory=observers.Observer)


def in_fibers(fibers: all_fibers.Fibers, clock: clocks.FiberClock, clients: connect.Clients,
              store: stores.Store, options: Any, *, suspects: all_suspects.Suspects,
              stopping: Callable[[], bool], observer: observers.Observer,
              settings: all_settings.Settings | None = None,
              places: Callable[[str], Collection[str] | None] = lambda host: ()) -> Context:
    """Return the context of recoveries that are fibers: their sleeps and calls block no other.

    :param places: returns the availability zone and the aggregates of a host, in words
    """
    database: Any = together.Store(fibers, store)
    hosts: Any = starts.Backups(fibers, clients.backups, clock, fibers.callers // 2)
    settings = settings or all_settings.Settings()
    limits = servers.Limits(settings.max_backups, settings.max_backups_per_host)
    return Context(
        clock=clock, compute=_client(fibers, clients.compute),
        backups=hosts, volumes=_client(fibers, clients.volumes),
        suspects=suspects, store=database, options=options, settings=settings,
        capacity=capacities.Capacity(clock, database, limits, suspects.healthy),
        revocations=all_revocations.Revocations(clock, database),
        modes=all_modes.Modes(clock, database, places),
        preparations=preparation_limit.PreparationLimit(fibers.callers, fibers=fibers),
        group_turns=preparation_limit.Turns(fibers),
        leases=all_leases.Leases(suspects.last_heard),
        rank=fibers.rank, in_background=fibers.spawn, together=fibers.together, stopping=stopping,
        observer=observer)


def _client(fibers: all_fibers.Fibers, client: Any) -> Any:
    return all_fibers.Client(fibers, client)

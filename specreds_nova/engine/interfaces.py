# SPDX-License-Identifier: Apache-2.0
"""What the engine needs of other services, of the database and of time; tests have their own."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from specreds_nova.engine import model


class Clock(Protocol):
    """Time."""

    def now(self) -> float:
        """Seconds since the epoch, which never go backwards."""

    def sleep(self, seconds: float) -> None:
        """Let time pass."""


class Compute(Protocol):
    """Nova and Placement.

    :raises exception.Unreachable: of every method, when they do not answer; nothing is known then
    """

    def servers(self, host: str) -> list[model.Server]:
        """The servers of a host."""

    def server(self, server_id: str) -> model.Server | None:
        """One server; None if it is deleted."""

    def candidates(self, server: model.Server, placed: Mapping[str, str] | None = None
                   ) -> list[str]:
        """Hosts that have room for a server and are allowed for it, the best first, never its own.

        By Placement's allocation candidates, traits, availability zone, aggregates, server group,
        and services that are up and enabled.

        :param placed: where other servers are about to be, that Nova knows elsewhere yet
        """

    def immovable(self, server: model.Server) -> str | None:
        """Why Nova's own evacuation would move a server nowhere; None if it may."""

    def force_down(self, host: str, down: bool) -> bool:
        """Tell Nova that a host is down for certain, or take it back; False if Nova refuses."""

    def service(self, host: str) -> Mapping[str, Any]:
        """Of nova-compute: ``up``, ``enabled``, ``forced_down``, ``updated`` (seconds).

        One that Nova has disabled by itself is ``enabled``: only an operator's word counts.
        """

    def evacuate(self, server_id: str, host: str | None, force: bool = False) -> None:
        """Ask Nova to evacuate a server; None lets Nova choose the host. May be repeated.

        :param force: Nova is not to doubt that the host suits: the server's backup runs there
        :raises exception.Refused: Nova does not
        """

    def evacuating_to(self, server_id: str) -> str | None:
        """The host that Nova is evacuating a server to; None if to none."""

    def reset(self, server_id: str) -> None:
        """Let Nova take a server for active that it has marked as stopped meanwhile."""

    def reboot(self, server_id: str) -> None:
        """Ask Nova to start a server again where it is, hard.

        :raises exception.Refused: Nova does not
        """

    def runs(self, server_id: str) -> bool:
        """Tell whether the domain of a server runs, as its host says now.

        :raises exception.Refused: Nova does not say it
        """

    def stopped_by_itself(self, server_id: str) -> bool:
        """Tell whether nobody asked for a server to be stopped that is."""


class Backups(Protocol):
    """Backups of hosts: :class:`specreds_nova.virt.backup.rpcapi.BackupsAPI` without its context.

    :raises exception.Unreachable: of every method, when the host does not answer
    :raises specreds_nova.exception.BackupError: what the host answers
    """

    def check(self, host: str, server_id: str) -> Mapping[str, Any]:
        """Tell whether a host could run a server's backup."""

    def start(self, host: str, backup_id: str, server_id: str,
              superposition_id: str) -> Mapping[str, Any]:
        """Start a backup; it runs when this returns."""

    def status(self, host: str, backup_id: str) -> Mapping[str, Any]:
        """Tell how far a recovery is."""

    def harden(self, host: str, backup_id: str) -> Mapping[str, Any]:
        """Make what a backup has written durable."""

    def promote(self, host: str, backup_id: str) -> Mapping[str, Any]:
        """Let a backup out; its claim in Placement is kept until :meth:`release`."""

    def release(self, host: str, backup_id: str) -> None:
        """Release the claim of a promoted backup: Nova's evacuation claims for the server."""

    def abort(self, host: str, backup_id: str) -> Mapping[str, Any]:
        """Remove a backup."""

    def returned(self, host: str) -> Mapping[str, Any]:
        """Have a host that is back remove what was evacuated from it meanwhile.

        Gives ``clean`` and, if it is not, ``left``: the UUIDs of what is still there.
        """


class Volumes(Protocol):
    """Cinder's superpositions.

    :raises exception.Unreachable: of every method, when Cinder does not answer
    :raises exception.Refused: what Cinder answers that it does not do, with its reason
    """

    def superpose(self, server: model.Server, recovery_id: str, reason: str) -> str:
        """Put all volumes of a server into superposition; gives its id. May be repeated.

        :raises exception.Merging: they are being merged after a former recovery
        """

    def state(self, superposition_id: str) -> str | None:
        """Its state; None when there is none (any more)."""

    def dirty(self, superposition_id: str) -> bool:
        """Tell whether the primary has written since."""

    def collapse(self, superposition_id: str) -> str:
        """Let Cinder decide for a durable backup: ``promoted``, ``dirty`` or ``late-dirty``.

        Or ``gone``: there is no superposition (any more), so nobody knows which of them it was.
        """

    def drop(self, superposition_id: str) -> None:
        """Drop the backup's version; nothing happens if there is none."""

    def written(self, superposition_id: str) -> int | None:
        """How many bytes the backup has written; None if that is not known (any more)."""

    def ours(self) -> Mapping[str, str]:
        """The superpositions that recoveries have made and nobody has decided: recovery by id."""

    def eligibility(self, volumes: Sequence[str]) -> Mapping[str, list[str]]:
        """Why volumes cannot be superposed, by id; empty lists for those that can."""


class Suspects(Protocol):
    """What this engine sees of the hosts' heartbeats, at this moment."""

    def suspected(self, host: str) -> bool:
        """Tell whether a host is suspected: nobody has heard of it, or it says it is not well."""

    def is_well(self, host: str) -> bool:
        """Tell whether a host is heard and says that all is well, whatever an operator says."""

    def flaps(self, host: str) -> int:
        """How often a host was wrongly suspected lately."""

    def running(self, host: str, server: str) -> bool | None:
        """Whether a server's domain runs on a host that is heard; None if it has not said yet."""

    def healthy(self) -> list[str]:
        """The hosts that say that all is well with them."""

    def await_ready(self, host: str, backup_id: str, seconds: float) -> bool:
        """Wait until a host says that a backup on it is ready, and tell whether it did.

        :param seconds: the longest wait; it is shorter if the engine is being stopped
        """


class Store(Protocol):
    """What all engines share. Changes are conditional, so that of two engines one wins.

    :raises exception.Unreachable: of every method, when the database does not answer
    """

    def host(self, name: str) -> model.Host:
        """A host; one that nobody has heard of yet is trusted, of generation 0."""

    def hosts(self) -> list[model.Host]:
        """All hosts, by name."""

    def change_host(self, host: model.Host, **values: Any) -> model.Host | None:
        """Change a host that is as it was read; None if another engine was faster."""

    def create(self, wanted: Sequence[model.Recovery]) -> set[str]:
        """Write new recoveries down; gives the ids of those that are.

        Left out are those whose server has one that has not ended.
        """

    def get(self, recovery_id: str) -> model.Recovery | None:
        """A recovery, with its steps."""

    def active(self, host: str | None = None) -> list[model.Recovery]:
        """The recoveries that have not ended, the oldest first, without steps."""

    def recoveries(self, filters: Mapping[str, str], limit: int | None = None
                   ) -> list[model.Recovery]:
        """The recoveries that meet all filters, the newest first, without steps.

        :param filters: by any of server, host, state, outcome and project
        """

    def take_over(self, recovery_id: str, engine: str) -> model.Recovery:
        """Make an engine the one that works on a recovery; its epoch is a new one.

        :raises exception.NotFound: there is no such recovery
        """

    def change(self, recovery: model.Recovery, **values: Any) -> model.Recovery:
        """Change a recovery of which this engine has the newest epoch.

        :raises exception.Superseded: another engine has taken it over
        """

    def begin_step(self, recovery: model.Recovery, name: str) -> int:
        """Note that a step begins; gives its attempt, from 1 on.

        :raises exception.Superseded: another engine has taken the recovery over
        """

    def end_step(self, recovery: model.Recovery, name: str, attempt: int,
                 detail: Mapping[str, Any]) -> None:
        """Note that a step has ended.

        :raises exception.Superseded: another engine has taken the recovery over
        """

    def request_abort(self, recovery_id: str) -> bool:
        """Note that an operator wants a recovery to end; False if it is past that."""

    def expected(self, servers: Iterable[str]) -> dict[str, float]:
        """Seconds from the start of a backup until it was ready, as learned, by server."""

    def learn(self, server_id: str, seconds: float) -> None:
        """Remember how long a backup took until it was ready."""

    def prune(self, before: float) -> int:
        """Forget recoveries that ended before a moment; gives how many."""

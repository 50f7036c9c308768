# SPDX-License-Identifier: Apache-2.0
"""The interfaces of services, database and time that the engine uses; tests have fakes."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from specreds_nova.engine import model


class Clock(Protocol):
    """Time."""

    def now(self) -> float:
        """Return seconds that never decrease, to be compared with each other only."""

    def wall(self) -> float:
        """Return the seconds since the epoch by the clock of the system, which may be set.

        Times in the database, and times of other services, are compared with these.
        """

    def sleep(self, seconds: float) -> None:
        """Sleep."""


class Compute(Protocol):
    """Nova and Placement.

    :raises exception.Unreachable: every method, if they do not answer
    """

    def servers(self, host: str) -> list[model.Server]:
        """Return the servers of a host."""

    def server(self, server_id: str) -> model.Server | None:
        """Return a server; None if it is deleted."""

    def candidates(self, server: model.Server, placed: Mapping[str, str] | None = None,
                   avoid: Collection[str] = ()) -> list[str]:
        """Return other hosts that have room for a server and may run it, the best first.

        Nova's scheduler selects them for the stored request spec of the server. If it does not
        answer, they follow from Placement's allocation candidates, traits, availability zone and
        aggregates. The server group and the state of services count in both cases.

        :param placed: by server, the host of a backup that Nova does not know of yet
        :param avoid: hosts that are left out
        """

    def suits_group(self, server: model.Server, host: str, placed: Mapping[str, str]) -> bool:
        """Return whether the anti-affinity of a server's group allows a host."""

    def permits(self, server: model.Server, host: str) -> bool:
        """Return whether Nova's policies allow a server on a host, its group aside."""

    def immovable(self, server: model.Server) -> str | None:
        """Return why Nova would evacuate a server to no host; None if it may."""

    def force_down(self, host: str, down: bool) -> bool:
        """Force a host down in Nova, or take that back; return False if Nova refuses."""

    def service(self, host: str) -> Mapping[str, Any]:
        """Return ``up``, ``enabled``, ``forced_down`` and ``updated`` (seconds) of nova-compute.

        A service that Nova has disabled by itself is ``enabled``: only operators count.
        """

    def evacuate(self, server_id: str, host: str | None, force: bool = False) -> None:
        """Have Nova evacuate a server. May be repeated.

        :param host: destination; None to let Nova choose it
        :param force: skip the checks of the destination, because the backup runs there
        :raises exception.Refused: Nova refuses
        """

    def evacuation(self, server_id: str) -> model.Evacuation | None:
        """Return Nova's evacuation of a server that is under way; None if there is none."""

    def evacuation_request(self, server_id: str) -> str | None:
        """Return what Nova's conductor has done about the latest request for a server.

        :returns: ``model.GIVEN_UP``, ``model.PENDING``, or None if the latest request was not an
            evacuation
        """

    def reset(self, server_id: str) -> None:
        """Set the state of a server in Nova to active."""

    def reboot(self, server_id: str) -> None:
        """Have Nova reboot a server on its host, hard.

        :raises exception.Refused: Nova refuses
        """

    def stop(self, server_id: str) -> None:
        """Have Nova stop a server.

        :raises exception.Refused: Nova refuses
        """

    def pause(self, server_id: str) -> None:
        """Have Nova pause a server.

        :raises exception.Refused: Nova refuses
        """

    def delete(self, server_id: str) -> None:
        """Have Nova delete a server. May be repeated, also if the server is gone.

        Nova itself deletes it if its host is down for Nova. A deletion that was requested before
        is left to a host that is up.

        :raises exception.Refused: Nova refuses
        """

    def runs(self, server_id: str) -> bool:
        """Return whether the domain of a server runs, as its host reports.

        :raises exception.Refused: Nova refuses to report it
        """

    def stopped_by_itself(self, server_id: str, since: float | None = None) -> bool:
        """Return whether Nova itself, not a user, has stopped a server.

        A server that does not exist any more was stopped by a user.

        :param since: time in seconds since the epoch, after which that stop has to be the only
            change of the server's power; None for any time
        """


class Backups(Protocol):
    """Backups of hosts: :class:`specreds_nova.virt.backup.rpcapi.BackupsAPI` without its context.

    :raises exception.Unreachable: every method, if the host does not answer
    :raises specreds_nova.exception.BackupError: every method, if the host refuses
    """

    def check(self, host: str, server_id: str) -> Mapping[str, Any]:
        """Return whether a host could run a server's backup, and why not.

        :returns: ``eligible``, ``reasons`` and ``immovable``: why Nova would refuse to evacuate
            the server, or None
        """

    def start(self, host: str, backup_id: str, server_id: str, superposition_id: str,
              expected_marker: str | None = None) -> Mapping[str, Any]:
        """Start a backup; it runs when this returns.

        :param expected_marker: what the server's console showed at the end of earlier boots
        """

    def status(self, host: str, backup_id: str) -> Mapping[str, Any]:
        """Return the status of a backup."""

    def harden(self, host: str, backup_id: str) -> Mapping[str, Any]:
        """Make what a backup has written durable."""

    def promote(self, host: str, backup_id: str) -> Mapping[str, Any]:
        """Open the box of a backup; its claim in Placement is kept until :meth:`release`."""

    def release(self, host: str, backup_id: str) -> None:
        """Release the claim of a promoted backup: Nova's evacuation claims for the server."""

    def abort(self, host: str, backup_id: str) -> Mapping[str, Any]:
        """Remove a backup."""

    def returned(self, host: str) -> Mapping[str, Any]:
        """Have a returned host remove its copies of servers that were evacuated.

        :returns: ``clean`` and, if that is false, ``left``: the UUIDs of the remaining servers
        """

    def boot(self, host: str) -> Mapping[str, Any]:
        """Return for how long a host and its nova-compute run.

        :returns: ``uptime`` and ``service_uptime``, in seconds
        """


class Volumes(Protocol):
    """Cinder's superpositions.

    :raises exception.Unreachable: every method, if Cinder does not answer
    :raises exception.Refused: every method, if Cinder refuses, with its reason
    """

    def superpose(self, server: model.Server, recovery_id: str, reason: str) -> str:
        """Put all volumes of a server into superposition, and return its id. May be repeated.

        :raises exception.Merging: the volumes are to be merged after an earlier recovery
        """

    def state(self, superposition_id: str) -> str | None:
        """Return the state of a superposition; None if it does not exist."""

    def dirty(self, superposition_id: str) -> bool:
        """Return whether the primary has written since the cut."""

    def collapse(self, superposition_id: str) -> str:
        """Have Cinder decide, with a durable backup.

        :returns: ``promoted``, ``dirty``, ``late-dirty`` or ``unproven``; or ``gone`` if the
            superposition does not exist, so that the outcome is unknown
        """

    def drop(self, superposition_id: str) -> None:
        """Drop the backup's version, if it exists."""

    def written(self, superposition_id: str) -> int | None:
        """Return how many bytes the backup has written; None if that is unknown.

        :raises exception.NotFound: the superposition does not exist
        """

    def ours(self) -> Mapping[str, str]:
        """Return the undecided superpositions of recoveries, as recovery by superposition."""

    def observe(self, server: model.Server, host: str, recovery_id: str) -> None:
        """Have the clients of a server's volumes noted, for a fence that may follow."""

    def fence(self, server: model.Server, host: str, recovery_id: str) -> int:
        """Shut a host out of a server's volumes, which have no superposition. May be repeated.

        :returns: number of clients that are fenced
        :raises exception.Refused: no client was fenced by this call
        """

    def eligibility(self, server: model.Server) -> Mapping[str, model.Eligibility]:
        """Return what a recovery can do with a server's volumes, and its disks, if it has backups.

        :returns: by the id of a volume, or the name of the image of a disk
        """


class Suspects(Protocol):
    """The hosts, as this engine hears them at the moment."""

    def suspected(self, host: str) -> bool:
        """Return whether a host is suspected, or was never heard."""

    def is_well(self, host: str) -> bool:
        """Return whether a host is heard and reports no problems, whatever an operator says."""

    def well_to_all(self, host: str) -> bool:
        """Return whether every engine hears a host, and this one no problems of it."""

    def heard_after(self, host: str, at: float) -> bool:
        """Return whether this engine has heard a beat that a host sent after a time.

        :param at: in seconds since the epoch
        """

    def boot(self, host: str) -> str | None:
        """Return the id of the nova-compute that has sent a host's latest beat; None for none."""

    def flaps(self, host: str) -> int:
        """Return how often a host was wrongly suspected lately."""

    def running(self, host: str, server: str) -> bool | None:
        """Return whether a server's domain runs on a host; None without a report of the host."""

    def healthy(self) -> Collection[str]:
        """Return the hosts that are heard and report no problems."""

    def await_ready(self, host: str, backup_id: str, seconds: float) -> bool:
        """Wait until a host reports that a backup on it is ready; return whether it did.

        :param seconds: longest wait, which also ends if the engine is being stopped
        """


class Store(Protocol):
    """The database of all engines: of two engines that make the same change, one succeeds.

    :raises exception.Unreachable: every method, if the database does not answer
    """

    def host(self, name: str) -> model.Host:
        """Return a host; a host that is not recorded is trusted, and of generation 0."""

    def hosts(self) -> list[model.Host]:
        """Return all recorded hosts, by name."""

    def notable_hosts(self) -> list[model.Host]:
        """Return the notable hosts, by name."""

    def change_host(self, host: model.Host, **values: Any) -> model.Host | None:
        """Change a host; return None if it was changed since it was read."""

    def create(self, wanted: Sequence[model.Recovery]) -> set[str]:
        """Record new recoveries, and return the ids of those that are recorded.

        A recovery is left out if its server has another active recovery.
        """

    def get(self, recovery_id: str) -> model.Recovery | None:
        """Return a recovery with its steps."""

    def active(self, host: str | None = None, servers: Collection[str] | None = None
               ) -> list[model.Recovery]:
        """Return the recoveries that have not ended, the oldest first, without steps.

        :param host: only those of this host that has failed
        :param servers: only those of these servers
        """

    def backups(self, servers: Collection[str] | None = None) -> list[model.BackupPlace]:
        """Return the recoveries that have a backup or are about to have one.

        :param servers: only those of these servers
        """

    def recoveries(self, filters: Mapping[str, str], limit: int | None = None
                   ) -> list[model.Recovery]:
        """Return the recoveries that meet all filters, the newest first, without steps.

        :param filters: values by any of server, host, state, outcome and project
        """

    def free(self, ended: Collection[str]) -> list[model.Recovery]:
        """Return the active recoveries on which no living engine works, the oldest first.

        They have only what their order and a claim need.

        :param ended: engines whose leases are over; those without a row need not be among them
        """

    def take_over(self, recovery: model.Recovery, engine: str) -> model.Recovery:
        """Claim a recovery for an engine in a new epoch, and return it with its steps.

        :param recovery: as it was read: in another epoch, it cannot be claimed
        :raises exception.Superseded: another engine has claimed the recovery, or it has ended
        """

    def change(self, recovery: model.Recovery, *, begun: Sequence[model.Step] = (),
               ended: Sequence[model.Step] = (), **values: Any) -> model.Recovery:
        """Change a recovery in its newest epoch, and record steps of it, in one transaction.

        :param begun: steps that begin; those that take no time have ended as well
        :param ended: steps that were begun before, and end. If nothing else is to be written, the
            recovery may have ended
        :returns: the recovery as it is stored, with the steps that begin and their attempts
        :raises exception.Superseded: another engine has taken over the recovery
        """

    def refresh(self, recovery: model.Recovery) -> model.Recovery:
        """Return a recovery of this engine with what others may have changed.

        :raises exception.Superseded: another engine has the recovery, or it has ended
        """

    def revoked(self, engine: str) -> set[str]:
        """Return the recoveries that race, and are to be aborted or belong to other engines."""

    def request_abort(self, recovery_id: str) -> bool:
        """Record the abort of a recovery; return False if it is past the commit point."""

    def expected(self, servers: Iterable[str]) -> dict[str, model.Expectation]:
        """Return what earlier backups let expect of the next one, by server."""

    def learn(self, server_id: str, seconds: float) -> None:
        """Record how long a backup took until it was ready."""

    def learn_marker(self, server_id: str, marker: str) -> None:
        """Record what the console of a server showed at the end of its boot."""

    def prune(self, before: float) -> int:
        """Remove the recoveries that ended before a time; return how many."""

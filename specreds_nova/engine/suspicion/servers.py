# SPDX-License-Identifier: Apache-2.0
"""Gates of servers, which prevent a backup, and limits of concurrent backups.

::

    reasons = conf.server_gates(CONF.engine).reasons(server)
    limits = Limits(settings.max_backups, settings.max_backups_per_host)
    full = limits.full(count, healthy) or limits.host_full(destination, count_there)
"""

from collections.abc import Iterable
import dataclasses
import math
from typing import Protocol

from specreds_nova import protected
from specreds_nova import tasks
from specreds_nova.engine import model

# Number of healthy hosts for which limits of the whole cloud are meant.
PER_HOSTS = 100
# States in which only the host of a server can have anything of it, so that Nova deletes a server
# without its host as it deletes one that runs.
_ITS_HOST_ALONE = ('SHUTOFF', 'ERROR', 'PAUSED', 'SUSPENDED', 'RESCUE', 'SHELVED')
# What Nova's API shows instead of ACTIVE for the tasks of reboots.
_REBOOTED = ('REBOOT', 'HARD_REBOOT')


class Gate(Protocol):
    """One reason not to start a backup of a server."""

    def reason(self, server: model.Server) -> str | None:
        """Return the reason; None if the gate is open."""


class Protection:
    """The server is not protected.

    :param default: whether servers without a rule about it are protected
    """

    def __init__(self, default: bool) -> None:
        self._default = default

    def reason(self, server: model.Server) -> str | None:
        """Return the rule that says so."""
        rule = server.rules.get(protected.PROTECT)
        if rule is None:
            return None if self._default else 'it is not protected: no rule says that it is to be'
        return None if rule.value else f'it is not protected: {rule.entry}'


class State:
    """The server does not run: it is paused, suspended, stopped, being built, in error..."""

    def reason(self, server: model.Server) -> str | None:
        """Return the state of the server."""
        if server.status.lower() == 'active':
            return None
        return f'it is {server.status}'


class Busy:
    """Nova is working on the server, such as migrating or rebooting it."""

    def reason(self, server: model.Server) -> str | None:
        """Return the task of the server."""
        if server.task is None:
            return None
        return f'Nova is at work on it: {server.task}'


class Volumes:
    """The server has disks that are neither volumes nor in RBD."""

    def reason(self, server: model.Server) -> str | None:
        """Say so."""
        if not (server.boots_from_volume and server.volumes) and 'disk' not in server.disks:
            return 'it does not boot from a volume'
        return None


class Gates:
    """All gates of servers.

    :param gates: in the order in which their reasons are given
    :ivar by_default: servers without a rule about it are protected
    """

    def __init__(self, gates: Iterable[Gate], by_default: bool = True) -> None:
        self._gates = tuple(gates)
        self.by_default = by_default

    def reasons(self, server: model.Server) -> list[str]:
        """Return the reasons of the shut gates; none if a backup may be started."""
        reasons = (gate.reason(server) for gate in self._gates)
        return [reason for reason in reasons if reason is not None]

    def obstacles(self, server: model.Server) -> list[str]:
        """Return why a server that is to be protected cannot have a recovery; none otherwise."""
        if any(isinstance(gate, Protection) and gate.reason(server) for gate in self._gates):
            return []
        return self.reasons(server)


def gates(*, by_default: bool) -> Gates:
    """Return all gates of servers.

    :param by_default: servers without a rule about it are protected
    """
    return Gates((Protection(by_default), State(), Busy(), Volumes()), by_default)


def without_request(server: model.Server) -> model.Server:
    """Return a server as the gates are to judge it: without a request that its host may never do.

    Neither a reboot shuts them, nor a deletion, in whichever state a user has deleted the server:
    both would be left to a dead host, unless a recovery drops the first and has Nova carry out the
    second. Of a server that is being built, the host may still connect volumes; one whose resize
    is not confirmed is also on another host, which Nova asks first.
    """
    if tasks.is_reboot(server.task):
        status = 'ACTIVE' if server.status in _REBOOTED else server.status
        return dataclasses.replace(server, status=status, task=None)
    if not server.deleting:
        return server
    status = 'ACTIVE' if server.status in _ITS_HOST_ALONE else server.status
    return dataclasses.replace(server, status=status, task=None)


def scaled(limit: int, healthy: int) -> int:
    """Return a limit that is meant for up to :data:`PER_HOSTS` hosts, for more hosts."""
    return max(limit, math.ceil(limit * healthy / PER_HOSTS))


class Limits:
    """The limits of concurrent backups.

    :param total: on all hosts, for each :data:`PER_HOSTS` healthy hosts; 0 for no limit
    :param per_host: on one host; 0 for no limit
    """

    def __init__(self, total: int, per_host: int) -> None:
        self._total = total
        self._per_host = per_host

    def full(self, count: int, healthy: int) -> str | None:
        """Return why another backup has to wait; None if it need not wait.

        :param count: backups that race
        :param healthy: number of hosts that are well
        """
        total = scaled(self._total, healthy)
        if not total or count < total:
            return None
        return f'there are {count} backups already, of {total} at once'

    def host_full(self, host: str, count: int) -> str | None:
        """Return why a host cannot take another backup; None if it can.

        :param count: backups that race on it
        """
        if not self._per_host or count < self._per_host:
            return None
        return f'{host} has {count} backups already, of {self._per_host} at once'

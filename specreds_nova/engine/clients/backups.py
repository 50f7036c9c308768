# SPDX-License-Identifier: Apache-2.0
"""The backups of hosts, as the engine calls them."""

from collections.abc import Callable, Mapping
from typing import Any

import oslo_messaging as messaging

from specreds_nova import exception as backup_errors
from specreds_nova import rpcapi
from specreds_nova.engine import exception

# Errors of a nova-compute without the plug-in.
_UNKNOWN = ('NoSuchMethod', 'UnsupportedVersion', 'UnsupportedNamespace')


class Backups:
    """RPC calls to the hosts. May be used by several threads.

    :param hosts: returns the client of a host, or raises ``exception.Unreachable``
    """

    def __init__(self, hosts: Callable[[str], rpcapi.BackupsAPI]) -> None:
        self._hosts = hosts

    def check(self, host: str, server_id: str) -> Mapping[str, Any]:
        """Return whether a host could run a server's backup, and why not.

        :returns: ``eligible``, ``reasons``, ``immovable``: why Nova would refuse to evacuate the
            server, or None; and ``disks``: the disks in RBD that have to be superposed
        """
        return self._ask(host, 'check', server_id)

    def start(self, host: str, backup_id: str, server_id: str, superposition_id: str
              ) -> Mapping[str, Any]:
        """Start a backup; it runs when this returns."""
        return self._ask(host, 'start', backup_id, server_id, superposition_id)

    def begin(self, host: str, backup_id: str, server_id: str, superposition_id: str
              ) -> None:
        """Have a host start a backup, without waiting for it."""
        self._ask(host, 'begin', backup_id, server_id, superposition_id)

    def status(self, host: str, backup_id: str) -> Mapping[str, Any]:
        """Return the status of a backup."""
        return self._ask(host, 'status', backup_id)

    def harden(self, host: str, backup_id: str) -> Mapping[str, Any]:
        """Make what a backup has written durable."""
        return self._ask(host, 'harden', backup_id)

    def promote(self, host: str, backup_id: str) -> Mapping[str, Any]:
        """Let a backup out; its claim is kept until :meth:`release`."""
        return self._ask(host, 'promote', backup_id, True)

    def release(self, host: str, backup_id: str) -> None:
        """Release the claim of a promoted backup."""
        self._ask(host, 'release', backup_id)

    def abort(self, host: str, backup_id: str) -> Mapping[str, Any]:
        """Remove a backup."""
        return self._ask(host, 'abort', backup_id)

    def returned(self, host: str) -> Mapping[str, Any]:
        """Have a returned host remove its copies of servers that were evacuated.

        :returns: ``clean`` and, if that is false, ``left``: the UUIDs of the remaining servers
        """
        return self._ask(host, 'returned')

    def boot(self, host: str) -> Mapping[str, Any]:
        """Return which boot of a host runs, for how long, and the addresses of the host.

        Also for how long its nova-compute runs.
        """
        return self._ask(host, 'boot')

    def _ask(self, host: str, method: str, *arguments: Any) -> Mapping[str, Any]:
        """Return the answer of a method of ``rpcapi.BackupsAPI``."""
        try:
            answer: Mapping[str, Any] = getattr(self._hosts(host), method)({}, host, *arguments)
            return answer
        except (backup_errors.BackupError, exception.Unreachable):
            raise
        except messaging.MessagingTimeout as exc:
            raise exception.Unreachable(f'host {host} does not answer: {exc}') from exc
        except messaging.UnsupportedVersion as exc:
            raise backup_errors.ServerNotEligible(
                reason=f'host {host} runs no backups: {exc}') from exc
        except messaging.RemoteError as exc:
            if exc.exc_type in _UNKNOWN:
                raise backup_errors.ServerNotEligible(
                    reason=f'host {host} runs no backups: {exc}') from exc
            raise backup_errors.BackupError(reason=f'host {host}: {exc.value}') from exc
        except (messaging.MessagingException, OSError) as exc:
            raise exception.Unreachable(
                f'host {host} cannot be called, as the broker does not answer: {exc}') from exc
        except Exception as exc:
            # Errors of Nova are raised as they are; all others come from the transport.
            if type(exc).__module__.startswith('nova.'):
                raise backup_errors.BackupError(reason=f'host {host}: {exc}') from exc
            raise exception.Unreachable(f'host {host} cannot be called: {exc!r}') from exc

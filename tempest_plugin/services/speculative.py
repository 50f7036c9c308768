# SPDX-License-Identifier: Apache-2.0
"""Clients of the engine's API: recoveries, hosts, and the protection of servers."""

from typing import Any

from tempest_plugin.services import base

_API = 'speculative'


class RecoveriesClient(base.Client):
    """Recoveries of servers."""

    api = _API

    def list_versions(self) -> Any:
        """List the versions of the API."""
        return self.ask('GET', '')

    def list_recoveries(self, **query: Any) -> Any:
        """List recoveries, the latest first, filtered by ``server_id``, ``host``, etc."""
        return self.ask('GET', 'v1/recoveries', query=query)

    def show_recovery(self, recovery_id: str) -> Any:
        """Show a recovery with its steps."""
        return self.ask('GET', f'v1/recoveries/{recovery_id}')

    def abort_recovery(self, recovery_id: str) -> Any:
        """Abort a recovery, in favour of the primary."""
        return self.ask('POST', f'v1/recoveries/{recovery_id}/action', expect=202,
                        body={'abort': None})


class HostsClient(base.Client):
    """Hosts with the state that the engines give them."""

    api = _API

    def list_hosts(self, **query: Any) -> Any:
        """List hosts: ``state``, ``limit``, ``marker``."""
        return self.ask('GET', 'v1/hosts', query=query)

    def show_host(self, host: str) -> Any:
        """Show a host."""
        return self.ask('GET', f'v1/hosts/{host}')

    def suspect_host(self, host: str, reason: str) -> Any:
        """Report a host as failed."""
        return self._act(host, 'suspect', reason)

    def clear_host(self, host: str, reason: str) -> Any:
        """Report a host as not failed."""
        return self._act(host, 'clear', reason)

    def _act(self, host: str, action: str, reason: str) -> Any:
        return self.ask('POST', f'v1/hosts/{host}/action', expect=202,
                        body={action: {'reason': reason}})


class ProtectionClient(base.Client):
    """The protection of servers."""

    api = _API

    def show_protection(self, server_id: str) -> Any:
        """Show whether a server is protected, and the reasons if it is not."""
        return self.ask('GET', f'v1/servers/{server_id}/protection')

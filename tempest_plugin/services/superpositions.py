# SPDX-License-Identifier: Apache-2.0
"""Client of Cinder's resource ``os-superpositions``."""

from typing import Any

from tempest_plugin.services import base

_PATH = 'os-superpositions'


class SuperpositionsClient(base.Client):
    """Volumes that have two versions."""

    api = 'superposition'

    def create_superposition(self, **fields: Any) -> Any:
        """Put volumes into superposition: ``volume_ids``, ``server_id``, ``reason``."""
        return self.ask('POST', _PATH, expect=201, body={'superposition': fields})

    def list_superpositions(self, *, detail: bool = False, **query: Any) -> Any:
        """List superpositions, filtered by ``state``, ``server_id``, ``volume_id``, etc."""
        return self.ask('GET', f'{_PATH}/detail' if detail else _PATH, query=query)

    def show_superposition(self, superposition_id: str) -> Any:
        """Show a superposition."""
        return self.ask('GET', f'{_PATH}/{superposition_id}')

    def show_eligibility(self, *volume_ids: str) -> Any:
        """Show which volumes can be superposed."""
        return self.ask('GET', f'{_PATH}/eligibility', query={'volume_id': volume_ids})

    def show_disk_eligibility(self, *disks: str) -> Any:
        """Show whether disks that Nova keeps in RBD can be superposed."""
        return self.ask('GET', f'{_PATH}/eligibility', query={'disk': disks})

    def check_superposition(self, superposition_id: str) -> Any:
        """Check the volumes for writes of the primary."""
        return self.ask('POST', f'{_PATH}/{superposition_id}/check')

    def collapse_superposition(self, superposition_id: str, decision: str,
                               **more: Any) -> Any:
        """Decide which version is the real one: ``promote`` or ``abort``."""
        return self.ask('POST', f'{_PATH}/{superposition_id}/collapse', expect=(200, 202),
                        body={'collapse': {'decision': decision, **more}})

    def merge_superposition(self, superposition_id: str, step: str) -> Any:
        """Control the merge of a promoted version: ``begin``, ``end`` or ``offline``."""
        return self.ask('POST', f'{_PATH}/{superposition_id}/merge', expect=202,
                        body={'merge': {'step': step}})

    def show_connection(self, superposition_id: str, connector: dict[str, Any]) -> Any:
        """Return the connections with which a hypervisor opens the second versions."""
        return self.ask('POST', f'{_PATH}/{superposition_id}/connection',
                        body={'connector': connector})

    def fence_host(self, **fields: Any) -> Any:
        """Shut a host out of volumes: ``volume_ids``, ``host``, ``step``, ``fence_id``."""
        return self.ask('POST', f'{_PATH}/fence', body={'fence': fields})

    def release_hosts(self, boots: list[dict[str, Any]]) -> Any:
        """Release the clients that boots of hosts have ended: ``addresses``, ``age_seconds``."""
        return self.ask('POST', f'{_PATH}/release', body={'release': {'boots': boots}})

    def delete_superposition(self, superposition_id: str) -> Any:
        """Drop the second versions."""
        return self.ask('DELETE', f'{_PATH}/{superposition_id}', expect=(202, 204))

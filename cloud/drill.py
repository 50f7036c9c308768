# SPDX-License-Identifier: Apache-2.0
"""The steps of a recovery one by one, as the engine takes them: for drills, tests, benchmarks."""

import contextlib
import dataclasses
from typing import Any
import uuid

from keystoneauth1 import exceptions as keystone_exceptions
from oslo_config import cfg
import oslo_messaging as messaging

from cloud import administrator
from cloud import cloud as openstack_cloud
from cloud import commands
from specreds_nova import rpcapi

# The readiness probe of each image. A PostgreSQL listens long before it serves.
READY = {'g1': {'specreds:ready': 'tcp:80'}, 'g2': {'specreds:ready': 'console:G2-READY'}}
Server = administrator.Server


@dataclasses.dataclass(frozen=True)
class Recovery:
    """A backup of a server, on a host."""

    id: str
    server: Server
    superposition: str
    host: str


class Drill(administrator.Administrator):
    """Performs the steps of a recovery as the administrator and the engine do.

    :param cloud: one with compute hosts, which is up
    :raises CloudError: a request is refused, or its effect is not seen in time
    """

    def __init__(self, cloud: openstack_cloud.Cloud) -> None:
        super().__init__(cloud)
        self._transport = messaging.get_rpc_transport(
            cfg.CONF, cloud.rabbit_url, allowed_remote_exmods=rpcapi.ALLOWED_EXMODS)
        self.backups = rpcapi.BackupsAPI(self._transport)

    def close(self) -> None:
        """Disconnect."""
        self._transport.cleanup()

    def superpose(self, server: Server, reason: str = 'drill', *, dead: bool = False) -> str:
        """Put a server's volumes into superposition, and return its id.

        :param dead: its host is dead as a fact: it is shut out at once
        """
        answer = self.volume.post('/os-superpositions', json={'superposition': {
            'server_id': server.id, 'volume_ids': list(server.volumes), 'reason': reason,
            **({'dead_host': server.host} if dead else {})}})
        return str(answer.json()['superposition']['id'])

    def recovery(self, server: Server, host: str, superposition: str | None = None) -> Recovery:
        """Return the recovery of a server on a host, without starting its backup."""
        return Recovery(str(uuid.uuid4()), server, superposition or self.superpose(server), host)

    def begin(self, recovery: Recovery) -> dict[str, Any]:
        """Start the backup of a recovery."""
        return self.backups.start({}, recovery.host, recovery.id, recovery.server.id,
                                  recovery.superposition)

    def start(self, server: Server, host: str, superposition: str | None = None) -> Recovery:
        """Start a server's backup on a host."""
        recovery = self.recovery(server, host, superposition)
        self.begin(recovery)
        return recovery

    def status(self, recovery: Recovery) -> dict[str, Any]:
        """Return the backup's state as its host reports it."""
        return self.backups.status({}, recovery.host, recovery.id)

    def ready(self, recovery: Recovery) -> dict[str, Any]:
        """Wait until the backup reports that it is ready."""
        def found() -> dict[str, Any] | None:
            status = self.status(recovery)
            return status if status['ready'] else None
        status: dict[str, Any] = self.wait_guest(
            recovery.server, f'the backup of {recovery.server.name} to be ready', found,
            host=recovery.host)
        return status

    def check(self, recovery: Recovery) -> bool:
        """Return whether the primary has written since."""
        answer = self.volume.post(f'{self._path(recovery)}/check')
        return bool(answer.json()['check']['dirty'])

    def collapse(self, recovery: Recovery) -> str:
        """Make the backup durable, let Cinder collapse, and return the outcome."""
        self.backups.harden({}, recovery.host, recovery.id)
        return self.decide(recovery)

    def decide(self, recovery: Recovery) -> str:
        """Let Cinder collapse with a durable backup, and return the outcome."""
        answer = self.volume.post(f'{self._path(recovery)}/collapse', json={'collapse': {
            'decision': 'promote', 'backup_durable': True}})
        # Where that takes long, Cinder answers before it has decided.
        return str(answer.json()['collapse']['outcome'] or self.wait(
            f'superposition {recovery.superposition} to be decided',
            lambda: (self._shown(recovery) or {'outcome': 'gone'})['outcome']))

    def promote(self, recovery: Recovery) -> dict[str, Any]:
        """Let Cinder collapse with the backup, and promote it.

        :raises CloudError: the collapse did not promote the backup
        """
        outcome = self.collapse(recovery)
        if outcome != 'promoted':
            raise commands.CloudError(
                f'the collapse of superposition {recovery.superposition} ended {outcome}')
        return self.backups.promote({}, recovery.host, recovery.id)

    def adopt(self, recovery: Recovery) -> Server:
        """Adopt the server: let Nova record its host, and wait until it has."""
        self.force_down(recovery.server.host)
        return self.evacuate(recovery.server, recovery.host)

    def evacuate(self, server: Server, host: str) -> Server:
        """Evacuate a server, and wait until it is active there."""
        self.act(server.id, 'evacuate', {'host': host})
        return self.active(server.id, host)

    def abort(self, recovery: Recovery) -> None:
        """Drop the backup, and its version of the volumes."""
        self.backups.abort({}, recovery.host, recovery.id)
        self.drop(recovery)

    def drop(self, recovery: Recovery) -> None:
        """Abort the superposition, whatever the backup's host reports."""
        with contextlib.suppress(keystone_exceptions.NotFound):
            self.volume.delete(self._path(recovery))
        self.wait(f'superposition {recovery.superposition} to be gone',
                  lambda: self.state(recovery) is None)

    def merged(self, recovery: Recovery) -> None:
        """Wait until nothing is left of the superposition."""
        self.wait(f'superposition {recovery.superposition} to be merged',
                  lambda: self.state(recovery) is None)
        self.wait(f'{recovery.host} to know that the merge has ended',
                  lambda: self.status(recovery)['phase'] == 'merged')

    def state(self, recovery: Recovery) -> str | None:
        """The state of the superposition, None when it is gone."""
        shown = self._shown(recovery)
        return None if shown is None else str(shown['state'])

    def _shown(self, recovery: Recovery) -> dict[str, Any] | None:
        try:
            shown: dict[str, Any] = self.volume.get(self._path(recovery)).json()['superposition']
        except keystone_exceptions.NotFound:
            return None
        return shown

    def claim(self, recovery: Recovery) -> dict[str, Any]:
        """Return what a recovery has claimed in Placement, by resource provider."""
        return self.allocations(recovery.id)

    @staticmethod
    def _path(recovery: Recovery) -> str:
        return f'/os-superpositions/{recovery.superposition}'

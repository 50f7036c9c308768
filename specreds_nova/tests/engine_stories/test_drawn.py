# SPDX-License-Identifier: Apache-2.0
"""States of volumes that the simulation draws: promises are kept on a real cloud, too."""

from collections.abc import Sequence
import os
from typing import Any
import uuid

import ddt

from cloud import drill as drills
from cloud.demo import recoveries
from cloud.openstack import cinder
from cloud.openstack import database
from specreds_nova.tests.cloud import base as cloud_base
from specreds_nova.tests.engine import base
from specreds_nova.tests.simulation import drawn_states
from testing.simulation import volumes

# Servers, and how many of them are on a host that dies.
_PLAYED = int(os.environ.get('SPECREDS_PLAYED', '3'))
_TOGETHER = 5
# Seconds in which a server that cannot be evacuated fails: evacuate_after and evacuate_timeout.
_ENDS = 900.0
_LEFTOVER = (
    'INSERT INTO volume_attachment (created_at, deleted, id, volume_id, instance_uuid, '
    'attached_host, attach_status, attach_mode, connector, connection_info) '
    'SELECT created_at, 0, %s, volume_id, instance_uuid, attached_host, attach_status, '
    'attach_mode, connector, connection_info FROM volume_attachment '
    'WHERE volume_id = %s AND deleted = 0 LIMIT 1')


@ddt.ddt
class TestDrawn(base.EngineTestCase):
    """Servers with volumes in states that Cinder's database is given."""

    @ddt.data(*range(0, _PLAYED, _TOGETHER))
    def test_promise_is_kept(self, begin: int) -> None:
        drawn = drawn_states.first(_PLAYED)[begin:begin + _TOGETHER]
        ids = [self.boot_later(block_device_mapping_v2=self.drill.devices(
            'g1', (2, *(1 for _ in states[1:])))) for states in drawn]
        servers = list(map(self.booted, ids))
        for server, states in zip(servers, drawn, strict=True):
            for volume_id, state in zip(server.volumes, states, strict=True):
                self.give(volume_id, state)
        promised = [self.engine.promise(server.id) for server in servers]

        self.host(cloud_base.PRIMARY).kill()
        kept = [self.outcome(server) == drawn_states.OUTCOMES[promise]
                for server, promise in zip(servers, promised, strict=True)]
        self.assertEqual([], [
            (states, promise, self.engine.latest(server.id))
            for server, states, promise, right in zip(servers, drawn, promised, kept, strict=True)
            if not right])
        api = cinder.Api(self.cloud.session())
        self.wait('all merges to end', lambda: not api.superpositions())
        for server, promise in zip(servers, promised, strict=True):
            if drawn_states.OUTCOMES[promise] == recoveries.FAILED:
                self.assertEqual(server.host, self.drill.show(server.id)['OS-EXT-SRV-ATTR:host'])
            else:
                here = self.drill.active(server.id)
                self.assertNotEqual(server.host, here.host)
                self.wait_answer(here)
                self.assertEqual({'in-use'}, set(self.statuses(here.volumes)))

    def outcome(self, server: drills.Server) -> str | None:
        """Wait until the recovery of a server has ended, and return the outcome."""
        def ended() -> recoveries.Recovery | None:
            recovery = self.engine.latest(server.id)
            return recovery if recovery is not None and recovery.over else None
        recovery: recoveries.Recovery = self.wait(
            f'the recovery of {server.name} to end', ended, _ENDS)
        return recovery.outcome

    # Cinder's database

    def give(self, volume_id: str, state: volumes.Volume) -> None:
        """Put a volume into a state until the end of the test."""
        for status in state.snapshots:
            self.snapshot(volume_id, status)
        for _ in range(state.leftovers):
            leftover = str(uuid.uuid4())
            self.run_sql(_LEFTOVER, leftover, volume_id)
            self.addCleanup(self.run_sql, 'UPDATE volume_attachment SET deleted = 1 '
                            'WHERE id = %s', leftover)
        self.set_volume(volume_id, state.status, state.attach_status, state.migration_status)
        self.addCleanup(self.set_volume, volume_id, 'in-use', 'attached', None)

    def snapshot(self, volume_id: str, status: str) -> None:
        """Make a snapshot of a volume, and put it into a state until the end of the test."""
        made = str(self.drill.volume.post('/snapshots', json={'snapshot': {
            'volume_id': volume_id, 'force': True}}).json()['snapshot']['id'])
        path = f'/snapshots/{made}'
        self.wait(f'snapshot {made}', lambda: self.drill.volume.get(
            path).json()['snapshot']['status'] == 'available')
        set_status = 'UPDATE snapshots SET status = %s WHERE id = %s'
        self.run_sql(set_status, status, made)
        self.addCleanup(self.wait, f'snapshot {made} to be gone', lambda: self.drill.volume.get(
            path, raise_exc=False).status_code == 404)
        self.addCleanup(self.drill.volume.delete, path)
        self.addCleanup(self.run_sql, set_status, 'available', made)

    def set_volume(self, volume_id: str, *state: str | None) -> None:
        """Set the status of a volume, of its attachment, and of its migration."""
        self.run_sql('UPDATE volumes SET status = %s, attach_status = %s, '
                     'migration_status = %s WHERE id = %s', *state, volume_id)

    def statuses(self, ids: Sequence[str]) -> list[str]:
        """Return the statuses of volumes."""
        return [str(self.drill.volume.get(f'/volumes/{each}').json()['volume']['status'])
                for each in ids]

    def run_sql(self, statement: str, *values: Any) -> None:
        """Run a statement on Cinder's database."""
        database.rows(self.cloud.files, 'cinder', statement, *values)

# SPDX-License-Identifier: Apache-2.0
"""Server groups, and other policies of Nova that destinations obey."""

from typing import Any
import uuid

from cloud import drill as drills
from specreds_nova.tests.cloud import base as cloud_base
from specreds_nova.tests.engine import base

# Only these hosts may run servers of the flavor. Placement does not know of it.
_ALLOWED = f'<or> {cloud_base.PRIMARY} <or> {cloud_base.OTHER}'


class TestGroups(base.EngineTestCase):
    """Members of a server group on a host that dies."""

    def _group(self, policy: str) -> dict[str, Any]:
        """Make a group, and return the hints for its members."""
        group: dict[str, Any] = self.drill.compute.post('/os-server-groups', json={
            'server_group': {'name': f'test-{uuid.uuid4().hex[:8]}', 'policy': policy}}
        ).json()['server_group']
        self.addCleanup(self.drill.compute.delete, f'/os-server-groups/{group["id"]}')
        return {'group': group['id']}

    def _member(self, hints: dict[str, Any], host: str) -> drills.Server:
        """Boot a member of a group on a host."""
        return self.boot(host, hints=hints)

    def test_members_of_an_affinity_group_meet_on_another_host(self) -> None:
        hints = self._group('affinity')
        servers = [self._member(hints, cloud_base.PRIMARY) for _ in range(2)]
        self.host(cloud_base.PRIMARY).kill()
        hosts = {self.assertRecovered(server).host for server in servers}
        self.assertEqual(1, len(hosts), str(hosts))

    def test_members_of_an_anti_affinity_group_stay_apart(self) -> None:
        hints = self._group('anti-affinity')
        server = self._member(hints, cloud_base.PRIMARY)
        self._member(hints, cloud_base.BACKUP)
        self.host(cloud_base.PRIMARY).kill()
        self.assertEqual(cloud_base.OTHER, self.assertRecovered(server).host)


class TestPolicies(base.EngineTestCase):
    """A policy that only filters of Nova's scheduler know."""

    def test_destination_passes_the_filters_of_nova(self) -> None:
        # The forbidden host has the most room, so that Placement would be asked for it first.
        server = self.boot(flavor=self.flavor({'capabilities:host': _ALLOWED}))
        self.host(cloud_base.PRIMARY).kill()
        self.assertEqual(cloud_base.OTHER, self.assertRecovered(server).host)

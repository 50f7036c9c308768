# SPDX-License-Identifier: Apache-2.0
"""Nova's late check of server groups, with a promoted backup here and without one."""

from typing import Any
from unittest import mock

import fixtures
from nova import exception as nova_exception
from nova import objects
from nova.compute import manager
import nova.context

from specreds_nova.host.backup import group_policy
from specreds_nova.host.backup import journal as journals
from specreds_nova.tests.unit.host import base


class GroupPolicyTest(base.TestCase):
    """A server whose group has another member on the host that has failed."""

    def setUp(self) -> None:
        super().setUp()
        self.group = mock.MagicMock(policy='affinity', rules={}, members=[base.SERVER, 'other'])
        self.group.get_hosts.return_value = [base.PRIMARY]
        self.useFixture(fixtures.MockPatchObject(
            objects.InstanceGroup, 'get_by_hint', return_value=self.group))
        self.compute: Any = manager.ComputeManager.__new__(manager.ComputeManager)
        self.compute.host = base.HOST
        group_policy.install(self.compute, self.journal)

    def validate(self) -> None:
        """Check as an evacuation does."""
        self.compute._validate_instance_group_policy(
            nova.context.get_admin_context(), self.instance, {'group': 'g'})

    def test_promoted_backup_is_adopted(self) -> None:
        self.record(journals.PROMOTED)
        self.validate()

    def test_server_without_a_backup_is_refused(self) -> None:
        self.assertRaises(nova_exception.GroupAffinityViolation, self.validate)

    def test_server_whose_backup_is_not_promoted_is_refused(self) -> None:
        self.record(journals.RUNNING)
        self.assertRaises(nova_exception.GroupAffinityViolation, self.validate)

    def test_anti_affinity_is_never_violated(self) -> None:
        self.record(journals.PROMOTED)
        self.group.policy = 'anti-affinity'
        self.useFixture(fixtures.MockPatchObject(
            objects.InstanceList, 'get_uuids_by_host', return_value=['other']))
        self.useFixture(fixtures.MockPatchObject(
            objects.MigrationList, 'get_in_progress_by_host_and_node', return_value=[]))
        self.useFixture(fixtures.MockPatchObject(
            objects.InstanceGroup, 'get_by_uuid', return_value=self.group))
        self.compute._get_nodename = mock.Mock()
        self.assertRaises(nova_exception.GroupAffinityViolation, self.validate)

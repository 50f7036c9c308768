# SPDX-License-Identifier: Apache-2.0
"""A host that has returned removes the servers that were evacuated from it."""

from typing import Any
from unittest import mock

from nova import exception as nova_exception

from specreds_nova import exception
from specreds_nova.host.backup import stale
from specreds_nova.tests.unit.host import base


class ReturningTest(base.TestCase):
    """A test with a mock of Nova's compute manager."""

    def setUp(self) -> None:
        super().setUp()
        self.compute = mock.Mock()
        self.here = [base.SERVER]
        self.compute.driver.list_instance_uuids.side_effect = lambda: list(self.here)

    def clean(self) -> dict[str, Any]:
        """Remove what was evacuated from the host."""
        return stale.clean(self.compute, base.PRIMARY)

    def test_evacuated_server_is_destroyed(self) -> None:
        self.instance.host = base.HOST
        self.compute._destroy_evacuated_instances.side_effect = lambda *_: self.here.clear()
        self.assertEqual({'clean': True, 'left': []}, self.clean())
        self.compute._destroy_evacuated_instances.assert_called_once_with(
            mock.ANY, self.compute._get_nodes.return_value)

    def test_leftovers_are_reported(self) -> None:
        self.instance.host = base.HOST
        self.assertEqual({'clean': False, 'left': [base.SERVER]}, self.clean())

    def test_own_servers_are_kept(self) -> None:
        self.assertEqual({'clean': True, 'left': []}, self.clean())

    def test_server_that_is_migrating_here_is_kept(self) -> None:
        self.instance.host, self.instance.task_state = base.HOST, 'migrating'
        self.assertEqual({'clean': True, 'left': []}, self.clean())

    def test_domain_unknown_to_nova_is_left_alone(self) -> None:
        self.replace('specreds_nova.host.backup.host.find_instance', lambda *_: None)
        self.assertEqual({'clean': True, 'left': []}, self.clean())

    def test_failure_of_nova_is_reported(self) -> None:
        self.compute._destroy_evacuated_instances.side_effect = (
            nova_exception.HypervisorUnavailable(host=base.PRIMARY))
        error = self.assertRaises(exception.UndoIncomplete, self.clean)
        self.assertIn(base.PRIMARY, str(error))

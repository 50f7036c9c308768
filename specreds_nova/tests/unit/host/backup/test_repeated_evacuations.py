# SPDX-License-Identifier: Apache-2.0
"""Nova's own evacuation of a server to a host that has it already."""

import functools
import inspect
from typing import Any
from unittest import mock

from nova import exception as nova_exception
from nova import safe_utils
from nova.compute import manager
from nova.compute import task_states
from nova.compute import vm_states

from specreds_nova.host.backup import repeated_evacuations
from specreds_nova.tests.unit.host import base

_STEPS = ('_do_rebuild_instance_with_claim', '_error_out_instance_on_exception',
          '_set_migration_status', '_check_instance_exists')


class RepeatedEvacuationTest(base.TestCase):
    """A request for an evacuation that Nova fulfills late."""

    def setUp(self) -> None:
        super().setUp()
        self.migration = mock.Mock(status='accepted')
        # What the request has of the server, which is as old as the request.
        self.requested = mock.MagicMock(uuid=base.SERVER, host=base.PRIMARY,
                                        vm_state=vm_states.ACTIVE,
                                        task_state=task_states.REBUILDING)
        self.compute: Any = mock.MagicMock(spec=manager.ComputeManager)
        self.compute.host, self.compute.rt = base.HOST, mock.MagicMock()
        self.compute.reportclient = self.compute.driver = mock.MagicMock()
        for name in _STEPS:
            function = inspect.getattr_static(manager.ComputeManager, name)
            setattr(self.compute, name, functools.partial(
                function.__func__ if isinstance(function, staticmethod) else function,
                *(() if isinstance(function, staticmethod) else (self.compute,))))
        self.compute.rt.rebuild_claim = self.claim
        self.claimed = mock.MagicMock()
        self.compute._do_rebuild_instance.side_effect = (
            lambda context, instance, *arguments: self.compute._check_instance_exists(instance))
        self.compute.driver.instance_exists.return_value = True
        repeated_evacuations.install(self.compute)

    def claim(self, context: Any, instance: Any, nodename: Any, allocations: Any,
              limits: Any = None, image_meta: Any = None, migration: Any = None) -> Any:
        """Claim as ResourceTracker.rebuild_claim."""
        return self.claimed

    def evacuate(self) -> None:
        """Fulfill the request as nova-compute does."""
        safe_utils.get_wrapped_function(manager.ComputeManager.rebuild_instance)(
            self.compute, mock.MagicMock(), self.requested, None, None, None, None, None, [],
            True, None, False, self.migration, base.HOST, None, None, None)

    def assert_left(self) -> None:
        """Assert that the server is as it was."""
        self.assertEqual('failed', self.migration.status)
        self.compute.rt.delete_allocation_for_evacuated_instance.assert_not_called()
        self.compute.rt.finish_evacuation.assert_not_called()
        self.compute._set_instance_obj_error_state.assert_not_called()
        self.compute._instance_update.assert_not_called()
        self.claimed.__enter__.assert_not_called()

    def test_server_that_is_here_is_left_as_it_is(self) -> None:
        self.instance.host = base.HOST
        for task in (None, task_states.POWERING_OFF, task_states.REBUILDING):
            self.instance.task_state, self.migration.status = task, 'accepted'
            self.evacuate()
            self.assert_left()

    def test_server_whose_evacuation_has_come_further_is_left_as_it_is(self) -> None:
        for task in (task_states.REBUILD_BLOCK_DEVICE_MAPPING, task_states.REBUILD_SPAWNING):
            self.instance.task_state, self.migration.status = task, 'accepted'
            self.evacuate()
            self.assert_left()

    def test_server_that_another_host_has_by_now_is_left_as_it_is(self) -> None:
        # The request has waited in the queue of this host, which was off.
        delete = self.compute.rt.delete_allocation_for_evacuated_instance
        for host, task in (('h3', None), ('h3', task_states.POWERING_OFF), (base.PRIMARY, None)):
            self.instance.host, self.instance.task_state = host, task
            for error in (None, nova_exception.NovaException('no answer')):
                self.migration.status, delete.side_effect = 'accepted', error
                self.evacuate()
                delete.assert_called_once_with(
                    mock.ANY, self.requested, base.HOST, node_type='destination')
                delete.reset_mock()
                self.assert_left()

    def test_server_that_is_deleted_is_left_as_it_is(self) -> None:
        with mock.patch('specreds_nova.host.backup.host.find_instance', return_value=None):
            self.evacuate()
        self.assert_left()

    def test_server_that_is_to_be_evacuated_is(self) -> None:
        self.instance.task_state = task_states.REBUILDING
        self.compute.driver.instance_exists.return_value = False
        self.evacuate()
        self.claimed.__enter__.assert_called_once()
        self.compute.rt.finish_evacuation.assert_called_once()

    def test_evacuation_continues_without_an_answer_of_the_database(self) -> None:
        self.compute.driver.instance_exists.return_value = False
        with mock.patch('specreds_nova.host.backup.host.find_instance',
                        side_effect=nova_exception.NovaException('no answer')):
            self.evacuate()
        self.compute.rt.finish_evacuation.assert_called_once()

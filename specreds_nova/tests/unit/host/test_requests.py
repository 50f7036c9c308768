# SPDX-License-Identifier: Apache-2.0
"""What Nova refuses, and what not, for a server that it evacuates: so are backups adopted."""

import types
from typing import Any
from unittest import mock

import ddt
from nova import exception as nova_exception
from nova import objects
from nova.compute import api as compute_api

from specreds_nova.tests.unit.host import base


@ddt.ddt
class RequestsTest(base.TestCase):
    """Nova's own checks, with the task that an evacuation has from its request to its end."""

    def setUp(self) -> None:
        super().setUp()
        self.replace('nova.compute.api.instance_has_share', lambda context, server: False)
        self.api = mock.Mock()
        self.api.network_api.instance_has_extended_resource_request.return_value = False
        self.server = types.SimpleNamespace(
            uuid=base.SERVER, vm_state='active', task_state='rebuilding', locked=False,
            host=base.PRIMARY, launched_at=mock.sentinel.launched,
            flavor=objects.Flavor(extra_specs={}),
            image_meta=objects.ImageMeta.from_dict({'properties': {}}),
            get_network_info=list)

    def request(self, name: str) -> Any:
        """Request an operation."""
        return getattr(compute_api.API, name)(self.api, mock.Mock(is_admin=True), self.server)

    @ddt.data('pause', 'suspend', 'shelve', 'resize', 'rebuild', 'rescue', 'live_migrate',
              'snapshot', 'snapshot_volume_backed', 'attach_interface',
              'detach_interface', 'attach_volume', 'detach_volume', 'stop', 'set_admin_password')
    def test_request_during_an_evacuation_is_refused(self, name: str) -> None:
        error = self.assertRaises(nova_exception.InstanceInvalidState, self.request, name)
        self.assertIn('task_state rebuilding', str(error))

    @ddt.data('get_console_output', 'get_vnc_console', 'get_spice_console', 'get_serial_console')
    def test_console_during_an_evacuation_is_that_of_the_host_that_nova_names(self, name: str
                                                                              ) -> None:
        self.api.compute_rpcapi = mock.MagicMock()
        getattr(compute_api.API, name)(self.api, mock.Mock(), self.server, None)
        [call] = getattr(self.api.compute_rpcapi, name).call_args_list
        self.assertEqual(base.PRIMARY, call.kwargs['instance'].host)

    def test_server_is_renamed_during_an_evacuation(self) -> None:
        server = mock.Mock(host=base.PRIMARY, task_state='rebuilding')
        compute_api.API.update_instance(self.api, mock.Mock(), server, {'display_name': 'other'})
        server.save.assert_called_once_with()
        self.assertEqual([], self.api.compute_rpcapi.mock_calls)

    def test_server_is_locked_during_an_evacuation(self) -> None:
        server = mock.MagicMock(host=base.PRIMARY, task_state='rebuilding', locked=False)
        with mock.patch('nova.objects.InstanceActionEvent'), mock.patch(
                'nova.compute.utils.notify_about_instance_action'):
            compute_api.API.lock(self.api, mock.MagicMock(), server)
        self.assertTrue(server.locked)
        self.assertEqual([], self.api.compute_rpcapi.mock_calls)

    def test_metadata_are_changed_during_an_evacuation(self) -> None:
        self.server.metadata, self.server.save = {'a': '1'}, mock.Mock()
        compute_api.API.update_instance_metadata(self.api, mock.Mock(), self.server, {'b': '2'})
        self.assertEqual({'a': '1', 'b': '2'}, self.server.metadata)
        self.server.save.assert_called_once_with()

    def test_second_evacuation_is_not_refused_for_the_first(self) -> None:
        self.replace('nova.objects.Service.get_by_compute_host', mock.Mock())
        self.api.servicegroup_api.service_is_up.return_value = True
        # Another reason, which Nova looks for after the state and the task.
        self.assertRaises(nova_exception.ComputeServiceInUse, compute_api.API.evacuate, self.api,
                          mock.Mock(is_admin=True), self.server, None, None)

    @ddt.data('paused', 'suspended', 'rescued', 'resized')
    def test_evacuation_in_another_state_is_refused(self, state: str) -> None:
        self.server.vm_state, self.server.task_state = state, None
        error = self.assertRaises(nova_exception.InstanceInvalidState, self.request, 'evacuate')
        self.assertIn(f'vm_state {state}', str(error))

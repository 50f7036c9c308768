# SPDX-License-Identifier: Apache-2.0
"""Requests that the engine has dropped, as Nova's own compute manager fulfills them."""

import contextlib
import functools
from typing import Any
from unittest import mock

import ddt
from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova import safe_utils
from nova.compute import manager
from nova.compute import power_state
from nova.tests.unit import fake_block_device
from nova.virt import block_device
from nova.virt.libvirt import driver as nova_driver
import testtools

from specreds_nova.host.unmerged import driver
from specreds_nova.host.unmerged import dropped_requests
from specreds_nova.host.unmerged import operations
from specreds_nova.tests.unit.host.disks import test_connections as data

# Method of the manager, task, Nova's own operation of the driver, and further arguments.
Request = tuple[str, str, str, tuple[Any, ...]]
_PAUSE: Request = ('pause_instance', 'pausing', 'pause', ())
_SUSPEND: Request = ('suspend_instance', 'suspending', 'suspend', ())
_SHELVE: Request = ('shelve_instance', 'shelving', 'power_off', ('image', True, []))
_SHELVE_WITH_VOLUMES: Request = (
    'shelve_offload_instance', 'shelving', 'power_off', (True, []))
_RESCUE: Request = ('rescue_instance', 'rescuing', 'power_off', (None, None, True))
_PASSWORD: Request = ('set_admin_password', 'updating_password', 'set_admin_password', ('new',))
_ALL = (_PAUSE, _SUSPEND, _SHELVE, _SHELVE_WITH_VOLUMES, _RESCUE, _PASSWORD)


@ddt.ddt
class ManagerTest(testtools.TestCase):
    """A host that is back has a request in its queue."""

    def setUp(self) -> None:
        super().setUp()
        dropped_requests.CONF.set_override('host', 'h1')
        self.addCleanup(dropped_requests.CONF.clear_override, 'host')
        self.current = objects.Instance(uuid=data.SERVER, host='h1', task_state=None)
        self.replace(objects.Instance, 'get_by_uuid', lambda *_, **__: self.current)
        self.save = mock.Mock(side_effect=KeyError)
        self.replace(objects.instance.db, 'instance_update_and_get_original', self.save)
        self.replace(objects.BlockDeviceMappingList, 'get_by_instance_uuid', mock.Mock())
        self.replace(manager, 'compute_utils', mock.Mock())
        self.driver = driver.UnmergedLibvirtDriver.__new__(driver.UnmergedLibvirtDriver)
        self.driver.unmerged = mock.create_autospec(operations.Unmerged, instance=True)
        self.manager = manager.ComputeManager.__new__(manager.ComputeManager)
        self.manager.host, self.manager.driver = 'h1', self.driver
        # Nova's decorators would send notifications.
        self.manager.attach_volume = functools.partial(safe_utils.get_wrapped_function(
            manager.ComputeManager.attach_volume), self.manager)
        for name in ('network_api', 'share_manager', 'notifier', 'rt',
                     '_notify_about_instance_usage', '_get_rescue_image',
                     '_get_instance_block_device_info', '_get_power_off_values',
                     # Until 2026.1, Nova reads shares itself, and goes through them.
                     '_get_power_state', '_get_share_info', '_terminate_volume_connections'):
            setattr(self.manager, name, mock.MagicMock())
        self.manager._get_power_off_values.return_value = 60, 10
        # The guest still runs here. Without it, Nova itself refuses to set a password.
        self.manager._get_power_state.return_value = power_state.RUNNING

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Replace an attribute for the test."""
        patch = mock.patch.object(owner, name, value)
        patch.start()
        self.addCleanup(patch.stop)

    def fulfill(self, request: Request, operation: Any = None
                ) -> tuple[type[Exception] | None, bool]:
        """Return the error of a request, and whether Nova's own driver was called.

        :param operation: what Nova's own driver does
        """
        name, task, operation_name, arguments = request
        self.instance = objects.Instance(
            nova_context.get_admin_context(), uuid=data.SERVER, host='h1', node='h1', metadata={},
            system_metadata={}, vm_state='active', power_state=1, task_state=task)
        self.instance.obj_reset_changes()
        method = manager.reverts_task_state(
            safe_utils.get_wrapped_function(getattr(manager.ComputeManager, name)))
        with mock.patch.object(nova_driver.LibvirtDriver, operation_name,
                               side_effect=operation) as theirs:
            try:
                method(self.manager, nova_context.get_admin_context(), self.instance, *arguments)
            except Exception as exc:
                return type(exc), theirs.called
        return None, theirs.called

    def assert_untouched(self, raised: type[Exception] | None) -> None:
        """Assert that a refused request has left the server, and its ports, as they are."""
        self.assertEqual(nova_exception.UnexpectedTaskStateError, raised)
        self.save.assert_not_called()
        self.manager.network_api.unbind_ports.assert_not_called()
        self.manager._terminate_volume_connections.assert_not_called()

    def reboot(self, task: str, operation: Any = None) -> tuple[type[Exception] | None, bool]:
        """Return the error of a reboot, and whether Nova's own driver was called."""
        self.current.task_state = task
        self.instance = objects.Instance(uuid=data.SERVER, host='h1', task_state=task)
        with mock.patch.object(nova_driver.LibvirtDriver, 'reboot', side_effect=operation) as own:
            try:
                self.driver.reboot(mock.Mock(), self.instance, None, 'HARD')
            except Exception as exc:
                return type(exc), own.called
        return None, own.called

    @ddt.data(*_ALL)
    def test_dropped_request_changes_nothing(self, request: Request) -> None:
        for host, task in (('h2', None), ('h2', 'powering-off'), ('h1', None),
                           ('h1', 'rebuilding'), ('h2', request[1])):
            self.current.host, self.current.task_state = host, task
            raised, called = self.fulfill(request)
            self.assertFalse(called)
            self.assert_untouched(raised)

    @ddt.data(*_ALL)
    def test_request_that_is_dropped_while_the_host_hangs_changes_nothing(
            self, request: Request) -> None:
        self.current.task_state = request[1]

        def hang(*_: Any, **__: Any) -> None:
            self.current.host, self.current.task_state = 'h2', None
            raise nova_exception.InstanceNotFound(instance_id=data.SERVER)
        raised, called = self.fulfill(request, hang)
        self.assertTrue(called)
        self.assert_untouched(raised)

    def test_rescue_that_is_dropped_while_the_host_hangs_starts_no_guest(self) -> None:
        self.current.task_state = 'rescuing'

        def fetch_an_image(*_: Any, **__: Any) -> None:
            self.current.host, self.current.task_state = 'h2', None
            self.driver._create_guest(mock.Mock(), '<domain/>', self.instance)
        self.replace(nova_driver.LibvirtDriver, 'rescue', fetch_an_image)
        with mock.patch.object(nova_driver.LibvirtDriver, '_create_guest') as create:
            raised, _ = self.fulfill(_RESCUE)
        create.assert_not_called()
        self.assert_untouched(raised)

    def detach(self, operation: Any = None) -> tuple[type[Exception] | None, bool, list[str]]:
        """Return the error of a detachment, whether Nova's own driver was called, and requests.

        :returns: the last are the names of the requests that would change the volume in Cinder
        """
        volume = fake_block_device.fake_bdm_object(nova_context.get_admin_context(), {
            'source_type': 'volume', 'destination_type': 'volume', 'volume_id': 'v1',
            'device_name': '/dev/vdb', 'attachment_id': 'a1', 'instance_uuid': data.SERVER,
            'connection_info': '{"driver_volume_type": "rbd", "data": {}, "serial": "v1"}'})
        cinder = mock.Mock()
        cinder.get.return_value = {'id': 'v1', 'shared_targets': False}
        instance = objects.Instance(uuid=data.SERVER, host='h1', task_state=None)
        self.replace(objects.BlockDeviceMapping, 'save', mock.Mock())
        self.replace(self.driver, 'instance_exists', lambda _instance: True)
        self.replace(block_device.encryptors, 'get_encryption_metadata', mock.Mock())
        with mock.patch.object(nova_driver.LibvirtDriver, 'detach_volume',
                               side_effect=operation) as theirs:
            raised = None
            try:
                block_device.convert_volume(volume).detach(
                    mock.Mock(), instance, cinder, self.driver, destroy_bdm=True)
            except Exception as exc:
                raised = type(exc)
        return raised, theirs.called, [call[0] for call in cinder.method_calls
                                       if call[0] != 'get']

    @ddt.data(('h2', None), ('h2', 'powering-off'), ('h1', 'rebuilding'),
              ('h1', 'rebuild_spawning'))
    @ddt.unpack
    def test_detachment_is_refused_once_the_server_is_elsewhere(
            self, host: str, task: str | None) -> None:
        self.current.host, self.current.task_state = host, task
        self.assertEqual((nova_exception.UnexpectedTaskStateError, False, ['roll_detaching']),
                         self.detach())

    def test_detachment_whose_server_leaves_meanwhile_keeps_its_volume(self) -> None:
        def hang(*_: Any, **__: Any) -> None:
            self.current.host = 'h2'
        self.assertEqual((nova_exception.UnexpectedTaskStateError, True, ['roll_detaching']),
                         self.detach(hang))

    def detach_port(self, operation: Any = None) -> tuple[bool, bool]:
        """Return whether Nova's own driver has detached a port, and whether Nova freed it."""
        instance = mock.Mock(uuid=data.SERVER, host='h1', task_state=None)
        instance.info_cache.network_info = [{'id': 'p1', 'address': 'fa:16:3e:00:00:01'}]
        self.manager._deallocate_port_for_instance = mock.Mock()
        self.replace(manager.pci_req_module, 'get_instance_pci_request_from_vif',
                     lambda *_: None)
        with mock.patch.object(nova_driver.LibvirtDriver, 'detach_interface',
                               side_effect=operation) as theirs, \
                contextlib.suppress(nova_exception.InterfaceDetachFailed):
            self.manager._detach_interface(mock.Mock(), instance, 'p1')
        return theirs.called, self.manager._deallocate_port_for_instance.called

    @ddt.data(('h2', None), ('h1', 'rebuilding'))
    @ddt.unpack
    def test_port_of_a_server_that_has_left_is_not_detached(
            self, host: str, task: str | None) -> None:
        self.assertEqual((True, True), self.detach_port())
        self.current.host, self.current.task_state = host, task
        self.assertEqual((False, False), self.detach_port())

    def test_port_whose_server_leaves_meanwhile_is_kept(self) -> None:
        def hang(*_: Any, **__: Any) -> None:
            self.current.host = 'h2'
        self.assertEqual((True, False), self.detach_port(hang))

    def attach(self) -> mock.Mock:
        """Let nova-compute take a request to attach a volume; return the block device."""
        bdm = mock.Mock()
        self.manager._attach_volume = mock.Mock(side_effect=KeyError('the domain is gone'))
        instance = objects.Instance(uuid=data.SERVER, host='h1', task_state=None)
        with mock.patch.object(manager.driver_block_device, 'convert_volume'), \
                contextlib.suppress(KeyError, nova_exception.UnexpectedTaskStateError):
            self.manager.attach_volume(nova_context.get_admin_context(), instance, bdm=bdm)
        return bdm

    @ddt.data(('h2', None), ('h1', 'rebuilding'))
    @ddt.unpack
    def test_attachment_of_a_server_that_has_left_keeps_its_block_device(
            self, host: str, task: str | None) -> None:
        self.current.host, self.current.task_state = host, task
        self.attach().destroy.assert_called_once_with()
        dropped_requests.install(self.manager)
        self.attach().destroy.assert_not_called()
        self.manager._attach_volume.assert_not_called()

    def test_attachment_of_a_server_that_is_here_is_done(self) -> None:
        dropped_requests.install(self.manager)
        self.attach()
        self.manager._attach_volume.assert_called_once()

    def test_detachment_whose_server_is_here_is_done(self) -> None:
        self.assertEqual((None, True, ['attachment_delete']), self.detach())

    @ddt.data('reboot_started', 'reboot_started_hard')
    def test_reboot_is_refused_while_another_host_reboots_the_server(self, task: str) -> None:
        # Nova's manager has read its task, which is that of the request on the other host.
        self.current.host = 'h2'
        raised, called = self.reboot(task)
        self.assertEqual((nova_exception.UnexpectedTaskStateError, False), (raised, called))
        self.assertRaises(nova_exception.UnexpectedTaskStateError, self.instance.save)
        self.save.assert_not_called()

    @ddt.data(('h2', None), ('h2', 'reboot_started_hard'), ('h1', 'rebuilding'))
    @ddt.unpack
    def test_reboot_that_is_dropped_while_the_host_hangs_starts_no_guest(
            self, host: str, task: str | None) -> None:
        self.assertEqual((nova_exception.UnexpectedTaskStateError, False),
                         self.interrupted_reboot(host, task))

    @ddt.data(None, 'rebooting_hard', 'reboot_pending')
    def test_guest_of_a_reboot_whose_server_is_still_here_is_started(self, task: str | None
                                                                     ) -> None:
        self.assertEqual((None, True), self.interrupted_reboot('h1', task))

    def test_guest_of_a_reboot_is_started_if_the_database_cannot_be_read(self) -> None:
        self.assertEqual((None, True), self.interrupted_reboot('h1', None, ConnectionError))

    def interrupted_reboot(self, host: str, task: str | None,
                           unreadable: type[Exception] | None = None
                           ) -> tuple[type[Exception] | None, bool]:
        """Return the error of a reboot, and whether its guest is started.

        :param host: the server's host once its guest is shut down
        :param task: its task then
        :param unreadable: error of the database from then on
        """
        def shut_down(*_: Any, **__: Any) -> None:
            self.current.host, self.current.task_state = host, task
            if unreadable is not None:
                self.replace(objects.Instance, 'get_by_uuid', mock.Mock(side_effect=unreadable))
            self.driver._create_guest(mock.Mock(), '<domain/>', self.instance)
        with mock.patch.object(nova_driver.LibvirtDriver, '_create_guest') as create:
            raised, _ = self.reboot('reboot_started_hard', shut_down)
        return raised, create.called

    def test_reboot_that_stands_is_done(self) -> None:
        self.assertEqual((None, True), self.reboot('reboot_started_hard'))

    def test_backup_is_started_whatever_its_primary_was_asked_for(self) -> None:
        primary = objects.Instance(uuid=data.SERVER, host='h9', task_state='rescuing')
        with mock.patch.object(nova_driver.LibvirtDriver, '_create_guest') as create:
            self.driver._create_guest(mock.Mock(), '<domain/>', primary)
        create.assert_called_once()

    @ddt.data(*_ALL)
    def test_request_that_stands_is_fulfilled(self, request: Request) -> None:
        self.current.task_state = request[1]
        self.replace(nova_driver.LibvirtDriver, 'rescue', mock.Mock())
        self.replace(nova_driver.LibvirtDriver, 'snapshot', mock.Mock())
        self.replace(nova_driver.LibvirtDriver, 'destroy', mock.Mock())
        _, called = self.fulfill(request)
        self.assertTrue(called)
        self.save.assert_called()

    def test_database_that_cannot_be_read_does_not_put_a_server_into_error(self) -> None:
        read = mock.Mock(side_effect=ConnectionError)
        self.replace(objects.Instance, 'get_by_uuid', read)
        self.save.side_effect = None
        with mock.patch.object(self.manager, '_set_instance_obj_error_state') as set_error, \
                mock.patch.object(self.manager, '_instance_update') as update:
            raised, called = self.fulfill(_SUSPEND)
        self.assertEqual((ConnectionError, False), (raised, called))
        set_error.assert_not_called()
        self.assertEqual('active', update.call_args_list[0].kwargs['vm_state'])

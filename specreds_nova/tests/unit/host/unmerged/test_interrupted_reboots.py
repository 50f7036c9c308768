# SPDX-License-Identifier: Apache-2.0
"""A nova-compute that starts, and has a server whose reboot was interrupted."""

from typing import Any
from unittest import mock

import ddt
from nova import exception as nova_exception
from nova.compute import manager
from nova.compute import power_state
import nova.context

from specreds_nova.host.disks import errors
from specreds_nova.host.unmerged import interrupted_reboots
from specreds_nova.tests.unit.host import base


@ddt.ddt
class InterruptedRebootsTest(base.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.compute: Any = manager.ComputeManager.__new__(manager.ComputeManager)
        self.compute.host, self.compute.driver = base.HOST, mock.Mock()
        self.compute._get_power_state = mock.Mock(return_value=power_state.SHUTDOWN)
        self.compute.reboot_instance = mock.Mock()
        self.instance = mock.MagicMock(
            uuid=base.SERVER, host=base.HOST, vm_state='active', task_state='reboot_started_hard')
        interrupted_reboots.install(self.compute)

    def start(self) -> None:
        """Look at the server as Nova does for each server of the host."""
        self.compute._init_instance(nova.context.get_admin_context(), self.instance)
        self.compute.reboot_instance.assert_called_once()

    def test_reboot_is_completed(self) -> None:
        self.start()

    @ddt.data(errors.NotHere('it runs elsewhere'), errors.VersionUnknown('no answer'),
              nova_exception.UnexpectedTaskStateError(
                  instance_uuid=base.SERVER, expected={}, actual={}))
    def test_refusal_does_not_keep_nova_compute_from_starting(self, refusal: Exception) -> None:
        self.compute.reboot_instance.side_effect = refusal
        self.start()

    def test_other_errors_are_not_hidden(self) -> None:
        self.compute.reboot_instance.side_effect = ValueError
        self.assertRaises(ValueError, self.start)

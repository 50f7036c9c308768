# SPDX-License-Identifier: Apache-2.0
"""Operations on the guests of servers before the end of their merge, and in the moment of it."""

from unittest import mock

from nova import exception as nova_exception
from nova import objects
from nova.compute import power_state

from specreds_nova.host.unmerged import operations
from specreds_nova.tests.unit.host.unmerged import test_operations


class RebootTest(test_operations.OperationsTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.states = [power_state.RUNNING] * 3 + [power_state.SHUTDOWN]
        self.driver.get_info.side_effect = lambda _instance: mock.Mock(
            state=self.states.pop(0) if len(self.states) > 1 else self.states[0])
        self.domain.shutdown = mock.Mock()
        self.launch = self.driver._host.get_guest.return_value.launch
        self.launch.side_effect = lambda: self.states.append(power_state.RUNNING)
        self.instance.host = operations.CONF.host
        self.instance.task_state = 'reboot_started'
        read = mock.patch.object(objects.Instance, 'get_by_uuid')
        self.current = read.start().return_value
        self.addCleanup(read.stop)
        self.current.host, self.current.task_state = self.instance.host, 'reboot_started'

    def test_domain_on_an_overlay_is_recognized(self) -> None:
        self.assertTrue(self.unmerged.through_overlay(self.instance))
        self.merged()
        self.assertFalse(self.unmerged.through_overlay(self.instance))
        self.gone()
        self.assertFalse(self.unmerged.through_overlay(self.instance))

    def test_soft_reboot_on_overlays_waits_for_the_shutdown(self) -> None:
        self.assertFalse(self.unmerged.soft_reboot(self.instance))
        self.domain.shutdown.assert_called_once_with()
        self.assertEqual([power_state.SHUTDOWN], self.states)
        self.launch.assert_not_called()

    def test_merged_guest_is_started_after_its_shutdown(self) -> None:
        self.merged()
        self.assertTrue(self.unmerged.soft_reboot(self.instance))
        self.domain.shutdown.assert_called_once_with()
        self.launch.assert_called_once_with()

    def test_guest_of_a_server_that_has_gone_elsewhere_is_not_started(self) -> None:
        self.merged()
        self.current.host = 'h2'
        self.assertRaises(nova_exception.UnexpectedTaskStateError, self.unmerged.soft_reboot,
                          self.instance)
        self.launch.assert_not_called()

    def test_guest_that_is_off_is_not_shut_down(self) -> None:
        self.merged()
        self.states = [power_state.SHUTDOWN]
        self.assertTrue(self.unmerged.soft_reboot(self.instance))
        self.domain.shutdown.assert_not_called()

    def test_guest_that_ignores_the_shutdown_times_out(self) -> None:
        self.states = [power_state.RUNNING]
        self.assertFalse(self.unmerged.soft_reboot(self.instance))
        self.assertGreater(self.clock, operations.CONF.libvirt.wait_soft_reboot_seconds)

    def test_soft_reboot_without_a_domain_does_nothing(self) -> None:
        self.gone()
        self.assertFalse(self.unmerged.soft_reboot(self.instance))
        self.domain.shutdown.assert_not_called()


class SwitchingTest(test_operations.OperationsTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.domain.note = ('<specreds:merge xmlns:specreds="urn:specreds:merge:1" '
                            'superposition="one" running="yes"/>')

    def test_operation_waits_for_the_switch(self) -> None:
        def end(seconds: float) -> None:
            self.clock += seconds
            self.domain.note = None
        self.pass_by = end  # type: ignore
        self.unmerged.unless_switching(self.instance, 'paused')
        self.assertGreater(self.clock, 0)

    def test_wait_for_the_switch_is_limited(self) -> None:
        exc = self.assertRaises(operations.NotMerged, self.unmerged.unless_switching,
                                self.instance, 'paused')
        self.assertIn('cannot be paused', str(exc))

    def test_operation_without_a_switch_does_not_wait(self) -> None:
        self.domain.note = None
        self.unmerged.unless_switching(self.instance, 'paused')
        self.gone()
        self.unmerged.unless_switching(self.instance, 'paused')
        self.assertEqual(0, self.clock)

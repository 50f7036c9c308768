# SPDX-License-Identifier: Apache-2.0
import dataclasses
import os
import subprocess
from unittest import mock

import fixtures
from oslo_concurrency import processutils
from oslo_config import fixture as config_fixture
import testtools

from specreds_nova.host.box import privileged
from specreds_nova.tests.unit.host.box import fakes


class TestPrivileged(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        privileged.context.set_client_mode(False)
        self.addCleanup(privileged.context.set_client_mode, True)
        self.executed = self.useFixture(fixtures.MockPatchObject(
            processutils, 'execute', return_value=('', ''))).mock
        self.program = self.useFixture(fixtures.MockPatchObject(
            subprocess, 'run', return_value=mock.Mock(returncode=0))).mock

    def test_only_names_of_boxes_are_accepted(self) -> None:
        for call, name in ((privileged.send_flows, 'br-int'), (privileged.flows, 'br-int'),
                           (privileged.bring_up, 'eth0'), (privileged.stop_services, '../x'),
                           (privileged.namespace_runs, 'x'), (privileged.start_responder, 'x')):
            self.assertRaises(ValueError, call, name, *(
                [''] if call in (privileged.send_flows, privileged.start_responder) else []))
        self.assertRaises(ValueError, privileged.start_services,
                          dataclasses.replace(fakes.plan(), port='x').to_json())
        self.executed.assert_not_called()
        self.program.assert_not_called()

    def test_services_are_started_and_stopped(self) -> None:
        self.useFixture(fixtures.MockPatchObject(privileged, '_without_checksum_offload'))
        privileged.start_services(fakes.plan().to_json())
        lines = '\n'.join(call.kwargs['process_input'] for call in self.executed.mock_calls
                          if call.kwargs.get('process_input'))
        self.assertIn(f'address add {fakes.GATEWAY}/24 dev box0', lines)
        self.assertIn('address add 169.254.169.254/32 dev box0', lines)
        self.assertIn(f'neighbour replace {fakes.ADDRESS} lladdr {fakes.MAC}', lines)
        [dnsmasq] = self.program.mock_calls
        self.assertEqual(['ip', 'netns', 'exec', f'specreds-{fakes.PORT}', 'dnsmasq'],
                         dnsmasq.args[0][:5])

    def test_namespace_has_the_addresses_of_the_box(self) -> None:
        self.useFixture(fixtures.MockPatchObject(privileged, '_without_checksum_offload'))
        plan = fakes.plan(fakes.subnet_ipv6(), ipv6_served=True, router=fakes.ROUTER)
        privileged.start_services(plan.to_json())
        lines = self.executed.mock_calls[-1].kwargs['process_input'].splitlines()
        for line in ('address add fe80::a9fe:a9fe/64 dev box0 nodad preferred_lft 0',
                     f'address add {fakes.ROUTER}/64 dev box0 nodad',
                     f'address add {fakes.GATEWAY_IPV6}/64 dev box0 nodad',
                     f'route replace {fakes.ADDRESS_IPV6}/128 dev box0 src {fakes.GATEWAY_IPV6}',
                     f'neighbour replace {fakes.ADDRESS_IPV6} lladdr {fakes.MAC} dev box0 nud '
                     'permanent'):
            self.assertIn(line, lines)
        self.program.assert_called_once()

    def test_box_with_ipv6_answers_as_a_router(self) -> None:
        # A guest gives up the default route to a neighbour that denies that it is a router.
        self.useFixture(fixtures.MockPatchObject(privileged, '_without_checksum_offload'))
        call = mock.call('ip', 'netns', 'exec', f'specreds-{fakes.PORT}', 'sysctl', '-q', '-w',
                         'net.ipv6.conf.box0.disable_ipv6=0', 'net.ipv6.conf.box0.forwarding=1',
                         process_input=None)
        privileged.start_services(fakes.plan().to_json())
        self.assertNotIn(call, self.executed.mock_calls)
        privileged.start_services(fakes.plan(fakes.subnet_ipv6(), ipv6_served=True).to_json())
        self.assertIn(call, self.executed.mock_calls)

    def test_metadata_is_served_over_ipv6_by_the_device(self) -> None:
        privileged.start_responder(fakes.PORT, 'x')
        privileged.start_responder(fakes.PORT, 'x', True)
        self.assertEqual([['x'], ['x', 'box0']], [
            call.args[0][call.args[0].index('x'):] for call in self.program.mock_calls])

    def test_guest_is_probed_over_the_protocol_of_its_address(self) -> None:
        connection = mock.MagicMock()
        connection.connect_ex.return_value = 0
        inside = self.useFixture(fixtures.MockPatchObject(
            privileged, '_socket_in', return_value=connection)).mock
        for address, version in ((fakes.ADDRESS, 4), (fakes.ADDRESS_IPV6, 6)):
            self.assertTrue(privileged.accepts_connection(fakes.PORT, address, 80, 0.1))
            inside.assert_called_with(f'specreds-{fakes.PORT}', version)

    def test_box_without_dhcp_starts_no_server(self) -> None:
        self.useFixture(fixtures.MockPatchObject(privileged, '_without_checksum_offload'))
        privileged.start_services(fakes.plan(fakes.subnet(dhcp=False)).to_json())
        self.program.assert_not_called()

    def test_server_that_does_not_start_is_an_error(self) -> None:
        self.useFixture(fixtures.MockPatchObject(privileged, '_without_checksum_offload'))
        self.program.return_value.returncode = 2
        error = self.assertRaises(OSError, privileged.start_services, fakes.plan().to_json())
        self.assertIn('ip netns exec', str(error))

    def test_stop_without_services_succeeds(self) -> None:
        privileged.stop_services(fakes.PORT)
        self.assertEqual([], privileged.namespace_runs(fakes.PORT))
        self.assertFalse(privileged.accepts_connection(fakes.PORT, fakes.ADDRESS, 80, 0.1))
        self.executed.assert_not_called()

    def test_flows_are_installed(self) -> None:
        self.executed.return_value = ('NXST_FLOW reply\n priority=1 actions=drop\n', '')
        self.assertEqual(['priority=1 actions=drop'], privileged.flows('sbaaaaaaaa-11'))


class TestPrepare(testtools.TestCase):

    def test_root_needs_no_sudo(self) -> None:
        conf = self.useFixture(config_fixture.Config()).conf
        self.useFixture(fixtures.MockPatchObject(os, 'geteuid', return_value=0))
        privileged.prepare()
        command = conf[privileged.SECTION].helper_command
        self.assertTrue(command.split()[0].endswith('privsep-helper'), command)
        conf.clear_default('helper_command', group=privileged.SECTION)

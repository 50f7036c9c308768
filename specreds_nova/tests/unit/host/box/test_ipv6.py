# SPDX-License-Identifier: Apache-2.0
import pathlib
import subprocess
from unittest import mock

import fixtures
import testtools

from specreds_nova.host.box import ipv6
from specreds_nova.host.box import plan as plans
from specreds_nova.tests.unit.host.box import fakes

_KNOWN = {fakes.GATEWAY_IPV6: fakes.ROUTER_MAC}


def _plan(*subnets: plans.Subnet, **changes: object) -> plans.Plan:
    return fakes.plan(*(subnets or (fakes.subnet_ipv6(),)), ipv6_served=True, **changes)


class TestAddresses(testtools.TestCase):

    def test_nothing_is_answered_unless_the_host_serves_ipv6(self) -> None:
        self.assertEqual({}, ipv6.answered(fakes.plan(fakes.subnet_ipv6())))
        self.assertEqual({}, ipv6.answered(_plan(fakes.subnet())))

    def test_box_answers_for_metadata_router_gateway_and_dhcp_server(self) -> None:
        plan = _plan(fakes.subnet_ipv6(dhcp_server='2001:db8::2'))
        self.assertEqual(
            {'fe80::a9fe:a9fe', ipv6.link_local(plan.service_mac), '2001:db8::2',
             fakes.GATEWAY_IPV6}, set(ipv6.answered(plan)))
        self.assertEqual({plan.service_mac}, set(ipv6.answered(plan).values()))

    def test_known_hardware_addresses_are_answered(self) -> None:
        plan = _plan(neighbours=_KNOWN, router=fakes.ROUTER)
        answered = ipv6.answered(plan)
        self.assertEqual([fakes.ROUTER_MAC] * 2, [
            answered[fakes.ROUTER], answered[fakes.GATEWAY_IPV6]])
        self.assertEqual(plan.service_mac, answered['fe80::a9fe:a9fe'])

    def test_box_does_not_answer_for_the_guest(self) -> None:
        plan = _plan(fakes.subnet_ipv6(gateway=fakes.ADDRESS_IPV6))
        self.assertNotIn(fakes.ADDRESS_IPV6, ipv6.answered(plan))

    def test_link_local_address_of_a_router_is_derived_from_its_hardware_address(self) -> None:
        self.assertEqual(fakes.ROUTER, ipv6.link_local(fakes.ROUTER_MAC))
        self.assertEqual(fakes.ROUTER, ipv6.known_router(_plan(neighbours=_KNOWN)))
        self.assertIsNone(ipv6.known_router(_plan()))

    def test_link_local_gateway_is_the_router(self) -> None:
        plan = _plan(fakes.subnet_ipv6(gateway='fe80::1'))
        self.assertEqual('fe80::1', ipv6.known_router(plan))

    def test_box_has_an_address_in_each_subnet(self) -> None:
        [subnet] = (fakes.subnet_ipv6(gateway='fe80::1'),)
        plan = _plan(subnet)
        self.assertEqual('2001:db8::aa:aaff:feaa:aa11', ipv6.source(plan, subnet))
        taken = fakes.subnet_ipv6(gateway=None, addresses=(ipv6.source(plan, subnet),))
        self.assertNotIn(ipv6.source(_plan(taken), taken), taken.addresses)
        self.assertEqual(fakes.GATEWAY_IPV6, ipv6.source(_plan(), fakes.subnet_ipv6()))


class TestMissing(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        state = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.disabled = state / 'disable_ipv6'
        self.useFixture(fixtures.MockPatchObject(ipv6, '_KERNEL', state))
        self.useFixture(fixtures.MockPatchObject(ipv6, '_DISABLED', self.disabled))
        self.which = self.useFixture(fixtures.MockPatch(
            'shutil.which', return_value='/sbin/dnsmasq')).mock
        self.shown = mock.Mock(stdout='Compile time options: IPv6 DHCP DHCPv6 TFTP')
        self.run_program = self.useFixture(fixtures.MockPatchObject(
            subprocess, 'run', return_value=self.shown)).mock

    def test_host_with_everything_serves_ipv6(self) -> None:
        self.assertIsNone(ipv6.missing())
        self.disabled.write_text('0\n')
        self.assertIsNone(ipv6.missing())

    def test_kernel_without_ipv6_is_named(self) -> None:
        self.disabled.write_text('1\n')
        self.assertIn('disabled', str(ipv6.missing()))
        with mock.patch.object(ipv6, '_KERNEL', self.disabled.with_name('missing')):
            self.assertIn('kernel has no IPv6', str(ipv6.missing()))

    def test_server_without_dhcpv6_is_named(self) -> None:
        self.shown.stdout = 'Compile time options: IPv6 DHCP no-DHCPv6 TFTP'
        self.assertIn('without DHCPv6', str(ipv6.missing()))
        self.which.return_value = None
        self.assertIn('not installed', str(ipv6.missing()))

    def test_host_of_which_nothing_is_known_has_boxes_with_ipv4(self) -> None:
        for failure in (PermissionError('no'), subprocess.TimeoutExpired('dnsmasq', 10)):
            self.run_program.side_effect = failure
            self.assertIn('not known', str(ipv6.missing()))

# SPDX-License-Identifier: Apache-2.0
from unittest import mock

import testtools

from specreds_nova.tests.unit.virt.box import fakes
from specreds_nova.virt.box import dhcp
from specreds_nova.virt.box import plan as plans


class TestArgv(testtools.TestCase):

    def _argv(self, *subnets: object) -> list[str]:
        return dhcp.argv(fakes.plan(*subnets), 'box0')  # type: ignore[arg-type]

    def _options(self, *subnets: object) -> dict[str, str]:
        prefix = '--dhcp-option-force=tag:subnet0,'
        options = (word.removeprefix(prefix).partition(',') for word in self._argv(*subnets)
                   if word.startswith(prefix))
        return {name: value for name, _, value in options}

    def test_only_the_guest_is_served(self) -> None:
        argv = self._argv()
        self.assertIn('--dhcp-range=set:subnet0,10.77.0.0,static,255.255.255.0,86400', argv)
        self.assertIn(f'--dhcp-host={fakes.MAC},{fakes.ADDRESS},host-10-77-0-50,86400', argv)
        self.assertIn('--interface=box0', argv)
        self.assertIn('--port=0', argv)
        self.assertIn('--conf-file=/dev/null', argv)

    def test_server_runs_as_nobody(self) -> None:
        user = mock.Mock(pw_gid=7)
        with mock.patch('pwd.getpwnam', return_value=user), \
                mock.patch('grp.getgrgid') as group:
            group.return_value.gr_name = 'nogroup'
            argv = self._argv()
        group.assert_called_once_with(7)
        self.assertIn('--user=nobody', argv)
        self.assertIn('--group=nogroup', argv)

    def test_missing_program_is_named(self) -> None:
        with mock.patch('shutil.which', return_value='/sbin/dnsmasq') as which:
            self.assertIsNone(dhcp.missing())
            with mock.patch('pwd.getpwnam', side_effect=KeyError('no nobody')):
                self.assertIn('the user nobody', str(dhcp.missing()))
            which.return_value = None
            self.assertIn('dnsmasq is not installed', str(dhcp.missing()))

    def test_lease_has_the_options_of_the_network(self) -> None:
        self.assertEqual({
            'option:dns-server': '8.8.8.8', 'option:router': fakes.GATEWAY, 'option:mtu': '1450',
            **dict.fromkeys(('121', '249'), '192.0.2.0/24,10.77.0.9,169.254.169.254/32,'
                                            '10.77.0.2,0.0.0.0/0,10.77.0.1')},
            self._options(fakes.subnet(routes=(('192.0.2.0/24', '10.77.0.9'),),
                                       dhcp_server='10.77.0.2')))

    def test_route_of_the_owner_to_metadata_is_kept(self) -> None:
        options = self._options(fakes.subnet(routes=(('169.254.169.254/32', '10.77.0.3'),)))
        self.assertEqual('169.254.169.254/32,10.77.0.3,0.0.0.0/0,10.77.0.1', options['121'])

    def test_metadata_is_routed_by_the_port_of_ovn(self) -> None:
        argv = dhcp.argv(fakes.plan(fakes.subnet(), metadata_hops=('10.77.0.3',)), 'box0')
        self.assertIn('--dhcp-option-force=tag:subnet0,121,169.254.169.254/32,10.77.0.3,'
                      '0.0.0.0/0,10.77.0.1', argv)

    def test_network_without_a_gateway_has_no_default_route(self) -> None:
        subnet = fakes.subnet(gateway=None)
        self.assertEqual('', self._options(subnet)['option:router'])
        self.assertNotIn('121', self._options(subnet))
        self.assertIn('--shared-network=box0,10.77.0.0', self._argv(subnet))

    def test_network_without_dhcp_is_not_served(self) -> None:
        argv = self._argv(fakes.subnet(dhcp=False),
                          fakes.subnet(cidr='2001:db8::/64', addresses=('2001:db8::5',)))
        self.assertEqual([], [word for word in argv if word.startswith('--dhcp-range')])


class TestIpv6(testtools.TestCase):

    def _argv(self, *subnets: plans.Subnet) -> list[str]:
        plan = fakes.plan(*subnets, ipv6_served=True)
        return [word for word in dhcp.argv(plan, 'box0')
                if word.startswith(('--dhcp-range', '--dhcp-host', '--dhcp-opt', '--enable-ra',
                                    '--ra-param'))]

    def test_addresses_by_advertisements_are_not_leased(self) -> None:
        self.assertEqual([
            '--dhcp-range=set:ipv6-0,2001:db8::,ra-only,64,86400',
            '--dhcp-option-force=tag:ipv6-0,option6:dns-server,[2001:db8::53]', '--enable-ra',
            '--ra-param=box0,mtu:1450,60,1800'], self._argv(fakes.subnet_ipv6()))

    def test_stateless_server_has_options_only(self) -> None:
        argv = self._argv(fakes.subnet_ipv6(address_mode='dhcpv6-stateless', dns=()))
        self.assertIn('--dhcp-range=set:ipv6-0,2001:db8::,ra-stateless,64,86400', argv)
        self.assertEqual([], [word for word in argv if word.startswith('--dhcp-host')])

    def test_stateful_server_has_the_lease_of_the_port(self) -> None:
        argv = self._argv(fakes.subnet_ipv6(address_mode='dhcpv6-stateful'))
        self.assertIn('--dhcp-range=set:ipv6-0,2001:db8::,static,64,86400', argv)
        self.assertIn(f'--dhcp-host={fakes.MAC},[2001:db8::50],host-2001-db8--50,86400', argv)
        self.assertIn('--enable-ra', argv)

    def test_host_has_one_entry_for_both_protocols(self) -> None:
        argv = self._argv(fakes.subnet(), fakes.subnet_ipv6(address_mode='dhcpv6-stateful'))
        self.assertEqual([f'--dhcp-host={fakes.MAC},{fakes.ADDRESS},[2001:db8::50],'
                          'host-10-77-0-50,86400'],
                         [word for word in argv if word.startswith('--dhcp-host')])

    def test_subnet_without_a_mode_is_not_advertised(self) -> None:
        argv = self._argv(fakes.subnet_ipv6(address_mode=None))
        self.assertIn('--dhcp-range=set:ipv6-0,2001:db8::,static,64,86400', argv)
        self.assertNotIn('--enable-ra', argv)

    def test_subnet_without_a_gateway_has_no_router(self) -> None:
        self.assertIn('--ra-param=box0,mtu:1450,60,0',
                      self._argv(fakes.subnet_ipv6(gateway=None)))

    def test_larger_networks_and_those_without_dhcp_are_not_served(self) -> None:
        for subnet in (fakes.subnet_ipv6(cidr='2001:db8::/56'), fakes.subnet_ipv6(dhcp=False)):
            self.assertEqual([], self._argv(subnet))
            self.assertFalse(dhcp.needed(fakes.plan(subnet, ipv6_served=True)))

    def test_command_line_of_ipv4_is_unchanged_by_ipv6(self) -> None:
        alone = dhcp.argv(fakes.plan(), 'box0')
        both = fakes.plan(fakes.subnet(), fakes.subnet_ipv6(), ipv6_served=True)
        self.assertEqual(alone, dhcp.argv(both, 'box0')[:len(alone)])

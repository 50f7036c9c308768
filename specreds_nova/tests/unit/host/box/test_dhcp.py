# SPDX-License-Identifier: Apache-2.0
import pathlib
from unittest import mock

import fixtures
import testtools

from specreds_nova.host.box import dhcp
from specreds_nova.host.box import plan as plans
from specreds_nova.tests.unit.host.box import fakes


class TestArgv(testtools.TestCase):

    def _argv(self, *subnets: object) -> list[str]:
        return dhcp.argv(fakes.plan(*subnets), 'box0')  # type: ignore[arg-type]

    def _options(self, *subnets: object) -> dict[str, str]:
        return self._options_of(fakes.plan(*subnets))  # type: ignore[arg-type]

    def _options_of(self, plan: plans.Plan) -> dict[str, str]:
        prefix = '--dhcp-option-force=tag:subnet0,'
        options = (word.removeprefix(prefix).partition(',') for word in dhcp.argv(plan, 'box0')
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

    def test_lease_has_the_options_of_the_networks_dhcp_agent(self) -> None:
        self.assertEqual({
            '6': '8.8.8.8', '3': fakes.GATEWAY, '26': '1450', '15': 'openstacklocal',
            **dict.fromkeys(('121', '249'), '192.0.2.0/24,10.77.0.9,169.254.169.254/32,'
                                            '10.77.0.2,0.0.0.0/0,10.77.0.1')},
            self._options(fakes.subnet(routes=(('192.0.2.0/24', '10.77.0.9'),),
                                       dhcp_server='10.77.0.2')))

    def test_lease_has_the_options_of_the_switch_agents_extension(self) -> None:
        # As in Neutron's DHCPIPv4Responder.
        self.assertEqual({
            '6': '8.8.8.8', '3': fakes.GATEWAY, '26': '1450', '15': 'openstacklocal',
            '12': 'host-10-77-0-50.openstacklocal',
            '121': '0.0.0.0/0,10.77.0.1,169.254.169.254/32,10.77.0.1,192.0.2.0/24,10.77.0.9'},
            self._options(fakes.subnet(routes=(('192.0.2.0/24', '10.77.0.9'),))))

    def test_lease_has_the_options_of_ovn(self) -> None:
        plan = fakes.plan(fakes.subnet(routes=(('192.0.2.0/24', '10.77.0.9'),)), ovn=True,
                          metadata_hops=('10.77.0.3',))
        self.assertEqual({
            '6': '8.8.8.8', '3': fakes.GATEWAY, '26': '1450',
            '121': '169.254.169.254/32,10.77.0.3,192.0.2.0/24,10.77.0.9,0.0.0.0/0,10.77.0.1'},
            self._options_of(plan))
        argv = dhcp.argv(plan, 'box0')
        self.assertIn('--dhcp-range=set:subnet0,10.77.0.0,static,255.255.255.0,43200', argv)
        self.assertIn(f'--dhcp-host={fakes.MAC},{fakes.ADDRESS},43200', argv)

    def test_name_servers_of_a_network_that_names_none(self) -> None:
        directory = self.useFixture(fixtures.TempDir()).path
        resolvers = pathlib.Path(directory, 'resolv.conf')
        resolvers.write_text('search example\nnameserver 192.0.2.53\nnameserver fd00::53\n')
        self.useFixture(fixtures.MockPatchObject(dhcp, '_RESOLVERS', resolvers))
        for dns, expected in (((), ('10.77.0.2', None, '192.0.2.53')),
                              (('0.0.0.0',), (None, '0.0.0.0', None))):
            agents, extension, ovn = expected
            self.assertEqual(agents, self._options(
                fakes.subnet(dns=dns, dhcp_server='10.77.0.2')).get('6'))
            self.assertEqual(extension, self._options(fakes.subnet(dns=dns)).get('6'))
            self.assertEqual(ovn, self._options_of(
                fakes.plan(fakes.subnet(dns=dns), ovn=True)).get('6'))

    def test_name_and_domain_are_those_that_neutron_assigns(self) -> None:
        port = {'dns_assignment': [
            {'ip_address': fakes.ADDRESS_IPV6, 'hostname': 'six', 'fqdn': 'six.example.org.'},
            {'ip_address': fakes.ADDRESS, 'hostname': 'db', 'fqdn': 'db.example.org.'}]}
        subnet = fakes.subnet(dhcp_server='10.77.0.2')
        plan = fakes.plan(subnet).shown(port)
        self.assertIn(f'--dhcp-host={fakes.MAC},{fakes.ADDRESS},db,86400',
                      dhcp.argv(plan, 'box0'))
        self.assertEqual('example.org', self._options_of(plan)['15'])
        self.assertEqual('example.org', self._options_of(
            fakes.plan(subnet, ovn=True).shown(port))['15'])
        # The extension does not know the assigned name.
        self.assertEqual('host-10-77-0-50.example.org', self._options_of(
            fakes.plan(fakes.subnet()).shown(port))['12'])
        self.assertEqual(plan, plans.Plan.from_json(plan.to_json()))

    def test_options_of_the_owner_are_given_as_by_the_network(self) -> None:
        port = {'extra_dhcp_opts': [
            {'opt_name': name, 'opt_value': value, 'ip_version': version}
            for name, value, version in (
                ('ntp-server', '192.0.2.7', 4), ('42', '192.0.2.8', 4), ('mtu', '1400', 4),
                ('domain-name', '"example.org"', 4), ('client-id', '01', 4),
                ('tftp-server', 'x\nlog-dhcp', 4), ('dns-server', '{192.0.2.53, 192.0.2.54}', 4),
                ('root-path', '/srv', 4), ('ntp-server', 'fd00::7', 6))]}
        by_agent = [word for word in dhcp.argv(fakes.plan(
            fakes.subnet(dhcp_server='10.77.0.2')).shown(port), 'box0') if 'option' in word]
        for word in ('option:ntp-server,192.0.2.7', '42,192.0.2.8', '26,1400',
                     'option:tftp-server,x', 'option:root-path,/srv'):
            self.assertIn(f'--dhcp-option=tag:subnet0,{word}', by_agent)
        self.assertNotIn('--dhcp-option-force=tag:subnet0,26,1450', by_agent)
        self.assertFalse([word for word in by_agent if 'client-id' in word or 'fd00' in word])
        self.assertEqual(('192.0.2.8', '1400', 'example.org', 'x', '192.0.2.53,192.0.2.54', None),
                         tuple(self._options_of(fakes.plan(ovn=True).shown(port)).get(code)
                               for code in ('42', '26', '15', '66', '6', 'option:root-path')))
        # The extension gives none of them.
        self.assertEqual(self._options(fakes.subnet()), self._options_of(
            fakes.plan(fakes.subnet()).shown(port)))

    def test_route_of_the_owner_to_metadata_is_kept(self) -> None:
        options = self._options(fakes.subnet(routes=(('169.254.169.254/32', '10.77.0.3'),),
                                             dhcp_server='10.77.0.2'))
        self.assertEqual('169.254.169.254/32,10.77.0.3,0.0.0.0/0,10.77.0.1', options['121'])

    def test_network_without_a_gateway_has_no_default_route(self) -> None:
        subnet = fakes.subnet(gateway=None)
        self.assertEqual('', self._options(subnet)['3'])
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

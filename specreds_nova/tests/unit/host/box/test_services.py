# SPDX-License-Identifier: Apache-2.0
"""What a shut box answers its guest."""

from unittest import mock

from nova.network import model as network_model
from oslo_concurrency import processutils

from specreds_nova.host.box import errors
from specreds_nova.host.box import plan as plans
from specreds_nova.tests.unit.host.box import fakes
from specreds_nova.tests.unit.host.box import sealing_base


class TestServices(sealing_base.SealingTestCase):

    def test_guest_routes_to_metadata_as_outside_the_box(self) -> None:
        self.bind_by_ovn()
        self.bindings.metadata_hops.return_value = {'10.77.0.3': 'fa:16:3e:00:00:98'}
        self.bindings.neighbours.return_value = {fakes.GATEWAY: 'fa:16:3e:00:00:99'}
        self.sealed()
        [served] = self.privileged['start_services'].call_args.args
        self.assertEqual(('10.77.0.3',), plans.Plan.from_json(served).metadata_hops)
        assert self.mechanism.plan
        self.assertEqual(
            ('fa:16:3e:00:00:98', 'fa:16:3e:00:00:99'),
            tuple(self.mechanism.plan.answered[address] for address in ('10.77.0.3',
                                                                        fakes.GATEWAY)))

    def test_hardware_addresses_outside_are_learned(self) -> None:
        self.bindings.neighbours.return_value = {fakes.GATEWAY: 'fa:16:3e:00:00:99'}
        self.sealed()
        assert self.mechanism.plan
        self.assertEqual('fa:16:3e:00:00:99', self.mechanism.plan.answered[fakes.GATEWAY])

    def test_metadata_of_tagged_devices_wait_for_their_places(self) -> None:
        self.instance.device_metadata = mock.sentinel.of_the_primary
        self.box.seal(mock.sentinel.context, self.instance, fakes.BACKUP_ID)
        self.box._background.wait(fakes.BACKUP_ID)
        self.privileged['start_services'].assert_called_once()
        self.write.assert_not_called()
        self.instance.device_metadata = mock.sentinel.of_the_backup
        self.write.side_effect = lambda instance, _path: self.assertIs(
            mock.sentinel.of_the_backup, instance.device_metadata)
        for _ in range(2):
            self.box.attached(self.instance, fakes.BACKUP_ID)
            self.privileged['start_responder'].assert_called_once()

    def test_malformed_options_of_the_owner_are_left_out(self) -> None:
        self.bindings.ports.return_value[fakes.PORT]['extra_dhcp_opts'] = [
            {'opt_name': name, 'opt_value': '192.0.2.7', 'ip_version': 4}
            for name in ('no-such-option', 'ntp-server')]
        subnet = self.instance.get_network_info()[0]['network']['subnets'][0]
        subnet['meta'].update(dhcp_server='10.77.0.2')
        self.privileged['start_services'].side_effect = [
            processutils.ProcessExecutionError('bad dhcp-option'), None]
        self.sealed()
        first, second = (plans.Plan.from_json(*call.args) for call
                         in self.privileged['start_services'].call_args_list)
        self.assertEqual(('no-such-option', 'ntp-server'),
                         tuple(name for name, _value in first.dhcp_options))
        self.assertEqual((('ntp-server', '192.0.2.7'),), second.dhcp_options)

    def test_failed_dhcp_is_an_error_and_failed_metadata_is_not(self) -> None:
        self.write.side_effect = ValueError('no')
        self.sealed()
        self.privileged['start_services'].side_effect = OSError('no')
        self.assertRaises(errors.BoxFailed, self.sealed)


class TestIpv6(sealing_base.SealingTestCase):
    """The services of a port that has no address of IPv4."""

    def setUp(self) -> None:
        super().setUp()
        self.bind_ipv6()

    def bind_ipv6(self) -> None:
        vif = fakes.vif()
        vif['network']['subnets'] = [network_model.Subnet(
            cidr='2001:db8::/64', gateway=network_model.IP(fakes.GATEWAY_IPV6), dns=[], routes=[],
            ips=[network_model.FixedIP(address=fakes.ADDRESS_IPV6)], enable_dhcp=True,
            ipv6_address_mode='slaac')]
        self.instance.get_network_info.return_value = network_model.NetworkInfo([vif])

    def served(self) -> plans.Plan:
        [served] = self.privileged['start_services'].call_args.args
        return plans.Plan.from_json(served)

    def test_services_have_the_address_of_the_router(self) -> None:
        self.bindings.neighbours.return_value = {fakes.GATEWAY_IPV6: fakes.ROUTER_MAC}
        self.sealed()
        self.assertEqual(fakes.ROUTER, self.served().router)
        assert self.mechanism.plan
        self.assertEqual(fakes.ROUTER, self.mechanism.plan.router)
        self.assertEqual((True,), self.privileged['start_responder'].call_args.args[2:])

    def test_unknown_router_is_replaced_by_the_box(self) -> None:
        self.sealed()
        self.assertIsNone(self.served().router)

    def test_services_that_ended_are_started_again(self) -> None:
        self.sealed()
        self.privileged['start_services'].reset_mock()
        self.box.reconcile([fakes.BACKUP_ID], [])
        self.privileged['start_services'].assert_not_called()
        self.privileged['namespace_runs'].return_value = []
        self.box.reconcile([fakes.BACKUP_ID], [])
        self.privileged['start_services'].assert_called_once()

    def test_address_of_ipv6_is_probed(self) -> None:
        self.sealed()
        self.privileged['accepts_connection'].return_value = True
        self.assertTrue(self.box.accepts_connection(fakes.BACKUP_ID, 80, 0.5))
        self.privileged['accepts_connection'].assert_called_once_with(
            fakes.PORT, fakes.ADDRESS_IPV6, 80, 0.5)

    def test_host_that_cannot_serve_ipv6_leaves_it_out(self) -> None:
        self.missing.return_value = 'no dnsmasq'
        self.box = self.made()
        self.sealed()
        self.privileged['start_services'].assert_not_called()
        self.assertFalse(self.box.accepts_connection(fakes.BACKUP_ID, 80, 0.5))
        self.privileged['accepts_connection'].assert_not_called()

# SPDX-License-Identifier: Apache-2.0

from nova.network import model as network_model
import testtools

from specreds_nova.host.box import plan as plans
from specreds_nova.tests.unit.host.box import fakes


class TestPlan(testtools.TestCase):

    def test_plan_is_made_from_novas_network_info(self) -> None:
        plan = plans.from_vif(fakes.vif(), fakes.SERVER, fakes.BACKUP_ID)
        self.assertEqual((fakes.PORT, fakes.MAC, 'br-int', 1450),
                         (plan.port, plan.mac, plan.integration_bridge, plan.mtu))
        self.assertEqual((fakes.subnet(routes=(('192.0.2.0/24', '10.77.0.9'),),
                                       dhcp_server='10.77.0.2'),), plan.subnets)

    def test_saved_plan_is_read_back(self) -> None:
        plan = fakes.plan(fakes.subnet(routes=(('192.0.2.0/24', '10.77.0.9'),)),
                          neighbours={fakes.GATEWAY: 'fa:16:3e:00:00:99'})
        self.assertEqual(plan, plans.Plan.from_json(plan.to_json()))

    def test_mode_of_addresses_is_part_of_the_plan(self) -> None:
        vif = fakes.vif()
        vif['network']['subnets'].append(network_model.Subnet(
            cidr='2001:db8::/64', gateway=network_model.IP(fakes.GATEWAY_IPV6), dns=[], routes=[],
            ips=[network_model.FixedIP(address=fakes.ADDRESS_IPV6)], enable_dhcp=True,
            ipv6_address_mode='slaac'))
        plan = plans.from_vif(vif, fakes.SERVER, fakes.BACKUP_ID, ipv6_served=True)
        [subnet] = plan.answered_ipv6
        self.assertEqual('slaac', subnet.address_mode)
        self.assertEqual(plan, plans.Plan.from_json(plan.to_json()))
        self.assertEqual((), plans.from_vif(vif, fakes.SERVER, fakes.BACKUP_ID).answered_ipv6)

    def test_linux_bridge_of_novas_network_info_is_part_of_the_plan(self) -> None:
        vif = fakes.vif(details={'bridge_name': 'br-int', 'ovs_hybrid_plug': True})
        plan = plans.from_vif(vif, fakes.SERVER, fakes.BACKUP_ID)
        self.assertEqual((True, 'qvoaaaaaaaa-11'), (plan.hybrid, plan.device))
        self.assertEqual(plan, plans.Plan.from_json(plan.to_json()))
        self.assertEqual('tapaaaaaaaa-11', fakes.plan().device)

    def test_driver_that_bound_the_port_is_part_of_the_plan(self) -> None:
        details = {'bridge_name': 'br-int', 'bound_drivers': {'0': 'ovn'}}
        plan = plans.from_vif(fakes.vif(details=details), fakes.SERVER, fakes.BACKUP_ID)
        self.assertTrue(plan.ovn)
        self.assertFalse(fakes.plan().ovn)
        self.assertEqual(plan, plans.Plan.from_json(plan.to_json()))

    def test_metadata_is_routed_by_the_hop_of_the_subnet(self) -> None:
        plan = fakes.plan(fakes.subnet(), metadata_hops=('10.78.0.3', '10.77.0.3'))
        [subnet] = plan.subnets
        self.assertEqual('10.77.0.3', plan.metadata_hop(subnet))
        self.assertIn('10.77.0.3', plan.answered)
        self.assertEqual(plan, plans.Plan.from_json(plan.to_json()))
        [subnet] = fakes.plan().subnets
        self.assertEqual(fakes.GATEWAY, fakes.plan().metadata_hop(subnet))

    def test_device_names_fit_into_the_kernel(self) -> None:
        plan = fakes.plan()
        names = {plan.bridge, plan.service, plan.tap}
        self.assertEqual(3, len(names))
        self.assertTrue(all(len(name) < 16 for name in names), names)

    def test_box_answers_for_gateways_and_routes(self) -> None:
        plan = fakes.plan(fakes.subnet(dhcp_server='10.77.0.2'),
                          neighbours={fakes.GATEWAY: 'fa:16:3e:00:00:99'})
        self.assertEqual({'169.254.169.254': plan.service_mac, '10.77.0.2': plan.service_mac,
                          fakes.GATEWAY: 'fa:16:3e:00:00:99'}, plan.answered)

    def test_box_does_not_answer_for_the_guest(self) -> None:
        plan = fakes.plan(fakes.subnet(gateway=fakes.ADDRESS))
        self.assertNotIn(fakes.ADDRESS, plan.answered)

    def test_dhcp_has_the_address_of_the_real_server(self) -> None:
        self.assertEqual(fakes.GATEWAY, fakes.subnet().server)
        self.assertEqual('10.77.0.2', fakes.subnet(dhcp_server='10.77.0.2').server)
        self.assertIsNone(fakes.subnet(gateway=None).server)

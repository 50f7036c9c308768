# SPDX-License-Identifier: Apache-2.0
import re

import testtools

from specreds_nova.host.box import flows
from specreds_nova.tests.unit.host.box import fakes

_V6 = {'cidr': '2001:db8::/64', 'addresses': ('2001:db8::50',), 'gateway': '2001:db8::1'}


class TestSealed(testtools.TestCase):

    def test_no_frame_is_sent_to_the_patch(self) -> None:
        for plan in (fakes.plan(), fakes.plan(fakes.subnet(**_V6)),
                     fakes.plan(fakes.subnet(dhcp_server='10.77.0.2'), fakes.subnet(**_V6))):
            for flow in flows.sealed(plan):
                actions = flow.partition('actions=')[2]
                self.assertNotRegex(actions, rf'output:{flows.PATCH}\b')
                self.assertNotRegex(actions, r'(?i)normal|flood|all|local|controller|resubmit')

    def test_guest_passes_nothing_that_only_port_security_would_drop(self) -> None:
        # The seal does not depend on the source of a frame, nor on the network's own filters.
        for flow in flows.sealed(fakes.plan(fakes.subnet(dhcp_server='10.77.0.2'))):
            match, _, actions = flow.partition(',actions=')
            self.assertNotIn('dl_src', match)
            if f'in_port={flows.GUEST},' in match:
                self.assertRegex(match, r',(udp,.*tp_dst=67|tcp,.*nw_dst=|arp,.*arp_tpa=)')
                self.assertRegex(actions, rf'(output:{flows.SERVICE}|IN_PORT)$')

    def test_frames_from_the_patch_are_dropped_first(self) -> None:
        first, *others = flows.sealed(fakes.plan())
        self.assertEqual(f'priority=100,in_port={flows.PATCH},actions=drop', first)
        for flow in others:
            self.assertRegex(flow, rf'in_port=({flows.GUEST}|{flows.SERVICE}),')
            [priority] = re.findall(r'^priority=(\d+)', flow)
            self.assertLess(int(priority), 100)

    def test_dhcp_is_not_answered_without_a_server(self) -> None:
        self.assertNotIn('tp_dst=67', '\n'.join(flows.sealed(fakes.plan(
            fakes.subnet(dhcp=False)))))
        self.assertIn('tp_dst=67', '\n'.join(flows.sealed(fakes.plan())))

    def test_ipv6_is_dropped(self) -> None:
        self.assertEqual(1, len(flows.sealed(fakes.plan(fakes.subnet(**_V6)))))

    def test_ipv6_of_the_guest_stays_in_the_box(self) -> None:
        for mode in (None, 'slaac', 'dhcpv6-stateful', 'dhcpv6-stateless'):
            plan = fakes.plan(fakes.subnet_ipv6(address_mode=mode), ipv6_served=True)
            first, *others = flows.sealed(plan)
            self.assertIn('actions=drop', first)
            for flow in others:
                self.assertRegex(
                    flow, rf'^priority=[89]0,in_port=({flows.GUEST}|{flows.SERVICE}),')
                self.assertRegex(flow, rf',output:({flows.GUEST}|{flows.SERVICE})$'
                                       rf'|actions=output:{flows.GUEST}$')

    def test_ipv4_is_unchanged_by_ipv6(self) -> None:
        alone = flows.sealed(fakes.plan())
        self.assertEqual(alone, flows.sealed(fakes.plan(ipv6_served=True)))
        both = fakes.plan(fakes.subnet(), fakes.subnet_ipv6(), ipv6_served=True)
        self.assertEqual(alone, flows.sealed(both)[:len(alone)])

    def test_guest_finds_the_addresses_of_the_box_only(self) -> None:
        plan = fakes.plan(fakes.subnet_ipv6(), ipv6_served=True, router=fakes.ROUTER,
                          neighbours={fakes.GATEWAY_IPV6: fakes.ROUTER_MAC})
        solicited = re.findall(rf'in_port={flows.GUEST},icmp6,icmp_type=135,nd_target=([^,]+),',
                               '\n'.join(flows.sealed(plan)))
        self.assertEqual({'fe80::a9fe:a9fe', fakes.ROUTER, fakes.GATEWAY_IPV6}, set(solicited))
        self.assertIn(f'priority=90,in_port={flows.SERVICE},icmp6,icmp_type=136,'
                      f'nd_target={fakes.GATEWAY_IPV6},actions=mod_dl_src:{fakes.ROUTER_MAC},'
                      f'set_field:{fakes.ROUTER_MAC}->nd_tll,output:{flows.GUEST}',
                      flows.sealed(plan))

    def test_advertisements_and_dhcpv6_pass_as_the_subnet_demands(self) -> None:
        for mode, advertised, leased in ((None, False, True), ('slaac', True, False),
                                         ('dhcpv6-stateful', True, True),
                                         ('dhcpv6-stateless', True, True)):
            text = '\n'.join(flows.sealed(fakes.plan(fakes.subnet_ipv6(address_mode=mode),
                                                     ipv6_served=True)))
            self.assertEqual((advertised, leased), ('icmp_type=134' in text, '547' in text))

    def test_arp_is_answered_with_the_real_hardware_addresses(self) -> None:
        plan = fakes.plan(neighbours={fakes.GATEWAY: 'fa:16:3e:00:00:99'})
        [flow] = [flow for flow in flows.sealed(plan) if f'arp_tpa={fakes.GATEWAY}' in flow]
        self.assertIn('load:0xfa163e000099->NXM_NX_ARP_SHA[]', flow)
        self.assertIn('load:0xa4d0001->NXM_OF_ARP_SPA[]', flow)
        self.assertTrue(flow.endswith(',IN_PORT'))

    def test_box_answers_its_services_for_the_guest(self) -> None:
        # dnsmasq replaces the permanent entry of the guest in the namespace.
        [flow] = [flow for flow in flows.sealed(fakes.plan())
                  if f'in_port={flows.SERVICE},arp' in flow]
        self.assertIn(f'arp_tpa={fakes.ADDRESS},', flow)
        self.assertIn(f'load:0x{fakes.MAC.replace(":", "")}->NXM_NX_ARP_SHA[]', flow)
        self.assertTrue(flow.endswith(',IN_PORT'))


class TestOpened(testtools.TestCase):

    def test_opened_box_passes_every_frame(self) -> None:
        self.assertEqual([f'priority=10,in_port={flows.GUEST},actions=output:{flows.PATCH}',
                          f'priority=10,in_port={flows.PATCH},actions=output:{flows.GUEST}'],
                         flows.opened())

    def test_one_bundle_replaces_all_flows_and_announces(self) -> None:
        self.assertEqual(['flow delete', *(f'flow add {flow}' for flow in flows.opened()),
                          f'packet-out in_port={flows.GUEST} packet=0102 '
                          f'actions=output:{flows.PATCH}', ''],
                         flows.bundle(flows.opened(), [b'\1\2']).split('\n'))

    def test_guest_is_told_after_the_network(self) -> None:
        self.assertEqual([f'packet-out in_port={flows.GUEST} packet=01 '
                          f'actions=output:{flows.PATCH}',
                          f'packet-out in_port={flows.PATCH} packet=02 '
                          f'actions=output:{flows.GUEST}', ''],
                         flows.bundle([], [b'\1'], [b'\2']).split('\n')[1:])

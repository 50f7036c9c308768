# SPDX-License-Identifier: Apache-2.0
import re

import testtools

from specreds_nova.tests.unit.virt.box import fakes
from specreds_nova.virt.box import flows

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

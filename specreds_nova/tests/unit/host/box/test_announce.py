# SPDX-License-Identifier: Apache-2.0
import ipaddress
import socket

import testtools

from specreds_nova.host.box import announce
from specreds_nova.host.box import ipv6
from specreds_nova.tests.unit.host.box import fakes

_MAC = bytes.fromhex(fakes.MAC.replace(':', ''))
_V6 = {'cidr': '2001:db8::/64', 'addresses': ('2001:db8::50',), 'gateway': '2001:db8::1'}


def _sum(data: bytes) -> int:
    total = sum(int.from_bytes(data[n:n + 2].ljust(2, b'\0'), 'big')
                for n in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total


class TestFrames(testtools.TestCase):

    def test_frames_have_the_address_of_the_guest(self) -> None:
        for frame in announce.frames(fakes.plan(fakes.subnet(), fakes.subnet(**_V6))):
            self.assertEqual(_MAC, frame[6:12])
            self.assertGreaterEqual(len(frame), 60)

    def test_switches_neighbours_and_gateway_get_announcements(self) -> None:
        rarp, own, gateway = announce.frames(fakes.plan())
        self.assertEqual(b'\x80\x35', rarp[12:14])
        address = socket.inet_aton(fakes.ADDRESS)
        for frame, target in ((own, fakes.ADDRESS), (gateway, fakes.GATEWAY)):
            self.assertEqual(b'\xff' * 6, frame[:6])
            self.assertEqual(b'\x08\x06', frame[12:14])
            self.assertEqual(_MAC + address, frame[22:32])
            self.assertEqual(socket.inet_aton(target), frame[38:42])

    def test_addresses_that_the_box_answered_for_are_resolved(self) -> None:
        targets = {frame[38:42] for frame in announce.frames(fakes.plan(
            fakes.subnet(dhcp_server='10.77.0.2'))) if frame[12:14] == b'\x08\x06'}
        self.assertEqual({socket.inet_aton(address) for address in (
            fakes.ADDRESS, fakes.GATEWAY, '10.77.0.2')}, targets)

    def test_only_fixed_addresses_are_announced(self) -> None:
        # Another server may hold an address of an allowed address pair, such as that of VRRP.
        frames = announce.frames(fakes.plan(fakes.subnet(dns=('10.77.0.99',), routes=(
            ('192.0.2.0/24', '10.77.0.98'),)), fakes.subnet(**_V6)))
        self.assertEqual({socket.inet_aton(fakes.ADDRESS)},
                         {frame[28:32] for frame in frames if frame[12:14] == b'\x08\x06'})
        self.assertEqual({ipaddress.IPv6Address('2001:db8::50').packed},
                         {frame[62:78] for frame in frames if frame[54] == 136
                          and frame[12:14] == b'\x86\xdd'})

    def test_ipv6_announcement_is_well_formed(self) -> None:
        frames = announce.frames(fakes.plan(fakes.subnet(**_V6)))[1:]
        self.assertEqual([136, 133, 133], [frame[54] for frame in frames])
        for frame in frames:
            length = int.from_bytes(frame[18:20], 'big')
            pseudo = frame[22:54] + length.to_bytes(4, 'big') + bytes([0, 0, 0, 58])
            self.assertEqual(0xffff, _sum(pseudo + frame[54:54 + length]))
        self.assertEqual(ipaddress.IPv6Address('2001:db8::50').packed, frames[0][62:78])

    def test_solicitation_passes_port_security(self) -> None:
        # Neutron's firewalls and OVN drop one from the unspecified address.
        solicitation = announce.frames(fakes.plan(fakes.subnet(**_V6)))[-2]
        self.assertEqual(ipaddress.IPv6Address(ipv6.link_local(fakes.MAC)).packed,
                         solicitation[22:38])
        self.assertEqual(b'\1\1' + _MAC, solicitation[62:70])
        self.assertEqual(16, int.from_bytes(solicitation[18:20], 'big'))

    def test_solicitation_without_source_address_reaches_guests_with_another(self) -> None:
        solicitation = announce.frames(fakes.plan(fakes.subnet(**_V6)))[-1]
        self.assertEqual(ipaddress.IPv6Address('::').packed, solicitation[22:38])
        self.assertEqual(8, int.from_bytes(solicitation[18:20], 'big'))

    def test_addresses_that_the_box_answered_for_are_solicited(self) -> None:
        frames = announce.frames(fakes.plan(fakes.subnet_ipv6(), ipv6_served=True))[1:]
        self.assertEqual([136, 135, 133, 133], [frame[54] for frame in frames])
        solicitation = frames[1]
        self.assertEqual(bytes.fromhex('3333ff000001'), solicitation[:6])
        self.assertEqual(ipaddress.IPv6Address(fakes.ADDRESS_IPV6).packed, solicitation[22:38])
        self.assertEqual(ipaddress.IPv6Address(fakes.GATEWAY_IPV6).packed, solicitation[62:78])
        self.assertEqual(b'\1\1' + _MAC, solicitation[78:86])


class TestWithdrawal(testtools.TestCase):

    def test_box_with_an_address_of_its_own_withdraws_itself_as_the_router(self) -> None:
        plan = fakes.plan(fakes.subnet_ipv6(), ipv6_served=True)
        [frame] = announce.withdrawal(plan)
        self.assertEqual(134, frame[54])
        self.assertEqual(ipaddress.IPv6Address(ipv6.router(plan)).packed, frame[22:38])
        # The lifetime of the router.
        self.assertEqual(b'\0\0', frame[60:62])

    def test_router_of_the_network_stays(self) -> None:
        self.assertEqual([], announce.withdrawal(
            fakes.plan(fakes.subnet_ipv6(), ipv6_served=True, router=fakes.ROUTER)))

    def test_box_that_advertised_nothing_withdraws_nothing(self) -> None:
        for plan in (fakes.plan(), fakes.plan(fakes.subnet_ipv6()), fakes.plan(
                fakes.subnet_ipv6(address_mode=None), ipv6_served=True)):
            self.assertEqual([], announce.withdrawal(plan))

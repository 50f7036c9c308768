# SPDX-License-Identifier: Apache-2.0
"""Addresses: only the address of a single client may be fenced."""

import ipaddress

import ddt
import hypothesis
from hypothesis import strategies
import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import address

_PORTS = strategies.integers(0, 65535)
_NONCES = strategies.integers(1, 2**32 - 1)


@ddt.ddt
class CheckTest(testtools.TestCase):

    @hypothesis.given(strategies.ip_addresses(), _PORTS, _NONCES)
    def test_address_of_a_client_is_accepted(self,
                                             host: ipaddress.IPv4Address | ipaddress.IPv6Address,
                                             port: int, nonce: int) -> None:
        text = f'[{host}]' if host.version == 6 else str(host)
        client = f'{text}:{port}/{nonce}'
        self.assertEqual(client, address.check(client))
        self.assertEqual(text, address.host(client))
        self.assertEqual({client}, address.found_in(f'v1:{client}'))
        self.assertEqual({client}, address.found_in(f'[v2:{client},v1:{client}]'))

    @ddt.data(
        '', '127.0.0.1', '127.0.0.1:0', '127.0.0.1/17', '127.0.0.1:0/', '127.0.0.1:0/x',
        # Ceph reads these as a whole host, or as a network.
        '127.0.0.1:0/0', '127.0.0.1:0/00', '10.0.0.0/8', '[::1]:0/0', '[::1]',
        # No address, or not in the form of the blocklist.
        '300.0.0.1:0/17', '::1:0/17', '[127.0.0.1:0/17', 'localhost:0/17', '[::g]:0/17',
        'v1:127.0.0.1:0/17', ' 127.0.0.1:0/17', '127.0.0.1:0/17\n', '127.0.0.1:0/17 60',
        '127.0.0.1:0/-1', '127.0.0.1:0/17,127.0.0.1:0/18')
    def test_other_address_is_refused(self, text: str) -> None:
        error = self.assertRaises(errors.InvalidInput, address.check, text)
        self.assertIn(repr(text), str(error))


@ddt.ddt
class EndpointTest(testtools.TestCase):

    @ddt.data(('192.0.2.1:6789/0', '192.0.2.1', '6789'), ('[2001:db8::2]:3300/0', '2001:db8::2',
                                                          '3300'))
    @ddt.unpack
    def test_endpoint_of_a_monitor_has_host_and_port(self, text: str, host: str,
                                                     port: str) -> None:
        self.assertEqual((host, port), address.endpoint(text))

    def test_address_without_a_port_is_refused(self) -> None:
        error = self.assertRaises(errors.InvalidInput, address.endpoint, '192.0.2.1')
        self.assertIn("'192.0.2.1'", str(error))


class FoundInTest(testtools.TestCase):

    def test_clients_are_found_in_a_text(self) -> None:
        self.assertEqual({'10.0.0.1:0/1', '[fe80::1]:6789/22'},
                         address.found_in('[v2:10.0.0.1:0/1,v1:10.0.0.1:0/1] [fe80::1]:6789/22'))

    def test_text_without_clients_has_none(self) -> None:
        self.assertEqual(frozenset(), address.found_in('-'))


class ClientsTest(testtools.TestCase):

    def test_each_text_names_a_client(self) -> None:
        self.assertEqual({'10.0.0.1:0/1', '10.0.0.2:0/2'},
                         address.clients(['v1:10.0.0.1:0/1', '10.0.0.2:0/2']))
        self.assertEqual(frozenset(), address.clients([]))

    def test_client_without_an_address_is_an_error(self) -> None:
        error = self.assertRaises(errors.ClusterError, address.clients, ['10.0.0.1:0/1', '-'])
        self.assertIn("'-'", str(error))

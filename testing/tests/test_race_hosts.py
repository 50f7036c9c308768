# SPDX-License-Identifier: Apache-2.0
"""The hosts of races reach the cluster from addresses of their own, unless they are cut off."""

import operator
import os
import pathlib
import socket
import subprocess
import sys

import fixtures
import tenacity
import testtools

from testing.race import hosts

# Tests that run at the same time must not share a network.
_PORT = 40000 + os.getpid() % 127 * 100
_HEAL_SECONDS = 60
_CONNECT = 'import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 1)'


class HostsTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest('network namespaces need root')
        self.network = hosts.Network(_PORT)
        self.network.__enter__()
        self.addCleanup(self.network.__exit__)
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.hosts = [self.network.claim(directory) for _ in range(2)]
        for host in self.hosts:
            self.addCleanup(host.close)
        self.listener = socket.create_server((self.network.address, 0))
        self.addCleanup(self.listener.close)

    def connects(self, host: hosts.Host) -> bool:
        command = [*host.prefix, sys.executable, '-c', _CONNECT, self.network.address,
                   str(self.listener.getsockname()[1])]
        return subprocess.run(command, capture_output=True, timeout=60).returncode == 0

    # The kernel waits before it resolves an address again that did not answer.
    @tenacity.retry(retry=tenacity.retry_if_result(operator.not_),
                    stop=tenacity.stop_after_delay(_HEAL_SECONDS),
                    retry_error_callback=lambda _state: False)
    def connects_again(self, host: hosts.Host) -> bool:
        return self.connects(host)

    def test_each_host_has_an_address(self) -> None:
        addresses = set()
        for host in self.hosts:
            self.assertTrue(self.connects(host))
            connection, (address, _port) = self.listener.accept()
            connection.close()
            addresses.add(address)
        self.assertEqual(2, len(addresses))
        self.assertNotIn(self.network.address, addresses)

    def test_link_is_cut_and_heals(self) -> None:
        first, second = self.hosts
        first.cut()
        self.assertEqual([False, True], [self.connects(first), self.connects(second)])
        first.heal()
        self.assertTrue(self.connects_again(first))

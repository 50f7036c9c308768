# SPDX-License-Identifier: Apache-2.0
"""What a host reports of its boot and of its addresses."""

import pathlib
import socket
import subprocess
import sys
import time
import types
from unittest import mock

import psutil  # type: ignore[import-untyped]
import testtools
from testtools import matchers

from specreds_nova.beats import boot


def _entry(family: int, address: str) -> types.SimpleNamespace:
    return types.SimpleNamespace(family=family, address=address)


class BootTest(testtools.TestCase):

    def test_boot_is_that_of_the_kernel(self) -> None:
        uptime = float(pathlib.Path('/proc/uptime').read_text().split()[0])
        report = boot.report()
        self.assertEqual(pathlib.Path('/proc/sys/kernel/random/boot_id').read_text().strip(),
                         report['kernel'])
        self.assertGreaterEqual(report['uptime'], uptime)

    def test_age_of_nova_compute_is_that_of_its_process(self) -> None:
        with subprocess.Popen(
                [sys.executable, '-c', 'import sys; from specreds_nova.beats import boot; '
                 'sys.stdin.readline(); print(boot.report()["service_uptime"])'],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            began = psutil.Process(process.pid).create_time()
            answer, _ = process.communicate('\n')
            # The kernel counts in hundredths of a second, and this clock was read later.
            self.assertThat(float(answer), matchers.MatchesAll(
                matchers.GreaterThan(0.05), matchers.LessThan(time.time() - began + 0.05)))
        own = boot.report()
        self.assertLess(own['service_uptime'], own['uptime'])
        self.assertGreater(own['service_uptime'], float(answer) - 0.05)

    def test_addresses_that_every_host_has_are_left_out(self) -> None:
        interfaces = {
            'lo': [_entry(socket.AF_INET, '127.0.0.1'), _entry(socket.AF_INET6, '::1')],
            'eth0': [_entry(socket.AF_INET, '192.0.2.1'),
                     _entry(socket.AF_INET6, '2001:DB8:0::1'),
                     _entry(socket.AF_INET6, 'fe80::1%eth0'),
                     _entry(socket.AF_PACKET, '52:54:00:00:00:01')]}
        with mock.patch('psutil.net_if_addrs', return_value=interfaces):
            self.assertEqual(['192.0.2.1', '2001:db8::1'], boot.report()['addresses'])

# SPDX-License-Identifier: Apache-2.0
"""The containers that DevStack runs in."""

import os
import pathlib
import signal
import subprocess
from unittest import mock

import ddt

from cloud import commands
from cloud.devstack import container
from cloud.devstack import layout
from cloud.tests.devstack import base


@ddt.ddt
class ContainerTest(base.DevstackTestCase):

    def process(self, text: str) -> pathlib.Path:
        (self.data / 'status').write_text(text)
        return self.data

    @ddt.data(('Name:\tsystemd\nNSpid:\t4711\t1\n', True),
              ('Name:\tsystemd\nNSpid:\t1\n', False),
              ('Name:\tsystemd\nNSpid:\t4711\t17\n', False),
              ('Name:\tapt-get\nNSpid:\t4711\t1\n', False))
    @ddt.unpack
    def test_leader(self, text: str, expected: bool) -> None:
        self.assertIs(expected, container.is_leader(self.process(text)))

    def test_process_that_has_ended_is_no_leader(self) -> None:
        self.assertFalse(container.is_leader(self.data / 'ended'))

    def test_program_needs_a_container_that_runs(self) -> None:
        stopped = container.Container('devstack', self.data / 'root', self.data / 'log')
        error = self.assertRaises(commands.CloudError, stopped.command, ['true'])
        self.assertIn('./run devstack up', str(error))

    def test_program_gets_no_variables_of_this_process(self) -> None:
        with mock.patch.dict(os.environ, {'SECRET': 'x', 'PIP_CERT': '/c'}), \
                mock.patch.object(container.Container, 'leader', 7):
            argv = container.Container(
                'devstack', self.data, self.data / 'log').as_stack('./stack.sh')
        self.assertEqual(['nsenter', '--target', '7'], argv[:3])
        self.assertIn('PIP_CERT=/c', argv)
        self.assertNotIn('SECRET=x', argv)
        self.assertEqual(['su', '-', 'stack', '-c', './stack.sh'], argv[-5:])

    def test_network_of_its_own(self) -> None:
        self.assertIn('--network-bridge=br', container.nspawn('name', self.data, 'br', []))

    def test_shared_directories_cannot_be_written(self) -> None:
        argv = container.nspawn('devstack2', self.data, 'br', [(self.data, layout.GIT)])
        self.assertEqual(f'--bind-ro={self.data}:/opt/git', argv[-1])
        self.assertIn('--machine=devstack2', argv)
        self.assertIn('--network-veth-extra=devstack2-data:data0', argv)

    def test_stop(self) -> None:
        running = container.Container('devstack', self.data / 'root', self.data / 'log')
        for kill, number in ((False, signal.SIGRTMIN + 3), (True, signal.SIGKILL)):
            leaders = mock.PropertyMock(side_effect=[7, None])
            with mock.patch.object(container.Container, 'leader', leaders), \
                    mock.patch.object(os, 'kill') as send:
                running.stop(kill)
            send.assert_called_once_with(7, number)

    def test_failed_start_names_the_log(self) -> None:
        failed = container.Container('devstack', self.data / 'root', self.data / 'log')
        with mock.patch.object(subprocess, 'Popen') as start:
            start.return_value.poll.return_value = 1
            error = self.assertRaises(commands.CloudError, failed.start, 'br', [],
                                      mock.Mock())
        self.assertIn(str(self.data / 'log'), str(error))

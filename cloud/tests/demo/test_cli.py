# SPDX-License-Identifier: Apache-2.0
"""The demo's error names a service of its cloud that has ended."""

import fcntl
import pathlib
import signal
import sys
from typing import Any
from unittest import mock

import fixtures
import testtools

from cloud import cloud as openstack_cloud
from cloud import commands
from cloud import losses
from cloud import processes
from cloud.demo import cli
from cloud.demo import screen as screens
from cloud.demo import stage as stages

_CRASH = ('2026-11-29 22:10:05,123 WARN exited: ovs-vswitchd (terminated by SIGABRT (core '
          'dumped); not expected)\n')


class ErrorTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.logs = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.addCleanup(self.logs.with_name(f'{self.logs.name}-lock').unlink, missing_ok=True)
        (self.logs / processes.OWN_LOG).write_text(_CRASH.replace('ovs-vswitchd', 'earlier'))
        self.cloud = cloud = mock.Mock(spec=openstack_cloud.Cloud, log_dir=self.logs,
                                       data_dir=self.logs)
        cloud.losses.side_effect = lambda: losses.Losses({'cn2/': losses.Logs(self.logs)})
        self.useFixture(fixtures.MockPatchObject(openstack_cloud, 'Cloud', return_value=cloud))
        self.useFixture(fixtures.MonkeyPatch('sys.argv', [
            'demo', '--data', str(self.logs), '--out', str(self.logs)]))
        self.stderr = self.useFixture(fixtures.StringStream('stderr')).stream
        self.useFixture(fixtures.MonkeyPatch('sys.stderr', self.stderr))
        self.useFixture(fixtures.MockPatchObject(screens, 'Screen'))
        self.addCleanup(signal.signal, signal.SIGTERM, signal.getsignal(signal.SIGTERM))

    def failing(self, lost: bool) -> str:
        """Run the demo, whose first step fails, and return its error."""
        def step(*_args: Any) -> None:
            if lost:
                with (self.logs / processes.OWN_LOG).open('a') as log:
                    log.write(_CRASH)
            raise commands.CloudError('the database cannot be verified')
        self.useFixture(fixtures.MockPatchObject(stages, 'Stage', side_effect=step))
        self.assertEqual(1, cli.main())
        sys.stderr.seek(0)
        return sys.stderr.read()

    def test_error_names_the_service_first(self) -> None:
        self.assertEqual(
            'error: cn2/ovs-vswitchd ended by itself at 22:10:05 (terminated by SIGABRT (core '
            f'dumped)): see {self.logs}/ovs-vswitchd.out\nthen: the database cannot be '
            'verified\n', self.failing(True))

    def test_error_is_unchanged_if_all_services_run(self) -> None:
        self.assertEqual('error: the database cannot be verified\n', self.failing(False))

    def test_second_demo_leaves_the_first_one_alone(self) -> None:
        lock = self.logs.with_name(f'{self.logs.name}-lock')
        with lock.open('w') as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write('4711 (demo)')
            file.flush()
            self.assertIn(f'{self.logs} is in use by process 4711 (demo)', self.failing(False))
        self.cloud.wipe.assert_not_called()

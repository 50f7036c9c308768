# SPDX-License-Identifier: Apache-2.0
"""What an administrator's waits report."""

import pathlib
from unittest import mock

import fixtures
import testtools

from cloud import administrator
from cloud import cloud as clouds
from cloud import commands


class WaitTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        data = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.cloud = mock.create_autospec(clouds.Cloud, instance=True)
        self.cloud.host.side_effect = lambda name: mock.Mock(
            files=mock.Mock(instances=data / name))
        self.administrator = administrator.Administrator(self.cloud)
        self.server = administrator.Server('some-id', 'database', 'cn1', '10.0.0.9', ())
        for host, line in (('cn1', 'G2-FAILED no loader'), ('cn2', 'G2-READY')):
            console = data / host / 'some-id/console.log'
            console.parent.mkdir(parents=True)
            console.write_bytes(b'long ago\n' * 500 + b'\xff' + line.encode() + b'\n')

    def error(self, **more: str) -> str:
        return str(self.assertRaises(
            commands.CloudError, self.administrator.wait_guest, self.server,
            'the database to be used', lambda: False, 0, **more))

    def test_error_quotes_the_end_of_the_guests_console(self) -> None:
        error = self.error()
        self.assertRegex(error, 'for the database to be used; the console of database on cn1')
        self.assertTrue(error.endswith('G2-FAILED no loader'))
        self.assertThat(len(error), testtools.matchers.LessThan(1500))

    def test_console_is_that_of_the_named_host(self) -> None:
        self.assertTrue(self.error(host='cn2').endswith('G2-READY'))

    def test_missing_console_does_not_hide_the_error(self) -> None:
        self.assertRegex(self.error(host='cn3'), 'database to be used.*cn3(.|\n)*No such file')

    def test_value_is_returned(self) -> None:
        self.assertEqual(7, self.administrator.wait_guest(self.server, 'it', lambda: 7))


class SchedulableTest(testtools.TestCase):
    """Nova's scheduler looks at both: whether a host is enabled, and whether it is up."""

    def test_only_an_enabled_host_that_is_up_is_schedulable(self) -> None:
        drill = administrator.Administrator(mock.create_autospec(clouds.Cloud, instance=True))
        for status, state, schedulable in (('enabled', 'up', True), ('disabled', 'up', False),
                                           ('enabled', 'down', False)):
            with mock.patch.object(drill, 'service', return_value={
                    'status': status, 'state': state}):
                self.assertIs(schedulable, drill.schedulable('cn1'), f'{status} {state}')

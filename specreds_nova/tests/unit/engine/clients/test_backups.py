# SPDX-License-Identifier: Apache-2.0
"""The client of the compute hosts' RPC."""

from typing import Any
from unittest import mock

import ddt
from nova import exception as nova_exception
import oslo_messaging as messaging
import testtools

from specreds_nova import exception as backup_errors
from specreds_nova import rpcapi
from specreds_nova.engine import exception
from specreds_nova.engine.clients import backups


@ddt.ddt
class BackupsTest(testtools.TestCase):
    """Each error is translated to its meaning for a recovery."""

    def setUp(self) -> None:
        super().setUp()
        self.api: Any = mock.create_autospec(rpcapi.BackupsAPI, instance=True)
        self.hosts = mock.Mock(return_value=self.api)
        self.backups = backups.Backups(self.hosts)

    def test_host_of_an_unknown_cell_is_unreachable(self) -> None:
        self.hosts.side_effect = exception.Unreachable('the cell is not known')
        error = self.assertRaises(exception.Unreachable, self.backups.status, 'h2', 'r')
        self.hosts.assert_called_once_with('h2')
        self.assertEqual('the cell is not known', str(error))

    def test_arguments_are_passed_on(self) -> None:
        self.api.start.return_value = {'phase': 'running'}
        self.assertEqual({'phase': 'running'}, self.backups.start('h2', 'r', 'a', 's1'))
        self.api.start.assert_called_once_with({}, 'h2', 'r', 'a', 's1')
        self.backups.begin('h2', 'r', 'a', 's1')
        self.api.begin.assert_called_once_with({}, 'h2', 'r', 'a', 's1')
        for name in ('status', 'harden', 'release', 'abort', 'check'):
            getattr(self.backups, name)('h2', 'r')
            getattr(self.api, name).assert_called_once_with({}, 'h2', 'r')
        self.backups.promote('h2', 'r')
        self.api.promote.assert_called_once_with({}, 'h2', 'r', True)
        self.backups.returned('h2')
        self.api.returned.assert_called_once_with({}, 'h2')

    @ddt.data(
        (messaging.MessagingTimeout('late'), exception.Unreachable),
        (messaging.MessageDeliveryFailure('no broker'), exception.Unreachable),
        (OSError('no route'), exception.Unreachable),
        (ValueError('out of the depths of the transport'), exception.Unreachable),
        (backup_errors.BackupLost(reason='gone'), backup_errors.BackupLost),
        (nova_exception.InstanceNotFound(instance_id='a'), backup_errors.BackupError),
        (messaging.RemoteError('KeyError', 'x'), backup_errors.BackupError),
        (messaging.RemoteError('NoSuchMethod', 'start'), backup_errors.ServerNotEligible),
        (messaging.UnsupportedVersion('1.0'), backup_errors.ServerNotEligible))
    @ddt.unpack
    def test_error_is_translated(self, failure: Exception, kind: type[Exception]) -> None:
        self.api.status.side_effect = failure
        self.assertRaises(kind, self.backups.status, 'h2', 'r')

# SPDX-License-Identifier: Apache-2.0
"""Secrets of encrypted volumes."""

import threading
from typing import Any
from unittest import mock

import fixtures
from nova import context as nova_context
from nova import exception as nova_exception
import testtools

from specreds_cinder import keys
from specreds_nova import exception
from specreds_nova.host.disks import secrets
from specreds_nova.tests.unit.host import base

_LUKS = {'provider': 'luks', 'encryption_key_id': 'key'}


class SecretsTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.driver = mock.Mock()
        self.driver._get_volume_encryption.return_value = _LUKS
        self.secrets = secrets.Secrets(self.driver)
        self.connection = {'serial': base.VOLUME, 'data': {'encrypted': True}}
        self.service_user = mock.Mock(side_effect=nova_exception.InvalidConfiguration)
        self.useFixture(fixtures.MonkeyPatch(
            'nova.context.get_nova_service_user_context', self.service_user))

    def define(self) -> Any:
        """Define the secret, and return the context of the request to the key manager."""
        self.secrets.define(mock.sentinel.admin, self.connection)
        [context, connection, encryption] = self.driver._attach_encryptor.call_args.args
        self.assertEqual((self.connection, _LUKS), (connection, encryption))
        return context

    def test_service_user_requests_the_key(self) -> None:
        self.service_user.side_effect = None
        self.assertIs(self.service_user.return_value, self.define())
        self.driver._get_volume_encryption.assert_called_once_with(
            mock.sentinel.admin, self.connection)

    def test_administrator_requests_the_key_without_a_service_user(self) -> None:
        context = self.define()
        self.assertIsInstance(context, nova_context.RequestContext)
        self.assertTrue(context.is_admin)

    def test_plain_volume_has_no_secret(self) -> None:
        self.connection['data'] = {}
        self.secrets.define(mock.sentinel.admin, self.connection)
        self.assertEqual([], self.driver.mock_calls)

    def test_error_of_the_key_manager_fails_the_start_and_is_not_repeated(self) -> None:
        self.driver._attach_encryptor.side_effect = ValueError('s3cret')
        error = self.assertRaises(exception.StartFailed, self.define)
        self.assertIn(base.VOLUME, str(error))
        self.assertNotIn('s3cret', str(error))

    def test_key_manager_that_hangs_fails_the_start(self) -> None:
        self.useFixture(fixtures.MockPatchObject(keys, '_TIMEOUT', 0.01))
        hangs = threading.Event()
        self.addCleanup(hangs.set)
        self.driver._attach_encryptor.side_effect = lambda *_arguments: hangs.wait()
        error = self.assertRaises(exception.StartFailed, self.define)
        self.assertIn('TimeoutError', str(error))

    def test_other_providers_fail_the_start(self) -> None:
        self.driver._get_volume_encryption.return_value = {'provider': 'luks2'}
        self.driver._allow_native_luksv1.return_value = False
        self.assertIn('luks2', str(self.assertRaises(exception.StartFailed, self.define)))
        self.driver._attach_encryptor.assert_not_called()

    def test_unknown_encryption_fails_the_start(self) -> None:
        self.driver._get_volume_encryption.side_effect = ConnectionError('Cinder is away')
        self.assertIn('Cinder is away', str(self.assertRaises(exception.StartFailed, self.define)))

    def test_removal_may_be_repeated(self) -> None:
        self.secrets.remove(base.VOLUME)
        self.driver._host.delete_secret.assert_called_once_with('volume', base.VOLUME)
        self.driver._host.find_secret.return_value = None
        self.secrets.remove(base.VOLUME)
        self.driver._host.delete_secret.assert_called_once()

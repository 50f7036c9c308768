# SPDX-License-Identifier: Apache-2.0
"""The passphrases of encrypted volumes, for their merge."""

import threading
from typing import Any
from unittest import mock

from castellan.common.credentials import keystone_password
import fixtures
from oslo_config import cfg
from oslo_config import fixture as config_fixture
import testtools

from specreds_cinder import exception
from specreds_cinder import keys
from specreds_cinder.service import eligibility
from specreds_cinder.service import merging
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.unit import backends


class PassphrasesTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        volumes = [backends.volume(1, 'host'), backends.volume(2, 'host', encryption_key_id='k')]
        self.useFixture(fixtures.MockPatchObject(eligibility, 'volumes', return_value=volumes))
        self.manager = self.useFixture(fixtures.MockPatch('castellan.key_manager.API')).mock
        self.manager().get.return_value.get_encoded.return_value = b'\x01\xfe'

    def shown(self, state: str = states.PROMOTED) -> dict[str, Any]:
        """Return a superposition."""
        return {'id': 's1', 'state': state, 'labels': {'volumes': {'a': 'vol-1', 'b': 'vol-2'}},
                'volumes': [{'image': 'volume-vol-1'}, {'image': 'other/volume-vol-2'}]}

    def test_passphrases_are_those_of_nova(self) -> None:
        self.assertEqual({'other/volume-vol-2': '01fe'}, merging.passphrases(self.shown()))
        [_context, key_id] = self.manager().get.call_args.args
        self.assertEqual('k', key_id)

    def test_merged_volume_needs_no_key(self) -> None:
        self.assertEqual({}, merging.passphrases(self.shown(states.MERGED)))
        self.manager().get.assert_not_called()

    def test_refusal_of_the_key_manager_is_no_leak(self) -> None:
        self.manager().get.side_effect = ValueError('s3cret')
        error = self.assertRaises(exception.SuperpositionUnavailable, merging.passphrases,
                                  self.shown())
        self.assertIn('vol-2', str(error))
        self.assertNotIn('s3cret', str(error))

    def test_key_manager_that_hangs_is_not_waited_for(self) -> None:
        self.useFixture(fixtures.MockPatchObject(keys, '_TIMEOUT', 0.01))
        hangs = threading.Event()
        self.addCleanup(hangs.set)
        self.manager().get.side_effect = lambda *_arguments: hangs.wait()
        error = self.assertRaises(exception.SuperpositionUnavailable, merging.passphrases,
                                  self.shown())
        self.assertIn('TimeoutError', str(error))


class CredentialsTest(testtools.TestCase):

    def test_context_is_used_without_credentials(self) -> None:
        self.assertIs(mock.sentinel.context,
                      keys.credentials(cfg.ConfigOpts(), mock.sentinel.context))

    def test_configured_credentials_are_used(self) -> None:
        conf = cfg.ConfigOpts()
        keys.credentials(conf, None)
        self.useFixture(config_fixture.Config(conf)).config(
            group='key_manager', auth_type='keystone_password', username='reader', password='p')
        credentials = keys.credentials(conf, None)
        self.assertIsInstance(credentials, keystone_password.KeystonePassword)
        self.assertEqual('reader', credentials.username)

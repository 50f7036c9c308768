# SPDX-License-Identifier: Apache-2.0
"""Whether a server would be protected."""

from unittest import mock

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import protection
from specreds_nova.engine.detection import conf as detection_conf
from specreds_nova.tests.unit.engine.recovery import base


class ProtectionTest(base.RecoveryTest):
    """Everybody who would have a say is asked."""

    def setUp(self) -> None:
        super().setUp()
        self.compute.server.return_value = base.make_server('a', volumes=('v1',))
        self.compute.candidates.return_value = ['h2', 'h3']
        self.volumes.eligibility.return_value = {'v1': []}
        self.backups.check.return_value = {'eligible': True, 'reasons': []}
        self.protection = protection.Protection(
            self.compute, self.volumes, self.backups,
            detection_conf.server_gates(self.context.options))

    def test_it_is(self) -> None:
        self.assertEqual(
            {'project': 'p', 'host': 'h1', 'protected': True, 'reasons': [],
             'volumes': {'v1': []}, 'destinations': ['h2', 'h3']}, self.protection.check('a'))

    def test_a_gate_is_shut(self) -> None:
        self.compute.server.return_value = base.make_server(
            'a', metadata={'specreds:protect': 'false'})
        self.assertEqual(['it is not protected: specreds:protect=false'],
                         self.protection.check('a')['reasons'])

    def test_a_volume_cannot_be_superposed(self) -> None:
        self.volumes.eligibility.return_value = {'v1': ['it is encrypted']}
        told = self.protection.check('a')
        self.assertEqual((False, ['volume v1: it is encrypted']),
                         (told['protected'], told['reasons']))
        self.volumes.eligibility.side_effect = exception.Refused('not here')
        self.assertEqual({'v1': ['not here']}, self.protection.check('a')['volumes'])

    def test_no_host_has_room(self) -> None:
        self.compute.candidates.return_value = []
        self.assertEqual(['no other host has room for it'],
                         self.protection.check('a')['reasons'])

    def test_one_host_that_can_is_enough(self) -> None:
        self.backups.check.side_effect = [
            backup_errors.ServerNotEligible(reason='no plug-in'), mock.DEFAULT]
        self.assertTrue(self.protection.check('a')['protected'])

    def test_no_host_can(self) -> None:
        self.backups.check.side_effect = [
            {'eligible': False, 'reasons': ['no Open vSwitch']}, exception.Unreachable('late')]
        self.assertEqual(['h2: no Open vSwitch', 'h3: late'],
                         self.protection.check('a')['reasons'])

    def test_there_is_no_such_server(self) -> None:
        self.compute.server.return_value = None
        self.assertRaises(exception.NotFound, self.protection.check, 'a')

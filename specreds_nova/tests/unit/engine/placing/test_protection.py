# SPDX-License-Identifier: Apache-2.0
"""The check of whether a server is protected."""

from typing import Any
from unittest import mock

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.placing import protection
from specreds_nova.engine.suspicion import conf as detection_conf
from specreds_nova.tests.unit.engine.recovery import base


class ProtectionTest(base.RecoveryTest):
    """Gates, volumes and hosts all have to permit a recovery."""

    def setUp(self) -> None:
        super().setUp()
        self.compute.server.return_value = base.make_server('a', volumes=('v1',))
        self.compute.candidates.return_value = ['h2', 'h3']
        self.eligible()
        self.backups.check.return_value = {
            'eligible': True, 'reasons': [], 'immovable': None}
        self.service: dict[str, Any] = {'up': True, 'enabled': True, 'forced_down': False}
        self.compute.service_at_hand.side_effect = lambda host: self.service
        self.host(goodbye=None)
        self.configure()

    def configure(self, *, unfenced: bool = False) -> None:
        """Make the check anew."""
        options = self.context.options
        store: Any = self.store
        hosts = protection.Hosts(
            store, self.compute, detection_conf.host_gates(options),
            detection_conf.monitor_settings(options).graces, now=self.clock.now)
        self.protection = protection.Protection(
            self.compute, self.volumes, self.backups, detection_conf.server_gates(options), hosts,
            unfenced=unfenced)

    def host(self, **values: Any) -> None:
        """Record something of the server's host."""
        self.assertIsNotNone(self.store.change_host(self.store.host('h1'), **values))

    def eligible(self, *reasons: str, fenceable: bool = True, movable: bool = True) -> None:
        """Have Cinder report on the volume."""
        self.volumes.eligibility.return_value = {
            'v1': model.Eligibility(reasons, fenceable, movable)}

    def test_protected_server_has_destinations(self) -> None:
        self.assertEqual(
            {'name': 'a', 'project': 'p', 'host': 'h1', 'protected': True,
             'recovery': 'speculative', 'rules': ['protect_by_default = True'],
             'reasons': [], 'volumes': {'v1': []}, 'destinations': ['h2', 'h3']},
            self.protection.check('a'))

    def test_rule_that_decides_is_named_with_its_place(self) -> None:
        self.compute.server.side_effect = lambda _: base.make_server(
            'a', metadata={'specreds:protect': 'true', 'specreds:not_before': 'soon',
                           'specreds:evacuate_after': '5'},
            flavor={'extra_specs': {'specreds:priority': '500'}},
            aggregates=({'name': 'lab', 'metadata': {'specreds:protect': 'false',
                                                     'specreds:evacuate_after': '600'}},))
        answer = self.protection.check('a')
        self.assertEqual((False, 'none'), (answer['protected'], answer['recovery']))
        self.assertEqual(
            ['specreds:protect=false of aggregate lab', 'specreds:priority=500 of its flavor',
             'specreds:evacuate_after=600 of aggregate lab'], answer['rules'][:3])
        self.assertEqual(['specreds:evacuate_after=5', 'specreds:not_before=soon'],
                         [each.split(' of ')[0] for each in answer['rules'][3:]])

    def test_disk_in_rbd_that_cinder_does_not_superpose_is_named(self) -> None:
        self.backups.check.return_value = {
            'eligible': True, 'reasons': [], 'immovable': None, 'disks': ['a_disk.swap']}
        answer = self.protection.check('a')
        self.assertEqual('evacuated', answer['recovery'])
        self.assertIn('a_disk.swap', answer['reasons'][0])
        self.compute.server.return_value = base.make_server(
            'a', volumes=('v1',), disks=('disk.swap',))
        self.assertEqual('speculative', self.protection.check('a')['recovery'])

    def test_reboot_is_no_obstacle(self) -> None:
        for task, recovery in (('reboot_started', 'speculative'), ('deleting', 'none'),
                               ('image_snapshot', 'evacuated'), ('resize_prep', 'none')):
            self.compute.server.return_value = base.make_server(
                'a', volumes=('v1',), task=task, status='ACTIVE')
            self.assertEqual(recovery, self.protection.check('a')['recovery'])

    def test_server_that_does_not_run_is_evacuated(self) -> None:
        self.compute.server.return_value = base.make_server('a', volumes=('v1',), status='PAUSED')
        answer = self.protection.check('a')
        self.assertEqual(('evacuated', ['it is PAUSED']), (answer['recovery'], answer['reasons']))
        self.eligible('it is retyping', movable=False)
        self.assertEqual('failed', self.protection.check('a')['recovery'])
        self.compute.server.return_value = base.make_server(
            'a', status='PAUSED', image='i', volumes=())
        self.assertEqual('none', self.protection.check('a')['recovery'])

    def test_recovery_without_a_backup_is_named_beforehand(self) -> None:
        self.eligible('it is encrypted')
        self.assertEqual('evacuated', self.protection.check('a')['recovery'])
        self.compute.immovable.return_value = 'it has a virtual TPM'
        answer = self.protection.check('a')
        self.assertEqual('failed', answer['recovery'])
        self.assertIn('it has a virtual TPM', answer['reasons'])
        self.compute.immovable.return_value = None
        self.compute.candidates.return_value = []
        self.assertEqual('failed', self.protection.check('a')['recovery'])
        self.compute.server.return_value = base.make_server(
            'a', metadata={'specreds:protect': 'false'})
        self.assertEqual('none', self.protection.check('a')['recovery'])

    def test_volume_that_nobody_can_be_shut_out_of_is_named_beforehand(self) -> None:
        self.eligible('its driver is LVM', fenceable=False)
        answer = self.protection.check('a')
        self.assertEqual('failed', answer['recovery'])
        self.assertIn('volume v1: h1 cannot be shut out of it', answer['reasons'])
        self.configure(unfenced=True)
        self.assertEqual('evacuated', self.protection.check('a')['recovery'])

    def test_volume_that_nova_cannot_attach_elsewhere_is_named_beforehand(self) -> None:
        self.eligible('it is backing-up', movable=False)
        for unfenced in (False, True):
            self.configure(unfenced=unfenced)
            answer = self.protection.check('a')
            self.assertEqual(('failed', [
                'volume v1: it is backing-up',
                'volume v1 cannot be attached to another host: it is backing-up']),
                (answer['recovery'], answer['reasons']))

    def test_host_need_not_be_shut_out_of_a_volume_that_is_superposed(self) -> None:
        self.eligible(fenceable=False)
        self.backups.check.return_value = {'eligible': False, 'reasons': ['no plug-in'],
                                           'immovable': None}
        self.assertEqual('evacuated', self.protection.check('a')['recovery'])

    def test_refusal_of_nova_that_hosts_report_is_named_beforehand(self) -> None:
        self.backups.check.return_value = {
            'eligible': False, 'reasons': ['it has shares mounted'],
            'immovable': 'Nova evacuates no server with mounted shares'}
        answer = self.protection.check('a')
        self.assertEqual('failed', answer['recovery'])
        self.assertIn('Nova evacuates no server with mounted shares', answer['reasons'])
        self.backups.check.return_value['immovable'] = None
        self.assertEqual('evacuated', self.protection.check('a')['recovery'])

    def test_silent_hosts_do_not_change_the_recovery(self) -> None:
        self.backups.check.side_effect = exception.Unreachable('late')
        answer = self.protection.check('a')
        self.assertEqual(('evacuated', ['h2: late', 'h3: late']),
                         (answer['recovery'], answer['reasons']))

    def test_server_that_nova_does_not_evacuate_may_have_a_backup(self) -> None:
        self.compute.immovable.return_value = 'its group stays together'
        self.assertEqual('speculative', self.protection.check('a')['recovery'])

    def test_closed_gate_is_a_reason(self) -> None:
        self.compute.server.return_value = base.make_server(
            'a', metadata={'specreds:protect': 'false'})
        self.assertEqual(['it is not protected: specreds:protect=false'],
                         self.protection.check('a')['reasons'])

    def test_volume_that_cannot_be_superposed_is_a_reason(self) -> None:
        self.eligible('it is encrypted')
        answer = self.protection.check('a')
        self.assertEqual((False, ['volume v1: it is encrypted']),
                         (answer['protected'], answer['reasons']))
        self.volumes.eligibility.side_effect = exception.Refused('not here')
        self.assertEqual({'v1': ['not here']}, self.protection.check('a')['volumes'])

    def test_disks_in_rbd_are_checked(self) -> None:
        self.compute.server.return_value = base.make_server(
            'a', image='i', volumes=('v1',), disks=('disk',))
        self.volumes.eligibility.return_value = {'v1': model.Eligibility(),
                                                 'a_disk': model.Eligibility()}
        answer = self.protection.check('a')
        self.assertEqual(('speculative', {'v1': []}), (answer['recovery'], answer['volumes']))
        self.volumes.eligibility.assert_called_once_with(self.compute.server.return_value)
        self.volumes.eligibility.return_value = {
            'v1': model.Eligibility(), 'a_disk': model.Eligibility(('it is mirrored',))}
        answer = self.protection.check('a')
        self.assertEqual(('evacuated', ['disk a_disk: it is mirrored']),
                         (answer['recovery'], answer['reasons']))

    def test_missing_room_is_a_reason(self) -> None:
        self.compute.candidates.return_value = []
        self.assertEqual(['no other host has room for it'],
                         self.protection.check('a')['reasons'])

    def test_one_able_host_is_enough(self) -> None:
        self.backups.check.side_effect = [
            backup_errors.ServerNotEligible(reason='no plug-in'), mock.DEFAULT]
        self.assertTrue(self.protection.check('a')['protected'])

    def test_hosts_that_cannot_run_the_backup_are_reasons(self) -> None:
        self.backups.check.side_effect = [
            {'eligible': False, 'reasons': ['no Open vSwitch'], 'immovable': None},
            exception.Unreachable('late')]
        self.assertEqual(['h2: no Open vSwitch', 'h3: late'],
                         self.protection.check('a')['reasons'])

    def assert_held(self, *reasons: str) -> None:
        """Assert that nothing would be done for the server."""
        answer = self.protection.check('a')
        self.assertEqual((False, 'none', [*reasons]),
                         (answer['protected'], answer['recovery'], answer['reasons']))

    def test_gate_of_its_host_is_a_reason(self) -> None:
        self.set_mode(model.PAUSE)
        self.assert_held('the mode of h1 is pause')
        self.store.unset_mode(model.HOST, 'h1')
        self.host(sentinel=model.UNLEASED)
        self.assertIn('never heard an engine', str(self.protection.check('a')['reasons']))
        self.host(sentinel=model.LIVE, flaps=3)
        self.assertIn('wrongly suspected 3 times', str(self.protection.check('a')['reasons']))
        self.host(flaps=0)
        self.service['enabled'] = False
        self.assert_held('nova-compute of h1 is disabled: it is taken to be in maintenance')

    def test_reasons_that_an_engine_has_recorded_are_reasons(self) -> None:
        self.host(held=('3 of 5 hosts are silent', 'e2 hears h1'))
        self.assert_held('h1: 3 of 5 hosts are silent', 'e2 hears h1')

    def test_host_that_has_said_goodbye_is_a_reason_while_its_silence_is_expected(self) -> None:
        self.host(goodbye='system', goodbye_at=self.clock.now() - 100.0)
        self.assert_held('h1 has said goodbye (system): its silence means nothing for 200 s more')
        self.clock.time += 200.0
        self.assertEqual('speculative', self.protection.check('a')['recovery'])

    def test_host_that_no_engine_has_heard_is_a_reason(self) -> None:
        self.compute.server.return_value = base.make_server('a', host='h9', volumes=('v1',))
        self.assert_held('no engine has ever heard h9')

    def test_server_of_a_suspected_host_is_being_recovered(self) -> None:
        self.service['forced_down'] = True
        self.host(state=model.FENCED)
        answer = self.protection.check('a')
        self.assertEqual((False, 'speculative', ['h1 is fenced']),
                         (answer['protected'], answer['recovery'], answer['reasons']))

    def test_word_of_an_operator_overrides_the_gates_but_the_mode(self) -> None:
        self.host(flaps=3, word=model.SUSPECT)
        self.assertTrue(self.protection.check('a')['protected'])
        self.set_mode(model.OBSERVE)
        self.assert_held('the mode of h1 is observe')

    def test_unknown_server_raises(self) -> None:
        self.compute.server.return_value = None
        self.assertRaises(exception.NotFound, self.protection.check, 'a')

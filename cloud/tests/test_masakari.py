# SPDX-License-Identifier: Apache-2.0
"""The configuration and the API of Masakari on a cloud."""

import pathlib
from typing import Any, cast
from unittest import mock

import fixtures
import testtools

from cloud import masakari
from cloud.openstack import accounts
from cloud.openstack import credentials
from cloud.openstack import layout


class ConfTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.files = layout.Layout(root)
        self.settings = layout.Settings(hosts=3, engines=1)
        credentials.create(self.files)
        self.passwords = credentials.load(self.files)

    def _conf(self, options: Any) -> Any:
        return masakari.conf(self.files, self.settings, self.passwords, options)

    def test_waits_are_those_of_masakari_by_default(self) -> None:
        self.assertNotIn('wait_period_after_service_update', self._conf({})['DEFAULT'])
        self.assertEqual(0, self._conf(masakari.SMALLEST)['DEFAULT'][
            'wait_period_after_service_update'])

    def test_only_the_task_of_this_project_is_run_when_hosts_are_handed_over(self) -> None:
        flow = self._conf(masakari.HANDED_OVER)['taskflow_driver_recovery_flows']
        self.assertEqual({'host_auto_failure_recovery_tasks':
                          "pre:['specreds_hand_over_host'],main:[],post:[]"}, flow)

    def test_masakari_has_an_account_and_a_port_of_its_own(self) -> None:
        conf = self._conf({})
        self.assertEqual(self.passwords[accounts.MASAKARI],
                         conf['keystone_authtoken']['password'])
        self.assertIn(self.settings.masakari_port, self.settings.ports)
        self.assertEqual(len(self.settings.ports), len(set(self.settings.ports)))


class ApiTest(testtools.TestCase):

    def test_death_is_reported_as_a_host_monitor_does(self) -> None:
        api = mock.Mock()
        api.post.return_value.json.return_value = {
            'segment': {'uuid': 's'}, 'notification': {'notification_uuid': 'n'}}
        peer = masakari.Masakari(cast(Any, api), ['cn1', 'cn2'])
        self.assertEqual(['/segments', '/segments/s/hosts', '/segments/s/hosts'],
                         [call.args[0] for call in api.post.call_args_list])
        self.assertEqual('n', peer.notify('cn1'))
        sent = api.post.call_args.kwargs['json']['notification']
        self.assertEqual(('COMPUTE_HOST', 'cn1', 'STOPPED', 'OFFLINE', 'NORMAL'), (
            sent['type'], sent['hostname'], *(sent['payload'][key] for key in (
                'event', 'cluster_status', 'host_status'))))

    def test_notification_that_is_being_processed_is_not_over(self) -> None:
        api = mock.Mock()
        peer = masakari.Masakari(cast(Any, api), [])
        for status, over in (('running', None), ('finished', 'finished'), ('error', 'error')):
            api.get.return_value.json.return_value = {'notification': {'status': status}}
            self.assertEqual(over, peer.over('n'))

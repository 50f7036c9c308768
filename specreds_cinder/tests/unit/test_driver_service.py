# SPDX-License-Identifier: Apache-2.0
"""The driver as a part of its service: statistics, setup, and the worker that it starts."""

from unittest import mock

from cinder import exception as cinder_exception
from cinder.volume import configuration
from cinder.volume.drivers import rbd
import ddt
import fixtures

from specreds_cinder import driver
from specreds_cinder import exception
from specreds_cinder.service.worker import client
from specreds_cinder.tests.unit import test_driver


@ddt.ddt
class ServiceTest(test_driver.DriverTestCase):

    def statistics(self) -> dict[str, object]:
        """Return the statistics of the back end, of which RBDDriver reports the name."""
        def update(it: driver.SuperRBDDriver) -> None:
            it._stats = {'volume_backend_name': 'x'}
        with mock.patch.object(rbd.RBDDriver, '_update_volume_stats', update):
            self.driver._update_volume_stats()
        stats: dict[str, object] = self.driver._stats
        return stats

    def test_location_is_that_of_cinders_statistics(self) -> None:
        self.answers['count_fenced'] = 0
        self.driver._stats, self.driver._is_replication_enabled = {}, False
        self.driver.configuration = mock.Mock(
            rbd_cluster_name='ceph', rbd_ceph_conf='/etc/ceph/ceph.conf', rbd_user='cinder',
            rbd_pool='volumes', rbd_exclusive_cinder_pool=True)
        for method, value in (('_get_fsid', 'an-fsid'), ('_get_pool_stats', (1.0, 2.0)),
                              ('_supports_qos', True)):
            self.upstream(method, return_value=value)
        self.assertEqual(('an-fsid', 'cinder', 'volumes'), self.driver.location)

    def test_statistics_announce_superposition_and_count_fenced_clients(self) -> None:
        self.answers['count_fenced'] = 7
        self.assertEqual({'volume_backend_name': 'x', 'superposition': True, 'fenced_clients': 7},
                         self.statistics())

    def test_statistics_without_an_answer_still_announce_superposition(self) -> None:
        self.answers['count_fenced'] = exception.SuperpositionUnavailable('gone')
        self.assertEqual({'volume_backend_name': 'x', 'superposition': True}, self.statistics())

    def test_overlays_are_not_part_of_the_usage(self) -> None:
        self.upstream('_get_usage_info', return_value=10)
        self.answers['provisioned'] = 3 << 30
        self.assertEqual(7, self.driver._get_usage_info())

    def test_monitors_are_queried_once_a_minute(self) -> None:
        clock = self.useFixture(fixtures.MockPatch('specreds_cinder.driver.time.monotonic')).mock
        self.answers['monitors'] = [('192.0.2.1', '6789'), ('2001:db8::2', '6790')]
        for now, times in ((1e6, 1), (1e6 + 59, 1), (1e6 + 61, 2)):
            clock.return_value = now
            self.assertEqual((['192.0.2.1', '2001:db8::2'], ['6789', '6790']),
                             self.driver._get_mon_addrs())
            self.assertEqual(times, self.worker.call.call_count)

    def test_monitors_are_queried_by_cinder_while_the_worker_is_silent(self) -> None:
        upstream = self.upstream('_get_mon_addrs', return_value=(['192.0.2.1'], ['6789']))
        self.answers['monitors'] = exception.SuperpositionUnavailable('no answer')
        self.assertEqual((['192.0.2.1'], ['6789']), self.driver._get_mon_addrs())
        upstream.assert_called_once_with()

    def test_setup_fails_without_a_worker(self) -> None:
        checked = self.upstream('check_for_setup_error')
        self.answers['ping'] = None
        self.driver.check_for_setup_error()
        checked.assert_called_once_with()
        self.answers['ping'] = exception.SuperpositionUnavailable('no answer')
        error = self.assertRaises(cinder_exception.VolumeBackendAPIException,
                                  self.driver.check_for_setup_error)
        self.assertIn('no answer', str(error))

    def test_worker_is_started_once_with_the_configuration(self) -> None:
        self.driver._worker = None
        self.driver.host, self.driver.cluster_name = 'node@rbd', None
        self.driver.configuration = mock.Mock(configuration.Configuration, rbd_pool='volumes')
        self.driver._active_config = {'name': 'c1', 'conf': '/c1.conf', 'user': 'u1'}
        with mock.patch.object(client, 'Worker') as made:
            self.assertIs(made.return_value, self.driver.worker)
            self.assertIs(made.return_value, self.driver.worker)
        made.assert_called_once_with(
            {'conffile': '/c1.conf', 'user': 'u1', 'name': 'c1', 'timeout': 10.0}, 'volumes',
            {}, watch=True, others=[])

    def test_pool_of_server_disks_is_used_by_the_back_end_that_is_named(self) -> None:
        self.driver.configuration = mock.Mock(configuration.Configuration, rbd_pool='volumes')
        self.driver.host, self.driver.cluster_name = 'node@rbd', 'group@rbd'
        for named, pools in (('', []), ('other@rbd', []), ('node@rbd', ['vms']),
                             ('group@rbd', ['vms'])):
            self.conf.config(group='specreds', server_disks_backend=named)
            self.assertEqual(pools, self.driver._other_pools(), named)
        self.driver.configuration.rbd_pool = 'vms'
        self.assertEqual([], self.driver._other_pools())

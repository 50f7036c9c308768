# SPDX-License-Identifier: Apache-2.0
"""The volume manager hands its superpositions what Cinder adds to a driver's connection."""

import types
from typing import Any
from unittest import mock

import cinder.tests.unit  # noqa: F401  it registers Cinder's objects
from cinder.volume import manager as cinder_manager
from cinder.volume import volume_types
import fixtures
from oslo_service import loopingcall
import testtools

from specreds_cinder import driver
from specreds_cinder import manager
from specreds_cinder.service import eligibility
from specreds_cinder.service import rpcapi
from specreds_cinder.service import service

_IMAGE = 'volume-1'


class ConnectionTest(testtools.TestCase):
    """The connection of a backup has what an attachment of the volume has."""

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.MockPatchObject(manager.SuperVolumeManager, '_announce'))
        for name in ('__init__', 'init_host_with_rpc'):
            self.useFixture(fixtures.MockPatchObject(cinder_manager.VolumeManager, name,
                                                     return_value=None))
        self.useFixture(fixtures.MockPatchObject(loopingcall, 'FixedIntervalLoopingCall'))
        self.useFixture(fixtures.MockPatchObject(rpcapi, 'SuperAPI'))
        self.types = {name: self.useFixture(fixtures.MockPatchObject(
            volume_types, f'get_volume_type_{name}')).mock
            for name in ('qos_specs', 'extra_specs')}
        self.types['qos_specs'].return_value = {'qos_specs': None}
        self.types['extra_specs'].return_value = {}
        self.volume = types.SimpleNamespace(
            id='vol-1', name=_IMAGE, size=2, volume_type_id='type', admin_metadata={},
            encryption_key_id=None, service_topic_queue='node@rbd#pool')
        self.useFixture(fixtures.MockPatchObject(eligibility, 'volumes', lambda _:
                                                 [self.volume]))

    def data(self, cluster: str | None = None, **options: str) -> dict[str, Any]:
        """Return the connection to the version of the backup."""
        back_end = mock.Mock(spec=driver.SuperRBDDriver, initialized=True,
                             configuration=mock.Mock(safe_get=options.get))
        self.pool = mock.Mock()
        back_end.worker.call.return_value = {
            'id': 's1', 'state': 'superposed', 'labels': {'volumes': {_IMAGE: 'vol-1'}},
            'volumes': [{'image': _IMAGE}]}
        back_end.child_connection.return_value = {
            'driver_volume_type': 'rbd_super',
            'data': {'name': f'volumes/{_IMAGE}', 'discard': True, 'encrypted': False}}
        with mock.patch.multiple(manager.SuperVolumeManager, create=True, driver=back_end,
                                 additional_endpoints=[], cluster=cluster,
                                 service_topic_queue='node@rbd', _add_to_threadpool=self.pool):
            started = manager.SuperVolumeManager()
            started.init_host_with_rpc()
            [connection] = service.connection(started.superpositions, mock.Mock(), 's1',
                                              {'host': 'cn2'})
        self.assertEqual(('vol-1', 'rbd_super'),
                         (connection['volume_id'], connection['driver_volume_type']))
        data: dict[str, Any] = connection['data']
        return data

    def test_steps_are_taken_for_interrupted_unless_services_share_the_back_end(self) -> None:
        for cluster, options, cut_off in ((None, {}, True), ('c1', {}, False),
                                          (None, {'backend_host': 'rbd:volumes'}, False)):
            self.data(cluster, **options)
            self.assertEqual({'cut_off': cut_off}, self.pool.call_args.kwargs)

    def test_limits_of_the_front_end_hold_for_the_backup(self) -> None:
        self.types['qos_specs'].return_value = {'qos_specs': {
            'consumer': 'both', 'specs': {'total_iops_sec': '300', 'read_bytes_sec_per_gb': '5'}}}
        self.assertEqual({'total_iops_sec': '300', 'read_bytes_sec': 10},
                         self.data()['qos_specs'])

    def test_limits_of_the_back_end_are_not_the_hypervisors(self) -> None:
        self.types['qos_specs'].return_value = {'qos_specs': {
            'consumer': 'back-end', 'specs': {'total_iops_sec': '300'}}}
        self.assertIsNone(self.data()['qos_specs'])

    def test_read_only_volume_is_read_only_for_the_backup(self) -> None:
        self.assertEqual('rw', self.data()['access_mode'])
        self.volume.admin_metadata['readonly'] = 'True'
        self.assertEqual('ro', self.data()['access_mode'])

    def test_volume_is_cacheable_as_its_type_says(self) -> None:
        self.assertFalse(self.data()['cacheable'])
        self.types['extra_specs'].return_value = {'cacheable': '<is> True'}
        self.assertTrue(self.data()['cacheable'])

    def test_what_the_driver_says_is_kept(self) -> None:
        data = self.data()
        self.assertEqual((f'volumes/{_IMAGE}', True, False),
                         (data['name'], data['discard'], data['encrypted']))

# SPDX-License-Identifier: Apache-2.0
"""The driver's connections, and what it refuses while a volume is in superposition."""

from collections.abc import Callable
import copy
from typing import Any
from unittest import mock

from cinder import exception as cinder_exception
from cinder import objects
from cinder.volume import configuration
from cinder.volume.drivers import rbd
import ddt
import fixtures
from oslo_config import cfg
from oslo_config import fixture as config_fixture
import testtools

from specreds_cinder import driver
from specreds_cinder import exception
from specreds_cinder import server_disks

VOLUME = mock.Mock(id='vol-id', encryption_key_id=None,
                    spec_set=('id', 'name', 'encryption_key_id'))
VOLUME.name = 'volume-1'
_OTHER = mock.Mock(id='other-id', spec_set=('id', 'name'))
_OTHER.name = 'volume-2'
_SNAPSHOT = mock.Mock(volume=VOLUME)
CONNECTOR = {'host': 'h'}
PARENT: dict[str, Any] = {'driver_volume_type': 'rbd',
                           'data': {'name': 'pool/volume-1', 'auth_username': 'c'}}
_STATES = ('creating', 'superposed', 'collapsing', 'promoted', 'merging', 'merged', 'aborting')


def superposition(state: str) -> dict[str, Any]:
    """Return a superposition as the worker describes it."""
    return {'id': 's1', 'state': state, 'volumes': [
        {'image': 'volume-0', 'size_bytes': 1, 'overlay': 'pool/volume-0.super-s1'},
        {'image': 'volume-1', 'size_bytes': 1 << 30, 'overlay': 'pool/volume-1.super-s1'}]}


class DriverTestCase(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.conf = self.useFixture(config_fixture.Config(cfg.CONF))
        # RBDDriver does the work; these tests are about whether it is called.
        self.useFixture(fixtures.MockPatchObject(rbd.RBDDriver, '__init__', return_value=None))
        self.worker = mock.Mock(spec_set=('call',))
        self.worker.call.side_effect = self.answer
        self.answers: dict[str, Any] = {'find': None, 'image_id': None}
        self.driver = driver.SuperRBDDriver()
        self.driver._worker = self.worker

    def answer(self, _ctxt: Any, method: str, **_arguments: Any) -> Any:
        """Return the answer of the worker."""
        answer = self.answers[method]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def upstream(self, method: str, **result: Any) -> mock.Mock:
        """Replace a method of Cinder's driver."""
        replaced: mock.Mock = self.useFixture(fixtures.MockPatchObject(
            rbd.RBDDriver, method, create=True, **result)).mock
        return replaced


class DiskConnectionTest(DriverTestCase):

    disk = server_disks.ServerDisk('9c1e6c6a-5a0f-4f0b-9a2e-0d5b1c2f3e04', 'disk')

    def connection(self, pool: str) -> dict[str, Any]:
        """Return the connection to the second version of a disk.

        :param pool: the pool of the back end
        """
        self.upstream('initialize_connection', return_value={
            'driver_volume_type': 'rbd',
            'data': {'name': f'{pool}/{self.disk.name}', 'volume_id': self.disk.id}})
        self.driver.configuration = mock.Mock(configuration.Configuration, rbd_pool=pool)
        return self.driver.disk_connection(self.disk, CONNECTOR, {
            'id': 's1', 'state': 'superposed', 'volumes': [{
                'image': self.driver.disk_image(self.disk), 'size_bytes': 5,
                'overlay': f'vms/super-s1.{self.disk.name}'}]})

    def test_connection_names_the_pool_of_server_disks(self) -> None:
        image = f'vms/{self.disk.name}'
        for pool in ('volumes', 'vms'):
            data = self.connection(pool)['data']
            self.assertEqual((image, image, f'vms/super-s1.{self.disk.name}'),
                             (data['name'], data['superposition']['backing']['name'],
                              data['superposition']['overlay']['name']))
            self.assertNotIn('volume_id', data)


@ddt.ddt
class ConnectionTest(DriverTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.upstream('initialize_connection', side_effect=lambda *_: copy.deepcopy(PARENT))

    def connect(self) -> Any:
        """Return the connection of the volume."""
        return self.driver.initialize_connection(VOLUME, CONNECTOR)

    def test_volume_that_is_not_superposed_has_cinders_connection(self) -> None:
        self.assertEqual(PARENT, self.connect())
        self.worker.call.assert_called_once_with(None, 'find', image='volume-1')

    @ddt.data('creating', 'superposed', 'collapsing', 'merged', 'aborting')
    def test_undecided_volume_is_attached_without_its_overlay(self, state: str) -> None:
        self.answers['find'] = superposition(state)
        self.assertEqual(PARENT, self.connect())

    @ddt.data('promoted', 'merging')
    def test_promoted_volume_is_attached_through_its_overlay(self, state: str) -> None:
        self.answers.update(find=superposition(state), hand_out=superposition(state))
        info = self.connect()
        self.assertEqual('rbd_super', info['driver_volume_type'])
        child = info['data'].pop('superposition')
        # The rest is Nova's connection to an RBD image.
        self.assertEqual({**PARENT['data'], 'encrypted': False}, info['data'])
        self.assertEqual({
            'id': 's1', 'state': state, 'speculative': False,
            'overlay': {'name': 'pool/volume-1.super-s1', 'format': 'qcow2', 'discard': 'unmap',
                        'l2_cache_entry_size': 4096},
            'backing': {'name': 'pool/volume-1', 'format': 'raw', 'size_bytes': 1 << 30},
        }, child)
        self.assertEqual(mock.call(None, 'hand_out', superposition='s1'),
                         self.worker.call.call_args)

    def test_volume_merged_meanwhile_is_attached_directly(self) -> None:
        self.answers.update(find=superposition('merging'), hand_out=superposition('merged'))
        self.assertEqual(PARENT, self.connect())

    def test_state_that_changes_meanwhile_is_a_conflict(self) -> None:
        self.answers.update(find=superposition('merging'),
                            hand_out=exception.SuperpositionConflict('changed meanwhile'))
        self.assertRaises(exception.SuperpositionConflict, self.connect)

    def test_current_connection_hands_nothing_out(self) -> None:
        self.answers['find'] = superposition('promoted')
        info = self.driver.current_connection(VOLUME, CONNECTOR, hand_out=False)
        self.assertEqual('rbd_super', info['driver_volume_type'])
        self.worker.call.assert_called_once_with(None, 'find', image='volume-1')

    @ddt.data(*_STATES)
    def test_connection_of_the_backup_has_state_and_overlay(self, state: str) -> None:
        info = self.driver.child_connection(VOLUME, CONNECTOR, superposition(state))
        speculative = state not in ('promoted', 'merging', 'merged')
        self.assertEqual((state, speculative),
                         (info['data']['superposition']['state'],
                          info['data']['superposition']['speculative']))

    @ddt.data('find', 'hand_out')
    def test_connection_fails_while_the_worker_is_silent(self, method: str) -> None:
        self.answers.update(find=superposition('promoted'))
        self.answers[method] = exception.SuperpositionUnavailable('no answer')
        self.assertRaises(exception.SuperpositionUnavailable, self.connect)


def _call(name: str, *arguments: Any, refusal: type[Exception] = exception.VolumeSuperposed
          ) -> tuple[str, tuple[Any, ...], type[Exception]]:
    return name, arguments, refusal


_GUARDED = (
    _call('delete_volume', VOLUME, refusal=cinder_exception.VolumeIsBusy),
    _call('unmanage', VOLUME, refusal=cinder_exception.VolumeIsBusy),
    _call('create_snapshot', _SNAPSHOT),
    _call('delete_snapshot', _SNAPSHOT, refusal=cinder_exception.SnapshotIsBusy),
    _call('revert_to_snapshot', 'context', VOLUME, _SNAPSHOT),
    _call('create_cloned_volume', _OTHER, VOLUME),
    _call('extend_volume', VOLUME, 2),
    _call('retype', 'context', VOLUME, 'type', 'diff', 'host'),
    _call('migrate_volume', 'context', VOLUME, 'host'),
    _call('copy_volume_to_image', 'context', VOLUME, 'service', 'meta'),
    _call('get_backup_device', 'context', mock.Mock(volume_id='vol-id')),
)


@ddt.ddt
class GuardTest(DriverTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.MockPatchObject(objects.Volume, 'get_by_id',
                                                 return_value=VOLUME))

    @ddt.data(*_GUARDED)
    @ddt.unpack
    def test_superposed_volume_refuses_changes(self, method: str, arguments: tuple[Any, ...],
                                               refusal: type[Exception]) -> None:
        upstream = self.upstream(method)
        for state in _STATES:
            self.answers['find'] = superposition(state)
            error = self.assertRaises(refusal, getattr(self.driver, method), *arguments)
            for word in ('vol-id', 's1', state):
                self.assertIn(word, str(error))
        upstream.assert_not_called()

    @ddt.data(*_GUARDED)
    @ddt.unpack
    def test_other_volume_is_changed_by_cinder(self, method: str, arguments: tuple[Any, ...],
                                               refusal: type[Exception]) -> None:
        del refusal
        upstream = self.upstream(method)
        getattr(self.driver, method)(*arguments)
        upstream.assert_called_once_with(*arguments)
        # The worker is asked about the volume that would change.
        self.assertEqual(mock.call(None, 'find', image='volume-1'),
                         self.worker.call.mock_calls[0])

    @ddt.data(*_GUARDED)
    @ddt.unpack
    def test_change_fails_while_the_worker_is_silent(self, method: str, arguments: tuple[Any, ...],
                                                     refusal: type[Exception]) -> None:
        del refusal
        self.answers['find'] = exception.SuperpositionUnavailable('no answer')
        upstream = self.upstream(method)
        self.assertRaises(exception.SuperpositionUnavailable, getattr(self.driver, method),
                          *arguments)
        upstream.assert_not_called()


class LedgerTest(DriverTestCase):
    """The ledger of clients is removed with its image, and not before."""

    def setUp(self) -> None:
        super().setUp()
        self.answers.update(image_id='1a2b', remove_ledger=None)

    def removed(self) -> bool:
        return mock.call(None, 'remove_ledger', image_id='1a2b') in self.worker.call.mock_calls

    def test_ledger_is_removed_after_its_image(self) -> None:
        self.upstream('delete_volume', side_effect=lambda _: self.assertFalse(self.removed()))
        self.driver.delete_volume(VOLUME)
        self.assertTrue(self.removed())

    def test_ledger_stays_while_its_image_cannot_be_deleted(self) -> None:
        self.upstream('delete_volume', side_effect=cinder_exception.VolumeIsBusy)
        self.assertRaises(cinder_exception.VolumeIsBusy, self.driver.delete_volume, VOLUME)
        self.assertFalse(self.removed())

    def test_missing_image_has_no_ledger_to_remove(self) -> None:
        self.upstream('delete_volume')
        self.answers['image_id'] = None
        self.driver.delete_volume(VOLUME)
        self.assertFalse(self.removed())

    def test_volume_is_deleted_though_its_ledger_stays(self) -> None:
        self.upstream('delete_volume')
        self.answers['remove_ledger'] = exception.SuperpositionUnavailable('no answer')
        self.driver.delete_volume(VOLUME)


class ManageTest(DriverTestCase):
    """Overlays are images of the pool, too, but cannot be managed."""

    def setUp(self) -> None:
        super().setUp()
        self.answers['list'] = [superposition('superposed')]

    def test_overlays_and_superposed_images_are_not_manageable(self) -> None:
        def image(name: str, cinder_id: str | None = None) -> dict[str, Any]:
            return {'reference': {'source-name': name}, 'cinder_id': cinder_id,
                    'safe_to_manage': cinder_id is None,
                    'reason_not_safe': cinder_id and 'already managed'}
        self.upstream('get_manageable_volumes', return_value=[
            image('volume-0'), image('volume-1', 'vol-id'), image('volume-1.super-s1'),
            image('other')])
        images = {each['reference']['source-name']: each for each in
                  self.driver.get_manageable_volumes([], None, 10, 0, [], [])}
        self.assertEqual({'other'},
                         {name for name, image in images.items() if image['safe_to_manage']})
        self.assertEqual('already managed', images['volume-1']['reason_not_safe'])
        for name in ('volume-0', 'volume-1.super-s1'):
            self.assertIn('s1', images[name]['reason_not_safe'])

    def test_managing_an_overlay_is_refused(self) -> None:
        self.upstream('manage_existing_get_size', return_value=3)
        size: Callable[..., int] = self.driver.manage_existing_get_size
        self.assertEqual(3, size(_OTHER, {'source-name': 'other'}))
        for name in ('volume-1', 'volume-1.super-s1'):
            error = self.assertRaises(cinder_exception.ManageExistingInvalidReference, size,
                                      _OTHER, {'source-name': name})
            self.assertIn('s1', str(error))

# SPDX-License-Identifier: Apache-2.0
"""A worker's life, and errors of its calls."""

import contextlib
import functools
import os
import signal
from typing import Any

import ddt

from specreds_cinder import exception
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.tests.functional import base
from specreds_cinder.tests.functional import protocol_base
from specreds_cinder.tests.functional import worker_base

OBJECT = 4 * base.MIB
_SECONDS = 60
_NOBODY = '7a3ab2b5-8b0f-4a0c-9a55-3c9a6b8b5a11'


@ddt.ddt
class LifeTest(worker_base.WorkerTestCase):

    def test_promoted_set_is_merged(self) -> None:
        first, second = (self.make_volume().image for _ in range(2))
        superposition = self.super(first, second)
        view = self.ask('show', superposition=superposition)
        self.assertEqual(
            ('superposed', None, 'test', 'a-server', {'members': ['here']}, 0, None),
            tuple(view[key] for key in ('state', 'outcome', 'reason', 'server_id', 'labels',
                                        'fenced', 'dirty')))
        self.assertEqual([(first, protocol_base.SIZE), (second, protocol_base.SIZE)],
                         [(volume['image'], volume['size_bytes']) for volume in view['volumes']])
        self.assertTrue(all(volume['overlay'].startswith(f'{self.pool}/{volume["image"]}.super')
                            and volume['overlay_bytes'] > 0 for volume in view['volumes']))
        for seconds in (view['age_seconds'], view['unchanged_seconds']):
            self.assertTrue(0 <= seconds < _SECONDS)
        self.assertEqual(superposition, self.ask('find', image=second)['id'])
        (listed,) = [each for each in self.ask('list') if each['id'] == superposition]
        self.assertIsNone(listed['volumes'][0]['overlay_bytes'])

        self.child(superposition, f'write -P 5 {OBJECT} 4k')
        self.assertEqual({'dirty': False, 'unproven': False, 'first': None, 'objects': 8}, {
            key: value for key, value in self.ask('check', superposition=superposition).items()
            if key != 'seconds'})
        report = self.ask('collapse', superposition=superposition, durable=False)
        self.assertEqual('promoted', report['outcome'])
        self.assertGreater(report['durations']['total'], report['durations']['sweep1'])
        self.assertEqual('promoted', self.ask('resume', superposition=superposition))
        self.ask('look_after', superposition=superposition)
        self.assertIsNone(self.ask('unused', superposition=superposition))
        handed = self.ask('hand_out', superposition=superposition)
        self.assertEqual('promoted', handed['state'])
        self.assertIn('handed_at', handed['labels'])
        self.ask('merge', superposition=superposition)
        self.assertIsNone(self.ask('find', image=first))
        volume = records.VolumeRef(self.pool, '', first)
        self.assertEqual(b'\5' * 4096, self.contents(volume)[OBJECT:OBJECT + 4096])
        self.ask('tidy')

    def test_clients_that_stay_fenced_are_counted(self) -> None:
        volume = self.make_volume()
        primary = self.make_primary(volume)
        superposition = self.super(volume.image)
        self.assertEqual('promoted', self.ask('collapse', superposition=superposition,
                                              durable=False)['outcome'])
        self.ask('merge', superposition=superposition)
        listed = [fenced.client for fenced in self.protocol.fenced(records.Home(self.pool))]
        self.assertLessEqual(primary.clients, set(listed))
        self.assertEqual(len(listed), self.ask('count_fenced'))

    def test_dirty_collapse_ends_the_superposition(self) -> None:
        volume = self.make_volume()
        primary = self.make_primary(volume)
        superposition = self.super(volume.image)
        self.assertEqual(0, primary.write(0, 0x33))
        self.assertTrue(self.ask('check', superposition=superposition)['dirty'])
        self.assertEqual('dirty', self.ask('collapse', superposition=superposition,
                                           durable=False)['outcome'])
        self.assertIsNone(self.ask('find', image=volume.image))

    def test_durable_backup_is_remembered(self) -> None:
        superposition = self.super(self.make_volume().image)
        record = self.protocol.show(superposition, records.Home(self.pool))
        backup = self.make_backup(record)
        error = self.assertRaises(exception.SuperpositionConflict, self.ask, 'collapse',
                                  superposition=superposition, durable=False)
        self.assertIn('open at', error.msg)
        self.assertEqual('promoted', self.ask('collapse', superposition=superposition,
                                              durable=True)['outcome'])
        self.assertTrue(self.ask('show', superposition=superposition)['labels']['durable'])
        self.assertRaises(exception.SuperpositionConflict, self.ask, 'unused',
                          superposition=superposition)
        backup.end()

    def test_addresses_of_monitors_are_returned(self) -> None:
        monitors = self.cluster.mon({'prefix': 'mon dump'})['mons']
        self.assertNotEqual([], monitors)
        self.assertEqual([monitor['addr'] for monitor in monitors],
                         [f'{host}:{port}/0' for host, port in self.ask('monitors')])

    def test_eligibility_has_reasons(self) -> None:
        good, held = self.make_volume(), self.make_volume()
        superposition = self.super(held.image)
        self.assertEqual([[], [f'it is in superposition {superposition} already']],
                         self.ask('eligibility', images=[good.image, held.image]))
        (reasons,) = self.ask('eligibility', images=['no-such-image'])
        self.assertIn('no-such-image', reasons[0])


@ddt.ddt
class ErrorTest(worker_base.WorkerTestCase):

    @ddt.data(('show', {}), ('check', {}), ('collapse', {'durable': False}),
              ('merge', {}), ('hand_out', {}), ('resume', {}), ('look_after', {}))
    @ddt.unpack
    def test_unknown_superposition_is_not_found(self, method: str, more: dict[str, Any]) -> None:
        error = self.assertRaises(exception.SuperpositionNotFound, self.ask, method,
                                  superposition=_NOBODY, **more)
        self.assertIn(_NOBODY, error.msg)

    def test_merge_before_promotion_is_a_conflict(self) -> None:
        superposition = self.super(self.make_volume().image)
        error = self.assertRaises(exception.SuperpositionConflict, self.ask, 'merge',
                                  superposition=superposition)
        self.assertEqual(('superposed', 409), (error.state, error.code))

    def test_superposed_image_is_refused(self) -> None:
        image = self.make_volume().image
        held = self.super(image)
        error = self.assertRaises(exception.VolumeSuperposed, self.super, image)
        self.assertIn(held, error.msg)

    def test_image_that_is_not_eligible_is_refused_with_reasons(self) -> None:
        image = self.make_volume(features=1).image
        error = self.assertRaises(exception.VolumesNotEligible, self.super, image)
        self.assertNotEqual((), error.reasons)
        self.assertEqual(list(error.reasons), self.ask('eligibility', images=[image])[0])

    def test_missing_image_is_a_conflict(self) -> None:
        self.assertRaises(exception.SuperpositionConflict, self.super, 'no-such-image')

    def test_empty_set_is_invalid(self) -> None:
        self.assertRaises(exception.SuperpositionInvalid, self.super)

    @ddt.data(('no_such_method', {}), ('show', {'colour': 'blue'}), ('_get', {}))
    @ddt.unpack
    def test_unexpected_error_is_logged_and_keeps_the_process(self, method: str,
                                                              arguments: dict[str, Any]) -> None:
        before = self.process()
        error = self.assertRaises(exception.SuperpositionError, self.ask, method, **arguments)
        self.assertEqual((500, exception.SuperpositionError), (error.code, type(error)))
        # The same process serves.
        self.assertEqual(before, self.process())
        self.assertIn('Traceback', self.log.read_text())

    def test_unreachable_cluster_is_unavailable(self) -> None:
        worker = self.make_worker(conffile=str(self.directory / 'no-such.conf'), timeout=2)
        self.assertRaises(exception.SuperpositionUnavailable, worker.call, None, 'ping')

    def test_worker_that_does_not_start_is_unavailable(self) -> None:
        worker = self.make_worker(colour='blue')
        for _ in range(2):
            error = self.assertRaises(exception.SuperpositionUnavailable, worker.call, None,
                                      'ping')
            self.assertIn('did not start', error.msg)
        self.assertIsNone(worker._process)


class DirtyTest(worker_base.WorkerTestCase):

    watching = True

    def test_write_is_reported_once(self) -> None:
        volume = self.make_volume(objects=8)
        primary = self.make_primary(volume)
        superposition = self.super(volume.image)
        self.assertFalse(self.ask('show', superposition=superposition)['dirty'])
        self.assertIsNone(self.ask('next_dirty', timeout=0.1))
        self.assertEqual(0, primary.write(5 * OBJECT))
        reported, why = self.ask('next_dirty', timeout=_SECONDS)
        self.assertEqual(superposition, reported)
        self.assertIn('.0000000000000005 of ', why)
        view = self.ask('show', superposition=superposition)
        self.assertEqual((True, why), (view['dirty'], view['dirty_object']))
        # It is reported once.
        self.ask('look_after', superposition=superposition)
        self.assertIsNone(self.ask('next_dirty', timeout=0.1))
        self.ask('drop', superposition=superposition)

    def test_next_worker_watches_again(self) -> None:
        volume = self.make_volume(objects=8)
        primary = self.make_primary(volume)
        superposition = self.super(volume.image)
        os.kill(self.process(), signal.SIGKILL)
        with contextlib.suppress(exception.SuperpositionUnavailable):
            self.ask('ping')
        self.assertIsNone(self.ask('show', superposition=superposition)['dirty'])
        self.ask('look_after', superposition=superposition)
        self.assertFalse(self.ask('show', superposition=superposition)['dirty'])
        self.assertEqual(0, primary.write(5 * OBJECT))
        self.assertEqual(superposition, self.ask('next_dirty', timeout=_SECONDS)[0])

    def test_watch_ends_when_another_service_decides(self) -> None:
        other = functools.partial(self.make_worker().call, self.context)
        superposition = self.super(self.make_volume(objects=8).image)
        self.child(superposition, 'write -P 0xc1 0 4M')
        other('look_after', superposition=superposition)
        self.assertFalse(other('show', superposition=superposition)['dirty'])
        self.assertEqual('promoted', self.ask(
            'collapse', superposition=superposition, durable=False)['outcome'])
        self.assertIsNone(other('show', superposition=superposition)['dirty'])
        other('look_after', superposition=superposition)
        # The merge writes to the volume, whose watch has ended.
        self.ask('merge', superposition=superposition)
        self.assertEqual([], other('list'))
        self.assertIsNone(other('next_dirty', timeout=0.1))

    def test_watch_ends_when_another_service_drops_the_superposition(self) -> None:
        other = functools.partial(self.make_worker().call, self.context)
        volume = self.make_volume(objects=8)
        superposition = self.super(volume.image)
        other('look_after', superposition=superposition)
        self.ask('drop', superposition=superposition)
        self.assertEqual([], other('list'))
        self.assertEqual(0, self.make_primary(volume).write(5 * OBJECT))
        self.assertIsNone(other('next_dirty', timeout=0.1))

    def test_watch_continues_after_a_refused_collapse(self) -> None:
        superposition = self.super(self.make_volume().image)
        record = self.protocol.show(superposition, records.Home(self.pool))
        backup = self.make_backup(record)
        self.assertRaises(exception.SuperpositionConflict, self.ask, 'collapse',
                          superposition=superposition, durable=False)
        self.assertFalse(self.ask('show', superposition=superposition)['dirty'])
        self.assertIsNotNone(self.ask('show', superposition=superposition)['dirty'])
        backup.end()

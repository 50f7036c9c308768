# SPDX-License-Identifier: Apache-2.0
"""The sweep of a promoted version finds every write to the overlays below the newest one."""

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import overlay
from specreds_cinder.superposition import record
from specreds_cinder.tests.unit import fakes
from specreds_cinder.tests.unit import test_sweep


class LayerTest(test_sweep.SweepTestCase):
    """A volume below an overlay of three objects, of which two exist."""

    def setUp(self) -> None:
        super().setUp()
        self.names = [b'rbd_data.11.%016x' % number for number in range(3)]
        self.aio.versions.update(dict.fromkeys(self.names[:2], 99))
        existing = overlay.Existing()
        existing.add([99, 99, 0])
        self.record = fakes.superposition(volumes=(fakes.volume(
            map_digest=test_sweep.DIGEST, layers=(
                record.Layer('o1', '11', 'rbd_data.11', 3, existing.digest()),)),))
        self.objects: overlay.Objects | errors.VolumeGone = overlay.Objects(
            'rbd_header.11', b'rbd_data.11', 3)
        self.patch(overlay.Objects, 'of', self.of)

    def of(self, *_args: object) -> overlay.Objects:
        """Return the objects of the overlay.

        :raises VolumeGone: it is gone
        """
        if isinstance(self.objects, errors.VolumeGone):
            raise self.objects
        return self.objects

    def test_layer_as_old_as_the_cut_is_clean(self) -> None:
        self.assertFalse(self.sweep(thorough=True).dirty)
        self.assertLessEqual(set(self.names), set(self.aio.statted))

    def test_written_object_of_a_layer_is_dirty(self) -> None:
        self.aio.versions[self.names[1]] = 101
        self.assert_dirty('of volumes/o1 was written')

    def test_new_object_of_a_layer_is_dirty(self) -> None:
        self.aio.versions[self.names[2]] = 101
        self.assert_dirty('of volumes/o1 was written')

    def test_discarded_object_of_a_layer_is_dirty(self) -> None:
        del self.aio.versions[self.names[0]]
        self.assert_dirty('objects of overlay volumes/o1 were created or discarded')

    def test_layer_that_is_gone_or_another_one_is_unproven(self) -> None:
        self.objects = overlay.Objects('rbd_header.12', b'rbd_data.12', 3)
        self.assert_unproven('overlay volumes/o1 was replaced')
        self.objects = errors.VolumeGone('gone')
        self.assert_unproven('overlay volumes/o1 is gone')

    def test_object_of_a_layer_that_does_not_answer_fails_the_sweep(self) -> None:
        self.aio.silent = {self.names[2]}
        self.assertRaises(errors.ClusterTimeout, self.sweep, thorough=True)

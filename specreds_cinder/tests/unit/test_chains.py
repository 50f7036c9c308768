# SPDX-License-Identifier: Apache-2.0
"""Connections to volumes whose promoted version was superposed again."""

import copy
from typing import Any

from specreds_cinder.tests.unit import test_driver


class ChainTest(test_driver.DriverTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.upstream('initialize_connection',
                      side_effect=lambda *_: copy.deepcopy(test_driver.PARENT))

    def connect(self) -> Any:
        """Return the connection of the volume."""
        return self.driver.initialize_connection(test_driver.VOLUME, test_driver.CONNECTOR)

    def test_several_overlays_have_a_connection_of_another_type(self) -> None:
        several = test_driver.superposition('promoted')
        layers = ['pool/volume-1.super-s0', 'pool/volume-1.super-s9']
        several['volumes'][1]['layers'] = layers
        self.answers.update(find=several, hand_out=several)
        info = self.connect()
        # A client that knows only one overlay must not leave out the others.
        self.assertEqual('rbd_super_chain', info['driver_volume_type'])
        child = info['data']['superposition']
        self.assertEqual([*((layer, 'qcow2') for layer in layers), ('pool/volume-1', 'raw')],
                         [(image['name'], image['format'])
                          for image in (child['backing'], *child['below'])])
        self.assertEqual('pool/volume-1.super-s1', child['overlay']['name'])

    def test_superposition_that_has_taken_the_place_of_another_is_connected(self) -> None:
        successor = test_driver.superposition('promoted') | {'id': 's2'}
        successor['volumes'][1]['layers'] = ['pool/volume-1.super-s1']
        self.answers.update(find=test_driver.superposition('promoted'), hand_out=successor)
        info = self.connect()
        self.assertEqual(('rbd_super_chain', 's2'),
                         (info['driver_volume_type'], info['data']['superposition']['id']))

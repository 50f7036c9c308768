# SPDX-License-Identifier: Apache-2.0
"""Looks at the clients of a volume's images."""

from typing import Any
from unittest import mock

import testtools

from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.exclusion import ledger as ledgers
from specreds_cinder.superposition.steps import base
from specreds_cinder.superposition.steps import clients
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.tests.unit import fakes

_PRIMARY, _BACKUP = '10.0.0.1:0/1', '10.0.0.2:0/2'


class LookTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.step: Any = base.Site(mock.Mock())
        self.entries = {_PRIMARY: ledgers.Entry(ledgers.PRIMARY, 'first')}
        self.step.ledger = mock.Mock(**{'read.side_effect': self.read})
        self.looks: list[str] = []
        self.patch(volumes, 'watchers_and_owners', self.look_below)
        self.patch(volumes, 'watchers', self.look_at_overlay)

    def read(self, volume: records.Volume) -> ledgers.Entries:
        """Return the ledger."""
        self.looks.append('ledger')
        return self.entries

    def look_below(self, _cluster: object, ref: records.VolumeRef, _image_id: str
                   ) -> tuple[frozenset[str], frozenset[str]]:
        """Return the clients of the volume."""
        self.looks.append(ref.image)
        return frozenset({_BACKUP}), frozenset({_PRIMARY})

    def look_at_overlay(self, _cluster: object, ref: records.VolumeRef, _image_id: str | None
                        ) -> frozenset[str]:
        """Return the clients of the overlay."""
        self.looks.append(ref.image)
        return frozenset({_BACKUP})

    def test_overlay_is_looked_at_last(self) -> None:
        volume = fakes.volume()
        look = clients._look(self.step, volume)
        self.assertEqual(['ledger', 'vol-1', volume.overlay], self.looks)
        self.assertEqual(({_PRIMARY, _BACKUP}, {_PRIMARY}, {_BACKUP}, self.entries),
                         (look.image, look.owners, look.overlay, look.ledger))

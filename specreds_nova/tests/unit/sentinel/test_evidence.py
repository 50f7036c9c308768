# SPDX-License-Identifier: Apache-2.0
"""What sentinels read in Ceph, what that costs, and which fences may be taken back."""

from collections.abc import Mapping
import dataclasses
from typing import Any
from unittest import mock

import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import latch as latches
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import states
from specreds_cinder.superposition import store as stores
from specreds_cinder.tests.unit import fakes
from specreds_nova.sentinel import evidence

_CLIENT = '198.51.100.7:0/11'
_VOLUME = records.VolumeRef('volumes', '', 'vol-1')
_OVERLAY = records.VolumeRef('volumes', '', 'vol-1.super-0b5b9f6e-6f0e')


class BlocklistTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.epoch = 1
        self.commands: list[str] = []
        self.storage = evidence.Storage(mock.Mock(mon=self.answer))

    def answer(self, command: Mapping[str, Any]) -> Any:
        """Answer as the monitors do."""
        self.commands.append(command['prefix'])
        if command['prefix'] == 'osd stat':
            return {'epoch': self.epoch}
        return [{'addr': _CLIENT, 'until': '2999-01-01T00:00:00.000000+0000'},
                {'addr': '198.51.100.8:0/12', 'until': '2000-01-01T00:00:00.000000+0000'}]

    def test_blocklist_is_listed_once_per_osdmap(self) -> None:
        for _ in range(100):
            self.assertEqual({_CLIENT}, self.storage.suspected(60))
        self.assertEqual(1, self.commands.count('osd blocklist ls'))
        self.epoch += 1
        self.storage.suspected(60)
        self.assertEqual(2, self.commands.count('osd blocklist ls'))

    def test_judgement_lists_the_blocklist_each_time(self) -> None:
        for _ in range(3):
            self.assertEqual({_CLIENT}, self.storage.blocklisted(60))
        self.assertEqual(['osd blocklist ls'] * 3, self.commands)


class NotedTest(testtools.TestCase):
    """A promoted backup is superposed again; the sentinel asks for the overlay that it uses."""

    def setUp(self) -> None:
        super().setUp()
        self.first = fakes.superposition(
            id='first', state=states.PROMOTED, outcome=states.PROMOTED, fenced=('primary',))
        self.overlay = self.first.volumes[0].overlay_ref
        layer = records.Layer(self.overlay.image, '11', 'rbd_data.11', 3)
        self.second = fakes.superposition(
            id='second', state=states.COLLAPSING, predecessor='first', fenced=('primary', _CLIENT),
            inherited=('primary',),
            volumes=(fakes.volume(overlay='o2', layers=(layer,)),))
        self.storage = evidence.Storage(mock.Mock())
        self.patch(stores.Store, 'index', lambda _store, home: dict.fromkeys(
            ('first', 'second', 'gone'), stores.Entry(home, 1.0)))
        self.patch(stores.Store, 'read', lambda _store, *named: self.read(*named))

    def read(self, superposition: str, _home: records.Home) -> records.Record:
        """Return a record.

        :raises NotSuperposed: it is gone
        """
        try:
            return {'first': self.first, 'second': self.second}[superposition]
        except KeyError:
            raise errors.NotSuperposed(superposition) from None

    def second_becomes(self, state: str, outcome: str | None) -> None:
        """Change the record of the second superposition."""
        self.second = dataclasses.replace(self.second, state=state, outcome=outcome)

    def test_fence_of_an_undecided_second_superposition_may_be_taken_back(self) -> None:
        self.assertEqual({_CLIENT}, self.storage.noted(self.overlay))

    def test_fence_of_a_dropped_second_superposition_is_about_to_be_taken_back(self) -> None:
        for outcome in states.LIVING:
            self.second_becomes(states.ABORTING, outcome)
            self.assertEqual({_CLIENT}, self.storage.noted(self.overlay))

    def test_fence_of_a_second_decision_against_the_first_is_for_good(self) -> None:
        for state, outcome in ((states.PROMOTED, states.PROMOTED),
                               (states.ABORTING, states.LATE_DIRTY)):
            self.second_becomes(state, outcome)
            self.assertEqual(set(), self.storage.noted(self.overlay))

    def test_volume_is_noted_by_both_records(self) -> None:
        self.second_becomes(states.PROMOTED, states.PROMOTED)
        self.assertEqual({'primary', _CLIENT}, self.storage.noted(self.first.volumes[0].ref))


class RecordTest(testtools.TestCase):
    """A promoted version that was superposed again, by a superposition that is promoted, too."""

    def setUp(self) -> None:
        super().setUp()
        self.storage = evidence.Storage(mock.Mock())
        self.store = self.storage._store = mock.create_autospec(stores.Store, instance=True)
        self.latch = self.storage._latch = mock.create_autospec(latches.Latch, instance=True)
        self.record = fakes.superposition(
            state=states.PROMOTED, outcome=states.PROMOTED, fenced=(_CLIENT,),
            volumes=(fakes.volume(layers=(
                records.Layer(_OVERLAY.image, '2b', 'rbd_data.2b', 3),)),))
        # The record is in the home of another volume.
        self.entry = stores.Entry(records.Home('other'), 1.0)
        self.store.index.return_value = {self.record.id: self.entry}
        self.store.read.return_value = self.record
        self.store.claimed.return_value = None
        self.latch.closed_by.return_value = self.record.id

    def test_overlay_is_in_the_superposition_over_its_version(self) -> None:
        self.assertEqual(self.record, self.storage.record(_OVERLAY, '2b'))
        self.store.read.assert_called_once_with(self.record.id, self.entry.home)

    def test_overlay_that_is_not_superposed_again_has_no_record(self) -> None:
        self.latch.closed_by.return_value = None
        self.assertIsNone(self.storage.record(_OVERLAY, '2b'))
        self.latch.closed_by.return_value = 'gone'
        self.assertIsNone(self.storage.record(_OVERLAY, '2b'))

    def test_no_latch_is_read_of_a_volume(self) -> None:
        self.assertIsNone(self.storage.record(_VOLUME, '1a'))
        self.latch.closed_by.assert_not_called()

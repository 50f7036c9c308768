# SPDX-License-Identifier: Apache-2.0
"""A merge looks once more whether anybody may write to what it is about to read or to write."""

from collections.abc import Callable
from typing import Any
from unittest import mock

import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import steps
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.evidence import sweep
from specreds_cinder.superposition.exclusion import ledger as ledgers
from specreds_cinder.superposition.exclusion import roles
from specreds_cinder.superposition.overlay import merge as merges
from specreds_cinder.superposition.steps import clients as looks
from specreds_cinder.superposition.steps import end
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.unit import fakes

_PRIMARY, _SERVER = '10.0.0.1:0/1', '10.0.0.2:0/2'
_NOBODY = frozenset[str]()


class MergingTest(testtools.TestCase):
    """A promoted superposition.

    :ivar users: the clients that have the overlay open
    :ivar acts: what was done, in order
    :ivar meanwhile: by act: called when that is done
    """

    def setUp(self) -> None:
        super().setUp()
        self.record = fakes.superposition(state=states.PROMOTED, outcome=states.PROMOTED,
                                          fenced=(_PRIMARY,))
        self.users: set[str] = set()
        self.entries: dict[str, ledgers.Entry] = {}
        self.pools = {fakes.POOL_ID: fakes.pool()}
        self.acts: list[str] = []
        self.meanwhile: dict[str, Callable[[], object]] = {}
        self.step: Any = steps.Protocol(mock.Mock(**{
            'pools.side_effect': lambda: self.pools}))
        self.store = fakes.Store(self.record)
        self.patch(self.step, 'store', self.store)
        self.step.ledger = mock.Mock(**{'read.side_effect': lambda _volume: self.entries})
        self.step.latch = mock.Mock(**{'open.side_effect': self.noted('unlatch')})
        self.step.fence = mock.Mock(**{
            'close.side_effect': self.noted('fence'),
            **{f'{method}.side_effect': lambda clients: frozenset(clients) - {_PRIMARY}
               for method in ('alive', 'outside')}})
        self.patch(looks, 'observe', self.noted('look', roles.Roles(
            frozenset({_PRIMARY}), _NOBODY, _NOBODY, _NOBODY)))
        self.patch(end, 'clean', mock.Mock())
        self.patch(sweep, 'barrier', self.noted('barrier'))
        self.patch(merges, 'offline', mock.Mock(side_effect=self.noted('write')))
        self.patch(volumes, 'watchers', lambda *_arguments: frozenset(self.users))
        self.patch(volumes, 'owners', lambda *_arguments: _NOBODY)

    def noted(self, act: str, answer: Any = None) -> Callable[..., Any]:
        """Return a function that notes an act."""
        def noted(*_arguments: object, **_options: object) -> Any:
            self.acts.append(act)
            self.meanwhile.get(act, lambda: None)()
            return answer
        return noted

    @property
    def stored(self) -> records.Record:
        """The record as it is stored."""
        record: records.Record = self.store.read(self.record.id, self.record.home)
        return record

    def open(self) -> None:
        """Open the overlay, as a server does that is started."""
        self.users.add(_SERVER)

    def test_overlay_is_written_behind_a_fence_that_all_osds_have(self) -> None:
        self.step.merge(self.record)
        self.assertEqual(['look', 'fence', 'barrier', 'unlatch', 'write'], self.acts)
        self.assertEqual(states.MERGED, self.stored.state)

    def test_overlay_that_was_opened_meanwhile_stays_promoted(self) -> None:
        self.open()
        self.assertRaises(errors.OverlayBusy, self.step.merge, self.record)
        self.assertEqual((states.PROMOTED, []), (self.stored.state, self.acts))

    def test_server_that_opens_the_overlay_meanwhile_is_not_fenced(self) -> None:
        self.meanwhile['look'] = self.open
        self.assertRaises(errors.OverlayBusy, self.step.merge, self.record)
        self.assertEqual(['look'], self.acts)

    def test_overlay_that_was_opened_and_left_meanwhile_is_not_written(self) -> None:
        self.meanwhile['barrier'] = lambda: self.entries.update(
            {_SERVER: ledgers.Entry(ledgers.BACKUP, self.record.id)})
        self.assertRaises(errors.OverlayBusy, self.step.merge, self.record)
        self.assertEqual(['look', 'fence', 'barrier'], self.acts)

    def test_overlay_whose_connection_is_handed_out_meanwhile_is_not_merged(self) -> None:
        self.meanwhile['write'] = lambda: self.store.change(self.record, labels={'handed_at': '1'})
        self.assertRaises(errors.RecordChanged, self.step.merge, self.record)
        self.assertEqual(states.MERGING, self.stored.state)

    def test_volume_whose_pool_was_removed_keeps_no_other_from_being_merged(self) -> None:
        self.record = fakes.superposition(
            state=states.PROMOTED, outcome=states.PROMOTED, fenced=(_PRIMARY,), volumes=(
                fakes.volume(), fakes.volume(image='vol-2', pool='hdd', pool_id=9)))
        self.store.stored[self.record.id] = self.record

        def watchers(_cluster: object, ref: records.VolumeRef, *_id: str) -> frozenset[str]:
            if ref.pool == 'hdd':
                raise errors.PoolGone('could not open pool hdd: not found')
            return _NOBODY
        self.patch(volumes, 'watchers', watchers)
        # As long as the pool has its id, it has another name.
        self.pools[9] = fakes.pool(id=9, name='renamed')
        self.assertRaises(errors.PoolGone, self.step.merge, self.record)
        del self.pools[9]
        self.step.merge(self.record)
        [call] = merges.offline.call_args_list  # type: ignore[attr-defined]
        self.assertEqual(self.record.volumes[:1], call.args[1].volumes)
        self.assertEqual(states.MERGED, self.stored.state)

    def merge_online(self, state: str) -> mock.Mock:
        """Merge under a guest, while another controller changes the record; return the backup."""
        backup = mock.Mock(**{'settle.side_effect': lambda record: self.store.change(
            record, state=state)})
        self.assertRaises(errors.RecordChanged, self.step.merge, self.record, backup)
        backup.suspend.assert_called_once_with()
        backup.switch.assert_not_called()
        return backup

    def test_guest_whose_merge_was_recorded_meanwhile_stays_suspended(self) -> None:
        # Who has recorded it switches the disks, and resumes the guest.
        self.merge_online(states.MERGED).proceed.assert_not_called()

    def test_guest_whose_merge_was_begun_again_meanwhile_goes_on(self) -> None:
        self.merge_online(states.MERGING).proceed.assert_called_once_with()

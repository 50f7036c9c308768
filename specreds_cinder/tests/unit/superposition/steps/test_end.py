# SPDX-License-Identifier: Apache-2.0
"""The end of a superposition: fences that others need, and overlays of no superposition."""

from typing import Any
from unittest import mock

import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.exclusion import fenced as fences
from specreds_cinder.superposition.exclusion import ledger as ledgers
from specreds_cinder.superposition.overlay import overlay
from specreds_cinder.superposition.overlay import removal
from specreds_cinder.superposition.steps import base
from specreds_cinder.superposition.steps import end
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states
from specreds_cinder.superposition.truth import store as stores
from specreds_cinder.tests.unit import fakes

_CLIENT, _NEIGHBOUR = '10.0.0.1:0/1', '10.0.0.2:0/2'
_GONE = '0b5b9f6e-6f0e-4d55-8a3c-1d1c3b3e7a01'


class LiftTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.step: Any = base.Site(mock.Mock())
        self.calls = mock.Mock()
        self.step.fence, self.step.store = self.calls.fence, self.calls.store
        self.listed: dict[str, fences.Entry] = {}
        self.step.fenced_clients = mock.Mock(
            **{'read.side_effect': lambda _home: fences.Listing(self.listed, 1)})
        self.others: list[records.Record] = []
        self.patch(end, '_others', lambda _site, _record: iter(self.others))
        self.record = fakes.superposition(id='dropped')

    def lift(self) -> list[Any]:
        """Take the fence of a client back, and return the changes after that."""
        end._lift(self.step, self.record, frozenset({_CLIENT}))
        opened, *calls = self.calls.mock_calls
        self.assertEqual(mock.call.fence.open({_CLIENT}), opened)
        return calls

    def other(self, state: str, outcome: str | None) -> records.Record:
        """Let another superposition that fences the client have the volume."""
        other = fakes.superposition(id='other', state=state, outcome=outcome,
                                    fenced=(_CLIENT, _NEIGHBOUR))
        self.others.append(other)
        return other

    def test_fence_that_no_other_superposition_needs_is_gone(self) -> None:
        self.others.append(fakes.superposition(id='other', fenced=(_NEIGHBOUR,)))
        self.other(states.ABORTING, states.DIRTY)
        self.assertEqual([], self.lift())

    def test_client_that_another_decision_has_fenced_is_fenced_again(self) -> None:
        for state, outcome in ((states.PROMOTED, states.PROMOTED),
                               (states.ABORTING, states.LATE_DIRTY)):
            self.calls.reset_mock()
            self.others.clear()
            self.other(state, outcome)
            self.assertEqual([mock.call.fence.close({_CLIENT})], self.lift())

    def test_undecided_superposition_has_to_sweep_again_before_the_fence_is_back(self) -> None:
        other = self.other(states.COLLAPSING, None)
        swap, close = self.lift()
        self.assertEqual(('store.swap', other), (swap[0], swap.args[0]))
        self.assertEqual(mock.call.fence.close({_CLIENT}), close)

    def test_superposition_that_changes_meanwhile_is_looked_at_again(self) -> None:
        self.other(states.COLLAPSING, None)

        def decide(*_args: object) -> None:
            self.others.clear()
            self.other(states.PROMOTED, states.PROMOTED)
            raise errors.RecordChanged('it was changed')
        self.calls.store.swap.side_effect = decide
        self.assertEqual(mock.call.fence.close({_CLIENT}), self.lift()[-1])
        self.calls.store.swap.assert_called_once()

    def test_client_that_an_ended_superposition_has_fenced_for_good_is_fenced_again(self) -> None:
        self.other(states.COLLAPSING, None)

        def merge(*_args: object) -> None:
            self.listed[_CLIENT] = fences.Entry('other', None, records.now())
            raise errors.NotSuperposed('it has ended')
        self.calls.store.swap.side_effect = merge
        self.assertEqual(mock.call.fence.close({_CLIENT}), self.lift()[-1])


class EvictTest(testtools.TestCase):
    """A backup whose clients an abort fences."""

    def test_clients_of_another_image_with_the_name_of_the_volume_are_spared(self) -> None:
        step: Any = base.Site(mock.Mock())
        step.fence = mock.Mock()
        step.fenced_clients = mock.Mock()
        step.users = mock.Mock(return_value=frozenset({_NEIGHBOUR}))
        step.owners = mock.Mock(return_value=frozenset())
        below, other = '10.0.0.2:0/3', '10.0.0.2:0/4'
        record = fakes.superposition()
        [volume] = record.volumes
        self.patch(volumes, 'clients', lambda _cluster, _ref, image_id=None: frozenset(
            {below if image_id == volume.image_id else other}))
        end._evict(step, record)
        step.fence.evict.assert_called_once_with({below})


class OrphanTest(testtools.TestCase):
    """A look for overlays of no superposition."""

    def setUp(self) -> None:
        super().setUp()
        self.step: Any = base.Site(mock.MagicMock())
        self.step.store = self.store = mock.Mock(
            **{'index.return_value': {}, 'holder.return_value': None})
        self.volume = fakes.volume(overlay=overlay.name('vol-1', _GONE))
        self.home = self.volume.ref.home
        self.patch(volumes, 'names', lambda _cluster, _home: ['vol-1', self.volume.overlay])
        self.patch(volumes, 'opened', mock.MagicMock())
        self.patch(removal, 'remove_orphan', removed := mock.Mock(return_value=True))
        self.removed = removed

    def tidied(self) -> list[str]:
        """Look once, and return the images that were removed."""
        end._tidy_overlays(self.step, self.home)
        return [call.args[1].image for call in self.removed.call_args_list]

    def test_overlay_of_no_superposition_is_removed_with_a_void_claim(self) -> None:
        self.assertEqual([self.volume.overlay], self.tidied())
        self.store.release_void.assert_called_once()

    def test_overlay_of_a_listed_superposition_stays(self) -> None:
        self.store.index.return_value = {_GONE: stores.Entry(self.home, 60.0)}
        self.assertEqual([], self.tidied())

    def test_overlay_of_a_volume_that_is_superposed_stays(self) -> None:
        # As if the index had lost the superposition.
        self.store.holder.return_value = mock.sentinel.claim
        self.assertEqual([], self.tidied())

    def test_overlay_in_use_stays(self) -> None:
        self.removed.side_effect = errors.OverlayBusy('it is open', [_CLIENT], 'wait')
        end._tidy_overlays(self.step, self.home)
        self.store.release_void.assert_not_called()


class LateFenceTest(testtools.TestCase):
    """A dropped superposition, to whose fence the monitors have added entries late.

    :ivar left_s: the seconds that the entries have left
    :ivar holder: the superposition that the volume is in
    """

    def setUp(self) -> None:
        super().setUp()
        self.step: Any = base.Site(mock.Mock(**{'pools.return_value': {
            fakes.POOL_ID: fakes.pool()}}))
        self.record = fakes.superposition(
            id=_GONE, state=states.ABORTING, outcome=states.ABORTED, fenced=(_CLIENT, _NEIGHBOUR))
        self.expiry_s = self.step.settings.fence_expiry_s
        self.left_s = {_CLIENT: self.expiry_s * 0.9}
        self.holder: stores.Claim | None = None
        self.step.store = mock.Mock(**{
            'index.return_value': {}, 'missing.return_value': set(),
            'holder.side_effect': lambda _home, _image_id: self.holder,
            'read.side_effect': self.read})
        self.step.dropped = mock.Mock(**{'read.side_effect': lambda _home: [self.record]})
        self.step.fence = mock.Mock(**{'remaining.side_effect': lambda: self.left_s})
        self.step.fenced_clients = mock.Mock(**{'read.return_value': fences.Listing({}, 1)})
        self.entries = {_CLIENT: ledgers.Entry(ledgers.PRIMARY, _GONE)}
        self.step.ledger = mock.Mock(**{'read.side_effect': lambda _volume: self.entries})
        self.patch(removal, 'again', mock.Mock(return_value=[]))
        self.patch(volumes, 'names', mock.Mock(return_value=[]))

    def read(self, superposition: str, _home: records.Home) -> records.Record:
        """Return the record of the superposition that the volume is in."""
        return fakes.superposition(id=superposition)

    def lifted(self) -> list[frozenset[str]]:
        """Tidy up, and return the clients whose fence was lifted, by call."""
        end.tidy(self.step, self.record.home)
        return [call.args[0] for call in self.step.fence.open.call_args_list]

    def test_late_entry_of_a_primary_that_lives_is_removed(self) -> None:
        self.assertEqual([frozenset({_CLIENT})], self.lifted())

    def test_entry_of_a_volume_that_was_superposed_meanwhile_stays(self) -> None:
        self.holder = stores.Claim(_GONE, self.record.home, 1)
        self.assertEqual([], self.lifted())

    def test_entry_that_librbd_has_made_meanwhile_stays(self) -> None:
        self.left_s = {_CLIENT: 3600.0}
        self.assertEqual([], self.lifted())

    def test_entry_of_a_client_that_has_left_the_ledger_meanwhile_stays(self) -> None:
        self.entries = {}
        self.assertEqual([], self.lifted())

    def abort(self) -> list[frozenset[str]]:
        """Abort the superposition, and return the clients whose fence was lifted, by call."""
        self.holder = stores.Claim(_GONE, self.record.home, 1)
        self.step.latch = mock.Mock()
        self.step.store.swap.side_effect = lambda _old, new: new
        self.step.store.read.side_effect = lambda _id, _home: self.record
        self.patch(volumes, 'watchers', mock.Mock(return_value=frozenset()))
        self.patch(volumes, 'owners', mock.Mock(return_value=frozenset()))
        end.abort(self.step, self.record)
        return [call.args[0] for call in self.step.fence.open.call_args_list]

    def test_fence_that_comes_while_the_overlays_are_removed_is_lifted_meanwhile(self) -> None:
        self.step.fence.open.side_effect = lambda clients: events.append('open')
        events: list[str] = []
        self.patch(removal, 'remove', lambda *_args, **_options: events.append('remove'))
        self.abort()
        # A controller that was collapsing may have fenced after the first one.
        self.assertEqual(['open', 'remove', 'open'], events)

# SPDX-License-Identifier: Apache-2.0
"""A fence is taken back by a controller that another superposition has overtaken."""

from typing import Any
from unittest import mock

import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import fenced as fences
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import states
from specreds_cinder.superposition.protocol import end
from specreds_cinder.tests.unit import fakes

_CLIENT, _NEIGHBOUR = '10.0.0.1:0/1', '10.0.0.2:0/2'


class LiftTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.step: Any = end.Ending(mock.Mock())
        self.calls = mock.Mock()
        self.step.fence, self.step.store = self.calls.fence, self.calls.store
        self.listed: dict[str, fences.Entry] = {}
        self.step.fenced_clients = mock.Mock(
            **{'read.side_effect': lambda _home: fences.Listing(self.listed, 1)})
        self.others: list[records.Record] = []
        self.patch(self.step, '_others', lambda _record: iter(self.others))
        self.record = fakes.superposition(id='dropped')

    def lift(self) -> list[Any]:
        """Take the fence of a client back, and return the changes after that."""
        self.step._lift(self.record, frozenset({_CLIENT}))
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

# SPDX-License-Identifier: Apache-2.0
"""The table of states, requests and steps agrees with the moves, and the protocol obeys it."""

from collections.abc import Callable
import itertools
from typing import Any
from unittest import mock

import testtools

from specreds_cinder import superposition as sp
from specreds_cinder.superposition import errors
from specreds_cinder.superposition.steps import collapse
from specreds_cinder.superposition.steps import end
from specreds_cinder.superposition.steps import merge
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.unit.superposition.truth import test_record

# The call of the protocol for each request, and the methods that are its steps.
_CALLS: dict[str, Callable[[sp.Protocol, sp.Record], object]] = {
    states.CHECK: lambda protocol, record: protocol.check(record),
    states.COLLAPSE: lambda protocol, record: protocol.collapse(record),
    states.ABORT: lambda protocol, record: protocol.abort(record),
    states.MERGE: lambda protocol, record: protocol.merge(record),
    states.END_MERGE: lambda protocol, record: protocol.end_merge(record),
    states.RESUME: lambda protocol, record: protocol.resume(record),
}
# What takes each step: a place, and the name of a function there.
_FUNCTIONS: dict[str, tuple[Any, str]] = {
    states.SWEEP: (collapse, '_sweep'), states.DECIDE: (collapse, 'decide'),
    states.DROP: (end, 'drop'),
    states.WRITE: (merge, '_merge_offline'), states.SWITCH: (merge, '_merged'),
    states.CLEAN: (end, 'clean'),
}


def reachable(state: str) -> set[str]:
    """Return the states that may follow a state, and GONE where its record can only be deleted."""
    following: set[str] = set()
    waiting = [state]
    while waiting:
        nexts = states.MOVES[waiting.pop()]
        waiting += nexts - following
        following |= nexts or {states.GONE}
    return following


class StepsTest(testtools.TestCase):

    def test_table_names_every_state_and_request(self) -> None:
        self.assertEqual(set(states.STATES), states.STEPS.keys())
        self.assertEqual(set(states.REQUESTS), set(itertools.chain(*states.STEPS.values())))
        self.assertEqual({step for steps in states.STEPS.values() for step in steps.values()},
                         states.PASSES.keys())

    def test_step_passes_only_states_that_may_follow(self) -> None:
        for state, steps in states.STEPS.items():
            for step in steps.values():
                self.assertLessEqual(states.PASSES[step], reachable(state) | {state})

    def test_every_state_can_be_resumed_and_ended(self) -> None:
        for state, steps in states.STEPS.items():
            self.assertIn(states.RESUME, steps)
            self.assertTrue(any(states.GONE in states.PASSES[step] for step in steps.values()),
                            state)

    def test_outcome_frees_the_primary_or_fences_it(self) -> None:
        self.assertEqual(set(states.OUTCOMES), states.LIVING | states.FENCED)
        self.assertEqual(set(), states.LIVING & states.FENCED)

    def test_protocol_does_the_step_of_the_table(self) -> None:
        made = {state: {request: step for request in states.REQUESTS
                        if (step := self.first_step(state, request)) is not None}
                for state in states.STATES}
        self.assertEqual(states.STEPS, made)

    def first_step(self, state: str, request: str) -> str | None:
        """Return the step that a request takes in a state; None if it is refused."""
        record = test_record.make_record(
            state=state, outcome=states.PROMOTED if state in states.DECIDED else None)
        protocol = sp.Protocol(mock.Mock(**{'pools.return_value': {}}))
        self.patch(protocol, 'store', mock.Mock(**{
            'read.return_value': record, 'swap.side_effect': lambda _old, new: new}))
        self.patch(protocol, 'fence', mock.Mock())
        self.patch(merge, 'unused', mock.Mock())
        self.patch(merge, '_shut_out', lambda _site, record: record)
        self.patch(merge, '_kept_fenced', mock.MagicMock())
        made: list[str] = []
        for step, (place, name) in _FUNCTIONS.items():
            self.patch(place, name, self.noting(made, step, record))
        try:
            _CALLS[request](protocol, record)
        except errors.Conflict:
            return None
        return made[0] if made else states.NOTHING

    @staticmethod
    def noting(made: list[str], step: str, record: sp.Record) -> Callable[..., object]:
        """Return a function that notes its step."""
        def function(*_args: object, **_options: object) -> object:
            made.append(step)
            return mock.Mock(outcome=None) if step == states.DECIDE else record
        return function

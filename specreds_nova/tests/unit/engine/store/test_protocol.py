# SPDX-License-Identifier: Apache-2.0
"""Several engines on one store in any order: invariants that hold after each operation."""

import dataclasses
from typing import Any

from hypothesis import settings
from hypothesis import stateful
from hypothesis import strategies
import testtools

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.tests.unit.engine import clock as clocks
from specreds_nova.tests.unit.engine import steps
from specreds_nova.tests.unit.engine.store import base

_ENGINES = strategies.sampled_from(('engine1', 'engine2', 'engine3'))
_SERVERS = strategies.sampled_from(('vm1', 'vm2'))
_STATES = strategies.sampled_from((model.QUEUED, model.RACING, model.COMMITTED, model.MERGING))
_BEFORE_COMMIT = (model.QUEUED, model.RACING)


class Engines(stateful.RuleBasedStateMachine):
    """Engines that create, take over, change and end recoveries, and an operator.

    An engine uses whatever it has read of a recovery, however old that is.
    """

    held = stateful.Bundle('held')

    def __init__(self) -> None:
        super().__init__()
        self.clock = clocks.Clock()
        self.store = base.make_store(self.clock)
        # The last known content of the store, by id.
        self.known: dict[str, model.Recovery] = {}

    @stateful.rule(target=held, server=_SERVERS, engine=_ENGINES)
    def create(self, server: str, engine: str) -> stateful.MultipleResults[model.Recovery]:
        """Create a recovery, and let an engine work on it."""
        recovery = base.make_recovery(server=server)
        expected = all(known.server != server or known.state == model.ENDED
                       for known in self.known.values())
        assert self.store.create([recovery]) == ({recovery.id} if expected else set())
        if not expected:
            assert self.store.get(recovery.id) is None
            return stateful.multiple()
        return stateful.multiple(self._taken(recovery, engine))

    @stateful.rule(target=held, recovery=held, engine=_ENGINES)
    def take_over(self, recovery: model.Recovery, engine: str) -> model.Recovery:
        """Let another engine, or the same one, take over a recovery as it has read it."""
        before = self.known[recovery.id]
        current = before.epoch == recovery.epoch and before.state != model.ENDED
        try:
            taken = self._taken(recovery, engine)
        except exception.Superseded:
            assert not current
            return recovery
        assert current and taken.epoch > before.epoch
        return taken

    @stateful.rule(recovery=held, state=_STATES, destination=_SERVERS)
    def change(self, recovery: model.Recovery, state: str, destination: str) -> None:
        """Let an engine change a recovery."""
        now = self.known[recovery.id]
        current = now.epoch == recovery.epoch and now.state != model.ENDED
        back = state in _BEFORE_COMMIT and now.state not in _BEFORE_COMMIT
        try:
            changed = self.store.change(recovery, state=state, destination=destination)
        except exception.Superseded:
            assert not current
        except exception.Invalid:
            assert current and back
        else:
            assert current and not back
            self.known[recovery.id] = changed

    @stateful.rule(recovery=held, outcome=strategies.sampled_from(model.OUTCOMES))
    def end(self, recovery: model.Recovery, outcome: str) -> None:
        """Let an engine end a recovery."""
        now = self.known[recovery.id]
        lie = (outcome in (model.PRIMARY, model.ABORTED)
               and now.state in (model.COMMITTED, model.MERGING))
        try:
            ended = self.store.change(recovery, state=model.ENDED, outcome=outcome)
        except exception.Ended:
            assert now.state == model.ENDED
        except exception.Superseded:
            assert now.epoch != recovery.epoch
        except exception.Invalid:
            assert lie
        else:
            assert now.epoch == recovery.epoch and not lie
            if now.state == model.ENDED:
                assert ended == now
            self.known[recovery.id] = ended

    @stateful.rule(recovery=held)
    def step(self, recovery: model.Recovery) -> None:
        """Let an engine begin and end a step."""
        now = self.known[recovery.id]
        current = now.epoch == recovery.epoch and now.state != model.ENDED
        try:
            attempt = steps.begin(self.store, recovery, 'super', self.clock.time)
            steps.end(self.store, recovery, 'super', attempt, {'epoch': recovery.epoch},
                      self.clock.time)
        except exception.Superseded:
            assert not current
        else:
            assert current
            self._touched(recovery.id)

    @stateful.rule(recovery=held)
    def abort(self, recovery: model.Recovery) -> None:
        """Let an operator request an abort."""
        now = self.known[recovery.id]
        requested = self.store.request_abort(recovery.id, 'user u1')
        assert requested is (now.state in _BEFORE_COMMIT)
        self._touched(recovery.id, abort=now.abort or ('user u1' if requested else None))

    @stateful.rule()
    def wait(self) -> None:
        """Let time pass."""
        self.clock.time += 1

    @stateful.invariant()
    def never_two_of_a_server(self) -> None:
        """Assert that a server has at most one recovery that has not ended."""
        servers = [recovery.server for recovery in self.store.active()]
        assert len(servers) == len(set(servers))

    @stateful.invariant()
    def nothing_else_changed(self) -> None:
        """Assert that the store has only the changes that were allowed."""
        for recovery_id, known in self.known.items():
            stored = self.store.get(recovery_id)
            assert stored is not None
            assert dataclasses.replace(stored, steps=()) == known
            epochs = [step.detail['epoch'] for step in stored.steps]
            assert epochs == sorted(epochs)
            assert [step.attempt for step in stored.steps] == list(range(1, len(epochs) + 1))

    def _taken(self, recovery: model.Recovery, engine: str) -> model.Recovery:
        taken = self.store.take_over(recovery, engine)
        self.known[recovery.id] = dataclasses.replace(taken, steps=())
        return taken

    def _touched(self, recovery_id: str, **changes: Any) -> None:
        """Note the only changes of a recovery besides the time of its last change."""
        known = self.known[recovery_id]
        stored = self.store.get(recovery_id)
        assert stored is not None and stored.updated in (known.updated, self.clock.time)
        self.known[recovery_id] = dataclasses.replace(known, updated=stored.updated, **changes)
        assert dataclasses.replace(stored, steps=()) == self.known[recovery_id]


class ProtocolTest(testtools.TestCase):

    def test_invariants_hold_for_interleaved_engines(self) -> None:
        stateful.run_state_machine_as_test(
            Engines, settings=settings(max_examples=40, stateful_step_count=30,
                                       derandomize=True))

# SPDX-License-Identifier: Apache-2.0
"""Base class of the tests of recoveries, in which nothing takes time."""

from collections.abc import Mapping
import dataclasses
from typing import Any
from unittest import mock

import testtools

from specreds_nova.engine import events
from specreds_nova.engine import fibers
from specreds_nova.engine import model
from specreds_nova.engine import modes
from specreds_nova.engine.placing import capacity
from specreds_nova.engine.recovery import context as contexts
from specreds_nova.engine.suspicion import servers
from specreds_nova.tests.unit.engine import clock as clocks
from specreds_nova.tests.unit.engine import steps
from testing.simulation import invariants
from testing.simulation import settings
from testing.simulation import store as stores


def make_server(name: str, /, **values: Any) -> model.Server:
    """Return a server that may have a recovery."""
    return model.Server(**{
        'id': name, 'name': name, 'project': 'p', 'host': 'h1', 'status': 'ACTIVE', 'task': None,
        'locked': False, 'zone': None, 'flavor': {'vcpus': 1, 'ram': 1}, 'volumes': ('v',),
        **values})


class RecoveryTest(testtools.TestCase):
    """A test with mocks of all services and a store in memory.

    :cvar clock_ahead: seconds by which the clock of the system was set since the engine's start
    """

    clock_ahead = 0.0

    def setUp(self) -> None:
        super().setUp()
        self.clock = clocks.Clock(ahead=self.clock_ahead)
        self.store = stores.Store(self.clock.wall)
        self.store.set_mode(stores.ACTING)
        self.compute, self.backups, self.volumes = mock.Mock(), mock.Mock(), mock.Mock()
        self.volumes.dirty.return_value = False
        self.volumes.eligibility.return_value = {}
        self.compute.immovable.return_value = None
        self.compute.evacuation.return_value = None
        self.backups.promote.return_value = {'timings_ms': {'box_open': 40, 'box_settled': 940}}
        self.suspects = mock.Mock(**{'speaks.return_value': False,
                                     'unplugged.return_value': False})
        self.suspects.suspected.return_value = True
        self.suspects.is_well.return_value = self.suspects.well_to_all.return_value = False
        self.suspects.running.return_value = True
        self.suspects.flaps.return_value = 0
        self.suspects.healthy.return_value = ['h2', 'h3']
        self.suspects.await_ready.side_effect = self._never_reported
        self.observer = mock.Mock(spec=events.Observer)
        self.limits = servers.Limits(0, 0)
        self.context = self.make_context()

    def tearDown(self) -> None:
        self.assertEqual([], invariants.without_remedy(
            recovery for recovery in self.store.history.values() if recovery.error))
        super().tearDown()

    def _never_reported(self, host: str, backup: str, seconds: float) -> bool:
        del host, backup
        self.clock.sleep(seconds)
        return False

    def make_context(self, limits: servers.Limits | None = None,
                     **options: Any) -> contexts.Context:
        """Return the context of recoveries."""
        store: Any = self.store
        values = settings.options(**options)
        return contexts.Context(
            clock=self.clock, compute=self.compute, backups=self.backups, volumes=self.volumes,
            suspects=self.suspects, store=store, options=values, settings=values,
            capacity=capacity.Capacity(
                self.clock, store, limits or self.limits, self.suspects.healthy),
            revocations=contexts.Revocations(self.clock, store),
            modes=modes.Modes(self.clock, store), observer=self.observer)

    def stopped_after(self, seconds: float) -> contexts.Context:
        """Return the context of an engine that is stopped after some seconds."""
        until = self.clock.now() + seconds
        return dataclasses.replace(self.context, stopping=lambda: self.clock.now() >= until)

    def note_ranks(self, **calls: mock.Mock) -> dict[str, set[int]]:
        """Note the ranks with which calls are made, by the name of the call.

        :param calls: the calls, which return what they have returned before
        """
        current, ranks = [fibers.FIRST], {name: set[int]() for name in calls}
        self.context = dataclasses.replace(
            self.context, rank=lambda rank: current.append(rank))

        def noting(name: str, call: Any) -> Any:
            act, value = call.side_effect, call.return_value

            def noted(*arguments: Any) -> Any:
                ranks[name].add(current[-1])
                return act(*arguments) if callable(act) else value
            return noted
        for name, call in calls.items():
            call.side_effect = noting(name, call)
        return ranks

    def make_recovery(self, server: str = 'a', **values: Any) -> model.Recovery:
        """Return a recovery that is in the store."""
        made = model.Recovery(**{
            'id': f'00000000-0000-4000-8000-{len(self.store.history):012d}', 'server': server,
            'server_name': server, 'project': 'p', 'host': 'h1',
            'suspected': self.clock.now(), **values})
        self.store.create([made])
        return self.store.history[made.id]

    def taken_over(self, recovery: model.Recovery, engine: str) -> model.Recovery:
        """Let an engine claim a recovery as it is stored now."""
        return self.store.take_over(self.store.history[recovery.id], engine)

    def set_mode(self, mode: str, scope: str = model.HOST, name: str = 'h1',
                 until: float | None = None) -> None:
        """Set a mode, which engines read a moment later."""
        self.store.set_mode(model.Mode(scope, name, mode, 'a test', 'u1', self.clock.wall(),
                                       until))
        self.clock.sleep(modes.FRESH)

    def suspect(self, name: str = 'h1', state: str = model.SUSPECTED) -> model.Host:
        """Record that a host has been suspected for a while."""
        changed = self.store.change_host(self.store.host(name), state=state)
        assert changed is not None, 'nobody else changes it'
        self.clock.time += 10.0
        return changed

    def begin_step(self, recovery: model.Recovery, name: str) -> int:
        """Record the begin of a step, and return its attempt."""
        return steps.begin(self.store, recovery, name, self.clock.time)

    def end_step(self, recovery: model.Recovery, name: str, attempt: int,
                 detail: Mapping[str, Any]) -> None:
        """Record the end of a step."""
        steps.end(self.store, recovery, name, attempt, detail, self.clock.time)


class CommittedTest(RecoveryTest):
    """A recovery whose decision was made, and whose server is on a host that is silent."""

    def setUp(self) -> None:
        super().setUp()
        self.suspect(state=model.FENCED)
        self.recovery = self.make_recovery('a', state=model.COMMITTED)
        self.context = self.make_context(adopt_timeout=30.0)
        self.compute.candidates.return_value = ['h2']
        self.suspects.suspected.side_effect = lambda host: host == 'h1'

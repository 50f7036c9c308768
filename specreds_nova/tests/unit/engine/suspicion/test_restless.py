# SPDX-License-Identifier: Apache-2.0
"""A monitor that looks at restless hosts only finds what one finds that looks at all of them."""

from collections.abc import Iterable

import hypothesis
from hypothesis import strategies as st
import testtools

from specreds_nova.beats import listening
from specreds_nova.beats import message
from specreds_nova.engine.suspicion import monitor
from specreds_nova.engine.suspicion import restless
from specreds_nova.engine.suspicion import settings as monitoring
from specreds_nova.engine.suspicion import watched
from specreds_nova.tests.unit.engine import clock as clocks
from specreds_nova.tests.unit.engine.suspicion import base

_SETTINGS = monitoring.Settings(link=listening.Settings(settle=0.0))
_HOSTS = st.sampled_from(('cn1', 'cn2', 'cn3'))
_AGES = st.sampled_from((None, 0.1, 3.0, 5.5, 20.0))
_BEATS = st.tuples(
    st.just('beat'), _HOSTS, st.fixed_dictionaries({
        'interval': st.sampled_from((0.2, 0.2, 0.2, 1.0)), 'libvirt_age': _AGES,
        'storage_age': _AGES, 'leaving': st.sampled_from((False, False, False, True))}))
_STEPS = st.one_of(
    _BEATS, _BEATS,
    st.tuples(st.just('boot'), _HOSTS),
    st.tuples(st.just('pass'), st.floats(0.01, 0.5)),
    st.tuples(st.just('pass'), st.floats(0.01, 5.0)),
    st.tuples(st.just('freeze'), st.floats(0.3, 2.0)),
    st.tuples(st.just('word'), _HOSTS, st.sampled_from(('suspect', 'clear', None))),
    st.tuples(st.just('note'), _HOSTS),
    st.tuples(st.just('forget'), _HOSTS),
    st.tuples(st.just('expect'), _HOSTS))


class _Thorough(restless.Restless):
    """Looks at all hosts each time."""

    def among(self, hosts: Iterable[watched.Watched], horizon: float) -> list[watched.Watched]:
        """Return all hosts."""
        return list(hosts)


class _Engine:
    """A monitor whose hosts beat as a test says."""

    def __init__(self) -> None:
        self.clock = clocks.Clock()
        self.witness = base.Witness(self.clock)
        self.monitor = monitor.Monitor(self.clock, self.witness, _SETTINGS)
        self._nodes = {name: base.Node(name, 0.0) for name in ('cn1', 'cn2', 'cn3')}

    def play(self, step: tuple[object, ...]) -> None:
        """Take a step."""
        getattr(self, f'_{step[0]}')(*step[1:])

    def seen(self) -> tuple[object, ...]:
        """Return all that the monitor tells others."""
        vote = self.monitor.vote('engine', ('cn1', 'cn4'))
        return (self.witness.events, self.monitor.healthy(), self.monitor.due_in(), vote,
                self.monitor.facts('cn1'))

    def _beat(self, name: str, more: dict[str, object]) -> None:
        node = self._nodes[name]
        node.number += 1
        self.monitor.heard(message.Beat(name, node.boot, node.number, **more))  # type: ignore

    def _boot(self, name: str) -> None:
        self._nodes[name].boot += 'b'

    def _pass(self, seconds: float) -> None:
        end = self.clock.time + seconds
        while self.clock.time < end:
            self.clock.time += 0.05
            self.monitor.echo(self.clock.time)
            self.monitor.tick()

    def _freeze(self, seconds: float) -> None:
        self.clock.time += seconds

    def _word(self, name: str, word: str | None) -> None:
        self.monitor.word(name, word)

    def _note(self, name: str) -> None:
        self.monitor.note(name, 'nova', 'then')

    def _forget(self, name: str) -> None:
        self.monitor.forget(name)

    def _expect(self, name: str) -> None:
        self.monitor.expect([name])


class RestlessTest(testtools.TestCase):
    """What is found by looking at few hosts."""

    @hypothesis.settings(max_examples=300, deadline=None)
    @hypothesis.given(st.lists(_STEPS, max_size=40))
    def test_nothing_is_missed(self, steps: list[tuple[object, ...]]) -> None:
        engine, thorough = _Engine(), _Engine()
        thorough.monitor._restless = _Thorough(_SETTINGS)
        for step in steps:
            engine.play(step)
            thorough.play(step)
            self.assertEqual(thorough.seen(), engine.seen())

    def test_host_that_beats_more_often_after_a_restart_is_soon_late(self) -> None:
        engine = _Engine()
        for interval in (1.0, 1.0, 0.2):
            engine.play(('beat', 'cn1', {'interval': interval}))
            engine.play(('pass', 0.1))
            if interval == 1.0:
                engine.play(('beat', 'cn1', {'interval': interval, 'leaving': True}))
                engine.play(('boot', 'cn1'))
        engine.play(('pass', 0.5))
        self.assertEqual(['cn1'], engine.witness.names('doubted'))

    def test_calm_hosts_are_looked_at_once_per_interval(self) -> None:
        looks = []

        class Counting(restless.Restless):
            def _look(self, hosts: Iterable[watched.Watched], horizon: float) -> None:
                looks.append(horizon)
                super()._look(hosts, horizon)

        engine = _Engine()
        engine.monitor._restless = Counting(_SETTINGS)
        beats = [('beat', name, {'interval': 0.2}) for name in ('cn1', 'cn2', 'cn3')]
        for turn in range(100):
            engine.play(beats[turn % 3])
            engine.play(('pass', 0.05))
        looks.clear()
        for turn in range(300):
            engine.play(beats[turn % 3])
            engine.play(('pass', 0.05))
        self.assertLess(len(looks), 110)
        self.assertEqual(['cn1', 'cn2', 'cn3'], engine.monitor.healthy())

    def test_hosts_that_were_all_late_are_calm_again(self) -> None:
        engine = _Engine()
        beats = [('beat', name, {'interval': 0.2}) for name in ('cn1', 'cn2', 'cn3')]
        for beat in beats:
            engine.play(beat)
        engine.play(('pass', 0.5))
        self.assertEqual(['cn1', 'cn2', 'cn3'], engine.witness.names('doubted'))
        for turn in range(60):
            engine.play(beats[turn % 3])
            engine.play(('pass', 0.05))
        hosts = engine.monitor._hosts
        horizon = engine.monitor._listening.horizon()
        self.assertEqual([], list(engine.monitor._restless.among(hosts.values(), horizon)))
        self.assertEqual(['cn1', 'cn2', 'cn3'], engine.monitor.healthy())

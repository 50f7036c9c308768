# SPDX-License-Identifier: Apache-2.0
"""Whatever arrives from the bus: no error leaves the engine's ears, and no other host changes."""

import dataclasses
import json
from typing import Any
from unittest import mock

import hypothesis
from hypothesis import strategies as st
import testtools

from specreds_nova.beats import echo
from specreds_nova.beats import listener
from specreds_nova.beats import message
from specreds_nova.beats import rejections
from specreds_nova.engine.suspicion import monitor as monitors
from specreds_nova.tests.unit.engine import clock as clocks
from specreds_nova.tests.unit.engine.suspicion import base

_ENGINE, _HOST = 'e1', 'cn1'
_SERVERS = ('0b7f3d1c-5a2e-4c68-9d10-6f4b2a8e7c95', '5a2e0b7f-3d1c-4c68-9d10-6f4b2a8e7c95')
# By 50 messages; 200 examples, which take a quarter of a minute, are 10,000 messages.
_EXAMPLES, _MESSAGES = 40, 50
_junk: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from([10 ** 17, 10 ** 400, 1e300, -1, '', 'x' * 300, '\ud800', '\n']),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(
        st.text(max_size=4), values, max_size=3), max_leaves=4)
_fitting = {
    'host': st.sampled_from(['cn2', 'cn3', 'cn4', 'e1', 'CN1']),
    'boot': st.sampled_from(['b1', 'b2', 'b3']), 'number': st.integers(0, 120),
    'interval': st.sampled_from([0.2, 1, 0.001]), 'libvirt_age': st.floats(0.0, 20.0),
    'storage_age': st.floats(0.0, 20.0), 'leaving': st.booleans(), 'kernel': st.just('k2'),
    'goodbye': st.sampled_from(['service', 'system', '']), 'running': st.sampled_from(['d', 'e']),
    'domains': st.lists(st.sampled_from(_SERVERS), max_size=2), 'uptime': st.floats(0.0, 9.0),
    'ended': st.lists(st.sampled_from(_SERVERS), max_size=3),
    'ready': st.lists(st.just(_SERVERS[0]), max_size=1), 'broker': st.just('b:5672')}
_fields = [field.name for field in dataclasses.fields(message.Beat)]


@st.composite
def _beats(draw: Any) -> dict[str, Any]:
    """Return the fields of a beat, of which some do not fit."""
    beat = {name: draw(_fitting.get(name, _junk)) for name in _fields
            if name in ('host', 'boot', 'number', 'interval') or draw(st.booleans())}
    for name in draw(st.lists(st.sampled_from([*_fields, 'weather']), max_size=2)):
        beat[name] = draw(_junk)
    if beat.get('host') == _HOST:
        beat['host'] = 'cn2'
    return beat


_calls = st.one_of(
    _beats().map(lambda beat: ('beat', {'beat': beat})),
    _junk.map(lambda junk: ('beat', {'beat': junk})),
    _junk.map(lambda junk: ('beat', junk)),
    st.tuples(st.just('echo'), st.fixed_dictionaries({
        'engine': st.sampled_from([_ENGINE, 'e2']) | _junk,
        'sent': st.floats() | st.floats(900.0, 2000.0) | _junk})),
    st.tuples(st.text(max_size=6) | st.just('answer'), _junk))


def _wrapped(call: tuple[str, Any]) -> bytes:
    method, arguments = call
    return json.dumps({'oslo.version': '2.0', 'oslo.message': json.dumps(
        {'method': method, 'args': arguments})}).encode()


_usual = message.wrap('beat', {'beat': message.encode(message.Beat(
    'cn2', 'b1', 60, 0.2, 0.1, 0.1, kernel='k2', running='d'))})
_bodies = st.one_of(
    _calls.map(_wrapped), _junk.map(lambda junk: json.dumps(junk).encode()),
    st.binary(max_size=20), st.tuples(st.integers(0, 200), st.binary(max_size=3)).map(
        lambda damage: _usual[:damage[0]] + damage[1] + _usual[damage[0] + 1:]))


class HostileMessagesTest(testtools.TestCase):
    """An engine that hears three hosts, and anything else that may be on the bus."""

    def setUp(self) -> None:
        super().setUp()
        log = mock.patch.object(rejections, 'LOG')
        log.start()
        self.addCleanup(log.stop)

    def engine(self) -> None:
        """Start an engine, and let it hear its hosts for a while."""
        self.clock = clocks.Clock()
        self.witness = base.Witness(self.clock)
        self.monitor = monitors.Monitor(self.clock, self.witness)
        self.echoed = echo.Echoed()
        self.ears = listener.Ears(_ENGINE, self.monitor, echoed=self.echoed.take)
        self.number = 0
        self.run_for(60)

    def run_for(self, beats: int) -> None:
        """Let some beats of all hosts pass."""
        for _ in range(beats):
            for _ in range(2):
                self.clock.time += 0.1
                self.echoed.add(self.clock.time)
                self.ears.hear([_wrapped(('echo', {'engine': _ENGINE, 'sent': self.clock.time}))])
                self.monitor.tick()
            for host in (_HOST, 'cn2', 'cn3'):
                beat = message.Beat(host, 'b1', self.number, 0.2, 0.1, 0.1, kernel=f'k-{host}',
                                    running='d', domains=_SERVERS[:1])
                self.ears.hear([message.wrap('beat', {'beat': message.encode(beat)})])
            self.number += 1
            self.monitor.tick()

    def seen(self) -> tuple[Any, ...]:
        """Return all that the engine knows about the host that nobody forges."""
        vote = self.monitor.vote(_ENGINE, [_HOST])
        return (self.monitor.look(_HOST), self.monitor.boot(_HOST), self.monitor.number(_HOST),
                self.monitor.runs(_HOST, _SERVERS[0]), self.monitor.suspected(_HOST),
                self.monitor.trouble(), vote.deaf, _HOST in vote.silent,
                vote.heard.get(_HOST),
                [event for event in self.witness.events if event[2][0] == _HOST])

    @hypothesis.settings(max_examples=_EXAMPLES, deadline=None,
                         suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(st.lists(_bodies, min_size=_MESSAGES, max_size=_MESSAGES))
    def test_no_message_changes_another_host(self, bodies: list[bytes]) -> None:
        self.engine()
        before = self.seen()
        self.ears.hear(bodies)
        self.monitor.tick()
        self.assertEqual(before, self.seen())
        self.monitor.facts(_HOST)
        self.run_for(10)
        self.assertFalse(self.monitor.suspected(_HOST))
        self.assertIn(_HOST, self.monitor.healthy())
        self.assertEqual(self.number - 1, self.monitor.number(_HOST))

# SPDX-License-Identifier: Apache-2.0
"""The fast decoder of heartbeats returns what JSON would return, or leaves the beat to JSON."""

import dataclasses
from typing import Any

import hypothesis
from hypothesis import strategies as st
import testtools

from specreds_nova.beats import fast_decode
from specreds_nova.beats import message

_OPTIONAL: Any = {'kernel': '0b7f3d1c-5a2e-4c68-9d10-6f4b2a8e7c95', 'running': '00ff00ff00ff00ff'}
_BEAT = message.Beat('cn1', '0123abcd', 7, 0.2, 0.3, 0.104, **_OPTIONAL)
_words = st.sampled_from(['cn1', 'cn-1.example.org', 'c n', '"', '\\', 'ü', '\n', '']) | st.text()
_ids = st.lists(st.text() | st.uuids().map(str), max_size=2).map(tuple)
_seconds = st.one_of(
    st.floats(0.0, 1e6).map(lambda value: round(value, 3)), st.floats(), st.integers(),
    st.sampled_from([0.2, 1.0, 1e-7, 1e22, -0.0]))
_beats = st.builds(
    message.Beat, host=_words, boot=_words, number=st.integers(), interval=_seconds,
    libvirt_age=st.none() | _seconds, storage_age=st.none() | _seconds,
    ended=_ids, ready=_ids, leaving=st.booleans(), kernel=_words, running=_words,
    domains=st.none() | _ids)


def _on_bus(beat: message.Beat) -> bytes:
    return message.wrap('beat', {'beat': message.encode(beat)})


class UsualTest(testtools.TestCase):
    """A beat is either decoded exactly as by JSON, or left to JSON."""

    def test_usual_beat_is_decoded(self) -> None:
        self.assertEqual(_BEAT, fast_decode.read(_on_bus(_BEAT)))

    @hypothesis.given(number=st.integers(0, 10**17), interval=st.integers(1, 3_599_000),
                      ages=st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)))
    def test_every_beat_of_a_healthy_host_is_decoded(self, number: int, interval: int,
                                                     ages: tuple[int, int]) -> None:
        libvirt, storage = ages
        beat = message.Beat('cn1', 'b', number, interval / 1000, libvirt / 1000, storage / 1000,
                          **_OPTIONAL)
        self.assertEqual(beat, fast_decode.read(_on_bus(beat)))

    @hypothesis.given(_beats)
    @hypothesis.example(message.Beat('cn1', 'b', 7, 3600.0, 0.1, 0.1, **_OPTIONAL))
    @hypothesis.example(message.Beat('cn1 ', 'b', 7, 0.2, 0.1, 0.1, **_OPTIONAL))
    @hypothesis.example(message.Beat(' ', 'b', 7, 0.2, 0.1, 0.1, **_OPTIONAL))
    @hypothesis.example(message.Beat('cn1', 'b', 7, 0.0, 0.1, 0.1, **_OPTIONAL))
    def test_decoded_beat_equals_that_of_json(self, beat: message.Beat) -> None:
        body = _on_bus(beat)
        read = fast_decode.read(body)
        if read is not None:
            self.assertEqual(message.decode(message.unwrap(body)[1]['beat']), read)

    @hypothesis.given(st.integers(0, len(_on_bus(_BEAT)) - 1), st.binary(max_size=3))
    def test_damaged_beat_equals_that_of_json(self, at: int, put: bytes) -> None:
        whole = _on_bus(_BEAT)
        body = whole[:at] + put + whole[at + 1:]
        read = fast_decode.read(body)
        if read is not None:
            self.assertEqual(message.decode(message.unwrap(body)[1]['beat']), read)

    def test_unusual_message_is_left_to_json(self) -> None:
        unusual: tuple[dict[str, Any], ...] = (
            {'ended': ('s1',)}, {'leaving': True}, {'domains': ()},
            {'libvirt_age': None}, {'kernel': ''})
        for more in unusual:
            self.assertIsNone(fast_decode.read(_on_bus(dataclasses.replace(_BEAT, **more))))
        self.assertIsNone(fast_decode.read(message.wrap('echo', {'engine': 'e', 'sent': 1.5})))

    def test_name_with_a_space_at_its_end_is_no_usual_one(self) -> None:
        for host in ('cn1 ', ' cn1', ' '):
            body = _on_bus(dataclasses.replace(_BEAT, host=host))
            self.assertIsNone(fast_decode.read(body))
            self.assertRaises(ValueError, message.decode, message.unwrap(body)[1]['beat'])


class NewestTest(testtools.TestCase):
    """Which beats are left of those that an engine reads late."""

    def left(self, *beats: message.Beat) -> list[message.Beat | None]:
        return [fast_decode.read(body) for body in fast_decode.newest(
            [_on_bus(beat) for beat in beats])]

    def test_newest_beat_of_each_host_is_left(self) -> None:
        beats = [dataclasses.replace(_BEAT, number=number, host=host)
                 for number in (7, 8, 9) for host in ('cn1', 'cn2')]
        self.assertEqual(beats[-2:], self.left(*beats))

    def test_beat_that_may_not_count_replaces_none(self) -> None:
        good = dataclasses.replace(_BEAT, number=8)
        for changed in ({'number': 3}, {'number': 8, 'libvirt_age': 99.5}, {'number': 10**6},
                        {'number': 9, 'boot': 'another'}, {'number': 9, 'interval': 0.5}):
            other = dataclasses.replace(_BEAT, **changed)
            for order in ([good, other], [other, good]):
                self.assertEqual(order, self.left(*order))
            self.assertEqual([other, good], self.left(_BEAT, other, good))

    def test_message_that_is_no_beat_is_left(self) -> None:
        bodies = [b'', b'{}', _on_bus(_BEAT)[:40],
                  message.wrap('echo', {'engine': 'e', 'sent': 1.5})]
        self.assertEqual(bodies, fast_decode.newest(bodies))

# SPDX-License-Identifier: Apache-2.0
"""The encoding of heartbeats on the bus."""

import json

import hypothesis
from hypothesis import strategies as st
import testtools

from specreds_nova.heartbeat import message

_ages = st.none() | st.floats(0.0, 1e6)
_beats = st.builds(
    message.Beat, host=st.text(min_size=1), boot=st.text(min_size=1), number=st.integers(0),
    interval=st.floats(0.01, 3599), libvirt_age=_ages, storage_age=_ages,
    ended=st.lists(st.text()).map(tuple), leaving=st.booleans(), kernel=st.text(),
    running=st.text(), domains=st.none() | st.lists(st.text()).map(tuple))


class BeatsTest(testtools.TestCase):
    """An engine decodes exactly what a host has encoded."""

    @hypothesis.given(_beats)
    def test_encoded_beat_is_decoded_unchanged(self, beat: message.Beat) -> None:
        self.assertEqual(beat, message.decode(json.loads(json.dumps(message.encode(beat)))))

    def test_default_values_are_not_sent(self) -> None:
        self.assertEqual({'host': 'cn1', 'boot': 'b', 'number': 0, 'interval': 0.2},
                         message.encode(message.Beat('cn1', 'b', 0, 0.2)))

    def test_beat_without_running_domains_is_decoded(self) -> None:
        beat = message.decode({'host': 'cn1', 'boot': 'b', 'number': 0, 'interval': 0.2})
        self.assertEqual(('', '', None), (beat.kernel, beat.running, beat.domains))

    def test_digest_does_not_depend_on_the_order(self) -> None:
        self.assertEqual(message.digest(['b', 'a']), message.digest(['a', 'b']))
        self.assertNotEqual(message.digest(['a']), message.digest([]))


class AnswerTest(testtools.TestCase):

    @hypothesis.given(st.text(), st.integers(0))
    def test_quickly_encoded_answer_is_that_of_the_library(self, boot: str, number: int) -> None:
        self.assertEqual(message.wrap('answer', {'boot': boot, 'number': number}),
                         message.wrap_answer(boot, number))

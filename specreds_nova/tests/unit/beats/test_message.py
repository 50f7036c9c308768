# SPDX-License-Identifier: Apache-2.0
"""The encoding of heartbeats on the bus."""

import dataclasses
import json
import math
from typing import Any

import hypothesis
from hypothesis import strategies as st
import testtools

from specreds_nova.beats import message

_ages = st.none() | st.floats(0.0, 1e6)
_texts = st.text(st.characters(categories=('L', 'N', 'P', 'S')), max_size=50)
_names = _texts.filter(bool)
_ids = st.lists(st.uuids().map(str)).map(tuple)
_beats = st.builds(
    message.Beat, host=_names, boot=_names, number=st.integers(0, 10 ** 18 - 1),
    interval=st.floats(0.01, 3599), libvirt_age=_ages, storage_age=_ages,
    ended=_ids, ready=_ids, leaving=st.booleans(), kernel=_texts,
    running=_texts, domains=st.none() | _ids)
_ID = '0b7f3d1c-5a2e-4c68-9d10-6f4b2a8e7c95'
_BEAT = {'host': 'cn1', 'boot': 'b', 'number': 0, 'interval': 0.2}


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

    def test_malformed_field_makes_no_beat(self) -> None:
        wrong: dict[str, tuple[Any, ...]] = {
            'host': ('', 3, None, 'x' * 300, 'a\nb', '\ud800'), 'boot': (None, ['b'], 'x' * 300),
            'number': (True, 1.5, -1, 10 ** 18, 'x', None),
            'interval': (None, True, 0, 1e-9, -1.0, 3600, math.nan, math.inf, 10 ** 400, 'x'),
            'libvirt_age': ('boom', -1.0, math.nan, math.inf, 10 ** 400, True),
            'storage_age': ([1], {}), 'uptime': ('x', math.nan),
            'ended': (None, 5, 's', [1], [None], ['x' * 300], ['*'], ['../flavors'], [_ID.upper()],
                      [f'{_ID}/action'], [f'{_ID}\n'], [_ID.replace('-', '')]),
            'ready': ({}, [['r']]), 'domains': ([1, 2], 's', 7, ['s']),
            'leaving': (1, 'yes', None), 'kernel': (['a'], None), 'running': ({}, 5),
            'broker': (5, None), 'goodbye': ({}, 'other', None)}
        fields = {field.name for field in dataclasses.fields(message.Beat)}
        self.assertEqual(set(), {*wrong} - fields)
        for name, values in wrong.items():
            for value in values:
                self.assertRaises((ValueError, TypeError), message.decode, {**_BEAT, name: value})
        bodies: tuple[Any, ...] = (None, [], 'x', 5, {}, {'host': 'cn1'})
        for body in bodies:
            self.assertRaises((ValueError, TypeError), message.decode, body)

    def test_each_field_is_checked(self) -> None:
        for field in dataclasses.fields(message.Beat):
            self.assertRaises((ValueError, TypeError), message.decode,
                              {**_BEAT, field.name: object()})

    def test_digest_does_not_depend_on_the_order(self) -> None:
        self.assertEqual(message.digest(['b', 'a']), message.digest(['a', 'b']))
        self.assertNotEqual(message.digest(['a']), message.digest([]))


class AnswerTest(testtools.TestCase):

    @hypothesis.given(st.text(), st.integers(0), st.booleans())
    def test_quickly_encoded_answer_is_that_of_the_library(self, boot: str, number: int,
                                                           hides: bool) -> None:
        self.assertEqual(
            message.wrap('answer', {'boot': boot, 'hides': hides, 'number': number}),
            message.wrap_answer(boot, number, hides))

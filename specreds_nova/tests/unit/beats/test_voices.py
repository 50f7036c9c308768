# SPDX-License-Identifier: Apache-2.0
"""What an engine believes of the voices of sentinels, and what it answers to them."""

from unittest import mock

import hypothesis
from hypothesis import strategies as st
import testtools

from specreds_nova.beats import message
from specreds_nova.beats import rejections
from specreds_nova.beats import voice
from specreds_nova.beats import voices as all_voices

_MASTER, _OTHER = bytes(range(32)), bytes(range(1, 33))
_KERNEL = voice.kernel_id('k1')
# By 50 datagrams; 200 examples are 10,000 datagrams.
_EXAMPLES, _DATAGRAMS = 40, 50


class Sentinel:
    """The sentinel of a host, as it would be without faults."""

    def __init__(self, host: str, master: bytes = _MASTER, boot: bytes = b'boot-one') -> None:
        self.host, self.boot, self.number, self.nonce = host, boot, 0, voice.NO_NONCE
        self.key = voice.Key(voice.host_key(master, host))
        self.answers: list[voice.Answer] = []

    def beat(self, **more: object) -> bytes:
        """Return the next beat."""
        self.number += 1
        fields = {'kernel': _KERNEL, 'nonce': self.nonce, 'lease': message.LEASED,
                  'storage_age': 0.5, 'boot': self.boot, 'number': self.number, **more}
        return self.key.beat(voice.Beat(host=self.host, **fields))  # type: ignore[arg-type]

    def take(self, datagrams: list[tuple[bytes, object]]) -> None:
        """Take answers."""
        for datagram, _ in datagrams:
            answer = self.key.answered(datagram)
            if answer is not None:
                self.answers.append(answer)
                self.nonce = answer.nonce


class VoicesCase(testtools.TestCase):
    """An engine with a clock of the test."""

    def setUp(self) -> None:
        super().setUp()
        self.now = 1000.0
        self.rejected = rejections.Rejections()
        self.voices = all_voices.Voices(lambda: self.now, (_MASTER,), self.rejected)
        self.sentinel = Sentinel('cn1')

    def hear(self, *datagrams: bytes) -> list[tuple[bytes, object]]:
        """Let datagrams arrive."""
        return self.voices.hear([(datagram, ('192.0.2.1', 5)) for datagram in datagrams])

    def run_for(self, seconds: float, *sentinels: Sentinel) -> None:
        """Let time pass, in which the engine reads, and sentinels beat and hear answers."""
        for _ in range(round(seconds / voice.INTERVAL)):
            for sentinel in sentinels:
                sentinel.take(self.hear(sentinel.beat()))
            for _ in range(5):
                self.now += voice.INTERVAL / 5
                self.voices.empty(self.now)

    def state(self) -> str | None:
        """Return the state of the voice of the host."""
        return self.voices.state('cn1')


class StateTest(VoicesCase):
    """One host."""

    def test_sentinel_is_heard_once_it_names_a_nonce_of_this_process(self) -> None:
        self.assertIsNone(self.state())
        answers = self.hear(self.sentinel.beat())
        self.assertEqual(all_voices.HALF_DEAF, self.state())
        self.assertIsNone(self.voices.last('cn1'))
        self.sentinel.take(answers)
        self.hear(self.sentinel.beat())
        self.assertEqual(all_voices.HEARD, self.state())
        self.assertEqual((self.now, _KERNEL, 0.5, message.LEASED), (
            self.voices.last('cn1'), self.voices.kernel('cn1'),
            self.voices.storage_age('cn1'), self.voices.lease('cn1')))

    def test_sentinel_that_dies_is_silent_after_five_beats(self) -> None:
        self.run_for(3.0, self.sentinel)
        self.run_for(0.4)
        self.assertEqual(all_voices.HEARD, self.state())
        self.run_for(0.2)
        self.assertEqual(all_voices.SILENT, self.state())

    def test_answers_keep_a_nonce_valid_although_three_of_four_are_lost(self) -> None:
        self.run_for(1.0, self.sentinel)
        for _ in range(10):
            self.run_for(1.3, Sentinel('cn2'))
            self.assertNotEqual(voice.NO_NONCE, self.sentinel.nonce)
            self.sentinel.take(self.hear(self.sentinel.beat()))
            self.assertEqual(all_voices.HEARD, self.state())

    def test_beat_with_an_old_nonce_is_no_sign_of_life(self) -> None:
        self.run_for(1.0, self.sentinel)
        last = self.voices.last('cn1')
        for _ in range(40):
            # It hears no answer any more.
            self.hear(self.sentinel.beat())
            self.run_for(0.1)
        self.assertEqual(all_voices.HALF_DEAF, self.state())
        self.assertLess(self.voices.last('cn1') or 0.0, self.now - 1.0)
        self.assertGreater(self.voices.last('cn1') or 0.0, last or 0.0)

    def test_beats_that_have_waited_or_are_sent_once_more_are_no_sign_of_life(self) -> None:
        self.run_for(1.0, self.sentinel)
        beats = [self.sentinel.beat() for _ in range(20)]
        self.hear(*beats[:10])
        self.assertEqual(self.now, self.voices.last('cn1'))
        last = self.now
        self.run_for(0.3)
        self.hear(*beats[:10])
        self.assertEqual(last, self.voices.last('cn1'))
        self.run_for(2.0)
        self.hear(*beats)
        self.assertEqual(last, self.voices.last('cn1'))

    def test_nonce_of_another_process_does_not_count(self) -> None:
        self.run_for(1.0, self.sentinel)
        self.voices = all_voices.Voices(lambda: self.now, (_MASTER,))
        self.hear(self.sentinel.beat())
        self.assertEqual(all_voices.HALF_DEAF, self.state())
        self.run_for(0.5, self.sentinel)
        self.assertEqual(all_voices.HEARD, self.state())

    def test_wrong_key_is_shown_as_such_and_is_no_silence(self) -> None:
        self.run_for(0.3, Sentinel('cn1', _OTHER))
        self.assertEqual(all_voices.UNAUTHENTICATED, self.state())
        self.assertEqual({'cn1': all_voices.UNAUTHENTICATED}, self.voices.states())
        self.assertEqual(3, self.rejected.taken()[rejections.UNAUTHENTICATED])
        self.run_for(all_voices.LONGEST)
        self.assertIsNone(self.state())

    def test_wrong_key_beside_the_right_one_changes_nothing(self) -> None:
        self.run_for(1.0, self.sentinel, Sentinel('cn1', _OTHER))
        self.assertEqual(all_voices.HEARD, self.state())

    def test_names_without_number_are_not_looked_through_for_each_datagram(self) -> None:
        strangers = [Sentinel(f'x{number}', _OTHER).beat() for number in range(6)]
        with mock.patch.object(all_voices, '_NAMES', 3):
            self.hear(*strangers[:3])
            full = self.voices._refused
            self.now += all_voices.LONGEST - 0.5
            self.hear(strangers[3])
            looked = self.voices._refused
            self.assertEqual(full, looked)
            self.now += 0.7
            self.hear(strangers[4])
            self.assertIs(looked, self.voices._refused)
            self.now += 0.4
            self.hear(strangers[5])
        self.assertEqual({'x5': all_voices.UNAUTHENTICATED}, self.voices.states())

    def test_two_master_keys_are_valid_while_they_are_replaced(self) -> None:
        later = Sentinel('cn1', _OTHER, b'boot-two')
        self.run_for(1.0, self.sentinel)
        self.voices.use((_OTHER, _MASTER))
        self.run_for(1.0, self.sentinel)
        self.assertEqual(all_voices.HEARD, self.state())
        self.run_for(1.0)
        self.run_for(0.5, later)
        self.assertEqual(all_voices.HEARD, self.state())
        self.voices.use((_OTHER,))
        self.run_for(0.5, later)
        self.assertEqual(all_voices.HEARD, self.state())
        self.run_for(1.0, self.sentinel)
        self.assertEqual(all_voices.UNAUTHENTICATED, self.state())

    def test_goodbye_is_no_silence_and_the_next_sentinel_counts_at_once(self) -> None:
        self.run_for(1.0, self.sentinel)
        answers = self.hear(self.sentinel.beat(kind=voice.Kind.GOODBYE))
        self.sentinel.take(answers)
        self.assertEqual(self.sentinel.number, self.sentinel.answers[-1].number)
        self.run_for(60.0)
        self.assertEqual((all_voices.LEFT, []), (self.state(), self.voices.answerable()))
        self.run_for(0.3, Sentinel('cn1', boot=b'boot-two'))
        self.assertEqual(all_voices.HEARD, self.state())

    def test_goodbye_that_is_sent_once_more_or_forged_changes_nothing(self) -> None:
        self.run_for(1.0, self.sentinel)
        goodbye = self.sentinel.beat(kind=voice.Kind.GOODBYE)
        self.hear(goodbye)
        later = Sentinel('cn1', boot=b'boot-two')
        self.run_for(3.0, later)
        self.hear(goodbye, Sentinel('cn1', _OTHER).beat(kind=voice.Kind.GOODBYE))
        self.assertEqual(all_voices.HEARD, self.state())

    def test_second_sender_with_the_key_is_alarmed_and_does_not_count(self) -> None:
        other = Sentinel('cn1', boot=b'boot-two')
        self.run_for(1.0, self.sentinel)
        self.run_for(2.0, self.sentinel, other)
        self.assertEqual([('cn1', b'boot-one', self.sentinel.number)], self.voices.answerable())
        self.assertLess(10, self.rejected.taken()[rejections.SENDER])
        # The one that is left counts when the first is not heard any more.
        self.run_for(2.0, other)
        self.assertEqual([('cn1', b'boot-two', other.number)], self.voices.answerable())

    def test_number_that_is_far_ahead_is_rejected(self) -> None:
        self.run_for(1.0, self.sentinel)
        self.hear(self.sentinel.beat(number=10**6))
        self.assertEqual({rejections.JUMP: 1}, dict(self.rejected.taken()))
        self.run_for(0.3, self.sentinel)
        self.assertEqual(all_voices.HEARD, self.state())

    def test_answer_renews_the_lease_by_the_beat_that_it_names(self) -> None:
        self.run_for(1.0, self.sentinel)
        [(host, boot, number)] = self.voices.answerable()
        self.run_for(0.2, self.sentinel)
        renewal = self.voices.renewal(host, boot, number, voice.Says.SHOW)
        assert renewal is not None
        self.assertEqual(('192.0.2.1', 5), renewal[1])
        answer = self.sentinel.key.answered(renewal[0])
        assert answer is not None
        self.assertEqual((number, voice.Says.SHOW), (answer.number, answer.says))
        self.assertEqual({voice.Says.NOTHING}, {known.says for known in self.sentinel.answers})

    def test_host_that_is_forgotten_is_unknown(self) -> None:
        self.run_for(1.0, self.sentinel)
        self.voices.forget('cn1')
        self.assertEqual((None, {}), (self.state(), self.voices.states()))


class DeafTest(VoicesCase):
    """Times in which the engine may have missed something."""

    def setUp(self) -> None:
        super().setUp()
        self.run_for(2.0, self.sentinel)

    def test_silence_begins_anew_after_a_pause(self) -> None:
        self.now += 0.6
        self.voices.empty(self.now)
        self.assertEqual(all_voices.HEARD, self.state())
        self.run_for(0.6)
        self.assertEqual(all_voices.SILENT, self.state())

    def test_silence_begins_anew_when_datagrams_were_dropped(self) -> None:
        self.run_for(0.4)
        self.voices.empty(self.now, 1)
        self.run_for(0.4)
        self.voices.empty(self.now, 2)
        self.assertEqual(all_voices.HEARD, self.state())

    def test_dead_host_is_not_heard_for_ever_by_an_engine_that_is_deaf_again_and_again(
            self) -> None:
        for lost in range(12):
            self.voices.empty(self.now, lost)
            self.run_for(0.4)
        self.assertEqual(all_voices.HEARD, self.state())
        for lost in range(20, 24):
            self.voices.empty(self.now, lost)
            self.run_for(0.4)
        self.assertEqual(all_voices.SILENT, self.state())

    def test_nothing_is_known_while_the_engine_does_not_read(self) -> None:
        self.now += all_voices.LONGEST + 0.1
        self.assertEqual(all_voices.DEAF, self.state())


_flips = st.lists(st.tuples(st.integers(0, 80), st.integers(1, 255)), min_size=1, max_size=3)


@st.composite
def _datagrams(draw: st.DrawFn) -> bytes:
    """Return a datagram of somebody without the key of cn1, or of cn1 with something wrong."""
    if draw(st.booleans()):
        return draw(st.binary(max_size=voice.LONGEST))
    sentinel = Sentinel(draw(st.sampled_from(['cn1', 'cn2', 'cn3', 'ü'])), _MASTER)
    sentinel.number = draw(st.integers(0, 2 ** 32 - 2))
    datagram = bytearray(sentinel.beat(
        boot=draw(st.binary(min_size=8, max_size=8)), kind=draw(st.sampled_from(voice.Kind)),
        nonce=draw(st.binary(min_size=8, max_size=8)), storage_age=draw(st.none() | st.floats(
            0.0, 1e9))))
    if sentinel.host == 'cn1':
        for at, bits in draw(_flips):
            datagram[at % len(datagram)] ^= bits
    return bytes(datagram)[:draw(st.integers(0, 90)) or None]


class FuzzTest(testtools.TestCase):
    """Whatever arrives: no error leaves the decoder, and no other host changes."""

    @hypothesis.settings(max_examples=_EXAMPLES, deadline=None)
    @hypothesis.given(st.lists(_datagrams(), min_size=_DATAGRAMS, max_size=_DATAGRAMS))
    def test_no_datagram_changes_another_host(self, datagrams: list[bytes]) -> None:
        now = [1000.0]
        voices = all_voices.Voices(lambda: now[0], (_MASTER,))
        sentinel = Sentinel('cn1')
        sentinel.take(voices.hear([(sentinel.beat(), 'a')]))
        voices.hear([(sentinel.beat(), 'a')])
        before = voices.answerable()
        for datagram in datagrams:
            voices.hear([(datagram, 'b')])
        self.assertEqual((all_voices.HEARD, 1000.0, before[0]), (
            voices.state('cn1'), voices.last('cn1'), next(
                known for known in voices.answerable() if known[0] == 'cn1')))
        now[0] += 0.1
        voices.hear([(sentinel.beat(), 'a')])
        self.assertEqual(now[0], voices.last('cn1'))

    @hypothesis.settings(max_examples=_EXAMPLES, deadline=None)
    @hypothesis.given(st.lists(st.binary(max_size=60), min_size=_DATAGRAMS,
                               max_size=_DATAGRAMS))
    def test_no_answer_of_others_is_taken(self, datagrams: list[bytes]) -> None:
        key = voice.Key(voice.host_key(_MASTER, 'cn1'))
        for datagram in datagrams:
            try:
                self.assertIsNone(key.answered(datagram))
            except voice.MalformedError:
                continue

# SPDX-License-Identifier: Apache-2.0
"""The voice of a sentinel, from its file with the key to an engine's socket, and back."""

from collections.abc import Callable
import functools
import json
import pathlib
import socket
import time
from unittest import mock

import fixtures
import testtools

from specreds_nova.beats import message
from specreds_nova.beats import renewals
from specreds_nova.beats import speaker
from specreds_nova.beats import voice
from specreds_nova.beats import voice_receiver
from specreds_nova.beats import voices as all_voices
from specreds_nova.engine import exception
from specreds_nova.engine.clients import clock as clocks

_LONG = 60.0


def until(what: Callable[[], object]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + _LONG
    while not what() and time.monotonic() < end:
        time.sleep(0.01)
    if not what():
        raise AssertionError('it did not happen')


class SpeakerTest(testtools.TestCase):
    """One host and one engine on this machine."""

    def setUp(self) -> None:
        super().setUp()
        self.state = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.keys = self.state / 'voice.keys'
        self.keys.write_text(voice.new_key() + '\n')
        self.clock = clocks.Clock()
        self.voices = all_voices.Voices(self.clock.now)

    def engine(self, address: str = '127.0.0.1:0') -> voice_receiver.VoiceReceiver:
        """Start an engine's receiver."""
        receiver = voice_receiver.VoiceReceiver(self.voices, self.clock, address, self.keys)
        receiver.start()
        self.addCleanup(receiver.stop, _LONG)
        return receiver

    def host(self, *addresses: str, master: str = '') -> speaker.Speaker:
        """Start a host that knows engines, with a key."""
        first = (master or self.keys.read_text()).split()[0]
        (self.state / speaker.KEY).write_text(
            voice.host_key(bytes.fromhex(first), 'cn1').hex() + '\n')
        speaking = self.voice_of_host()
        speaking.know({f'e{number}': address for number, address in enumerate(addresses)})
        speaking.start()
        self.addCleanup(speaking.stop, _LONG)
        return speaking

    def voice_of_host(self) -> speaker.Speaker:
        """Return the voice of a host."""
        return speaker.Speaker(self.state, 'cn1', 'k1', lambda: (message.LEASED, 0.25))

    def written(self) -> dict[str, str]:
        """Return the addresses on disk."""
        known: dict[str, str] = json.loads((self.state / 'sentinel-engines.json').read_text())
        return known

    @staticmethod
    def renewed(speaking: speaker.Speaker) -> renewals.Renewal:
        """Return the first renewal that a host hears."""
        heard: list[renewals.Renewal] = []

        def hear() -> bool:
            renewal = speaking.renewed()
            if renewal is not None:
                heard.append(renewal)
            return bool(heard)
        until(hear)
        return heard[0]

    def test_engine_hears_a_host_and_renews_its_lease(self) -> None:
        for address in ('127.0.0.1:0', '[::1]:0') if socket.has_ipv6 else ('127.0.0.1:0',):
            engine = self.engine(address)
            before = renewals.now()
            speaking = self.host(engine.address())
            until(lambda: self.voices.state('cn1') == all_voices.HEARD)
            self.assertEqual((message.LEASED, voice.kernel_id('k1')),
                             (self.voices.lease('cn1'), self.voices.kernel('cn1')))
            self.assertIsNone(speaking.renewed())
            [beat] = engine.answerable()
            engine.renew(*beat, hides=False)
            renewed = self.renewed(speaking)
            self.assertFalse(renewed.hides)
            self.assertTrue(before < renewed.at < renewals.now())
            speaking.stop(_LONG)
            self.assertEqual(all_voices.LEFT, self.voices.state('cn1'))

    def test_engine_without_a_key_hears_nobody_and_tells_no_address(self) -> None:
        self.keys.unlink()
        self.assertEqual('', self.engine().address())

    def test_host_without_a_key_says_nothing(self) -> None:
        engine = self.engine()
        speaking = self.voice_of_host()
        speaking.know({'e1': engine.address()})
        speaking.start()
        speaking.stop(_LONG)
        self.assertIsNone(self.voices.state('cn1'))

    def test_wrong_key_is_seen_and_ends_when_the_file_has_the_right_one(self) -> None:
        engine = self.engine()
        speaking = self.host(engine.address(), master=voice.new_key())
        until(lambda: self.voices.state('cn1') == all_voices.UNAUTHENTICATED)
        [right] = voice.read_keys(self.keys, 1)
        (self.state / speaker.KEY).write_text(voice.host_key(right, 'cn1').hex())
        speaking.use_key()
        until(lambda: self.voices.state('cn1') == all_voices.HEARD)

    def test_addresses_outlive_the_sentinel_and_an_engine_may_move(self) -> None:
        self.host('127.0.0.1:9', '[::1]:9').stop(_LONG)
        engine = self.engine()
        self.host('127.0.0.1:9', engine.address()).stop(_LONG)
        again = self.voice_of_host()
        self.addCleanup(again.stop, _LONG)
        again.start()
        until(lambda: self.voices.state('cn1') == all_voices.HEARD)

    def test_files_that_are_damaged_leave_a_host_mute(self) -> None:
        (self.state / speaker.KEY).write_text('secret')
        (self.state / 'sentinel-engines.json').write_text('[1]')
        speaking = self.voice_of_host()
        speaking.start()
        speaking.stop(_LONG)

    def test_address_that_is_none_silences_nobody(self) -> None:
        (self.state / 'sentinel-engines.json').write_text('{"e8": "127.0.0.1:70000"}')
        engine = self.engine()
        bad = ('127.0.0.1:70000', '127.0.0.1:0', 'localhost:9', '127.0.0.1', '', '[::1]:x',
               '127.0.0.1\0:9')
        with mock.patch.object(speaker.LOG, 'warning') as warning:
            # The last one is an address, and the kernel refuses it.
            speaking = self.host(*bad, '255.255.255.255:9', engine.address())
            speaking.know({'e8': '127.0.0.1:-1', 'e0': bad[0]})
        until(lambda: self.voices.state('cn1') == all_voices.HEARD)
        self.assertEqual({'e7': '255.255.255.255:9', 'e8': engine.address()}, self.written())
        self.assertEqual([*bad, '127.0.0.1:-1'], sorted(
            {call.args[2] for call in warning.call_args_list},
            key=[*bad, '127.0.0.1:-1'].index))
        self.assertLessEqual(warning.call_count, len(bad) + 1)

    def test_kernel_that_takes_nothing_for_one_engine_keeps_no_answer_back(self) -> None:
        engine = self.engine()
        speaking = self.host(engine.address())
        with mock.patch.object(speaker, '_target', wraps=speaker._target) as target:
            target.side_effect = lambda address: (
                (socket.AF_INET, ('127.0.0.1', 2 ** 16)) if address.endswith(':9')
                else mock.DEFAULT)
            speaking.know({'bad': '127.0.0.1:9'})
            until(lambda: speaking._engines['bad'].said > 3)
            [(host, boot, number)] = engine.answerable()
            engine.renew(host, boot, number, hides=True)
            self.assertTrue(self.renewed(speaking).hides)

    def test_engines_that_were_told_last_are_kept(self) -> None:
        addresses = {f'e{number}': '127.0.0.1:9' for number in range(20)}
        speaking = self.voice_of_host()
        speaking.know({'e30': '127.0.0.1:9', 'e19': '127.0.0.1:9'})
        boot = speaking._engines['e19'].boot
        for _ in range(3):
            speaking.know(addresses)
            self.assertEqual([*addresses][4:], [*speaking._engines])
            self.assertEqual({*[*addresses][4:]}, {*self.written()})
        self.assertEqual(boot, speaking._engines['e19'].boot)

    def test_whatever_arrives_ends_nothing(self) -> None:
        engine = self.engine()
        speaking = self.host(engine.address())
        for datagram in (b'', b'x' * 38, b'y' * 600):
            speaking._take(datagram)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
                host, port = engine.address().split(':')
                other.sendto(datagram, (host, int(port)))
        until(lambda: self.voices.state('cn1') == all_voices.HEARD)
        self.assertEqual([], engine.problems())


class AddressTest(testtools.TestCase):
    """Where an engine listens."""

    def test_addresses_have_a_port_or_the_usual_one(self) -> None:
        for address, expected in (
                ('', ('', voice.PORT)), ('192.0.2.1', ('192.0.2.1', voice.PORT)),
                ('192.0.2.1:7', ('192.0.2.1', 7)), ('2001:db8::1', ('2001:db8::1', voice.PORT)),
                ('[2001:db8::1]', ('2001:db8::1', voice.PORT)),
                ('[2001:db8::1]:0', ('2001:db8::1', 0))):
            self.assertEqual(expected, voice_receiver.parsed(address))
        for address in ('controller', '192.0.2.1:x', '192.0.2.1:70000', '[x]:5'):
            self.assertRaises(exception.Invalid, voice_receiver.parsed, address)

    def test_address_in_use_is_named(self) -> None:
        place = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (place / 'keys').write_text(voice.new_key())
        clock = clocks.Clock()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(('127.0.0.1', 0))
            port = other.getsockname()[1]
            receiver = voice_receiver.VoiceReceiver(
                all_voices.Voices(clock.now), clock, f'127.0.0.1:{port}', place / 'keys')
            error = self.assertRaises(exception.Invalid, receiver.start)
        self.assertIn(str(port), str(error))

    def test_engine_that_listens_everywhere_tells_the_address_that_leads_to_its_broker(
            self) -> None:
        place = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (place / 'keys').write_text(voice.new_key())
        clock = clocks.Clock()
        for local, expected in (('192.0.2.7', '192.0.2.7:'), ('2001:db8::7', '[2001:db8::7]:'),
                                ('127.0.0.1', ''), ('', '')):
            receiver = voice_receiver.VoiceReceiver(
                all_voices.Voices(clock.now), clock, '', place / 'keys',
                functools.partial(str, local))
            receiver._listens = '', 0
            receiver.start()
            self.addCleanup(receiver.stop, _LONG)
            address = receiver.address()
            self.assertEqual(expected, address[:len(expected)])
            self.assertEqual(bool(expected), bool(address))

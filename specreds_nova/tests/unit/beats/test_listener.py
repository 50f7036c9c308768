# SPDX-License-Identifier: Apache-2.0
"""The listener passes heartbeats from the bus to the monitor."""

from collections.abc import Iterator, Sequence
import dataclasses
import math
import socket
import struct
import threading
import time
from typing import Any, cast
from unittest import mock

import fixtures
from oslo_config import cfg
from oslo_config import fixture as config_fixture
from oslo_messaging import conffixture
import testtools

from specreds_nova.beats import echo
from specreds_nova.beats import frames
from specreds_nova.beats import listener
from specreds_nova.beats import message
from specreds_nova.beats import rabbit
from specreds_nova.beats import rejections

_SERVER = '0b7f3d1c-5a2e-4c68-9d10-6f4b2a8e7c95'
_BEAT = message.Beat('cn1', 'b1', 7, 0.2, libvirt_age=0.1, ended=(_SERVER,))
_PATIENCE = 30.0


def _on_bus(method: str, **arguments: Any) -> bytes:
    return message.wrap(method, arguments)


class Monitor:
    """A monitor that records its input."""

    def __init__(self) -> None:
        self.beats: list[message.Beat] = []
        self.echoes: list[float] = []
        # By echo: how many beats were heard before it.
        self.order: list[int] = []
        self.told = threading.Condition()

    def heard(self, beat: message.Beat) -> None:
        """Record a heartbeat."""
        with self.told:
            self.beats.append(beat)
            self.told.notify_all()

    def heard_together(self, beats: Sequence[message.Beat]) -> None:
        """Record heartbeats."""
        for beat in beats:
            self.heard(beat)

    def echo(self, sent: float) -> None:
        """Record an echo."""
        with self.told:
            self.order.append(len(self.beats))
            self.echoes.append(sent)
            self.told.notify_all()

    def wait(self, enough: Any, patience: float = _PATIENCE) -> None:
        """Wait until a condition holds."""
        with self.told:
            if not self.told.wait_for(enough, patience):
                raise AssertionError(f'only {self.beats}, {self.echoes}')


class EarsTest(testtools.TestCase):
    """Single messages."""

    def setUp(self) -> None:
        super().setUp()
        self.monitor = Monitor()
        self.ears = listener.Ears('e1', cast(Any, self.monitor))

    def test_beat_is_passed_on(self) -> None:
        self.ears.hear([_on_bus('beat', beat=message.encode(_BEAT))])
        self.assertEqual([_BEAT], self.monitor.beats)

    def test_beat_of_a_newer_host_is_understood(self) -> None:
        self.ears.hear([_on_bus('beat', beat={**message.encode(_BEAT), 'weather': 'fine'})])
        self.assertEqual([_BEAT], self.monitor.beats)

    def test_beat_of_an_older_host_is_understood(self) -> None:
        self.ears.hear([_on_bus('beat', beat={'host': 'cn1', 'boot': 'b', 'number': 0,
                                              'interval': 0.2})])
        self.assertEqual([message.Beat('cn1', 'b', 0, 0.2)], self.monitor.beats)

    def test_own_echo_is_passed_on(self) -> None:
        self.ears.hear([_on_bus('echo', engine='e1', sent=12.5),
                        _on_bus('echo', engine='e2', sent=13.5)])
        self.assertEqual([12.5], self.monitor.echoes)

    def test_echo_of_another_process_with_this_name_does_not_count(self) -> None:
        sent, rejected = echo.Echoed(), rejections.Rejections()
        ears = listener.Ears('e1', cast(Any, self.monitor), echoed=sent.take, rejected=rejected)
        sent.add(12.5)
        for moment in (13.5, 12.5, 12.5):
            ears.hear([_on_bus('echo', engine='e1', sent=moment)])
        self.assertEqual([12.5], self.monitor.echoes)
        self.assertEqual({rejections.ECHO: 2}, rejected.taken())

    def test_malformed_message_is_counted_and_logged_once_per_sender(self) -> None:
        rejected = rejections.Rejections()
        ears = listener.Ears('e1', cast(Any, self.monitor), rejected=rejected)
        log = self.useFixture(fixtures.FakeLogger())
        for host in ('cn1', 'cn2', 'cn1'):
            ears.hear([_on_bus('beat', beat={**message.encode(_BEAT), 'host': host,
                                             'libvirt_age': 'boom'})])
        self.assertEqual({rejections.MALFORMED: 3}, rejected.taken())
        self.assertEqual({}, rejected.taken())
        self.assertEqual(2, log.output.count('libvirt_age is malformed'))
        for number in range(5000):
            ears.hear([_on_bus('beat', beat={'host': f'forged{number}'})])
        self.assertEqual({rejections.MALFORMED: 5000}, rejected.taken())
        self.assertLess(len(log.output.splitlines()), 1100)

    def test_messages_keep_their_order(self) -> None:
        usual = dataclasses.replace(_BEAT, libvirt_age=0.5, storage_age=0.5, kernel='k',
                                    running='r')
        beats = [dataclasses.replace(usual, number=number) for number in range(250)]
        # One that is not usual is decoded in another way.
        beats[120] = dataclasses.replace(beats[120], ended=(_SERVER,))
        bodies = [_on_bus('beat', beat=message.encode(beat)) for beat in beats]
        bodies.insert(205, _on_bus('echo', engine='e1', sent=12.5))
        self.ears.hear(iter(bodies))
        self.assertEqual(beats, self.monitor.beats)
        self.assertEqual([205], self.monitor.order)

    def test_what_was_read_before_the_connection_ended_counts(self) -> None:
        usual = dataclasses.replace(_BEAT, ended=(), storage_age=0.5, kernel='k', running='r')

        def bodies() -> Iterator[bytes]:
            yield _on_bus('beat', beat=message.encode(usual))
            raise frames.Closed('the broker has closed the connection')
        self.assertRaises(frames.Closed, self.ears.hear, bodies())
        self.assertEqual([usual], self.monitor.beats)

    def test_other_messages_are_ignored(self) -> None:
        fields = message.encode(_BEAT)
        for body in (b'', b'\xff\xfe', b'[]', b'{}', b'null', _on_bus('beat'), _on_bus('other'),
                     _on_bus('beat', beat=None), _on_bus('beat', beat=[]),
                     _on_bus('beat', beat={}), _on_bus('echo', engine='e1'),
                     b'[' * 100_000, b'{"oslo.message": "' + b'[' * 100_000 + b'"}',
                     _on_bus('echo', engine='e1', sent='x'), _on_bus('echo', engine=5, sent=1.0),
                     _on_bus('echo', engine='e1', sent=math.nan),
                     _on_bus('echo', engine='e1', sent=10 ** 400),
                     _on_bus('echo', engine='e1', sent=True),
                     *(_on_bus('beat', beat={**fields, **wrong}) for wrong in (
                         {'interval': 0}, {'interval': 'x'}, {'host': 3}, {'number': 'x'},
                         {'boot': None}, {'ended': 5}))):
            self.ears.hear([body])
        self.assertEqual(([], []), (self.monitor.beats, self.monitor.echoes))


class EchoTest(testtools.TestCase):
    """The engine's own beats."""

    def test_echo_is_noted_before_it_is_sent(self) -> None:
        clock, sent = mock.Mock(), echo.Echoed()
        clock.now.return_value = 99.5
        own = echo.Echo(cfg.CONF, 'e1', clock, echoed=sent)
        with mock.patch.object(own, '_sender') as sender:
            sender.send.return_value = None
            own.beat()
        sender.send.assert_called_once_with('echo', engine='e1', sent=99.5)
        self.assertTrue(sent.take(99.5))

    def test_echo_comes_early_for_a_late_host(self) -> None:
        own = echo.Echo(cfg.CONF, 'e1', mock.Mock(), mock.Mock(
            side_effect=[math.inf, 0.3, 0.04, 0.04, 0.02, -0.05]))
        for expected in (0.1, 0.1, 0.041, 0.1, 0.021, 0.1):
            self.assertAlmostEqual(expected, own.delay())


class RabbitTest(testtools.TestCase):
    """The listener for RabbitMQ, with a socket in place of the broker."""

    def setUp(self) -> None:
        super().setUp()
        self.conf = self.useFixture(config_fixture.Config(cfg.CONF))
        self.useFixture(conffixture.ConfFixture(cfg.CONF)).transport_url = (
            'rabbit://guest:guest@b1:5672/')
        self.monitor = Monitor()
        self.brokers: list[socket.socket] = []
        self.connections: list[mock.Mock] = []
        made = mock.patch.object(rabbit, '_Connection', side_effect=self.connect)
        self.made = made.start()
        self.addCleanup(made.stop)

    def connect(self, *_arguments: Any, **_more: Any) -> Any:
        engine, broker = socket.socketpair()
        self.addCleanup(engine.close)
        self.addCleanup(broker.close)
        connection = mock.Mock()
        connection.connection.sock = engine
        connection.collect.side_effect = engine.close
        with self.monitor.told:
            self.brokers.append(broker)
            self.connections.append(connection)
            self.monitor.told.notify_all()
        return connection

    def listen(self) -> Any:
        heard: Any = listener.of(cfg.CONF, 'e1', cast(Any, self.monitor))
        self.assertEqual([], heard.problems())
        heard.start()

        def stop() -> None:
            for broker in self.brokers:
                broker.close()
            heard.stop()

        self.addCleanup(stop)
        return heard

    def deliver(self, body: bytes) -> None:
        for kind, payload in ((1, struct.pack('>HH', 60, 60)), (2, b'x'), (3, body)):
            self.brokers[-1].sendall(
                struct.pack('>BHI', kind, 1, len(payload)) + payload + b'\xce')

    def test_beats_and_echoes_are_received(self) -> None:
        self.listen()
        self.monitor.wait(lambda: self.brokers)
        channel = self.connections[0].default_channel
        self.deliver(_on_bus('beat', beat=message.encode(_BEAT)))
        self.monitor.wait(lambda: self.monitor.beats == [_BEAT])
        self.assertTrue(channel.basic_consume.call_args.kwargs['no_ack'])
        self.assertTrue(channel.queue_declare.call_args.kwargs['exclusive'])
        # A message that arrived while the consumer was being declared.
        channel.basic_consume.call_args.kwargs['callback'](
            mock.Mock(body=_on_bus('echo', engine='e1', sent=3.0)))
        self.assertEqual([3.0], self.monitor.echoes)

    def test_broken_connection_is_replaced(self) -> None:
        with mock.patch.object(listener, '_AGAIN', 0.01):
            self.listen()
            self.monitor.wait(lambda: len(self.brokers) == 1)
            self.brokers[0].close()
            self.monitor.wait(lambda: len(self.brokers) == 2)
            self.deliver(_on_bus('beat', beat=message.encode(_BEAT)))
            self.monitor.wait(lambda: self.monitor.beats == [_BEAT])
        self.connections[0].collect.assert_called_once_with()

    def test_listener_that_hangs_is_a_problem(self) -> None:
        hung, goes_on = threading.Event(), threading.Event()
        self.addCleanup(goes_on.set)

        def hang(beats: Any) -> None:
            if beats:
                hung.set()
                goes_on.wait(_PATIENCE)
        self.monitor.heard_together = hang  # type: ignore[method-assign]
        heard = self.listen()
        self.monitor.wait(lambda: self.brokers)
        usual = dataclasses.replace(_BEAT, ended=(), storage_age=0.5, kernel='k', running='r')
        self.deliver(_on_bus('beat', beat=message.encode(usual)))
        self.assertTrue(hung.wait(_PATIENCE))
        self.assertEqual([], heard.problems())
        heard._progress._monotonic = lambda: time.monotonic() + 700.0
        self.assertIn('thread specreds-listener has made no progress', str(heard.problems()))

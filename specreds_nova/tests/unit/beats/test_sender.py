# SPDX-License-Identifier: Apache-2.0
"""Sending of heartbeats, also while the broker is unavailable."""

import json
from typing import Any
from unittest import mock

import fixtures
from oslo_config import cfg
from oslo_config import fixture as config_fixture
from oslo_messaging import conffixture
from oslo_messaging._drivers import common
import testtools

from specreds_nova.beats import message
from specreds_nova.beats import rabbit
from specreds_nova.beats import sender as senders


class SenderTest(testtools.TestCase):
    """A sender on a bus that may be unavailable."""

    def setUp(self) -> None:
        super().setUp()
        self.bus = mock.Mock()
        self.made = mock.Mock(return_value=self.bus)
        self.useFixture(fixtures.MonkeyPatch('specreds_nova.beats.sender.of', self.made))
        self.now = 0.0
        self.useFixture(fixtures.MonkeyPatch('time.monotonic', lambda: self.now))
        self.sender = senders.Sender(None)

    def test_bus_is_that_of_the_named_broker(self) -> None:
        senders.Sender(None, None, 'rabbit://other/').send('beat', beat={})
        self.made.assert_called_once_with(None, None, 'rabbit://other/')

    def test_message_is_cast_on_the_bus(self) -> None:
        self.assertIsNone(self.sender.send('beat', beat={}))
        self.bus.cast.assert_called_once_with('beat', {'beat': {}})
        self.sender.close()
        self.bus.close.assert_called_once_with()

    def test_bus_is_opened_by_the_first_message_only(self) -> None:
        self.sender.close()
        self.made.assert_not_called()

    def test_unavailable_broker_is_tried_once_per_second(self) -> None:
        self.bus.cast.side_effect = OSError('refused')
        for _ in range(12):
            self.now += 0.25
            self.assertIsNotNone(self.sender.send('beat', beat={}))
        # At 0.25, 0.5, 1.5 and 2.5 s.
        self.assertEqual(4, self.bus.cast.call_count)
        self.bus.cast.side_effect = None
        self.now += 1.0
        self.assertIsNone(self.sender.send('beat', beat={}))
        self.assertIsNone(self.sender.send('beat', beat={}))

    def test_broken_connection_loses_one_beat(self) -> None:
        self.sender.send('beat', beat={})
        self.bus.cast.side_effect = OSError('reset')
        self.assertIsNotNone(self.sender.send('beat', beat={}))
        self.bus.cast.side_effect = None
        self.assertIsNone(self.sender.send('beat', beat={}))

    def test_broken_configuration_is_tried_again(self) -> None:
        self.made.side_effect = ValueError('no such transport')
        self.assertIsNotNone(self.sender.send('beat', beat={}))
        self.now += 2.0
        self.made.side_effect = None
        self.assertIsNone(self.sender.send('beat', beat={}))


class RabbitTest(testtools.TestCase):
    """Connections to a cluster of two brokers."""

    def setUp(self) -> None:
        super().setUp()
        self.conf = self.useFixture(config_fixture.Config(cfg.CONF))
        self.url = self.useFixture(conffixture.ConfFixture(cfg.CONF))
        self.url.transport_url = 'rabbit://us%40er:se%2Fcret@b1:5673,guest:guest@b2:5672/here'
        self.connections: list[mock.Mock] = []
        self.made: Any = self.useFixture(fixtures.MockPatchObject(
            rabbit, '_Connection', side_effect=self.connect)).mock

    def connect(self, *_arguments: Any, **_more: Any) -> mock.Mock:
        self.connections.append(mock.Mock())
        return self.connections[-1]

    def addresses(self) -> list[str]:
        return [call.args[0] for call in self.made.call_args_list]

    def test_brokers_are_tried_in_turn(self) -> None:
        bus = senders.of(cfg.CONF)
        self.assertEqual([], self.addresses())
        for _ in range(3):
            bus.cast('beat', {'beat': {}})
            channel = self.connections[-1].default_channel
            channel.basic_publish_confirm.side_effect = OSError('reset')
            self.assertRaises(OSError, bus.cast, 'beat', {'beat': {}})
            self.connections[-1].collect.assert_called_once_with()
        first, second = ('amqp://us%40er:se%2Fcret@b1:5673/here', 'amqp://guest:guest@b2:5672/here')
        self.assertEqual([first, second, first], self.addresses())

    def test_another_broker_takes_the_place_of_all_brokers_of_nova(self) -> None:
        senders.of(cfg.CONF, None, 'rabbit://host:secret@b3/there').cast('beat', {'beat': {}})
        self.assertEqual(['amqp://host:secret@b3:5672/there'], self.addresses())

    def test_broker_node_is_known_while_it_is_connected(self) -> None:
        bus = senders.of(cfg.CONF)
        self.assertEqual('', bus.broker)
        bus.cast('beat', {'beat': {}})
        self.assertEqual('b1:5673', bus.broker)
        channel = self.connections[-1].default_channel
        channel.basic_publish_confirm.side_effect = OSError('reset')
        self.assertRaises(OSError, bus.cast, 'beat', {'beat': {}})
        self.assertEqual('', bus.broker)
        bus.cast('beat', {'beat': {}})
        self.assertEqual('b2:5672', bus.broker)

    def test_refused_connection_is_tried_with_the_next_message(self) -> None:
        bus = senders.of(cfg.CONF)
        with mock.patch.object(rabbit.Brokers, 'connected', side_effect=OSError('refused')):
            self.assertRaises(OSError, bus.cast, 'beat', {})
        bus.cast('beat', {})
        self.assertEqual(1, len(self.connections))

    def test_each_message_waits_for_a_confirmation(self) -> None:
        senders.of(cfg.CONF).cast('beat', {'beat': {'host': 'cn1'}})
        channel = self.connections[0].default_channel
        [call] = channel.basic_publish_confirm.call_args_list
        self.assertEqual('specreds-heartbeats_fanout', call.kwargs['exchange'])
        self.assertGreater(call.kwargs['confirm_timeout'], 0)
        self.assertEqual(('beat', {'beat': {'host': 'cn1'}}),
                         message.unwrap(channel.prepare_message.call_args.args[0]))

    def test_exchange_is_the_same_with_any_options_of_oslo_messaging(self) -> None:
        """RabbitMQ refuses an exchange that somebody else has declared differently."""
        declared = []
        for flag in (False, True):
            self.conf.config(rabbit_transient_quorum_queue=flag, rabbit_quorum_queue=flag,
                             amqp_durable_queues=flag, group='oslo_messaging_rabbit')
            with rabbit.Brokers(cfg.CONF, message.rabbit_url(cfg.CONF)).connected() as made:
                declared += made.default_channel.exchange_declare.call_args_list
        self.assertEqual(2, len(declared))
        self.assertEqual(declared[0], declared[1])

    def test_ca_file_is_used_for_tls(self) -> None:
        self.conf.config(ssl=True, ssl_ca_file='/ca.pem', group='oslo_messaging_rabbit')
        senders.of(cfg.CONF).cast('beat', {})
        self.assertEqual({'ca_certs': '/ca.pem', 'cert_reqs': 'required'},
                         self.made.call_args.kwargs['ssl'])

    def test_ipv6_address_keeps_its_brackets(self) -> None:
        self.url.transport_url = 'rabbit://a:b@[fd00::1]'
        senders.of(cfg.CONF).cast('beat', {})
        self.assertEqual(['amqp://a:b@[fd00::1]:5672/'], self.addresses())

    def test_servers_of_oslo_messaging_understand_the_message(self) -> None:
        """A message has every field that a server of oslo.messaging reads."""
        sent = common.deserialize_msg(json.loads(message.wrap('beat', {'beat': 1})))
        self.assertEqual({'method': 'beat', 'args': {'beat': 1}, 'namespace': message.NAMESPACE,
                          'version': message.VERSION}, sent)

    def test_other_broker_is_an_error(self) -> None:
        self.url.transport_url = 'fake://'
        self.assertIn('RabbitMQ', str(senders.Sender(cfg.CONF).send('beat', beat={})))
        self.made.assert_not_called()

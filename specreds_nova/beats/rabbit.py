# SPDX-License-Identifier: Apache-2.0
"""A connection to RabbitMQ for beats alone.

oslo.messaging's own waits where beats may not: for half a minute after an outage, and for a broker
that hangs. What is on the bus, and where, is the same.
"""

from collections.abc import Callable, Iterable, Iterator
import contextlib
import dataclasses
import itertools
from typing import Any
from urllib import parse

from kombu import connection as kombu
from oslo_log import log as logging
import oslo_messaging as messaging
from oslo_utils import uuidutils

from specreds_nova.beats import message
from specreds_nova.beats import publishing

LOG = logging.getLogger(__name__)

EXCHANGE = f'{message.TOPIC}_fanout'
# Every broker has it.
_DIRECT = 'amq.direct'
# Answers that may wait for a host.
_WAITING = 8

_PORT = 5672
# Seconds that a broker may take to let somebody in, and to take a message.
_CONNECT = 3.0
_CONFIRM = 1.0
# kombu has annotations for some of it only.
_Connection: Any = kombu.Connection


class Brokers:
    """The brokers of a cluster, each tried in turn.

    :param conf: the global configuration, in which oslo.messaging's options are registered
    :ivar current: host and port of the node to which the latest connection was made; empty before
    """

    def __init__(self, conf: Any, url: messaging.TransportURL) -> None:
        self._options = conf.oslo_messaging_rabbit
        self._addresses = itertools.cycle([
            (_address(url, host), f'{host.hostname}:{host.port or _PORT}') for host in url.hosts])
        self.current = ''

    @contextlib.contextmanager
    def connected(self) -> Iterator[Any]:
        """Have a connection to the next one, and the exchange declared.

        :raises Exception: the connection cannot be made, or breaks; its type is the library's
        """
        options = self._options
        url, node = next(self._addresses)
        connection = _Connection(
            url, ssl=self._ssl(), connect_timeout=_CONNECT, heartbeat=0,
            login_method=options.rabbit_login_method)
        try:
            connection.connect()
            # RabbitMQ closes the channel of whoever declares another durability than the exchange
            # has. Hosts and engines may set different options of oslo.messaging.
            connection.default_channel.exchange_declare(
                EXCHANGE, 'fanout', auto_delete=True, durable=False)
            self.current = node
            yield connection
        finally:
            # Without a farewell, which might take for ever.
            connection.collect()

    def _ssl(self) -> Any:
        options = self._options
        if not options.ssl:
            return False
        wanted = {'keyfile': options.ssl_key_file, 'certfile': options.ssl_cert_file,
                  'ca_certs': options.ssl_ca_file}
        ssl_options = {name: value for name, value in wanted.items() if value}
        if 'ca_certs' in ssl_options:
            ssl_options['cert_reqs'] = 'required'
        return ssl_options or True


@dataclasses.dataclass(frozen=True)
class Subscription:
    """What else arrives by a connection, while the broker's confirmations are waited for.

    :ivar key: the routing key of the messages
    :ivar hear: called with the body of each, in the thread that publishes
    """

    key: str
    hear: Callable[[bytes], None]


class Publisher:
    """Sends one message after the other, each of which the broker has to confirm."""

    def __init__(self, brokers: Brokers, subscription: Subscription | None = None) -> None:
        self._brokers = brokers
        self._subscription = subscription
        self._open = contextlib.ExitStack()
        self._channel: Any = None

    @property
    def broker(self) -> str:
        """The broker node that this is connected to; empty if there is none."""
        return self._brokers.current if self._channel is not None else ''

    def cast(self, method: str, arguments: dict[str, Any]) -> None:
        """Send.

        :raises Exception: the message may have arrived, or not; its type is the library's
        """
        try:
            if self._channel is None:
                connection = self._open.enter_context(self._brokers.connected())
                self._channel = connection.default_channel
                if self._subscription is not None:
                    _subscribe(connection, self._subscription)
            prepared = _prepared(self._channel, method, arguments)
            self._channel.basic_publish_confirm(prepared, exchange=EXCHANGE,
                                                confirm_timeout=_CONFIRM)
        except Exception:
            self.close()
            raise

    def close(self) -> None:
        """Disconnect; what is sent next connects again."""
        self._channel = None
        self._open.close()


class Answers:
    """Sends answers to single hosts, which nobody confirms: the next one is newer."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._open = contextlib.ExitStack()
        self._channel: Any = None

    def send_all(self, answers: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Send answers, each to its host; a host that does not listen gets none.

        :raises Exception: its type is the library's; the next call connects again
        """
        try:
            if self._channel is None:
                self._channel = self._open.enter_context(
                    self._brokers.connected()).default_channel
            channel = self._channel
            channel.connection.transport.write(b''.join(
                publishing.publication(channel.channel_id, _DIRECT, message.ANSWERS + host,
                                       message.wrap_answer(**arguments))
                for host, arguments in answers))
        except Exception:
            self.close()
            raise

    def close(self) -> None:
        """Disconnect; the next answer connects again."""
        self._channel = None
        self._open.close()


def _prepared(channel: Any, method: str, arguments: dict[str, Any]) -> Any:
    return channel.prepare_message(
        message.wrap(method, arguments), content_type='application/json',
        content_encoding='utf-8', properties={'delivery_mode': 1})


def _subscribe(connection: Any, subscription: Subscription) -> None:
    """Have messages delivered on a channel of their own: what fails here costs no heartbeat."""
    try:
        channel = connection.channel()
        queue = f'{subscription.key}.{uuidutils.generate_uuid(dashed=False)}'
        # Gone with the connection. Only the newest messages count.
        channel.queue_declare(queue, exclusive=True, auto_delete=True,
                              arguments={'x-max-length': _WAITING})
        channel.queue_bind(queue, _DIRECT, routing_key=subscription.key)
        channel.basic_consume(queue, no_ack=True,
                              callback=lambda received: subscription.hear(received.body))
    except connection.channel_errors as exc:
        LOG.warning('%s is not heard, as the broker refuses it: %s', subscription.key, exc)


def _address(url: messaging.TransportURL, host: messaging.TransportHost) -> str:
    """Return the URL of one of the brokers in the form that kombu takes."""
    name = f'[{host.hostname}]' if ':' in (host.hostname or '') else host.hostname
    return (f'amqp://{parse.quote(host.username or "guest", safe="")}:'
            f'{parse.quote(host.password or "guest", safe="")}@{name or "localhost"}:'
            f'{host.port or _PORT}/{parse.quote(url.virtual_host or "", safe="")}')

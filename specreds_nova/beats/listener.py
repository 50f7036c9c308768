# SPDX-License-Identifier: Apache-2.0
"""Receive the beats of all hosts, and the engine's own::

    listener = listener.of(CONF, engine, monitor)
    listener.start()
    ...
    listener.stop()

It reads RabbitMQ's connection itself, as oslo.messaging's server takes half a millisecond for each
message.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import contextlib
import ssl
import threading
import time
from typing import Any, Protocol

from oslo_log import log as logging
import oslo_messaging as messaging
from oslo_utils import uuidutils

from specreds_nova import progress
from specreds_nova.beats import fast_decode
from specreds_nova.beats import frames
from specreds_nova.beats import message
from specreds_nova.beats import rabbit
from specreds_nova.beats import rejections
from specreds_nova.engine.suspicion import monitor as monitors

LOG = logging.getLogger(__name__)

# Messages that wait for an engine that does not read; the oldest are dropped.
_WAITING = 50_000
# Seconds for which messages are collected, as reading many at once is cheaper.
COLLECT = 0.02
_CHUNK = 1 << 20
# Beats that the monitor takes at a time: nobody else can ask it anything meanwhile.
_TOGETHER = 100
# Seconds for which a message waits for an engine that does not read: what is older is dropped, so
# that an engine that was overloaded hears what is, not what was.
_FRESH = 2.0
# Bytes that are read at a time by an engine that is late, and its own echoes among the messages
# from which on it is: it has not read for as many intervals.
_AT_ONCE, _LATE = 32 << 20, 4
# Seconds without any message, its own included, after which the engine reconnects.
_SILENCE = 3.0
# Seconds without progress after which the thread hangs: all brokers may be away.
_HANGS = 600.0
# Seconds until another attempt to connect.
_AGAIN = 0.5


class Receiver(Protocol):
    """Receives what is heard: a monitor."""

    def heard(self, beat: message.Beat) -> None:
        """Take a host's beat."""

    def heard_together(self, beats: Sequence[message.Beat]) -> None:
        """Take beats that have arrived at the same time, in their order."""

    def echo(self, sent: float) -> None:
        """Take an echo."""


class _Late:
    """Collects what is read at once after a while without reading."""

    def __init__(self) -> None:
        self.beats: list[message.Beat] = []
        self.echoes: list[float] = []

    def heard(self, beat: message.Beat) -> None:
        """Take a host's beat."""
        self.beats.append(beat)

    def heard_together(self, beats: Sequence[message.Beat]) -> None:
        """Take beats, in their order."""
        self.beats += beats

    def echo(self, sent: float) -> None:
        """Take an echo."""
        self.echoes.append(sent)


class Ears:
    """Passes the messages of the bus to the monitor. Never raises.

    :param engine: the name of this engine
    :param echoed: takes the time of an echo, and returns whether this process has sent it
    :param rejected: receives the messages that do not count
    """

    def __init__(self, engine: str, monitor: monitors.Monitor,
                 echoed: Callable[[float], bool] = lambda sent: True,
                 rejected: rejections.Rejections | None = None) -> None:
        self._engine = engine
        self._monitor = monitor
        self._echoed = echoed
        self._rejected = rejected or rejections.Rejections()
        # How an echo of this engine begins.
        self._own = message.wrap('echo', {'engine': engine, 'sent': 0.0}).partition(b'0.0')[0]

    def hear(self, bodies: Iterable[bytes]) -> None:
        """Take messages in oslo.messaging's envelope that were read together, in their order."""
        read: list[bytes] = []
        try:
            for body in bodies:
                read.append(body)
        finally:
            # What was read before the end of the connection counts.
            if sum(body.startswith(self._own) for body in read) >= _LATE:
                self._hear_late(read)
            else:
                self._hear_all(read, self._monitor)

    def _hear_all(self, bodies: Iterable[bytes], receiver: Receiver) -> None:
        beats: list[message.Beat] = []
        for body in bodies:
            beat = fast_decode.read(body)
            if beat is not None:
                beats.append(beat)
            if beat is None or len(beats) >= _TOGETHER:
                receiver.heard_together(beats)
                beats = []
            if beat is None:
                self._hear_unusual(body, receiver)
        receiver.heard_together(beats)

    def _hear_late(self, bodies: Sequence[bytes]) -> None:
        """Take messages that have waited: of each host only the newest of its usual beats."""
        newest, late = fast_decode.newest(bodies), _Late()
        self._hear_all(newest, late)
        self._monitor.heard_late(late.beats, late.echoes, len(bodies) - len(newest))

    def _hear_unusual(self, body: bytes, receiver: Receiver) -> None:
        """Take a message that is no usual beat."""
        try:
            method, arguments = message.unwrap(body)
            if method == 'beat':
                self._take_beat(arguments['beat'], receiver)
            elif method == 'echo':
                self._take_echo(arguments['engine'], arguments['sent'], receiver)
        except (ValueError, TypeError, KeyError) as exc:
            self._reject(None, exc)

    def _take_beat(self, beat: Any, receiver: Receiver) -> None:
        try:
            decoded_beat = message.decode(beat)
        except (ValueError, TypeError, KeyError) as exc:
            self._reject(beat.get('host') if isinstance(beat, Mapping) else None, exc)
        else:
            receiver.heard(decoded_beat)

    def _take_echo(self, engine: Any, sent: Any, receiver: Receiver) -> None:
        if not (message.is_text(engine) and message.is_seconds(sent)):
            self._reject(engine, ValueError('it is no echo'))
        elif engine != self._engine:
            return
        elif self._echoed(float(sent)):
            receiver.echo(float(sent))
        else:
            self._rejected.note(rejections.ECHO, engine,
                                'this process has not sent this echo, or has heard it before')

    def _reject(self, sender: object, error: Exception) -> None:
        """Count a malformed message.

        :param sender: what the message gives as the name of its sender
        """
        name = sender if isinstance(sender, str) and message.is_text(sender) else 'nobody'
        self._rejected.note(rejections.MALFORMED, name, repr(error))


class Listener:
    """Receives through a thread that reads from RabbitMQ.

    :param url: of oslo.messaging's transport, whose options apply
    """

    def __init__(self, conf: Any, url: messaging.TransportURL, ears: Ears) -> None:
        self._brokers = rabbit.Brokers(conf, url)
        self._ears = ears
        # The own address of the latest connection.
        self.address = ''
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name='specreds-listener', daemon=True)
        self._progress = progress.Progress(self._thread, _HANGS)

    @property
    def broker(self) -> str:
        """The broker node of the latest connection; empty before the first one."""
        return self._brokers.current

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stopped.set()
        self._thread.join(_SILENCE)

    def problems(self) -> list[str]:
        """Return whether the thread has ended or hangs."""
        return self._progress.problems()

    def _run(self) -> None:
        failing = False
        while not self._stopped.is_set():
            self._progress.note()
            try:
                with self._brokers.connected() as connection:
                    self._consume(connection.default_channel)
                    LOG.info('the heartbeats of all hosts are heard')
                    failing = False
                    own = connection.connection.sock.getsockname()
                    self.address = str(own[0]) if isinstance(own, tuple) else ''
                    self._read(connection.connection.sock)
            except Exception as exc:
                # The libraries raise any error for an unreachable broker.
                if not failing:
                    LOG.warning('the heartbeats are not heard, as the broker fails: %r', exc)
                failing = True
                self._stopped.wait(_AGAIN)

    def _consume(self, channel: Any) -> None:
        queue = f'{rabbit.EXCHANGE}_{uuidutils.generate_uuid(dashed=False)}'
        # The queue ends with the connection, so that a dead engine leaves no messages.
        channel.queue_declare(queue, exclusive=True, auto_delete=True,
                              arguments={'x-max-length': _WAITING,
                                         'x-message-ttl': round(1000 * _FRESH)})
        channel.queue_bind(queue, rabbit.EXCHANGE)
        # An echo may arrive before the answer to this request.
        channel.basic_consume(queue, no_ack=True,
                              callback=lambda received: self._ears.hear([received.body]))

    def _read(self, socket: Any) -> None:
        """Read from a connection until it fails.

        :raises frames.Closed, OSError: it fails
        """
        split = frames.Frames()
        while not self._stopped.is_set():
            self._progress.note()
            self._ears.hear(split.bodies(self._received(socket)))
            time.sleep(COLLECT)

    def _received(self, socket: Any) -> bytes:
        """Return all bytes that have arrived, up to a limit; wait for the first ones.

        :raises frames.Closed, OSError: the connection fails
        """
        socket.settimeout(_SILENCE)
        pieces = [socket.recv(_CHUNK)]
        size = len(pieces[0])
        with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError):
            socket.settimeout(0.0)
            while pieces[-1] and size < _AT_ONCE:
                pieces.append(socket.recv(_CHUNK))
                size += len(pieces[-1])
        if not size:
            raise frames.Closed('the broker has closed the connection')
        return b''.join(pieces)


def of(conf: Any, engine: str, monitor: monitors.Monitor,
       echoed: Callable[[float], bool] = lambda sent: True,
       rejected: rejections.Rejections | None = None) -> Listener:
    """Return the listener for the configured broker. Other parameters: :class:`Ears`.

    :param conf: the global configuration, the only one with all options of oslo.messaging
    :param engine: unique name of this engine
    """
    return Listener(conf, message.rabbit_url(conf), Ears(engine, monitor, echoed, rejected))

# SPDX-License-Identifier: Apache-2.0
"""The beats of thousands of hosts, sent with as little processor time as possible.

What a client library does for each message is done once here: a beat is three frames, of which
only the last differs.
"""

import collections
import socket
import struct
import time

import amqp

from bench import amqp_frames
from bench.scale.simulated import inventory as inventories
from specreds_nova.beats import message
from specreds_nova.beats import rabbit

# Seconds between two bursts of beats, and for which a host says that a backup is ready.
_SLICE = 0.02
_SAID = 3.0
_TIMEOUT_MS = 60_000
# A number whose place in an encoded beat can be found.
_NUMBER = 1_234_567_890

# Backups that will be ready: when, and where.
READY_AT: collections.deque[tuple[float, str, str]] = collections.deque()


class Sender:
    """Sends the beats of all hosts, evenly."""

    def __init__(self, address: str, user: str, password: str,
                 inventory: inventories.Inventory, interval: float) -> None:
        # A broker that is busy may take no bytes for longer than the library's second.
        self._connection = amqp.Connection(
            address, userid=user, password=password,
            socket_settings={socket.TCP_USER_TIMEOUT: _TIMEOUT_MS})
        self._connection.connect()
        channel = self._connection.channel()
        channel.exchange_declare(rabbit.EXCHANGE, 'fanout', auto_delete=True, durable=False)
        self._prefix = _method(channel.channel_id)
        self._channel = channel.channel_id
        self._hosts = inventory.all_hosts
        self._dead = frozenset(inventory.dead_hosts)
        self._interval = interval
        self._gone: frozenset[str] = frozenset()
        self._ready: dict[str, list[tuple[float, str]]] = {}
        self._bodies: dict[str, tuple[bytes, bytes]] = {}
        self.sent = 0

    def die(self) -> None:
        """Send no more beats of the hosts that fail."""
        self._gone = self._dead

    def run(self) -> None:
        """Send until the process ends."""
        count, began, sent = len(self._hosts), time.monotonic(), 0
        transport = self._connection.transport
        while True:
            due = int((time.monotonic() - began) / self._interval * count)
            burst = [self._encoded(self._hosts[number % count], number // count)
                     for number in range(sent, due) if self._hosts[number % count]
                     not in self._gone]
            if burst:
                transport.sock.sendall(b''.join(burst))
            sent = due
            self.sent += len(burst)
            self._note()
            time.sleep(_SLICE)

    def _note(self) -> None:
        while READY_AT:
            at, host, backup = READY_AT.popleft()
            self._ready.setdefault(host, []).append((at, backup))

    def _encoded(self, host: str, number: int) -> bytes:
        """Return the frames of a beat."""
        if host in self._ready:
            now = time.monotonic()
            body = self._body(host, number, tuple(
                backup for at, backup in self._ready[host] if at <= now < at + _SAID))
        else:
            if host not in self._bodies:
                before, _, after = self._body(host, _NUMBER).partition(str(_NUMBER).encode())
                self._bodies[host] = before, after
            before, after = self._bodies[host]
            body = before + str(number).encode() + after
        return self._prefix + amqp_frames.content(self._channel, body)

    def _body(self, host: str, number: int, ready: tuple[str, ...] = ()) -> bytes:
        return message.wrap('beat', {'beat': message.encode(message.Beat(
            host, f'boot-{host}', number, self._interval, 0.312, 0.207, kernel=f'kernel-{host}',
            running='0123456789abcdef', ready=ready))})


def _method(channel: int) -> bytes:
    """Return the frame that names the exchange and the key of a message."""
    name = rabbit.EXCHANGE.encode()
    # No ticket, an empty key, and no flags.
    arguments = struct.pack('>HB', 0, len(name)) + name + b'\0\0'
    return amqp_frames.method(channel, amqp_frames.PUBLISH, arguments)

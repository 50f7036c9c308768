# SPDX-License-Identifier: Apache-2.0
"""An HTTP server that uses little processor time, because the measured engine shares its cores."""

import asyncio
from collections.abc import Callable
import dataclasses
import json
from typing import Any
from urllib import parse

_END = b'\r\n\r\n'
_LENGTH = b'content-length:'


@dataclasses.dataclass(frozen=True)
class Request:
    """A request of a client."""

    method: str
    path: str
    query: dict[str, str]
    body: Any


@dataclasses.dataclass(frozen=True)
class Reply:
    """An answer to a client.

    :ivar body: an object for JSON, or JSON itself
    :ivar seconds: until it is sent
    """

    body: Any = None
    seconds: float = 0.0
    status: int = 200
    headers: str = ''

    def encoded(self) -> bytes:
        """Return the response with its headers."""
        body = self.body if isinstance(self.body, bytes) else (
            b'' if self.body is None else json.dumps(self.body).encode())
        return (f'HTTP/1.1 {self.status} -\r\nContent-Type: application/json\r\n{self.headers}'
                f'Content-Length: {len(body)}\r\n\r\n').encode() + body


class Connection(asyncio.Protocol):
    """A connection of a client, which waits for each answer before its next request.

    :param answer: returns the answer to a request
    """

    def __init__(self, answer: Callable[[Request], Reply]) -> None:
        self._answer = answer
        self._received = b''
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer a request when it is complete."""
        self._received += data
        head, end, body = self._received.partition(_END)
        if not end or len(body) < _length(head):
            return
        self._received = b''
        reply = self._answer(_request(head, body))
        asyncio.get_running_loop().call_later(reply.seconds, self._send, reply)

    def _send(self, reply: Reply) -> None:
        if not self._transport.is_closing():
            self._transport.write(reply.encoded())


def _length(head: bytes) -> int:
    """Return the length of a request's body in bytes."""
    lower = head.lower()
    place = lower.find(_LENGTH)
    return 0 if place < 0 else int(lower[place + len(_LENGTH):].partition(b'\r\n')[0])


def _request(head: bytes, body: bytes) -> Request:
    method, target, _ = head.partition(b'\r\n')[0].decode().split(' ')
    path, _, query = target.partition('?')
    return Request(method, path, dict(parse.parse_qsl(query)), json.loads(body) if body else None)


async def serve(port: int, answer: Callable[[Request], Reply]) -> None:
    """Answer requests until the process ends."""
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(answer), '127.0.0.1', port)
    await server.serve_forever()

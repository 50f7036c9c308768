# SPDX-License-Identifier: Apache-2.0
"""Extract message bodies from the bytes of an AMQP 0-9-1 connection.

A client library takes 50 µs for each message; an engine of 1,000 hosts gets 5,000 per second. On
a connection that only receives, without acknowledging, only the bodies are needed.
"""

from collections.abc import Iterator
import struct

_METHOD, _HEADER, _BODY, _HEARTBEAT = 1, 2, 3, 8
_END = 0xCE
_DELIVER = (60, 60)
# Type, channel, length of the payload; an end byte follows the payload.
_FRAME = struct.Struct('>BHI')
_METHOD_ID = struct.Struct('>HH')
_OVERHEAD = _FRAME.size + 1
# Longer than any negotiated frame.
_LONGEST = 1 << 20


class Closed(Exception):
    """The broker closed the connection, or sent bytes that are not AMQP."""


class Frames:
    """Splits received bytes into frames; a frame may arrive in pieces."""

    def __init__(self) -> None:
        self._rest = b''

    def bodies(self, received: bytes) -> Iterator[bytes]:
        """Return the complete bodies, in order.

        A body longer than a frame is returned in parts.

        :raises Closed: the connection is closed, or not AMQP
        """
        data = self._rest + received if self._rest else received
        position, end = 0, len(data)
        while end - position >= _OVERHEAD:
            kind, _, size = _FRAME.unpack_from(data, position)
            if size > _LONGEST:
                raise Closed(f'a frame of {size} bytes')
            start = position + _FRAME.size
            stop = start + size
            if stop >= end:
                break
            if data[stop] != _END:
                raise Closed('a frame without an end')
            if kind == _BODY:
                yield data[start:stop]
            elif kind == _METHOD:
                if size < _METHOD_ID.size:
                    raise Closed('a method without a number')
                method = _METHOD_ID.unpack_from(data, start)
                if method != _DELIVER:
                    raise Closed(f'method {method}')
            elif kind not in (_HEADER, _HEARTBEAT):
                raise Closed(f'a frame of type {kind}')
            position = stop + 1
        self._rest = data[position:]

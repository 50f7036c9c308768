# SPDX-License-Identifier: Apache-2.0
"""The frames of AMQP 0-9-1 in which a message is published or delivered.

They are a method, a header with the size of the body, and the body. Each frame begins with type,
channel and size of its payload, and ends with one byte.
"""

import struct

# Numbers of class and method.
PUBLISH, DELIVER = (60, 40), (60, 60)
_METHOD, _HEADER, _BODY = 1, 2, 3
_FRAME, _END = struct.Struct('>BHI'), 0xCE
_METHOD_ID = struct.Struct('>HH')
# Class, weight, size of the body, and flags of the properties, of which there are none.
_CONTENT, _CONTENT_OF, _NO_PROPERTIES = struct.Struct('>HHQH'), (60, 0), 0
# The whole frame of a header: packed at once, as thousands of messages are sent per second.
_WHOLE_HEADER = struct.Struct('>BHIHHQHB')


def method(channel: int, number: tuple[int, int], arguments: bytes) -> bytes:
    """Return the frame of a method.

    :param number: number of its class, and its own
    """
    size = _METHOD_ID.size + len(arguments)
    return b''.join((_FRAME.pack(_METHOD, channel, size), _METHOD_ID.pack(*number), arguments,
                     bytes((_END,))))


def content(channel: int, body: bytes) -> bytes:
    """Return the frames of a message that follow its method; the body has to fit into one."""
    size = len(body)
    return b''.join((
        _WHOLE_HEADER.pack(_HEADER, channel, _CONTENT.size, *_CONTENT_OF, size, _NO_PROPERTIES,
                           _END),
        _FRAME.pack(_BODY, channel, size), body, bytes((_END,))))

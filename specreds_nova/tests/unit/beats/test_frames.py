# SPDX-License-Identifier: Apache-2.0
"""The bodies of messages in a stream of AMQP frames, cut at any place."""

import struct

import hypothesis
from hypothesis import strategies as st
import testtools

from specreds_nova.beats import frames

_DELIVER = struct.pack('>HH', 60, 60)


def _frame(kind: int, payload: bytes) -> bytes:
    return struct.pack('>BHI', kind, 1, len(payload)) + payload + b'\xce'


def _message(body: bytes) -> bytes:
    return _frame(1, _DELIVER + b'tag') + _frame(2, b'header') + _frame(3, body)


class FramesTest(testtools.TestCase):
    """A reader of frames."""

    @hypothesis.given(st.lists(st.binary(max_size=300)), st.lists(st.integers(1, 200)))
    def test_bodies_are_read_from_any_pieces(self, bodies: list[bytes], cuts: list[int]) -> None:
        stream = b''.join(_message(body) + _frame(8, b'') for body in bodies)
        split, contents = frames.Frames(), []
        for cut in cuts:
            contents += list(split.bodies(stream[:cut]))
            stream = stream[cut:]
        contents += list(split.bodies(stream))
        self.assertEqual(bodies, contents)

    @hypothesis.given(st.binary(max_size=100))
    def test_any_stream_is_read_or_refused(self, stream: bytes) -> None:
        try:
            bodies = list(frames.Frames().bodies(stream))
        except frames.Closed:
            return
        self.assertLessEqual(sum(map(len, bodies)), len(stream))

    def test_close_of_the_broker_raises(self) -> None:
        for method in ((10, 50), (20, 40), (60, 30)):
            stream = _message(b'last') + _frame(1, struct.pack('>HH', *method))
            bodies = frames.Frames().bodies(stream)
            self.assertEqual(b'last', next(bodies))
            self.assertRaises(frames.Closed, next, bodies)

    def test_invalid_frame_raises(self) -> None:
        for stream in (_frame(3, b'x')[:-1] + b'?' + b'rest', _frame(4, b'') + b'rest',
                       _frame(1, b'x') + b'rest', b'HTTP/1.1 400 Bad Request\r\n'):
            self.assertRaises(frames.Closed, list, frames.Frames().bodies(stream))

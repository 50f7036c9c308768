# SPDX-License-Identifier: Apache-2.0
"""The frames of messages are those of a library, and the engine reads them."""

from unittest import mock

import amqp
from amqp import method_framing
import testtools

from bench import amqp_frames
from specreds_nova.beats import frames

_ARGUMENTS = b'\0\0\4name\0\0'


class AmqpFramesTest(testtools.TestCase):

    def test_frames_are_those_of_a_library(self) -> None:
        connection = mock.Mock(frame_max=1 << 17, bytes_sent=0)
        transport = mock.Mock()
        write = method_framing.frame_writer(connection, transport)
        for body in (b'1', b'a body'):
            transport.reset_mock()
            write(1, 3, amqp_frames.PUBLISH, _ARGUMENTS, amqp.Message(body))
            written = b''.join(bytes(call.args[0]) for call in transport.write.mock_calls)
            self.assertEqual(written, amqp_frames.method(3, amqp_frames.PUBLISH, _ARGUMENTS)
                             + amqp_frames.content(3, body))

    def test_engine_reads_what_is_delivered(self) -> None:
        delivered = (amqp_frames.method(1, amqp_frames.DELIVER, bytes(60))
                     + amqp_frames.content(1, b'a body'))
        self.assertEqual([b'a body'] * 2, list(frames.Frames().bodies(delivered * 2)))

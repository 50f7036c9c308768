# SPDX-License-Identifier: Apache-2.0
"""The bytes of published messages."""

from unittest import mock

import amqp
from amqp import method_framing
from amqp import serialization
import testtools

from specreds_nova.beats import publishing

_PUBLISH = (60, 40)


class PublishingTest(testtools.TestCase):
    """Messages as a client library writes them."""

    def test_bytes_are_those_of_the_library(self) -> None:
        transport = mock.Mock()
        written: list[bytes] = []
        transport.write.side_effect = lambda data: written.append(bytes(data))
        message = amqp.Message(b'{"a": 1}', content_type='application/json',
                               content_encoding='utf-8', delivery_mode=1)
        method_framing.frame_writer(mock.Mock(frame_max=131072, bytes_sent=0), transport)(
            1, 7, _PUBLISH, serialization.dumps(
                'Bssbb', (0, 'amq.direct', 'answers.cn1', False, False)), message)
        self.assertEqual(b''.join(written), publishing.publication(
            7, 'amq.direct', 'answers.cn1', b'{"a": 1}'))

    def test_long_body_is_refused(self) -> None:
        self.assertRaises(ValueError, publishing.publication, 1, 'e', 'k', b' ' * 4089)

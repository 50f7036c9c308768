# SPDX-License-Identifier: Apache-2.0
"""Looks for the clients to which a connection was handed out."""

from unittest import mock

import fixtures
import testtools

from specreds_cinder.service.worker import handouts
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.unit.superposition.truth import test_record

FIRST, SECOND = '2026-01-01T00:00:00.000+00:00', '2026-01-01T00:01:00.000+00:00'


class HandOutsTest(testtools.TestCase):
    """A promoted superposition, whose clients have come as soon as they are looked for."""

    def setUp(self) -> None:
        super().setUp()
        self.record = test_record.make_record(state=states.PROMOTED)
        self.protocol = mock.Mock()
        self.protocol.reload.return_value = self.record
        self.clients: list[list[str]] = [[], ['a', 'b']]
        self.protocol.ledger.read.side_effect = self.read
        self.begun: list[str] = []
        self.useFixture(fixtures.MockPatch('threading.Thread', self.thread))
        self.useFixture(fixtures.MockPatch('time.sleep'))
        self.looks = handouts.HandOuts(self.protocol)

    def read(self, _volume: object) -> list[str]:
        """Return the clients in the ledger, the last ones again and again."""
        return self.clients.pop(0) if len(self.clients) > 1 else self.clients[0]

    def thread(self, target: object, args: tuple[object, ...], **_more: object) -> mock.Mock:
        """Return a thread that runs as soon as it is started."""
        self.begun.append(str(args[-1]))
        return mock.Mock(start=lambda: target(*args))  # type: ignore[operator]

    def test_look_that_has_ended_does_not_begin_again(self) -> None:
        for _ in range(3):
            self.looks.begin(self.record, FIRST)
        self.assertEqual([FIRST], self.begun)
        self.assertFalse(self.record.id in self.looks)

    def test_client_that_comes_after_another_one_meanwhile_is_entered(self) -> None:
        self.clients = [[], ['a'], ['a', 'b']]
        self.looks.begin(self.record, FIRST)
        self.assertEqual([mock.call(self.record)] * 2, self.protocol.observe.mock_calls)

    def test_clients_of_a_volume_that_come_after_the_others_meanwhile_are_entered(self) -> None:
        self.record = test_record.make_record(state=states.PROMOTED, volumes=(
            test_record.make_volume(), test_record.make_volume(image='second')))
        self.clients = [[], [], ['a', 'b'], [], ['a', 'b'], ['c', 'd']]
        self.looks.begin(self.record, FIRST)
        self.assertEqual(2, self.protocol.observe.call_count)

    def test_next_hand_out_is_looked_for(self) -> None:
        self.looks.begin(self.record, FIRST)
        self.clients = [['a', 'b'], ['a', 'b', 'c', 'd']]
        self.looks.begin(self.record, SECOND)
        self.assertEqual([FIRST, SECOND], self.begun)

    def test_look_that_goes_on_does_not_begin_again(self) -> None:
        waiting = self.useFixture(fixtures.MockPatch('threading.Thread')).mock
        self.looks.begin(self.record, FIRST)
        self.looks.begin(self.record, FIRST)
        waiting.assert_called_once()
        self.assertTrue(self.record.id in self.looks)

    def test_look_that_has_failed_begins_again(self) -> None:
        self.protocol.reload.side_effect = ZeroDivisionError
        self.assertRaises(ZeroDivisionError, self.looks.begin, self.record, FIRST)
        self.protocol.reload.side_effect = None
        self.clients = [[], ['a', 'b']]
        self.looks.begin(self.record, FIRST)
        self.assertEqual([FIRST, FIRST], self.begun)

# SPDX-License-Identifier: Apache-2.0
"""The begin of recoveries that were created together."""

from unittest import mock

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import dispatch
from specreds_nova.tests.unit.engine.recovery import base


class BeginTest(base.RecoveryTest):
    """Recoveries of three servers, of which the first two have slots of this engine."""

    def setUp(self) -> None:
        super().setUp()
        self.work = mock.Mock()
        self.work.reserve.side_effect = [True, True, False]
        self.creation = dispatch.Creation(self.context, self.work, 'e1')
        host = self.suspect()
        self.wanted = [self.creation.new(host, base.make_server(name), None, self.clock.now())
                       for name in ('a', 'b', 'c')]

    def begin(self) -> list[str]:
        """Create and begin the recoveries; return the servers of those that began."""
        self.assertEqual(3, self.creation.begin(self.wanted, {}))
        self.assertEqual(3, self.observer.recovery.call_count)
        return [call.args[0].server for call in self.work.begin.call_args_list]

    def test_recovery_that_cannot_begin_gives_back_its_slot_alone(self) -> None:
        def begin(recovery: model.Recovery, server: model.Server | None) -> None:
            del server
            if recovery.server == 'a':
                raise RuntimeError('no thread')
        self.work.begin.side_effect = begin
        self.assertEqual(['a', 'b', 'c'], self.begin())
        self.work.release.assert_called_once_with(self.wanted[0].id)
        self.assertEqual(['a', 'b', 'c'], [entry.server for entry in self.store.active()])

    def test_recovery_without_a_slot_has_none_to_give_back(self) -> None:
        self.work.begin.side_effect = [None, None, ValueError('no')]
        self.assertEqual(['a', 'b', 'c'], self.begin())
        self.work.release.assert_not_called()

    def test_slots_are_given_back_if_the_database_does_not_answer(self) -> None:
        with mock.patch.object(self.store, 'create', side_effect=exception.Unreachable('no')):
            self.assertRaises(exception.Unreachable, self.creation.begin, self.wanted, {})
        self.assertEqual([self.wanted[0].id, self.wanted[1].id],
                         [call.args[0] for call in self.work.release.call_args_list])

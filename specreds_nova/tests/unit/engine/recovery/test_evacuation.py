# SPDX-License-Identifier: Apache-2.0
"""Nova is told that a host is down only by the engine whose recovery it is."""

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import evacuation
from specreds_nova.engine.recovery import run as runs
from specreds_nova.tests.unit.engine.recovery import base


class MovingTest(base.RecoveryTest):
    """A recovery whose server is to be moved."""

    def setUp(self) -> None:
        super().setUp()
        self.suspect(state=model.FENCED)
        self.recovery = self.make_recovery('a', state=model.COMMITTED)
        self.compute.server.side_effect = lambda name: base.make_server(name)
        self.compute.candidates.return_value = ['h2']
        self.context = self.make_context(adopt_timeout=10.0)

    def move(self) -> None:
        """Have it moved, as far as that gets."""
        evacuation.evacuate(runs.Run(self.context, self.recovery), 'h1', {})

    def test_its_engine(self) -> None:
        self.move()
        self.compute.force_down.assert_called_with('h1', True)
        self.compute.evacuate.assert_called()

    def test_engine_that_was_superseded(self) -> None:
        self.store.take_over(self.recovery.id, 'e2')
        self.assertRaises(exception.Superseded, self.move)
        self.compute.force_down.assert_not_called()

    def test_host_that_is_trusted_again(self) -> None:
        self.suspect(state=model.TRUSTED)
        self.move()
        self.compute.force_down.assert_not_called()

    def test_host_that_is_trusted_in_between(self) -> None:
        def force_down(host: str, down: bool) -> bool:
            if down:
                self.suspect(state=model.TRUSTED)
            return True

        self.compute.force_down.side_effect = force_down
        self.move()
        self.assertEqual([(('h1', True),), (('h1', False),)],
                         [call[1:2] for call in self.compute.force_down.mock_calls])
        self.compute.evacuate.assert_not_called()

    def test_server_that_nova_has_stopped_is_active_again(self) -> None:
        self.compute.server.side_effect = lambda name: base.make_server(name, status='SHUTOFF')
        self.compute.stopped_by_itself.return_value = True
        self.move()
        self.compute.reset.assert_called_with('a')

    def test_server_that_a_user_has_stopped_stays_stopped(self) -> None:
        self.compute.server.side_effect = lambda name: base.make_server(name, status='SHUTOFF')
        self.compute.stopped_by_itself.return_value = False
        self.move()
        self.compute.reset.assert_not_called()
        self.compute.evacuate.assert_called()

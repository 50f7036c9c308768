# SPDX-License-Identifier: Apache-2.0
"""Evacuations of servers for which users have asked the failed host for something."""

import dataclasses
from typing import Any

from specreds_nova.engine import model
from specreds_nova.engine.recovery import evacuation
from specreds_nova.engine.recovery import run as runs
from specreds_nova.tests.unit.engine.recovery import base


class PendingTest(base.CommittedTest):
    """Requests that Nova has taken for a host that cannot fulfill them."""

    def setUp(self) -> None:
        super().setUp()
        self.compute.evacuation.return_value = None

    def _evacuate(self, task: str, status: str = 'ACTIVE') -> None:
        """Evacuate a server that has a task which no evacuation has given it."""
        self.compute.reset.reset_mock()
        self.compute.evacuate.reset_mock()
        self.compute.server.side_effect = lambda name: base.make_server(
            name, task=task, status=status)
        evacuation.evacuate(runs.Run(self.context, self.recovery), 'h1', {})

    def test_request_that_the_failed_host_has_not_taken_does_not_keep_the_server_there(
            self) -> None:
        for task in ('reboot_pending_hard', 'rebooting', 'powering-off', 'image_snapshot',
                     'pausing', 'suspending', 'shelving', 'shelving_image_uploading', 'rescuing'):
            self._evacuate(task)
            self.compute.reset.assert_called_with('a')
            self.compute.evacuate.assert_called_with('a', 'h2', False)

    def test_request_that_other_hosts_may_be_doing_is_left(self) -> None:
        # Or that Nova would do to the server on its new host as soon as this one is back.
        for task in ('rebuilding', 'deleting', 'migrating', 'resize_prep', 'spawning',
                     'unrescuing', 'powering-on', 'shelving_offloading', 'unpausing'):
            self._evacuate(task)
            self.compute.reset.assert_not_called()

    def test_request_to_a_host_that_is_heard_is_left(self) -> None:
        self.suspects.suspected.side_effect = None
        self.suspects.suspected.return_value = False
        self._evacuate('rebooting_hard')
        self.compute.reset.assert_not_called()

    def test_server_that_a_user_has_stopped_on_the_failed_host_is_stopped_on_its_new_one(
            self) -> None:
        for task, status, by_itself, stopped in (
                ('rebooting', 'ACTIVE', False, False), ('powering-off', 'ACTIVE', True, False),
                ('powering-off', 'ACTIVE', False, True), ('shelving', 'SHUTOFF', True, False),
                ('rescuing', 'SHUTOFF', False, True)):
            self.compute.stop.reset_mock()
            self.compute.stopped_by_itself.return_value = by_itself
            server = base.make_server('a', task=task)

            def evacuate(*_: Any, server: model.Server = server) -> None:
                moved = dataclasses.replace(server, host='h2', task=None)
                self.compute.server.side_effect = lambda name: moved
            self.compute.evacuate.side_effect = evacuate
            self._evacuate(task, status)
            self.assertEqual(stopped, self.compute.stop.called)

# SPDX-License-Identifier: Apache-2.0
"""Which hosts engines forget."""

from unittest import mock

import testtools

from specreds_nova.engine import model
from specreds_nova.engine.suspicion import decommissioned


class DecommissionedTest(testtools.TestCase):
    """Nova lists ``cn1``; ``cn2`` is known beside it, and was heard ten minutes ago."""

    def setUp(self) -> None:
        super().setUp()
        self.store, self.monitor, clock = mock.Mock(), mock.Mock(), mock.Mock()
        clock.now.return_value = 1600.0
        self.heard = 1000.0
        self.store.hosts.return_value = [model.Host('cn1'), model.Host('cn2')]
        self.monitor.names.return_value = ['cn1', 'cn2']
        self.monitor.look.side_effect = lambda name: mock.Mock(heard=self.heard)
        self.decommissioned = decommissioned.Decommissioned(self.store, self.monitor, clock)

    def forgotten(self, looks: int, *listed: str) -> list[str]:
        """Return which hosts are forgotten, after some looks."""
        for _ in range(looks):
            self.decommissioned.look(listed)
        return [call.args[0] for call in self.monitor.forget.call_args_list]

    def test_silent_host_without_a_service_is_forgotten_after_a_minute(self) -> None:
        self.assertEqual([], self.forgotten(5, 'cn1'))
        self.assertEqual(['cn2'], self.forgotten(1, 'cn1'))
        self.store.forget.assert_called_once_with('cn2')

    def test_host_that_another_engine_has_forgotten(self) -> None:
        self.store.hosts.return_value = [model.Host('cn1')]
        self.assertEqual(['cn2'], self.forgotten(6, 'cn1'))

    def test_host_that_is_heard_is_kept(self) -> None:
        self.heard = 1599.0
        self.assertEqual([], self.forgotten(10, 'cn1'))

    def test_host_that_is_listed_again_is_kept(self) -> None:
        self.forgotten(5, 'cn1')
        self.forgotten(1, 'cn1', 'cn2')
        self.assertEqual([], self.forgotten(5, 'cn1'))

    def test_host_that_is_being_recovered_is_watched(self) -> None:
        self.store.forget.return_value = False
        self.assertEqual([], self.forgotten(10, 'cn1'))

    def test_empty_answer_of_nova_forgets_nobody(self) -> None:
        self.assertEqual([], self.forgotten(10))

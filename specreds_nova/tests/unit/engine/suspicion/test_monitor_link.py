# SPDX-License-Identifier: Apache-2.0
"""The monitor while the engine's link to the broker is at fault, or the engine itself."""

from specreds_nova.tests.unit.engine.suspicion import base


class LinkTest(base.CloudTestCase):
    """Outages of the broker and pauses of the engine."""

    def test_outage_of_the_broker_suspects_no_host(self) -> None:
        self.broker = False
        for _ in range(60):
            self.run_for(1)
            self.assertEqual([], self.witness.names('suspected'))
        self.assertIn('own beats', self.monitor.trouble() or '')
        self.broker = True
        self.run_for(30)
        self.assertEqual([], self.witness.names('suspected'))
        self.assertIsNone(self.monitor.trouble())

    def test_host_that_dies_during_an_outage_is_suspected(self) -> None:
        self.broker = False
        self.run_for(30)
        self.nodes['cn3'].alive = False
        self.broker = True
        self.run_for(10)
        self.assertEqual(['cn3'], self.witness.names('suspected'))

    def test_hosts_that_return_one_by_one_are_not_suspected(self) -> None:
        self.broker = False
        for node in self.nodes.values():
            node.alive = False
        self.run_for(60)
        self.broker = True
        for node in self.nodes.values():
            node.alive = True
            self.run_for(0.9)
        self.assertEqual([], self.witness.names('suspected'))

    def test_frozen_engine_suspects_no_host(self) -> None:
        self.stand_still(20)
        self.run_for(10)
        self.assertEqual([], self.witness.names('suspected'))

    def test_outage_does_not_change_the_deadlines(self) -> None:
        before = self.monitor.look('cn1')
        self.broker = False
        self.run_for(3)
        self.broker = True
        self.run_for(30)
        after = self.monitor.look('cn1')
        assert before is not None and after is not None
        self.assertAlmostEqual(before.patience, after.patience, places=1)

    def test_beat_that_waited_for_the_engine_was_sent_before(self) -> None:
        self.stand_still(1)
        self.nodes['cn2'].alive = False
        began = self.clock.now()
        self.run_for(1)
        for name, after in (('cn1', True), ('cn2', False)):
            view = self.monitor.look(name)
            assert view is not None and view.heard is not None and view.sent_after is not None
            self.assertGreater(view.heard, began)
            self.assertEqual(after, view.sent_after >= began)

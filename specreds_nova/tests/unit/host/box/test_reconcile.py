# SPDX-License-Identifier: Apache-2.0
"""Boxes after a restart of any program."""

from specreds_nova.host.box import ovs
from specreds_nova.tests.unit.host.box import fakes
from specreds_nova.tests.unit.host.box import sealing_base


class TestReconcile(sealing_base.SealingTestCase):

    def _after_a_restart(self) -> None:
        self.box = self.made()
        self.mechanism.done.clear()

    def test_healthy_box_is_left_alone(self) -> None:
        self.sealed()
        self._after_a_restart()
        self.box.reconcile({fakes.BACKUP_ID}, set())
        self.assertEqual([], self.mechanism.done)

    def test_restarted_switch_gets_its_flows(self) -> None:
        self.sealed()
        self._after_a_restart()
        self.mechanism.boxes[fakes.PORT] = ovs.ExistingBox(
            fakes.PORT, fakes.BACKUP_ID, fakes.SERVER, ovs.State.SHUT, False)
        self.privileged['namespace_runs'].return_value = []
        self.box.reconcile({fakes.BACKUP_ID}, set())
        self.assertEqual(['seal', 'serve'], self.mechanism.done)

    def test_dead_dhcp_server_is_started(self) -> None:
        self.sealed()
        self._after_a_restart()
        self.privileged['namespace_runs'].return_value = []
        self.box.reconcile({fakes.BACKUP_ID}, set())
        self.assertEqual(['serve'], self.mechanism.done)

    def test_open_box_of_an_unpromoted_backup_is_sealed(self) -> None:
        self.opened()
        self._after_a_restart()
        self.box.reconcile({fakes.BACKUP_ID}, set())
        self.assertEqual(ovs.State.SHUT, self.mechanism.boxes[fakes.PORT].state)

    def test_look_from_before_the_promotion_seals_nothing(self) -> None:
        self.opened()
        self.box.reconcile({fakes.BACKUP_ID}, set())
        self.assertEqual(ovs.State.OPEN, self.mechanism.boxes[fakes.PORT].state)

    def test_sealed_box_of_a_promoted_backup_is_opened(self) -> None:
        self.sealed()
        self._after_a_restart()
        self.box.reconcile(set(), {fakes.BACKUP_ID})
        self.assertEqual(['open', 'settle'], self.mechanism.done)

    def test_unknown_sealed_box_is_removed(self) -> None:
        self.sealed()
        self._after_a_restart()
        self.box.reconcile(set(), set())
        self.assertEqual({}, self.mechanism.boxes)
        self.assertFalse(self.kept.exists())

    def test_box_of_an_unsure_backup_is_left_alone(self) -> None:
        self.sealed()
        self._after_a_restart()
        self.box.reconcile(set(), set(), {fakes.BACKUP_ID})
        self.assertEqual([], self.mechanism.done)

    def test_open_box_of_an_adopted_server_is_kept(self) -> None:
        self.opened()
        self._after_a_restart()
        self.box.reconcile(set(), set())
        self.assertEqual([], self.mechanism.done)
        self.assertTrue(self.kept.exists())

# SPDX-License-Identifier: Apache-2.0
"""The box of a server that was adopted."""

from collections.abc import Callable

from specreds_nova.host.box import ovs
from specreds_nova.host.box import plan as plans
from specreds_nova.tests.unit.host.box import fakes
from specreds_nova.tests.unit.host.box import sealing_base


class TestAdopted(sealing_base.SealingTestCase):

    def test_adopted_server_stays_in_its_open_box(self) -> None:
        self.opened()
        before = self.instance.get_network_info()
        [vif] = self.box.through(before)
        self.assertEqual(plans.bridge_of(fakes.PORT), vif['network']['bridge'])
        self.assertEqual('br-int', before[0]['network']['bridge'])

    def test_server_without_a_box_is_plugged_by_nova(self) -> None:
        before = self.instance.get_network_info()
        self.assertIs(before, self.box.through(before))
        self.box.unplugged(before)
        self.assertEqual([], self.mechanism.done)

    def test_open_box_is_removed_when_the_server_is_unplugged(self) -> None:
        self.opened()
        for _ in range(2):
            self.box.unplugged(self.instance.get_network_info())
        self.assertEqual({}, self.mechanism.boxes)
        self.assertFalse(self.kept.exists())
        self.bindings.remove.assert_not_called()

    def test_sealed_box_is_kept_when_the_server_is_unplugged(self) -> None:
        self.sealed()
        self.box.unplugged(self.instance.get_network_info())
        self.assertEqual(ovs.State.SHUT, self.mechanism.boxes[fakes.PORT].state)

    def test_restarted_guest_is_plugged_again(self) -> None:
        self._assert_of_open_boxes('release', self.box.prepare_plug)

    def test_restart_is_hidden_from_the_network_service(self) -> None:
        self._assert_of_open_boxes('conceal', self.box.prepare_replug)

    def _assert_of_open_boxes(self, step: str, prepare: Callable[[str], None]) -> None:
        """Assert that a preparation takes a step for a port whose box is open, and only then."""
        prepare(fakes.PORT)
        self.sealed()
        prepare(fakes.PORT)
        self.assertNotIn(step, self.mechanism.done)
        self.opened()
        prepare(fakes.PORT)
        self.assertEqual(1, self.mechanism.done.count(step))

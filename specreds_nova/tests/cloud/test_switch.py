# SPDX-License-Identifier: Apache-2.0
"""The switch of a host crashes, and is started again without its flows."""

from specreds_nova.tests.cloud import base


class TestSwitch(base.NovaTestCase):
    """The agent or controller of the host wires its ports again, without help."""

    def test_network_returns_after_the_switch_has_crashed(self) -> None:
        server = self.boot()
        for _crash in range(2):
            self.crash_switch(base.PRIMARY)
            self.wait_answer(server)

# SPDX-License-Identifier: Apache-2.0
"""The server as it is read before the start of its backup."""

from typing import Any
from unittest import mock

from nova import objects
from nova.network import model
import testtools

from specreds_nova.virt.backup import start as starts

SERVER = '11111111-1111-4111-8111-111111111111'


class LoadTest(testtools.TestCase):
    """Neutron shows a port as unbound for a moment while it binds the port again."""

    def setUp(self) -> None:
        """Create a server whose port Nova has seen in that moment."""
        super().setUp()
        objects.register_all()
        self.instance = mock.Mock(uuid=SERVER)
        self.types = ['unbound']
        self.instance.get_network_info.side_effect = lambda: [
            model.VIF(id='p1', type=self.types[0])]
        self.api = mock.Mock()
        self.now = 0.0
        self.replace('specreds_nova.virt.backup.domain.load_instance', lambda *_: self.instance)
        self.replace('specreds_nova.virt.backup.start.neutron.API', lambda: self.api)
        self.replace('specreds_nova.virt.backup.start.time', mock.Mock(
            monotonic=lambda: self.now, sleep=self.sleep))

    def replace(self, name: str, new: Any) -> None:
        """Replace an attribute until the test ends."""
        patch = mock.patch(name, new)
        patch.start()
        self.addCleanup(patch.stop)

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def load(self) -> Any:
        """Load the server."""
        with mock.patch.object(objects.BlockDeviceMappingList, 'get_by_instance_uuid'):
            return starts.load('context', SERVER)[0]

    def test_bound_port_is_read_once(self) -> None:
        self.types = ['ovs']
        self.assertIs(self.instance, self.load())
        self.api.get_instance_nw_info.assert_not_called()

    def test_unbound_port_is_read_until_it_is_bound(self) -> None:
        def look(context: Any, instance: Any, force_refresh: bool) -> None:
            self.assertTrue(force_refresh)
            if self.api.get_instance_nw_info.call_count == 3:
                self.types = ['ovs']
        self.api.get_instance_nw_info.side_effect = look
        self.load()
        self.assertEqual(3, self.api.get_instance_nw_info.call_count)

    def test_wait_for_the_binding_of_a_port_is_limited(self) -> None:
        self.assertIs(self.instance, self.load())
        self.assertLess(1, self.api.get_instance_nw_info.call_count)

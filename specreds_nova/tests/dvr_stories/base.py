# SPDX-License-Identifier: Apache-2.0
"""Base classes of the tests on networks of VXLAN, whose routers are those of Neutron's agents."""

from cloud.openstack import layout
from cloud.openstack import neutron
from specreds_nova.tests.cloud import networks


class TunnelsTestCase(networks.NetworkTestCase):
    """A test with a network of VXLAN."""

    kind = layout.DVR


class RouterTestCase(networks.RouterTestCase):
    """A test with a router of Neutron's agents."""

    kind = layout.DVR

    def setUp(self) -> None:
        super().setUp()
        self.wait('the agents of routers', lambda: self.agents_alive(neutron.ROUTERS))

# SPDX-License-Identifier: Apache-2.0
"""The boxes of a host whose switch and network service are fakes."""

import pathlib
from typing import Any
from unittest import mock

import fixtures
from nova import objects
import nova.conf
from nova.network import model as network_model
from oslo_config import fixture as config_fixture
import testtools

from specreds_nova.host.box import announce
from specreds_nova.host.box import bindings
from specreds_nova.host.box import ipv6
from specreds_nova.host.box import metadata
from specreds_nova.host.box import ovs
from specreds_nova.host.box import privileged
from specreds_nova.host.box import sealing
from specreds_nova.tests.unit.host.box import fakes


class SealingTestCase(testtools.TestCase):
    """The boxes of one host, and a server with one port."""

    def setUp(self) -> None:
        super().setUp()
        self.conf = conf = self.useFixture(config_fixture.Config(nova.conf.CONF))
        state = self.useFixture(fixtures.TempDir()).path
        conf.config(state_path=state, host='node2')
        self.kept = pathlib.Path(state, 'specreds', 'boxes', fakes.PORT)
        self.mechanism = fakes.FakeMechanism()
        self.useFixture(fixtures.MockPatchObject(ovs, 'Ovs', return_value=self.mechanism))
        self.bindings = self.mechanism.bindings
        self.bindings.ports.return_value = {fakes.PORT: {'id': fakes.PORT, 'network_id': 'n'}}
        self.bindings.refusals.return_value = []
        self.bindings.bind.return_value = {fakes.PORT: bindings.Binding(
            'ovs', 'normal', {'bridge_name': 'br-int'})}
        self.bindings.neighbours.return_value = {}
        self.bindings.metadata_hops.return_value = {}
        self.useFixture(fixtures.MockPatchObject(announce, 'REPEATS', ()))
        self.missing = self.useFixture(fixtures.MockPatchObject(
            ipv6, 'missing', return_value=None)).mock
        self.privileged = {name: self.useFixture(
            fixtures.MockPatchObject(privileged, name)).mock for name in (
                'start_services', 'start_responder', 'stop_services', 'namespace_runs',
                'accepts_connection', 'warm_up')}
        self.privileged['namespace_runs'].return_value = ['dnsmasq', 'python']
        self.write = self.useFixture(fixtures.MockPatchObject(metadata, 'write')).mock
        self.instance = mock.Mock(uuid=fakes.SERVER, device_metadata=None)
        self.instance.get_network_info.return_value = network_model.NetworkInfo([fakes.vif()])
        self.read = mock.Mock(task_state=None)
        self.useFixture(fixtures.MockPatchObject(objects.Instance, 'get_by_uuid',
                                                 side_effect=lambda *_: self.read))
        self.box = self.made()

    def made(self) -> sealing.Box:
        """Return the boxes of a nova-compute that has just started."""
        box = sealing.Box()
        # The work in the background must not outlive the test.
        self.addCleanup(box._background._workers.shutdown)
        return box

    def bind_by_ovn(self) -> None:
        """Let OVN bind the server's port, there and here."""
        details = {'bridge_name': 'br-int', 'bound_drivers': {'0': 'ovn'}}
        self.instance.get_network_info.return_value = network_model.NetworkInfo(
            [fakes.vif(details=details)])
        self.bindings.bind.return_value = {fakes.PORT: bindings.Binding(
            'ovs', 'normal', details)}

    def sealed(self) -> Any:
        """Seal the server's ports, and return its network in the box."""
        network = self.box.seal(mock.sentinel.context, self.instance, fakes.BACKUP_ID)
        self.box.attached(self.instance, fakes.BACKUP_ID)
        self.mechanism.done.clear()
        return network

    def opened(self) -> None:
        """Seal the server's ports, and open the box."""
        self.sealed()
        self.box.open(mock.sentinel.context, self.instance, fakes.BACKUP_ID)
        self.mechanism.done.clear()

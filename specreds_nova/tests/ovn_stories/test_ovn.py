# SPDX-License-Identifier: Apache-2.0
"""Backups on hosts whose ports OVN wires."""

from collections.abc import Iterator
import contextlib
import functools
import json
from typing import Any

from cloud import drill as drills
from cloud.hosts import packets
from cloud.openstack import ovn
from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import life
from specreds_nova.tests.ovn_stories import databases

_TENANT = 'tenant'


class TestOvn(life.LifeTestCase):
    """OVN gives a port to the host that it is bound to, once that host has a device for it."""

    def setUp(self) -> None:
        super().setUp()
        if not self.cloud.settings.ovn:
            self.skipTest('the cloud has another network; bring it up with --network ovn')

    def port(self, server: drills.Server) -> str:
        [port] = self.drill.ports(server)
        return port

    def row(self, database: str, table: str, condition: str) -> dict[str, Any]:
        """Return the row of one of OVN's databases that meets a condition."""
        [row] = databases.find(self.cloud.settings, database, table, condition)
        return row

    def southbound(self, server: drills.Server) -> dict[str, Any]:
        """Return the row that says which host has a server's port."""
        return self.row(ovn.SOUTHBOUND, 'Port_Binding', f'logical_port={self.port(server)}')

    def northbound(self, server: drills.Server) -> dict[str, Any]:
        """Return the row that says which host is to have a server's port."""
        return self.row(ovn.NORTHBOUND, 'Logical_Switch_Port', f'name={self.port(server)}')

    def chassis(self, host: str) -> list[str]:
        """Return the id of OVN's row of a host, as other rows name it."""
        row = self.row(ovn.SOUTHBOUND, 'Chassis', f'hostname={host}')
        return list(row['_uuid'])

    def claimed_by(self, server: drills.Server, host: str) -> bool:
        """Return whether a host, and no other one, has a server's port."""
        row = self.southbound(server)
        chassis = self.chassis(host)
        return (row['chassis'] == row['requested_chassis'] == chassis and row['up'] is True
                and row['additional_chassis'] == row['requested_additional_chassis']
                == ['set', []])

    def wait_claimed(self, server: drills.Server, host: str) -> None:
        """Wait until a host, and no other one, has a server's port."""
        self.wait(f'OVN to have the port of {server.name} on {host}',
                  functools.partial(self.claimed_by, server, host))

    def devices(self, host: str, server: drills.Server) -> list[str]:
        """Return a host's network devices that have the id of a server's port."""
        rows = json.loads(self.host(host).run([
            'ovs-vsctl', '--timeout=10', '--format=json', '--columns=name', 'find', 'Interface',
            f'external_ids:iface-id={self.port(server)}']))['data']
        return [name for [name] in rows]

    @contextlib.contextmanager
    def assertNothingPasses(self, server: drills.Server) -> Iterator[None]:
        """Assert that no frame of a server leaves the backup's host."""
        port = self.drill.network.get(f'/v2.0/ports/{self.port(server)}').json()['port']
        file = self.scratch() / 'packets'
        with self.host(base.BACKUP).capture(
                _TENANT, file, f'outbound and ether src {port["mac_address"]}'):
            yield
        self.assertEqual([], packets.read(file))

    def test_server_boots_and_is_reached(self) -> None:
        server = self.boot()
        self.wait_claimed(server, base.PRIMARY)
        self.assertEqual([f'tap{self.port(server)[:11]}'], self.devices(base.PRIMARY, server))

    def test_network_returns_after_the_switch_has_crashed(self) -> None:
        server = self.boot()
        for _crash in range(2):
            self.crash_switch(base.PRIMARY)
            self.wait_answer(server)
        self.wait_claimed(server, base.PRIMARY)

    def test_dropped_backup_does_not_change_the_port_of_the_primary(self) -> None:
        server = self.boot()
        name = self.guest_name(server)
        before = self.southbound(server), self.northbound(server)
        with self.assertNothingPasses(server):
            recovery = self.begin(server)
            self.assertEqual([], self.devices(base.BACKUP, server))
            self.assertEqual(before, (self.southbound(server), self.northbound(server)))
            self.drill.abort(recovery)
        self.assertNothingLeft(recovery)
        self.assertEqual(before, (self.southbound(server), self.northbound(server)))
        self.assertEqual(name, self.guest_name(server))

    def test_promoted_backup_has_the_port(self) -> None:
        server = self.boot()
        name = self.guest_name(server)
        self.host(base.PRIMARY).kill()
        with self.assertNothingPasses(server):
            recovery = self.begin(server)
        self.drill.promote(recovery)
        self.assertNotEqual(name, self.guest_name(server))
        self.wait_claimed(server, base.BACKUP)
        adopted = self.drill.adopt(recovery)
        self.wait_claimed(adopted, base.BACKUP)
        self.assertEqual([f'sbi-{self.port(server)[:11]}'], self.devices(base.BACKUP, server))
        self.drill.merged(recovery)
        # A reboot keeps the guest in its box.
        self.reboot(adopted, 80)
        self.wait_claimed(adopted, base.BACKUP)

    def test_returning_host_does_not_claim_the_port(self) -> None:
        server = self.boot()
        old = self.host(base.PRIMARY)
        old.cut(control=True, storage=True, tenant=True)
        recovery = self.begin(server)
        self.drill.promote(recovery)
        adopted = self.drill.adopt(recovery)
        name = self.guest_name(adopted)
        self.wait_claimed(adopted, base.BACKUP)
        # Its guest still runs, with a device that has the port's id.
        self.assertEqual([f'tap{self.port(server)[:11]}'], self.devices(base.PRIMARY, server))
        old.heal()
        self.wait('OVN to hear of the host', lambda: self.drill.networked(base.PRIMARY))
        self.assertTrue(self.claimed_by(adopted, base.BACKUP))
        self.assertEqual(name, self.guest_name(adopted))
        self.drill.merged(recovery)

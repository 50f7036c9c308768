# SPDX-License-Identifier: Apache-2.0
"""Backups on hosts whose ports OVN wires."""

import json
from typing import Any

from cloud import commands
from cloud import drill as drills
from cloud.openstack import ovn
from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import life


class TestOvn(life.LifeTestCase):
    """OVN gives a port to the host that it is bound to, once that host has a device for it."""

    def setUp(self) -> None:
        super().setUp()
        if not self.cloud.settings.ovn:
            self.skipTest('the cloud has another network; bring it up with --network ovn')

    def port(self, server: drills.Server) -> str:
        [port] = self.drill.ports(server)
        return port

    def row(self, program: str, database: str, table: str, server: drills.Server
            ) -> dict[str, Any]:
        """Return the row of a server's port in one of OVN's databases."""
        key = 'logical_port' if program == 'ovn-sbctl' else 'name'
        rows = json.loads(commands.run([
            program, f'--db={ovn.connection(self.cloud.settings, database)}', '--timeout=10',
            '--format=json', 'find', table, f'{key}={self.port(server)}']))
        [row] = rows['data']
        return dict(zip(rows['headings'], row, strict=True))

    def southbound(self, server: drills.Server) -> dict[str, Any]:
        """Return the row that says which host has a server's port."""
        return self.row('ovn-sbctl', ovn.SOUTHBOUND, 'Port_Binding', server)

    def chassis(self, host: str) -> str:
        """Return OVN's row of a host."""
        return commands.run([
            'ovn-sbctl', f'--db={ovn.connection(self.cloud.settings, ovn.SOUTHBOUND)}',
            '--timeout=10', '--bare', '--columns=_uuid', 'find', 'Chassis', f'hostname={host}'
        ]).strip()

    def claimed_by(self, server: drills.Server, host: str) -> bool:
        """Return whether a host, and no other one, has a server's port."""
        row = self.southbound(server)
        chassis = ['uuid', self.chassis(host)]
        return (row['chassis'] == row['requested_chassis'] == chassis and row['up'] is True
                and row['additional_chassis'] == row['requested_additional_chassis']
                == ['set', []])

    def devices(self, host: str, server: drills.Server) -> list[str]:
        """Return a host's network devices that have the id of a server's port."""
        rows = json.loads(self.host(host).run([
            'ovs-vsctl', '--timeout=10', '--format=json', '--columns=name', 'find', 'Interface',
            f'external_ids:iface-id={self.port(server)}']))['data']
        return [name for [name] in rows]

    def test_server_boots_and_is_reached(self) -> None:
        server = self.boot()
        self.assertTrue(self.claimed_by(server, base.PRIMARY))
        self.assertEqual([f'tap{self.port(server)[:11]}'], self.devices(base.PRIMARY, server))

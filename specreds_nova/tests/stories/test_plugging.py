# SPDX-License-Identifier: Apache-2.0
"""Backups whose devices os-vif makes, as with the kernel's datapath since Neutron 2026.2."""

import json
from typing import Any

from cloud.openstack import database
from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import life

_KEY = 'ovs_create_tap'
_DETAILS = 'SELECT host, vif_details FROM ml2_port_bindings WHERE port_id = %s'
_CHANGE = 'UPDATE ml2_port_bindings SET vif_details = %s WHERE port_id = %s AND host = %s'
_CACHE = 'SELECT network_info FROM instance_info_caches WHERE instance_uuid = %s AND deleted = 0'


class TestPlugging(life.LifeTestCase):
    """Neutron offers ``ovs_create_tap`` with the kernel's datapath only, which the hosts lack.

    The bindings are changed in its database. What Nova, os-vif and libvirt do then is real.
    """

    def setUp(self) -> None:
        super().setUp()
        self.server = self.boot()
        self.mac = self.drill.mac(self.server)
        [port] = self.drill.ports(self.server)
        self.port, self.tap = port, f'tap{port[:11]}'
        self._offer()

    def test_aborted_backup_leaves_no_device(self) -> None:
        recovery = self.begin(self.server)
        self.assertEqual(self.mac, self._address())
        self.drill.abort(recovery)
        self.assertNothingLeft(recovery)
        self.assertEqual('', self.host(base.BACKUP).run(
            ['ovs-vsctl', '--bare', '--columns=_uuid', 'list', 'QoS']).strip())
        self.wait_answer(self.server)

    def test_adopted_server_is_rebooted_with_a_new_device(self) -> None:
        name = self.guest_name(self.server)
        recovery = self.promoted(server=self.server)
        self._offer()
        adopted = self.drill.adopt(recovery)
        self.assertNotEqual(name, self.guest_name(adopted))
        self.drill.merged(recovery)
        device = self._index()
        with self.assert_replaced_unseen(adopted):
            self.operate(adopted.id, 'reboot', {'type': 'HARD'})
            self.wait_status(adopted.id, 'ACTIVE')
        self.wait_answer(adopted)
        self.assertNotEqual(device, self._index())
        self.assertEqual(self.mac, self._address())

    def _offer(self) -> None:
        """Make Nova believe that Neutron wants os-vif to make the server's device."""
        neutron = 'neutron'
        for host, details in database.rows(self.cloud.files, neutron, _DETAILS, self.port):
            changed = json.dumps({**json.loads(details), _KEY: True})
            database.rows(self.cloud.files, neutron, _CHANGE, changed, self.port, host)
        self.drill.compute.post('/os-server-external-events', json={'events': [
            {'name': 'network-changed', 'server_uuid': self.server.id, 'tag': self.port}]})

        def known() -> bool:
            [(cached,)] = database.rows(self.cloud.files, 'nova', _CACHE, self.server.id)
            return all(vif['details'].get(_KEY) for vif in json.loads(cached))
        self.wait('Nova to know of the change', known)

    def _address(self) -> str:
        """Return the hardware address of the device, which is the guest's if os-vif made it."""
        return str(self._device()['address'])

    def _index(self) -> int:
        return int(self._device()['ifindex'])

    def _device(self) -> dict[str, Any]:
        [device] = json.loads(self.host(base.BACKUP).run(['ip', '-j', 'link', 'show', self.tap]))
        shown: dict[str, Any] = device
        return shown

# SPDX-License-Identifier: Apache-2.0
"""A server is after its recovery what it was before: limits and access of its volumes."""

import contextlib
import uuid
import xml.etree.ElementTree as ElementTree

from keystoneauth1 import exceptions as keystone_exceptions
import rados
import rbd

from specreds_cinder.superposition.overlay import overlay
from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import life

_LIMIT = 500


class TestSame(life.LifeTestCase):
    """A server with volumes of several kinds."""

    def setUp(self) -> None:
        super().setUp()
        client = rados.Rados(name='client.cinder', conffile=str(self.cloud.ceph.conf))
        client.connect()
        self.addCleanup(client.shutdown)
        self.backend = self.cloud.backends[0]
        self.io = client.open_ioctx(self.backend.pool)
        self.addCleanup(self.io.close)

    def make_volume(self, consumer: str | None = None) -> str:
        """Create a volume of a type of its own, and return the volume's id.

        :param consumer: who imposes a limit on it; None for no limit
        """
        volumes, name = self.drill.volume, f'test-{uuid.uuid4().hex[:8]}'
        kind = volumes.post('/types', json={'volume_type': {'name': name, 'extra_specs': {
            'volume_backend_name': self.backend.name}}}).json()['volume_type']['id']
        self.addCleanup(volumes.delete, f'/types/{kind}')
        if consumer is not None:
            specs = volumes.post('/qos-specs', json={'qos_specs': {
                'name': name, 'consumer': consumer, 'total_iops_sec': str(_LIMIT)}}
                ).json()['qos_specs']['id']
            volumes.get(f'/qos-specs/{specs}/associate', params={'vol_type_id': kind})
            self.addCleanup(volumes.delete, f'/qos-specs/{specs}', params={'force': 'True'})
        made = str(volumes.post('/volumes', json={'volume': {
            'size': 1, 'volume_type': name}}).json()['volume']['id'])
        self.addCleanup(self.wait, f'volume {made} to be deleted', lambda: volumes.get(
            f'/volumes/{made}', raise_exc=False).status_code == 404)
        self.addCleanup(self.remove_volume, made)
        self.wait(f'volume {made}', lambda: volumes.get(
            f'/volumes/{made}').json()['volume']['status'] == 'available')
        return made

    def remove_volume(self, volume_id: str) -> None:
        """Remove a volume, unless its server has been deleted with it."""
        with contextlib.suppress(keystone_exceptions.NotFound, keystone_exceptions.BadRequest):
            self.drill.volume.delete(f'/volumes/{volume_id}')

    def limits(self, image: str) -> dict[str, str]:
        """Return the limits that are set on an RBD image."""
        with rbd.Image(self.io, image, read_only=True) as opened:
            return {name: value for name, value in opened.metadata_list() if 'qos' in name}

    def disks(self, server_id: str, host: str) -> dict[str, tuple[str, bool, dict[str, str]]]:
        """Return the device, whether it is read-only, and the limits of each disk, by serial."""
        xml = self.host(host).virsh('dumpxml', server_id)
        return {disk.findtext('serial', ''): (
            disk.get('device', ''), disk.find('readonly') is not None,
            {limit.tag: limit.text or '' for limit in disk.iterfind('iotune/*')})
            for disk in ElementTree.fromstring(xml).iterfind('./devices/disk')}

    def test_limits_and_access_of_volumes_are_kept(self) -> None:
        front, back = self.make_volume('front-end'), self.make_volume('back-end')
        only, cdrom = self.make_volume(), self.make_volume()
        self.drill.volume.post(f'/volumes/{only}/action', json={
            'os-update_readonly_flag': {'readonly': True}})
        devices = self.drill.devices('g1', (1,))
        for volume in (front, back, only, cdrom):
            devices.append({'boot_index': -1, 'source_type': 'volume', 'uuid': volume,
                            'destination_type': 'volume', 'delete_on_termination': True})
        devices[-1].update(device_type='cdrom', disk_bus='scsi')
        server = self.boot(block_device_mapping_v2=devices)
        before = self.disks(server.id, base.PRIMARY)
        self.assertEqual(
            [('disk', False, {'total_iops_sec': str(_LIMIT)}), ('disk', False, {}),
             ('disk', True, {}), ('cdrom', True, {})],
            [before[volume] for volume in (front, back, only, cdrom)])
        self.host(base.PRIMARY).virsh('suspend', server.id)
        recovery = self.begin(server)
        self.assertEqual(before, self.disks(server.id, base.BACKUP))
        self.assertEqual({'conf_rbd_qos_iops_limit': str(_LIMIT)},
                         self.limits(overlay.name(f'volume-{back}', recovery.superposition)))
        self.drill.promote(recovery)
        self.drill.adopt(recovery)
        self.assertEqual(before, self.disks(server.id, base.BACKUP))
        self.drill.merged(recovery)
        self.assertEqual(before, self.disks(server.id, base.BACKUP))
        self.assert_plain_and_durable(recovery)
        self.wait_answer(server)

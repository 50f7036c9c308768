# SPDX-License-Identifier: Apache-2.0
"""Servers with encrypted volumes: recovered speculatively, with cipher text only in Ceph."""

import configparser
import contextlib
import json
import os
import subprocess
from typing import Any

from keystoneauth1 import exceptions as keystone_exceptions
import rados
import rbd

from cloud import drill as drills
from cloud.guests import images
from specreds_cinder.superposition.overlay import luks as headers
from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import life
from testing import luks

_BLOCK = 4096
_SAMPLES = 64
_FILL_MIB = 8
_PATTERN = b'\x5a' * _BLOCK
# Cinder lets QEMU measure how fast it is, twice.
_CREATE_SECONDS = 300


class TestEncrypted(life.LifeTestCase):
    """A server boots from a volume that Cinder has encrypted (LUKS, provider luks)."""

    def setUp(self) -> None:
        super().setUp()
        client = rados.Rados(name='client.cinder', conffile=str(self.cloud.ceph.conf))
        client.connect()
        self.addCleanup(client.shutdown)
        self.backend = self.cloud.backends[0]
        self.io = client.open_ioctx(self.backend.pool)
        self.addCleanup(self.io.close)
        conf = configparser.RawConfigParser(strict=False)
        conf.read(self.cloud.files.cinder_conf)
        self.passphrase = conf['key_manager']['fixed_key']
        with images.image('g1').open('rb') as file:
            blocks = iter(lambda: file.read(_BLOCK), b'')
            self.plain = {block for block, _ in zip(
                (block for block in blocks if len(set(block)) > 64), range(_SAMPLES),
                strict=False)}

    def make_type(self) -> str:
        """Create a volume type with encryption, and return its id."""
        name = f'luks-{os.urandom(4).hex()}'
        made = self.drill.volume.post('/types', json={
            'volume_type': {'name': name, 'extra_specs': {
                'volume_backend_name': self.backend.name}}}).json()['volume_type']['id']
        self.addCleanup(self.remove_type, str(made), name)
        self.drill.volume.post(f'/types/{made}/encryption', json={'encryption': {
            'provider': 'luks', 'cipher': 'aes-xts-plain64', 'key_size': 256,
            'control_location': 'front-end'}})
        return str(made)

    def remove_type(self, volume_type: str, name: str) -> None:
        """Remove a volume type as soon as its last volume is deleted."""
        def unused() -> bool:
            volumes = self.drill.volume.get('/volumes/detail').json()['volumes']
            return all(volume['volume_type'] != name for volume in volumes)
        self.wait('the encrypted volumes to be deleted', unused)
        self.drill.volume.delete(f'/types/{volume_type}')

    def make_volume(self) -> str:
        """Create an encrypted volume with a guest's system, and return its id."""
        volume_type = self.make_type()
        for _attempt in range(5):
            made = str(self.drill.volume.post('/volumes', json={'volume': {
                'size': 2, 'volume_type': volume_type}}).json()['volume']['id'])
            self.addCleanup(self.remove_volume, made)

            def status(made: str = made) -> str | None:
                shown = self.drill.volume.get(f'/volumes/{made}').json()['volume']['status']
                return None if shown == 'creating' else str(shown)
            if self.wait('an encrypted volume', status, _CREATE_SECONDS) == 'available':
                break
            # qemu-img makes no LUKS header if a thread's time stood still while it was measured.
            self.remove_volume(made)
        self.refill(f'volume-{made}')
        self.drill.volume.post(f'/volumes/{made}/action',
                               json={'os-set_bootable': {'bootable': True}})
        return made

    def remove_volume(self, volume_id: str) -> None:
        """Remove a volume, unless its server has been deleted with it."""
        with contextlib.suppress(keystone_exceptions.NotFound, keystone_exceptions.BadRequest):
            self.drill.volume.delete(f'/volumes/{volume_id}')

    def refill(self, image: str) -> None:
        """Write a header that is quick to open, and a guest's system, to a volume."""
        with rbd.Image(self.io, image) as opened:
            self.assertEqual(headers.MAGIC, opened.read(0, len(headers.MAGIC)))
            opened.write(luks.header(self.passphrase), 0)
        key = self.scratch() / 'key'
        key.write_text(self.passphrase)
        target = {'driver': 'luks', 'key-secret': 'key', 'file': {
            'driver': 'rbd', 'pool': self.backend.pool, 'image': image, 'user': 'cinder',
            'conf': str(self.cloud.ceph.conf)}}
        subprocess.run(
            ['qemu-img', 'convert', '-n', '-f', 'raw', '--object', f'secret,id=key,file={key}',
             '--target-image-opts', str(images.image('g1')), _options(target)],
            check=True, capture_output=True, timeout=120)

    def boot_encrypted(self) -> drills.Server:
        """Boot a server from an encrypted volume."""
        return self.boot(block_device_mapping_v2=[{
            'boot_index': 0, 'source_type': 'volume', 'uuid': self.make_volume(),
            'destination_type': 'volume', 'delete_on_termination': True}])

    def secrets(self, host: str, server: drills.Server) -> int:
        """Return how many secrets libvirt on a host has for a server's volume."""
        return self.host(host).virsh('secret-list').count(server.volumes[0])

    def assert_cipher_text(self, image: str) -> None:
        """Assert that no object of an image has a block that the guest knows."""
        with rbd.Image(self.io, image, read_only=True) as opened:
            prefix = opened.block_name_prefix()
        names = [item.key for item in self.io.list_objects() if item.key.startswith(prefix)]
        self.assertNotEqual([], names)
        for name in names:
            content = self.io.read(name, 64 << 20)
            blocks = {content[start:start + _BLOCK] for start in range(0, len(content), _BLOCK)}
            self.assertEqual(set(), blocks & self.plain)
            self.assertNotIn(_PATTERN, content)

    def overlay(self, recovery: drills.Recovery) -> str:
        """Return the image of a server's overlay."""
        return f'volume-{recovery.server.volumes[0]}.super-{recovery.superposition[:13]}'

    def assert_unlogged(self) -> None:
        """Assert that the passphrase is in no log."""
        for log in self.cloud.files.root.rglob('*.log'):
            self.assertNotIn(self.passphrase.encode(), log.read_bytes(), str(log))

    def test_encrypted_server_is_adopted_and_merged(self) -> None:
        server = self.boot_encrypted()
        name = self.guest_name(server)
        dropped = self.begin(server)
        self.assertEqual(1, self.secrets(base.BACKUP, server))
        self.drill.abort(dropped)
        self.assertNothingLeft(dropped)
        self.assertEqual(0, self.secrets(base.BACKUP, server))
        self.assertEqual(name, self.guest_name(server))

        recovery = self.promoted(server=server, fill=_FILL_MIB)
        self.assert_cipher_text(self.overlay(recovery))
        self.assert_cipher_text(f'volume-{server.volumes[0]}')
        self.drill.adopt(recovery)
        self.assertNotEqual(name, self.guest_name(server))
        self.drill.merged(recovery)
        self.assert_plain_and_durable(recovery)
        self.assert_filled(recovery, _FILL_MIB)
        self.assert_cipher_text(f'volume-{server.volumes[0]}')
        # Opened anew, the volume has all that the overlay had.
        self.operate(server.id, 'reboot', {'type': 'HARD'})
        self.wait_status(server.id, 'ACTIVE')
        self.wait_answer(server)
        self.assert_filled(recovery, _FILL_MIB)
        self.assert_unlogged()

    def test_cinder_merges_a_stopped_encrypted_server(self) -> None:
        server = self.boot_encrypted()
        recovery = self.promoted(server=server, fill=_FILL_MIB)
        self.host(base.BACKUP).virsh('destroy', server.id)
        self.wait('Cinder to merge', lambda: self.drill.state(recovery) is None)
        self.assert_cipher_text(f'volume-{server.volumes[0]}')
        self.drill.force_down(base.PRIMARY)
        self.drill.evacuate(server, base.BACKUP)
        self.wait_answer(server)
        self.assert_filled(recovery, _FILL_MIB)
        self.assert_unlogged()


def _options(node: dict[str, Any], prefix: str = '') -> str:
    """Return a block node in the form of QEMU's options."""
    words = []
    for name, value in node.items():
        words.append(_options(value, f'{prefix}{name}.') if isinstance(value, dict)
                     else f'{prefix}{name}={json.dumps(value).strip(chr(34))}')
    return ','.join(words)

# SPDX-License-Identifier: Apache-2.0
"""Encrypted volumes: their overlays hold cipher text, and open with the volume's passphrase."""

import json
import pathlib
import subprocess
from typing import Any

import fixtures
import rbd

from specreds_cinder import superposition as sp
from specreds_cinder.superposition.overlay import luks as headers
from specreds_cinder.superposition.overlay import nodes
from specreds_cinder.tests.functional import base
from specreds_cinder.tests.functional import protocol_base
from testing import luks

_PASSPHRASE = '00112233445566778899aabbccddeeff'
_OLD, _NEW = 0x41, 0x5a
_BLOCK = 4096


class EncryptedTest(protocol_base.ProtocolTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.key = pathlib.Path(self.useFixture(fixtures.TempDir()).path) / 'key'
        self.key.write_text(_PASSPHRASE)

    def make_encrypted(self, head: bytes | None = None) -> sp.VolumeRef:
        """Create a volume that begins with a LUKS header."""
        volume = self.make_volume(objects=0)
        with self.open_pool() as io, rbd.Image(io, volume.image) as image:
            image.write(luks.header(_PASSPHRASE) if head is None else head, 0)
        return volume

    def superpose_encrypted(self, ref: sp.VolumeRef) -> sp.Record:
        """Put an encrypted volume into a superposition that ends with the test."""
        record = self.protocol.super([ref], encrypted=[ref])
        self.addCleanup(self.drop, record)
        return record

    def drop(self, record: sp.Record) -> None:
        """End a superposition in whatever state it is."""
        try:
            self.protocol.merge(self.protocol.reload(record), keys=self.keys(record))
        except sp.NotSuperposed:
            pass
        except sp.Conflict:
            self.protocol.abort(record)

    def keys(self, record: sp.Record) -> dict[sp.VolumeRef, str]:
        """Return the passphrases of all volumes of a record."""
        return {volume.ref: _PASSPHRASE for volume in record.volumes}

    def io(self, node: dict[str, Any], *commands: str) -> None:
        """Run qemu-io's commands on a block node that needs the passphrase.

        :raises AssertionError: it reads something else than expected
        """
        words = [word for command in commands for word in ('-c', command)]
        output = subprocess.run(
            ['qemu-io', '--object', f'secret,id={nodes.SECRET},file={self.key}', *words,
             'json:' + json.dumps(node)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=True, timeout=60).stdout
        self.assertNotIn('verification failed', output)
        self.assertEqual(len(commands), output.count(' ops; '), output)

    def child_io(self, record: sp.Record, *commands: str) -> None:
        """Run qemu-io's commands on the child version, and make it durable."""
        self.io(nodes.offline_chain(self.cluster, record.volumes[0]), *commands)
        self.harden(record)

    def volume_io(self, ref: sp.VolumeRef, *commands: str) -> None:
        """Run qemu-io's commands on the volume itself."""
        self.io({'driver': 'luks', 'key-secret': nodes.SECRET, 'file': {
            'driver': 'rbd', 'pool': ref.pool, 'image': ref.image, 'user': 'cinder',
            'conf': str(self.ceph.conf)}}, *commands)

    def assert_no_plain_text(self, *refs: sp.VolumeRef) -> None:
        """Assert that no object of some images has a block of the guest's."""
        with self.open_pool() as io:
            for ref in refs:
                with rbd.Image(io, ref.image, read_only=True) as image:
                    prefix = image.block_name_prefix()
                names = [item.key for item in io.list_objects() if item.key.startswith(prefix)]
                self.assertNotEqual([], names)
                for name in names:
                    content = io.read(name, 64 * base.MIB)
                    for byte in (_OLD, _NEW):
                        self.assertNotIn(bytes([byte]) * _BLOCK, content)

    def test_overlay_holds_no_plain_text_and_is_merged(self) -> None:
        ref = self.make_encrypted()
        self.volume_io(ref, f'write -P {_OLD} 0 8M', f'write -P {_OLD} 29M 1M')
        record = self.superpose_encrypted(ref)
        self.assertEqual(protocol_base.SIZE - (2 << 20), record.volumes[0].disk_bytes)
        self.child_io(record, f'read -P {_OLD} 0 8M', f'write -P {_NEW} 1M 1M',
                      f'write -P {_NEW} 4100k 5k', f'write -P {_NEW} 29M 512k', 'discard 2M 1M')
        self.child_io(record, f'read -P {_OLD} 0 1M', f'read -P {_NEW} 1M 1M', 'read -P 0 2M 1M',
                      f'read -P {_OLD} 4096k 4k', f'read -P {_NEW} 4100k 5k',
                      f'read -P {_OLD} 4105k 3k', f'read -P {_NEW} 29M 512k')
        self.volume_io(ref, f'read -P {_OLD} 0 8M')
        self.assert_no_plain_text(ref, record.volumes[0].overlay_ref)
        subprocess.run(
            ['qemu-img', 'check', '--object', f'secret,id={nodes.SECRET},file={self.key}',
             'json:' + json.dumps(nodes.offline_chain(self.cluster, record.volumes[0]))],
            stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=60)

        self.assertEqual('promoted', self.protocol.collapse(record).outcome)
        refused = self.assertRaises(sp.MergeFailed, self.protocol.merge,
                                    self.protocol.reload(record))
        self.assertIn('passphrase', str(refused))
        self.child_io(record, f'read -P {_NEW} 1M 1M')
        self.protocol.merge(self.protocol.reload(record), keys=self.keys(record))
        self.assert_nothing_left(record)
        self.volume_io(ref, f'read -P {_OLD} 0 1M', f'read -P {_NEW} 1M 1M', 'read -P 0 2M 1M',
                       f'read -P {_OLD} 3M 1M', f'read -P {_NEW} 4100k 5k',
                       f'read -P {_OLD} 4105k 3k', f'read -P {_NEW} 29M 512k',
                       f'read -P {_OLD} 30208k 512k')
        self.assert_no_plain_text(ref)

    def test_wrong_passphrase_merges_nothing(self) -> None:
        ref = self.make_encrypted()
        self.volume_io(ref, f'write -P {_OLD} 0 1M')
        record = self.superpose_encrypted(ref)
        self.child_io(record, f'write -P {_NEW} 0 1M')
        self.assertEqual('promoted', self.protocol.collapse(record).outcome)
        refused = self.assertRaises(sp.MergeFailed, self.protocol.merge,
                                    self.protocol.reload(record), keys={ref: 'another'})
        self.assertNotIn('another', str(refused).replace('another controller', ''))
        self.volume_io(ref, f'read -P {_OLD} 0 1M')
        self.child_io(record, f'read -P {_NEW} 0 1M')

    def test_record_and_objects_have_no_passphrase(self) -> None:
        record = self.superpose_encrypted(self.make_encrypted())
        self.assertNotIn(_PASSPHRASE.encode(), record.dump())
        self.assertEqual(record.volumes, self.protocol.reload(record).volumes)

    def test_volumes_with_another_or_no_luks_header_are_refused(self) -> None:
        second = bytearray(luks.header(_PASSPHRASE))
        second[6:8] = b'\0\2'
        damaged = bytearray(luks.header(_PASSPHRASE))
        damaged[104:108] = b'\xff' * 4
        for head, words in ((bytes(second), 'version 2'), (bytes(damaged), 'damaged'),
                            (b'', 'no LUKS header')):
            ref = self.make_encrypted(head)
            refused = self.assertRaises(sp.NotEligible, self.protocol.super, [ref],
                                        encrypted=[ref])
            self.assertIn(words, str(refused))
        self.assertEqual(headers.MAGIC, luks.header(_PASSPHRASE)[:6])

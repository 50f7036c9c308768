# SPDX-License-Identifier: Apache-2.0
"""The capabilities of client.cinder are sufficient for the protocol, and each is necessary."""

import errno
import json
import pathlib
import stat
from typing import Any
import uuid

import ddt
import rados
import rbd

from cloud import caps
from specreds_cinder import capabilities
from specreds_cinder.tests.functional import base

# Documentation addresses: no client of a cluster has them.
CLIENTS = ('192.0.2.7:0/4711', '[2001:db8::7]:0/4711')
HOSTS = ('192.0.2.7', '192.0.2.7:0/0')
OSD = caps.cinder(['volumes'])['osd']
UNFENCE = caps.CINDER_MON.removeprefix('profile rbd, ')


def monitor(client: 'rados.Rados', prefix: str, **words: Any) -> tuple[int, bytes]:
    """Return the monitor's (negative) error number, 0 for none, and its answer."""
    result, output, _ = client.mon_command(
        json.dumps({'prefix': prefix, 'format': 'json', **words}), b'')
    return result, output


def fence(client: 'rados.Rados', address: str) -> int:
    return monitor(client, 'osd blocklist', blocklistop='add', addr=address, expire=60.0)[0]


def unfence(client: 'rados.Rados', address: str) -> int:
    return monitor(client, 'osd blocklist', blocklistop='rm', addr=address)[0]


class CapsTestCase(base.FunctionalTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(self._unfence_all)

    def _unfence_all(self) -> None:
        for address in (*CLIENTS, HOSTS[1]):
            unfence(self.administrator, address)

    def fenced(self) -> set[str]:
        """Return the blocklist; `osd blocklist ls` of some releases answers in invalid JSON."""
        result, osdmap = monitor(self.cinder, 'osd dump')
        self.assertEqual(0, result)
        return set(json.loads(osdmap)['blocklist'])


@ddt.ddt
class SufficientTest(CapsTestCase):
    """Every operation of the protocol works as client.cinder."""

    @ddt.data(*CLIENTS)
    def test_client_can_be_fenced_and_unfenced(self, address: str) -> None:
        self.assertEqual(0, fence(self.cinder, address))
        self.assertIn(address, self.fenced())
        self.assertEqual(0, unfence(self.cinder, address))
        self.assertNotIn(address, self.fenced())

    @ddt.data(('osd dump', {}), ('osd blocklist ls', {}), ('osd pool ls', {'detail': 'detail'}),
              ('osd stat', {}), ('mon dump', {}), ('status', {}), ('df', {}))
    @ddt.unpack
    def test_monitor_answers_queries(self, prefix: str, words: dict[str, Any]) -> None:
        self.assertEqual(0, monitor(self.cinder, prefix, **words)[0])

    @ddt.data('osd stat', 'osd blocklist ls')
    def test_monitor_answers_queries_of_sentinels(self, prefix: str) -> None:
        sentinel = self.make_user(capabilities.sentinel([self.pool]))
        self.assertEqual(0, monitor(sentinel, prefix)[0])

    @ddt.data('', 'tenant')
    def test_image_can_be_used_and_removed(self, namespace: str) -> None:
        if namespace:
            namespace = f'{namespace}-{uuid.uuid4().hex[:8]}'
            with self.open_pool() as io:
                rbd.RBD().namespace_create(io, namespace)
            self.addCleanup(self._remove_namespace, namespace)
        volume = self.make_image('caps', 64 * base.MIB, objects=4, namespace=namespace)
        with self.open_pool(namespace=namespace) as io:
            with rbd.Image(io, volume.image) as image:
                self.assertEqual(b'\xa5' * 4096, image.read(0, 4096))
                image.metadata_set('key', 'value')
                image.update_features(
                    rbd.RBD_FEATURE_OBJECT_MAP | rbd.RBD_FEATURE_FAST_DIFF, False)
                image.discard(0, 4 * base.MIB)
                image.resize(32 * base.MIB)
                self.assertEqual(1, len(list(image.watchers_list())))
                self.assertEqual(1, len(list(image.lock_get_owners())))
            rbd.RBD().remove(io, volume.image)
            self.assertNotIn(volume.image, rbd.RBD().list(io))

    def _remove_namespace(self, namespace: str) -> None:
        with self.administrator.open_ioctx(self.pool) as io:
            rbd.RBD().namespace_remove(io, namespace)

    def test_erasure_coded_image_can_be_read(self) -> None:
        data = self.make_pool('caps-data', pg_num=8, erasure=True)
        volume = self.make_image('caps', 64 * base.MIB, objects=4, data_pool=data)
        with self.open_pool() as io, rbd.Image(io, volume.image, read_only=True) as image:
            self.assertEqual(b'\xa5' * 4096, image.read(12 * base.MIB, 4096))

    def test_objects_can_be_written_atomically(self) -> None:
        name = f'caps-{uuid.uuid4().hex[:8]}'
        with self.open_pool() as io:
            with rados.WriteOpCtx() as create:
                create.new(rados.LIBRADOS_CREATE_EXCLUSIVE)
                create.write_full(b'first')
                io.set_omap(create, ('key',), (b'value',))
                io.operate_write_op(create, name)
            version = io.get_last_version()
            io.write_full(name, b'second')
            self.assertGreater(io.get_last_version(), version)
            io.set_xattr(name, 'key', b'value')
            self.assertEqual(6, io.stat(name)[0])
            self.assertIn(name, [item.key for item in io.list_objects()])
            io.remove_object(name)


@ddt.ddt
class MinimalTest(CapsTestCase):
    """Without one of the capabilities, the operation that needs it fails."""

    def test_fencing_needs_the_monitor_profile(self) -> None:
        client = self.make_user({'mon': f'allow r, {UNFENCE}', 'osd': OSD})
        self.assertEqual(-errno.EACCES, fence(client, CLIENTS[0]))
        self.assertEqual(0, fence(self.cinder, CLIENTS[0]))
        self.assertEqual(0, unfence(client, CLIENTS[0]))

    def test_unfencing_needs_its_own_grant(self) -> None:
        client = self.make_user({'mon': 'profile rbd', 'osd': OSD})
        self.assertEqual(0, fence(client, CLIENTS[0]))
        self.assertEqual(-errno.EACCES, unfence(client, CLIENTS[0]))
        self.assertIn(CLIENTS[0], self.fenced())

    @ddt.data('osd dump', 'osd blocklist ls')
    def test_reading_the_blocklist_needs_the_monitor_profile(self, prefix: str) -> None:
        client = self.make_user({'mon': f'allow service mon r, {UNFENCE}', 'osd': OSD})
        self.assertEqual(-errno.EACCES, monitor(client, prefix)[0])

    @ddt.data('profile rbd-read-only pool=volumes', 'profile rbd pool=elsewhere')
    def test_writing_needs_the_osd_profile(self, grant: str) -> None:
        client = self.make_user({'mon': caps.CINDER_MON, 'osd': grant})
        with client.open_ioctx(self.pool) as io:
            self.assertRaises(rados.PermissionError, io.write_full, 'caps', b'')

    def test_reading_needs_the_osd_profile(self) -> None:
        client = self.make_user({'mon': caps.CINDER_MON, 'osd': 'profile rbd pool=elsewhere'})
        with client.open_ioctx(self.pool) as io:
            self.assertRaises(rados.PermissionError, io.stat, 'caps')

    def test_reading_fails_without_any_osd_grant(self) -> None:
        client = self.make_user({'mon': caps.CINDER_MON}, rados_osd_op_timeout='3')
        with client.open_ioctx(self.pool) as io:
            error = self.assertRaises(rados.Error, io.stat, 'caps')
        # Some releases give such a client no ticket, and its requests are never answered.
        self.assertIsInstance(error, rados.PermissionError | rados.TimedOut)


@ddt.ddt
class LimitsTest(CapsTestCase):
    """Operations that client.cinder is refused."""

    def test_host_cannot_be_fenced(self) -> None:
        self.assertEqual(-errno.EACCES, fence(self.cinder, HOSTS[0]))

    @ddt.data(*HOSTS)
    def test_host_cannot_be_unfenced(self, address: str) -> None:
        self.assertEqual(0, fence(self.administrator, address))
        self.assertEqual(-errno.EACCES, unfence(self.cinder, address))
        self.assertIn(HOSTS[1], self.fenced())

    @ddt.data(
        ('osd blocklist clear', {}),
        ('osd pool create', {'pool': 'mine', 'pg_num': 1}),
        ('osd pool rm', {'pool': 'volumes', 'pool2': 'volumes',
                         'yes_i_really_really_mean_it': True}),
        ('osd pool set', {'pool': 'volumes', 'var': 'size', 'val': '1'}),
        ('osd set', {'key': 'noout'}),
        ('auth ls', {}),
        ('auth get-key', {'entity': 'client.admin'}),
        ('config-key ls', {}),
    )
    @ddt.unpack
    def test_cluster_cannot_be_administered(self, prefix: str, words: dict[str, Any]) -> None:
        self.assertEqual(-errno.EACCES, monitor(self.cinder, prefix, **words)[0])

    def test_other_pool_cannot_be_read(self) -> None:
        pool = self.make_pool('caps-other', pg_num=8, grant=False)
        with self.cinder.open_ioctx(pool) as io:
            self.assertRaises(rados.PermissionError, io.stat, 'caps')


class SecretTest(base.FunctionalTestCase):
    """A key is in its keyring, which only its owner can read, and nowhere else."""

    def keyrings(self) -> list[pathlib.Path]:
        paths = [path for path in self.ceph.files.root.glob('**/*')
                 if path.name.endswith('keyring')]
        self.assertIn(self.ceph.files.keyring('client.cinder'), paths)
        return paths

    def test_keyring_is_readable_by_its_owner_only(self) -> None:
        for path in self.keyrings():
            self.assertEqual(0o600, stat.S_IMODE(path.stat().st_mode), str(path))

    def test_key_is_no_argument_and_in_no_log(self) -> None:
        keys = {line.split('=', 1)[1].strip().encode()
                for path in self.keyrings() for line in path.read_text().splitlines()
                if line.strip().startswith('key =')}
        self.assertGreaterEqual(len(keys), 2)
        places = [*self.ceph.files.log.iterdir(),
                  *(process / 'cmdline' for process in pathlib.Path('/proc').glob('[0-9]*'))]
        for place in places:
            try:
                text = place.read_bytes()
            except OSError:
                # The process has ended meanwhile.
                continue
            for key in keys:
                self.assertNotIn(key, text, str(place))

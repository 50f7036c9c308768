# SPDX-License-Identifier: Apache-2.0
"""The Ceph configuration of backups: what librados reads in it."""

import pathlib

import ddt
import fixtures
import rados
import testtools

from specreds_nova.host.disks import backup_clients

_HOST = """\
[global]
fsid = 0f9c2c7e-8a77-4e4b-b6d0-0a9a4b6c9d01
mon host = 192.0.2.1
key = c2VjcmV0
[client]
rbd blocklist on break lock = true
log file =
[client.cinder]
rbd_blocklist_on_break_lock = true
rbd_cache_\\
policy = writearound
keyring = /etc/ceph/cinder.keyring
rbd_cache_size = 1048576
"""


@ddt.ddt
class TextTest(testtools.TestCase):

    def read(self, host: str) -> rados.Rados:
        """Return what librados reads in the configuration made from a host's."""
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'ceph.conf')
        path.write_text(backup_clients.text(host))
        return rados.Rados(conffile=str(path), rados_id='cinder')

    @ddt.data(_HOST, '', '[global]\nmon host = 192.0.2.1', '[client]\nlog file =\n')
    def test_options_of_backups_are_set(self, host: str) -> None:
        client = self.read(host)
        self.assertEqual(backup_clients.OPTIONS, {
            option: client.conf_get(option) for option in backup_clients.OPTIONS})

    def test_other_options_are_those_of_the_host(self) -> None:
        client = self.read(_HOST)
        self.assertEqual(('192.0.2.1', '1048576', '/etc/ceph/cinder.keyring'), tuple(
            client.conf_get(option) for option in ('mon_host', 'rbd_cache_size', 'keyring')))

    def test_keys_are_left_out(self) -> None:
        self.assertNotIn('c2VjcmV0', backup_clients.text(_HOST))

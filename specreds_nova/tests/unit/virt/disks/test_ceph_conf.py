# SPDX-License-Identifier: Apache-2.0
"""The Ceph configuration of backups: what librados reads in it, and when it is written."""

import pathlib
import stat

import ddt
import fixtures
import rados

from specreds_nova import exception
from specreds_nova.tests.unit.virt import base
from specreds_nova.virt.disks import ceph_conf

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
policy = writethrough
keyring = /etc/ceph/cinder.keyring
rbd_cache_size = 1048576
"""


@ddt.ddt
class TextTest(base.TestCase):

    def read(self, host: str) -> rados.Rados:
        """Return what librados reads in the configuration made from a host's."""
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'ceph.conf')
        path.write_text(ceph_conf.text(host))
        return rados.Rados(conffile=str(path), rados_id='cinder')

    @ddt.data(_HOST, '', '[global]\nmon host = 192.0.2.1', '[client]\nlog file =\n')
    def test_options_of_backups_are_set(self, host: str) -> None:
        client = self.read(host)
        self.assertEqual(ceph_conf.OPTIONS, {
            option: client.conf_get(option) for option in ceph_conf.OPTIONS})

    def test_other_options_are_those_of_the_host(self) -> None:
        client = self.read(_HOST)
        self.assertEqual(('192.0.2.1', '1048576', '/etc/ceph/cinder.keyring'), tuple(
            client.conf_get(option) for option in ('mon_host', 'rbd_cache_size', 'keyring')))

    def test_keys_are_left_out(self) -> None:
        self.assertNotIn('c2VjcmV0', ceph_conf.text(_HOST))


class PathTest(base.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.place = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.host = self.place / 'ceph.conf'
        self.host.write_text(_HOST)
        self.conf.config(state_path=str(self.place))
        self.conf.config(group='libvirt', images_rbd_ceph_conf=str(self.host))

    def test_file_is_written_once_and_readable_by_all(self) -> None:
        path = pathlib.Path(ceph_conf.path())
        self.assertEqual(self.place / 'specreds-ceph.conf', path)
        self.assertEqual(0o644, stat.S_IMODE(path.stat().st_mode))
        before = path.stat()
        self.assertEqual(str(path), ceph_conf.path())
        self.assertEqual(before, path.stat())
        self.assertEqual({'ceph.conf', path.name}, {each.name for each in self.place.iterdir()})

    def test_file_is_written_again_after_a_change_of_the_hosts(self) -> None:
        path = pathlib.Path(ceph_conf.path())
        self.host.write_text(_HOST.replace('192.0.2.1', '192.0.2.9'))
        ceph_conf.path()
        self.assertIn('192.0.2.9', path.read_text())

    def test_host_without_a_configuration_has_no_file(self) -> None:
        self.host.unlink()
        self.assertIn('[client]', pathlib.Path(ceph_conf.path()).read_text())

    def test_directory_can_be_configured(self) -> None:
        self.conf.config(group='specreds', backup_ceph_conf=str(self.place / 'other.conf'))
        self.assertEqual(str(self.place / 'other.conf'), ceph_conf.path())

    def test_unwritable_directory_is_an_error(self) -> None:
        self.conf.config(group='specreds', backup_ceph_conf=str(self.place / 'no' / 'x.conf'))
        error = self.assertRaises(exception.StartFailed, ceph_conf.path)
        self.assertIn('x.conf', str(error))

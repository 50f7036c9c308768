# SPDX-License-Identifier: Apache-2.0
"""The file with the Ceph configuration of backups: when it is written."""

import pathlib
import stat

import fixtures

from specreds_nova import exception
from specreds_nova.host.disks import ceph_conf
from specreds_nova.tests.unit.host import base

_HOST = '[global]\nmon host = 192.0.2.1\n'


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

    def test_unwritable_directory_is_an_error(self) -> None:
        self.conf.config(state_path=str(self.place / 'no'))
        error = self.assertRaises(exception.StartFailed, ceph_conf.path)
        self.assertIn('specreds-ceph.conf', str(error))

# SPDX-License-Identifier: Apache-2.0
import pathlib
import tarfile
from unittest import mock

import fixtures
import testtools

from cloud import commands
from cloud.guests import build
from cloud.guests import g1
from cloud.guests import packages

_LIBRARIES = 'usr/lib/x86_64-linux-gnu'
_FILES = ('usr/sbin/dhcp6c', f'{_LIBRARIES}/libfl.so.2.0.0', f'{_LIBRARIES}/libc.so.6',
          f'{_LIBRARIES}/ld-linux-x86-64.so.2')


class TestArchive(testtools.TestCase):
    """The client of DHCPv6 on the guest's disk."""

    def setUp(self) -> None:
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.shop = mock.Mock(spec=build.Workshop, root=self.root,
                              debs=dict.fromkeys(g1._PACKAGES, self.root))
        self.useFixture(fixtures.MockPatchObject(packages, 'extract', self._extract))

    def _extract(self, deb: pathlib.Path, target: pathlib.Path) -> None:
        for name in _FILES:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_text(name)
        link = target / _LIBRARIES / 'libfl.so.2'
        link.unlink(missing_ok=True)
        link.symlink_to('libfl.so.2.0.0')

    def test_archive_has_the_client_and_its_libraries_as_files(self) -> None:
        g1._archive(self.shop, self.root / 'client.tar')
        with tarfile.open(self.root / 'client.tar') as archive:
            self.assertEqual(set(g1._CLIENT), set(archive.getnames()))
            self.assertTrue(all(member.isfile() for member in archive.getmembers()))

    def test_package_without_the_client_is_an_error(self) -> None:
        self.useFixture(fixtures.MockPatchObject(packages, 'extract'))
        self.assertRaises(commands.CloudError, g1._archive, self.shop, self.root / 'client.tar')

    def test_guest_reads_the_archive_where_it_begins(self) -> None:
        script = (build.FILES / 'g1' / 'dhcpv6').read_text()
        self.assertIn(f'bs=1M skip={g1._ARCHIVE >> 20}', script)

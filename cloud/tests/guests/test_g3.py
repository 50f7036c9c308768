# SPDX-License-Identifier: Apache-2.0
"""The root of the ordinary guest before its packages install themselves."""

import os
import pathlib
from unittest import mock

import fixtures
import testtools

from cloud import commands
from cloud.guests import build
from cloud.guests import g3
from cloud.guests import packages


class RootTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        debs = {name: self.root / f'{name}_1_all.deb' for name in ('dpkg', 'netplan', 'mtools')}
        for deb in debs.values():
            deb.touch()
        self.shop = mock.Mock(spec=build.Workshop, root=self.root, debs=debs)
        self.unpacked: list[str] = []
        self.useFixture(fixtures.MockPatchObject(packages, 'extract', self.extract))

    def extract(self, deb: pathlib.Path, target: pathlib.Path, exclude: list[str]) -> None:
        self.unpacked.append(deb.name)
        self.assertIn('./usr/share/man/*', exclude)
        (target / 'etc/dpkg/dpkg.cfg.d').mkdir(parents=True, exist_ok=True)
        (target / 'bin/dpkg').touch()

    def test_root_has_all_files_and_packages_but_the_tools(self) -> None:
        root = self.root / 'root'
        g3._unpack(self.shop, root)
        self.assertEqual(['dpkg_1_all.deb', 'netplan_1_all.deb'], self.unpacked)
        self.assertEqual(set(self.unpacked),
                         {deb.name for deb in (root / 'furnish/debs').iterdir()})
        self.assertTrue((root / 'usr/bin/dpkg').exists())
        self.assertIn('path-exclude=/usr/share/man/*',
                      (root / 'etc/dpkg/dpkg.cfg.d/guest').read_text())
        self.assertTrue(os.access(root / 'furnish/furnish', os.X_OK))
        self.assertIn('CREATE TABLE', (root / 'furnish/schema.sql').read_text())

    def test_guest_needs_root(self) -> None:
        with mock.patch.object(os, 'geteuid', return_value=1000):
            self.assertRaises(commands.CloudError, g3._make, self.shop, self.root / 'disk.raw')

# SPDX-License-Identifier: Apache-2.0
"""What the tests of ``./run matrix`` share."""

import pathlib

import fixtures
import testtools

from cloud.matrix import platforms

DEBIAN = platforms.PLATFORMS['debian-13']
UBUNTU = platforms.PLATFORMS['ubuntu-24.04']
# Packages of a root, as dpkg-query lists them.
LISTING = """\
ceph-common 18.2.7+ds-1+deb13u1
libvirt-daemon 11.3.0-3+deb13u2
openvswitch-switch 3.5.0-1+b1
python3 3.13.5-1
qemu-system-x86 1:10.0.8+ds-0+deb13u1+b2
removed
"""


class MatrixTest(testtools.TestCase):
    """A test with a data directory."""

    def setUp(self) -> None:
        super().setUp()
        self.data = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

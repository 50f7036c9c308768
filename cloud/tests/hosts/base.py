# SPDX-License-Identifier: Apache-2.0
"""A cloud with compute hosts, as far as its files."""

import pathlib

import fixtures
import testtools

from cloud import layout as ceph_layout
from cloud.hosts import conf
from cloud.hosts import layout as hosts_layout
from cloud.openstack import credentials
from cloud.openstack import layout

KEY = 'AQBAK2VmYTM1NRAAsecretsecretsecret=='


class HostsTestCase(testtools.TestCase):
    """A cloud of three hosts with two back ends; ``files`` are those of its second host."""

    def setUp(self) -> None:
        super().setUp()
        self.data = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.cloud = layout.Layout(self.data)
        self.settings = layout.Settings(hosts=3)
        self.backends = self.cloud.own_backends(2)
        self.files = hosts_layout.Layout(self.cloud, self.settings, 2)

    def make_ceph(self) -> None:
        """Create a cluster's files, and those of the users of the back ends."""
        self.cloud.ceph.mkdir()
        ceph_layout.Layout(self.cloud.ceph).save(ceph_layout.Settings(
            port=self.settings.ceph_port, host=self.settings.storage_host))
        for backend in self.backends:
            keyring = self.cloud.ceph / f'client.{backend.user}.keyring'
            keyring.write_text(f'[client.{backend.user}]\n\tkey = {KEY}\n\tcaps mon = "x"\n')
            pathlib.Path(backend.conf).write_text(
                f'[global]\nfsid = f\n\n[client]\nkeyring = {keyring}\nlog file =\n')

    def write(self, settings: layout.Settings | None = None) -> conf.Writer:
        """Write the configuration of the second host, and return its writer."""
        self.make_ceph()
        credentials.create(self.cloud)
        files = hosts_layout.Layout(self.cloud, settings or self.settings, 2)
        writer = conf.Writer(files, credentials.load(self.cloud), self.backends, 'qemu')
        writer.write()
        return writer

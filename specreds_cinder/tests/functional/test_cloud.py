# SPDX-License-Identifier: Apache-2.0
"""The one-machine Ceph itself: a second one beside the tests' own, on IPv6."""

import pathlib
import tempfile

import rados

from cloud import ceph
from cloud import commands
from cloud import layout
from specreds_cinder.tests.functional import base


class SecondClusterTest(base.FunctionalTestCase):

    def setUp(self) -> None:
        super().setUp()
        # Sockets need a short path, so this is not below the data directory of the tests.
        self.data = pathlib.Path(tempfile.mkdtemp(prefix='ceph-')) / 'data'
        self.addCleanup(self.data.parent.rmdir)
        self.second = ceph.Ceph(self.data, port=self.ceph.settings.port + layout.PORTS, osds=1,
                                ipv6=True, pg_num=8)
        self.addCleanup(self.second.wipe)

    def read(self) -> bytes:
        client = rados.Rados(name='client.cinder', conffile=str(self.second.conf))
        with client, client.open_ioctx(ceph.VOLUMES) as io:
            data: bytes = io.read('kept')
        return data

    def test_second_cluster_starts_fails_restarts_and_is_wiped(self) -> None:
        try:
            self.second.up()
        except commands.CloudError as exc:
            if 'IPv6 is disabled' in str(exc):
                self.skipTest(str(exc))
            raise
        client = self.connect(self.second.conf, 'client.cinder')
        with client.open_ioctx(ceph.VOLUMES) as io:
            io.write_full('kept', b'data')
        self.assertIn('[::1]', str(client.get_addrs()))
        self.assertNotEqual(self.ceph.settings.fsid, client.get_fsid())

        self.second.kill_daemon('osd.0')
        self.assertEqual('STOPPED', self.state('osd.0'))
        self.second.start_daemon('osd.0')
        self.second.wait_clean()
        self.assertEqual(b'data', self.read())

        self.second.down()
        self.assertEqual('DOWN', self.second.status().health)
        again = ceph.Ceph(self.data)
        again.up()
        again.up()
        self.assertEqual(b'data', self.read())

        again.wipe()
        self.assertFalse(self.data.exists())
        self.assertEqual('HEALTH_OK', self.ceph.status().health)

    def state(self, daemon: str) -> str:
        states = {process.name: process.state for process in self.second.status().processes}
        return states[daemon]

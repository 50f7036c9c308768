# SPDX-License-Identifier: Apache-2.0
"""The clients that sweep read from primary OSDs, whatever ceph.conf says."""

import pathlib
from typing import Any

import cffi
import fixtures

from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.ceph import librados
from specreds_cinder.tests.functional import protocol_base

_OPTION = 'rados_replica_read_policy'
_LONGEST = 64


class ReplicaReadsTest(protocol_base.ProtocolTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.conf = pathlib.Path(self.useFixture(fixtures.TempDir()).path) / 'ceph.conf'
        self.conf.write_text(f'{self.ceph.conf.read_text()}\n[client]\n{_OPTION} = balance\n')

    def test_both_clients_read_from_primary_osds(self) -> None:
        plain = self.connect(self.conf, 'client.cinder')
        if plain.conf_get(_OPTION) is None:
            self.skipTest(f'this release of Ceph has no option {_OPTION}: all reads go to the '
                          f'primary OSD')
        self.assertEqual('balance', plain.conf_get(_OPTION))
        with ceph.Cluster(str(self.conf), 'cinder') as cluster:
            self.assertEqual('default', cluster.rados.conf_get(_OPTION))
            self.assertEqual('default', self.option_of(cluster.aio))

    def test_superposition_works_with_replica_reads_in_the_configuration(self) -> None:
        with ceph.Cluster(str(self.conf), 'cinder') as cluster:
            protocol = type(self.protocol)(cluster, self.settings)
            volume = self.make_volume()
            primary = self.make_primary(volume)
            record = protocol.super([volume])
            self.addCleanup(self.drop, record)
            self.assertEqual('promoted', protocol.collapse(record).outcome)
            self.assertEqual(protocol_base.DEAD, primary.write(0))

    @staticmethod
    def option_of(client: librados.Client) -> str:
        """Return the value of the option that librados has for a client of this package."""
        ffi = cffi.FFI()
        ffi.cdef('int rados_conf_get(void *cluster, const char *option, char *buf, size_t len);')
        buffer = ffi.new('char[]', _LONGEST)
        library: Any = ffi.dlopen('librados.so.2')
        code = library.rados_conf_get(
            ffi.cast('void *', int(librados._ffi.cast('uintptr_t', client._handle))),
            _OPTION.encode(), buffer, _LONGEST)
        if code < 0:
            raise AssertionError(f'rados_conf_get ended with {code}')
        value: Any = ffi.string(buffer)
        return str(value.decode())

# SPDX-License-Identifier: Apache-2.0
"""A host's clients are shut out of volumes that have no superposition."""

import signal
from unittest import mock
import uuid

import rbd

from specreds_cinder import superposition as sp
from specreds_cinder.superposition.ceph import address
from specreds_cinder.superposition.ceph import librados
from specreds_cinder.tests.functional import protocol_base

# A multi-attach volume has only these features.
SHARED = {'features': rbd.RBD_FEATURE_LAYERING}


class HostFenceTest(protocol_base.ProtocolTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.fence_id = str(uuid.uuid4())

    def shut_out(self, *targets: sp.Target) -> set[str]:
        """Fence, and return the fenced clients of all targets."""
        fenced = self.protocol.shut_out(targets, self.fence_id)
        return {client for clients in fenced.values() for client in clients}

    def test_every_client_of_an_exclusive_volume_is_fenced(self) -> None:
        volume, other = self.make_volume(), self.make_volume()
        primary, neighbour = self.make_primary(volume), self.make_primary(other)
        before = self.fenced()
        self.assertEqual(primary.clients, self.shut_out(sp.Target(volume)))
        self.assertEqual(primary.clients, self.fenced() - before)
        self.assertEqual(protocol_base.DEAD, primary.write(0))
        self.assertEqual(0, neighbour.write(0))

    def test_hung_client_of_a_shared_volume_is_fenced_when_it_was_noted(self) -> None:
        volume = self.make_volume(**SHARED)
        primary = self.make_primary(volume)
        self.protocol.note([volume], self.fence_id)
        primary.signal(signal.SIGSTOP)
        self.addCleanup(primary.signal, signal.SIGCONT)
        hosts = frozenset(address.host(client) for client in primary.clients)
        with mock.patch('specreds_cinder.superposition.ceph.volume.clients',
                        return_value=frozenset()), \
                mock.patch('specreds_cinder.superposition.ceph.volume._addresses',
                           return_value=frozenset()):
            # Its watch has expired.
            fenced = self.shut_out(sp.Target(volume, hosts, 1))
        self.assertEqual(primary.clients, fenced)
        primary.signal(signal.SIGCONT)
        self.assertEqual(protocol_base.DEAD, primary.write(0))

    def test_client_that_was_noted_is_known_when_its_watch_has_expired(self) -> None:
        volume = self.make_volume()
        primary = self.make_primary(volume)
        self.protocol.note([volume], self.fence_id)
        with mock.patch('specreds_cinder.superposition.ceph.volume.clients',
                        return_value=frozenset()):
            self.assertEqual([primary.clients], self.protocol.clients([volume], self.fence_id))
            # Clients of another fence may have ended since.
            self.assertEqual([frozenset()],
                             self.protocol.clients([volume], str(uuid.uuid4())))

    def test_client_of_an_earlier_fence_or_superposition_is_noted_again(self) -> None:
        volume = self.make_volume()
        primary = self.make_primary(volume)
        self.protocol.abort(self.superpose(volume))
        for fence_id in (self.fence_id, str(uuid.uuid4())):
            self.protocol.note([volume], fence_id)
            self.assertEqual([primary.clients], self.protocol.noted([volume], fence_id))

    def test_shared_volume_without_a_known_client_is_refused(self) -> None:
        volume = self.make_volume(**SHARED)
        primary = self.make_primary(volume)
        before = self.fenced()
        self.assertRaises(sp.ClientsUnknown, self.shut_out,
                          sp.Target(volume, frozenset({'192.0.2.1'}), 1))
        self.assertEqual(before, self.fenced())
        self.assertEqual(0, primary.write(0))

    def test_clients_of_other_hosts_live(self) -> None:
        volume = self.make_volume(**SHARED)
        primary = self.make_primary(volume)
        self.assertEqual(set(), self.shut_out(sp.Target(volume, frozenset({'192.0.2.1'}))))
        self.assertEqual(0, primary.write(0))

    def test_fence_may_be_repeated(self) -> None:
        volume = self.make_volume()
        primary = self.make_primary(volume)
        for _ in range(2):
            self.assertEqual(primary.clients, self.shut_out(sp.Target(volume)))
        self.assertEqual(primary.clients, self.protocol.note([volume], self.fence_id)[0])

    def test_every_placement_group_has_the_fence(self) -> None:
        volume = self.make_volume()
        self.make_primary(volume)
        order: list[str] = []
        write = librados.IoCtx.write_answered

        def marked(io: librados.IoCtx, names: list[bytes], *arguments: object) -> object:
            order.append(f'{len(names)} markers')
            return write(io, names, *arguments)  # type: ignore[arg-type]
        pg_num = next(pool.pg_num for pool in self.cluster.pools().values()
                      if pool.name == self.pool)
        with mock.patch.object(librados.IoCtx, 'write_answered', marked), \
                sp.trace.observe(self.at('fence.add', 'after', lambda: order.append('fence'))):
            self.shut_out(sp.Target(volume))
        self.assertEqual(['fence', f'{pg_num} markers'], order)

    def test_superposed_volume_is_refused(self) -> None:
        volume = self.make_volume()
        primary = self.make_primary(volume)
        self.superpose(volume)
        self.assertRaises(sp.AlreadySuperposed, self.shut_out, sp.Target(volume))
        self.assertRaises(sp.AlreadySuperposed, self.protocol.note, [volume], self.fence_id)
        self.assertEqual(0, primary.write(0))

    def test_missing_volume_is_refused(self) -> None:
        missing = sp.VolumeRef(self.pool, '', 'missing')
        self.assertRaises(sp.VolumeGone, self.shut_out, sp.Target(missing))

    def test_later_superposition_fences_the_noted_clients(self) -> None:
        volume = self.make_volume()
        primary = self.make_primary(volume)
        self.protocol.note([volume], self.fence_id)
        primary.close()
        record = self.superpose(volume)
        self.assertEqual('promoted', self.protocol.collapse(record).outcome)
        self.assertTrue(primary.clients <= self.fenced())

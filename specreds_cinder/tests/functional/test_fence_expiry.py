# SPDX-License-Identifier: Apache-2.0
"""A blocklist entry expires by itself, but not while it is needed."""

from collections.abc import Mapping
import threading

from specreds_cinder import superposition as sp
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.functional import protocol_base


class ExpiryTest(protocol_base.ProtocolTestCase):

    def make_promoted(self, expiry_s: int) -> tuple[sp.Protocol, sp.Record, set[str]]:
        """Promote with a fence of some seconds."""
        volume = self.make_volume()
        primary = self.make_primary(volume)
        record = self.superpose(volume)
        protocol = sp.Protocol(self.cluster, sp.Settings(fence_expiry_s=expiry_s))
        self.assertEqual('promoted', protocol.collapse(record).outcome)
        return protocol, protocol.reload(record), set(primary.clients)

    def remaining(self, clients: set[str]) -> float:
        """Return the seconds until the first entry of the clients expires."""
        left = self.protocol.fence.remaining()
        return min(left[client] for client in clients)

    def longer(self, expiry_s: int) -> sp.Protocol:
        """Return another controller with longer fences."""
        return sp.Protocol(self.cluster, sp.Settings(fence_expiry_s=expiry_s))

    def test_fence_with_less_than_half_its_time_is_renewed(self) -> None:
        protocol, record, clients = self.make_promoted(1000)
        self.assertTrue(900 < self.remaining(clients) <= 1000)
        left = protocol.fence_left(record)
        assert left is not None
        self.assertTrue(900 < left <= 1000)
        self.assertEqual([], protocol.renew(record))
        self.assertEqual([], self.longer(1500).renew(record))
        self.assertEqual(clients, set(self.longer(4000).renew(record)))
        self.assertGreater(self.remaining(clients), 3900)

    def test_missing_fence_is_renewed(self) -> None:
        protocol, record, clients = self.make_promoted(1000)
        protocol.fence.open(clients)
        self.assertEqual(clients, set(protocol.renew(record)))
        self.assertTrue(clients <= self.fenced())

    def test_blocklist_is_copied_again_when_it_has_changed(self) -> None:
        fence, mon, client = self.protocol.fence, self.cluster.mon, '192.0.2.7:0/4711'
        commands: list[object] = []

        def record(command: Mapping[str, object]) -> object:
            commands.append(command['prefix'])
            return mon(command)
        self.patch(self.cluster, 'mon', record)
        for _ in range(50):
            self.assertNotIn(client, fence.copied())
        # Ceph itself may change the osdmap meanwhile.
        self.assertLess(commands.count('osd blocklist ls'), 25)
        fence.close([client])
        self.addCleanup(fence.open, [client])
        self.assertIn(client, fence.copied())
        fence.open([client])
        self.assertNotIn(client, fence.copied())

    def test_merge_renews_the_fence(self) -> None:
        _protocol, record, clients = self.make_promoted(1000)
        self.longer(4000).merge(record)
        self.assertGreater(self.remaining(clients), 3900)

    def test_entry_of_another_client_is_prolonged(self) -> None:
        volume = self.make_volume()
        primary = self.make_primary(volume)
        record = self.superpose(volume)
        # librbd does this when it breaks a lock.
        for client in primary.clients:
            self.ceph.admin(['osd', 'blocklist', 'add', client, '100'])
        self.assertEqual('promoted', self.protocol.collapse(record).outcome)
        self.assertGreater(self.remaining(set(primary.clients)), 3600)

    def test_fence_is_renewed_during_the_merge(self) -> None:
        protocol, record, clients = self.make_promoted(4)
        renewed = threading.Semaphore(0)

        def observer(event: sp.trace.Event) -> None:
            if (event.name, event.phase) == ('fence.add', 'after'):
                renewed.release()
            if (event.name, event.phase) == ('merge.commit', 'before'):
                # Twice in full: by then the first entry would have expired.
                for _ in range(3):
                    self.assertTrue(renewed.acquire(timeout=60))
                self.assertGreater(self.remaining(clients), 0)
        with sp.trace.observe(observer):
            protocol.merge(record)
        self.assertTrue(clients <= self.fenced())

    def test_fence_is_not_renewed_for_a_living_primary(self) -> None:
        volume = self.make_volume()
        primary = self.make_primary(volume)
        record = self.superpose(volume)
        self.assertEqual([], self.protocol.renew(record))
        with sp.trace.observe(self.at('fence.add', 'before', protocol_base.cut)):
            self.assertRaises(protocol_base.Cut, self.protocol.collapse, record)
        self.assertEqual([], self.protocol.renew(record))
        self.assertEqual(0, primary.write(0))
        with sp.trace.observe(self.at('overlay.remove', 'before', protocol_base.cut)):
            self.assertRaises(protocol_base.Cut, self.protocol.resume, record)
        self.assertEqual(states.DIRTY, self.protocol.reload(record).outcome)
        self.assertEqual([], self.protocol.renew(record))
        self.assertEqual(0, primary.write(0))

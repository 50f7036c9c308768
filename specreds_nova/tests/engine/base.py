# SPDX-License-Identifier: Apache-2.0
"""Base class of the tests of engines."""

from collections.abc import Iterator
import contextlib
import functools
import json
import subprocess
from typing import Any

from keystoneauth1 import exceptions as keystone_exceptions

from cloud import drill as drills
from cloud.demo import recoveries
from cloud.hosts import host as one_host
from cloud.openstack import layout
from specreds_nova.tests.cloud import base

_TIMEOUT = 240.0
# Metadata of a server whose backup is ready late enough to observe the race.
SLOW = {'specreds:ready': 'delay:10'}


class EngineTestCase(base.NovaTestCase):
    """A test on a cloud whose engines handle the accidents of its hosts."""

    def setUp(self) -> None:
        super().setUp()
        if not self.cloud.settings.engine_numbers:
            self.skipTest('the cloud has no engines; bring it up with --engines 2')
        self.engine = recoveries.Engine(self.cloud.session())
        self.trusted()

    def trusted(self) -> None:
        """Wait until the engines trust all hosts, and all are up for Nova."""
        self.wait('all hosts to be trusted', self._all_trusted, _TIMEOUT)
        for host in self.cloud.hosts:
            self.wait(f'{host.name} to be up', functools.partial(self._up, host.name))

    def begun(self, server: drills.Server, step: str = 'race') -> recoveries.Recovery:
        """Wait until a step of a server's recovery has begun."""
        def begun_recovery() -> recoveries.Recovery | None:
            recovery = self.engine.latest(server.id)
            return recovery if recovery is not None and recovery.begun(step) else None
        recovery: recoveries.Recovery = self.wait(
            f'{step} of {server.name}', begun_recovery, _TIMEOUT)
        return recovery

    def ended(self, server: drills.Server, outcome: str) -> recoveries.Recovery:
        """Wait until a server's recovery has ended, and assert its outcome."""
        def ended_recovery() -> recoveries.Recovery | None:
            recovery = self.engine.latest(server.id)
            return recovery if recovery is not None and recovery.over else None
        recovery: recoveries.Recovery = self.wait(
            f'the recovery of {server.name} to end', ended_recovery, _TIMEOUT)
        self.assertEqual(outcome, recovery.outcome, recovery.error or '')
        return recovery

    def assertRecovered(self, server: drills.Server) -> drills.Server:
        """Assert that a server runs on one other host, and that Nova and Neutron agree."""
        recovery = self.ended(server, recoveries.RECOVERED)
        self.assertEqual([recovery.id], self.engine.ids(server.id))
        here = self.drill.active(server.id, recovery.destination)
        self.wait_answer(here)
        self.assertNotEqual(server.host, here.host)
        self.assertEqual([here.host], self.drill.running(server))
        provider = self.drill.providers()[here.host]
        self.assertIn(provider, self.drill.allocations(server.id))
        self.assertNotIn(provider, self.drill.allocations(recovery.id))
        self.assertEqual([here.host], self.drill.bindings(server))
        return here

    def assertEvacuated(self, server: drills.Server, name: str) -> drills.Server:
        """Assert that a server is fenced and evacuated, and has another guest than before.

        :param name: of the guest before
        """
        self.ended(server, recoveries.EVACUATED)
        here = self.drill.active(server.id)
        self.assertNotEqual(server.host, here.host)
        self.assertNotEqual(name, self.guest_name(here))
        return here

    def assertUnnoticed(self, server: drills.Server, name: str) -> None:
        """Assert that a server has the same guest, and that no backup is left."""
        self.assertEqual(name, self.guest_name(server))
        shown = self.drill.show(server.id)
        self.assertEqual(('ACTIVE', server.host),
                         (shown['status'], shown['OS-EXT-SRV-ATTR:host']))
        self.wait('all backups to be gone',
                  lambda: self.drill.running(server) == [server.host])
        self.assertEqual([server.host], self.drill.bindings(server))

    @contextlib.contextmanager
    def assertFencedAlone(self, host: one_host.Host) -> Iterator[None]:
        """Assert that clients of a host, and of no other one, are fenced meanwhile."""
        before = self.cloud.ceph.blocklist()
        addresses = host.run(['hostname', '-I']).split()
        yield
        fenced = {client.rpartition(':')[0] for client in self.cloud.ceph.blocklist() - before}
        self.assertTrue(fenced)
        self.assertTrue(fenced <= set(addresses), f'{fenced} are not all of {addresses}')

    def openstack(self, *words: str, code: int = 0) -> Any:
        """Run `openstack speculative …` as the administrator, and return its parsed output.

        :param code: the expected exit status
        """
        done = subprocess.run(
            [str(layout.BIN / 'openstack'), 'speculative', *words, '-f', 'json'], check=False,
            capture_output=True, text=True, timeout=60, env=self.cloud.environment())
        self.assertEqual(code, done.returncode, f'{done.stdout}\n{done.stderr}')
        return json.loads(done.stdout)

    def _up(self, host: str) -> bool:
        return self.drill.compute_up(host) and not self.drill.forced_down(host)

    def _all_trusted(self) -> bool:
        try:
            known = self.engine.hosts()
        except keystone_exceptions.ClientException:
            return False
        return known == dict.fromkeys(self.cloud.settings.host_names, recoveries.TRUSTED)

# SPDX-License-Identifier: Apache-2.0
"""Suspected hosts that return: stale guests on them are ended, and only one guest answers."""

import contextlib
import json
import time
from typing import Any

from testtools import content

from cloud import drill as drills
from cloud import users
from cloud.hosts import services
from specreds_nova import exception
from specreds_nova.tests.cloud import base

# Looks of the sentinel after which it has ended whatever it was going to end.
_LOOKS = 12
_PROBES = 30


class TestReturning(base.NovaTestCase):
    """A guest that returns after the decision is ended, and no other is."""

    def _state(self, host: str, name: str) -> Any:
        path = self.host(host).files.state / 'nova/specreds' / name
        return json.loads(path.read_text()) if path.exists() else None

    def _looks(self, host: str) -> tuple[int, int]:
        status = self._state(host, 'sentinel.json') or {'pid': 0, 'looks': 0}
        return status['pid'], status['looks']

    def _wait_looks(self, host: str) -> None:
        """Wait until the sentinel of a host has looked at its domains several times."""
        pid, looks = self._looks(host)
        self.wait(f'the sentinel on {host} to look around', lambda: (
            self._looks(host)[0] not in (0, pid) or self._looks(host)[1] >= looks + _LOOKS))

    def _wait_known(self, server: drills.Server) -> None:
        """Wait until the sentinel has learned which client belongs to a server."""
        volume = f'volumes/volume-{server.volumes[0]}'
        self.wait(f'the sentinel to know the client of {server.name}', lambda: any(
            images.get(volume) for images in (self._state(
                server.host, 'sentinel-clients.json') or {'seen': {}})['seen'].values()))

    def _wait_ended(self, server: drills.Server) -> None:
        """Wait until the sentinel has ended the stale guest of a server."""
        began = time.monotonic()
        self.wait_ended(server)
        self.addDetail('ended', content.text_content(
            f'it took {time.monotonic() - began:.2f} s'))
        self.assertEqual(server.id, self._state(
            server.host, f'stale/{server.id}.json')['instance_uuid'])

    def assertOneAnswers(self, server: drills.Server, name: str) -> None:
        """Assert that only one guest answers under a server's address, and which one."""
        arp, http = (users.Pinger(self.cloud, self.scratch()) for _ in range(2))
        for pinger in (arp, http):
            self.addCleanup(pinger.close)
        arp.start(server.address, 'arp', 0.1)
        http.start(server.address, 'who', 0.2)
        time.sleep(_PROBES * 0.1)
        self.assertEqual(0, arp.stop()['doubles'])
        self.assertEqual([name], list(http.stop()['talkers']))

    def assertLeftAlone(self, recovery: drills.Recovery, pid: int | None) -> None:
        """Assert that the promoted backup is still the same process."""
        self._wait_looks(recovery.host)
        self.assertEqual(pid, self.drill.pid(recovery.server, recovery.host))

    def test_host_that_hung_during_the_promotion_ends_its_guest(self) -> None:
        server, other = self.boot(), self.boot()
        others = self.drill.pid(other, base.PRIMARY)
        before = self.guest_name(server)
        primary = self.host(base.PRIMARY)
        primary.hang()
        recovery = self.begin(server)
        self.drill.promote(recovery)
        pid = self.drill.pid(server, base.BACKUP)
        after = self.guest_name(server)
        self.assertNotEqual(before, after)
        primary.resume()
        self._wait_ended(server)
        self.assertOneAnswers(server, after)
        self.drill.adopt(recovery)
        self.drill.merged(recovery)
        self.assertLeftAlone(recovery, pid)
        self.assertEqual(after, self.guest_name(server))
        self.assertEqual('ACTIVE', self.drill.show(server.id)['status'])
        self.assertEqual(others, self.drill.pid(other, base.PRIMARY))

    def test_host_that_hung_during_the_abort_keeps_its_guest(self) -> None:
        server = self.boot()
        self.heartbeat(server, 0.5)
        name, pid = self.guest_name(server), self.drill.pid(server, base.PRIMARY)
        primary = self.host(base.PRIMARY)
        primary.hang()
        recovery = self.begin(server)
        # Neutron cannot remove all of the box while the agent of the hung host does not answer.
        with contextlib.suppress(exception.UndoIncomplete):
            self.drill.abort(recovery)
        primary.resume()
        self.wait('the backup to be dropped altogether', lambda: self._aborted(recovery))
        self._wait_looks(base.PRIMARY)
        self.assertEqual(pid, self.drill.pid(server, base.PRIMARY))
        self.assertOneAnswers(server, name)
        count = self._beats(server)
        self.wait('the guest to go on writing', lambda: self._beats(server) > count)

    def test_host_that_was_cut_off_until_the_merge_ends_its_guest(self) -> None:
        server = self.boot()
        self._wait_known(server)
        before = self.guest_name(server)
        primary = self.host(base.PRIMARY)
        primary.cut(control=True, storage=True)
        recovery = self.begin(server)
        self.drill.promote(recovery)
        self.drill.adopt(recovery)
        self.drill.merged(recovery)
        pid = self.drill.pid(server, base.BACKUP)
        # The sentinel has to remember the client over its own restart.
        primary.kill_program(services.SENTINEL)
        primary.start(services.SENTINEL)
        self._wait_looks(base.BACKUP)
        self.assertIsNotNone(self.drill.pid(server, base.PRIMARY))
        primary.heal()
        self._wait_ended(server)
        after = self.guest_name(server)
        self.assertNotEqual(before, after)
        self.assertOneAnswers(server, after)
        self.assertLeftAlone(recovery, pid)

    def test_sentinel_ends_the_guest_without_libvirt(self) -> None:
        server = self.boot()
        self._wait_known(server)
        primary = self.host(base.PRIMARY)
        primary.hang()
        recovery = self.begin(server)
        self.drill.promote(recovery)
        primary.resume()
        primary.kill_program(services.LIBVIRT)
        self._wait_ended(server)
        self.drill.adopt(recovery)

    def _aborted(self, recovery: drills.Recovery) -> bool:
        try:
            self.drill.abort(recovery)
        except exception.UndoIncomplete:
            return False
        return True

    def _beats(self, server: drills.Server) -> int:
        answer: dict[str, int] = json.loads(self.get(server, '/cgi-bin/heartbeat'))
        return answer['count']

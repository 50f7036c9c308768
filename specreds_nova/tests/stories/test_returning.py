# SPDX-License-Identifier: Apache-2.0
"""Hosts that were only suspected, and come back: what still runs there, and who may talk."""

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

# So many looks of the sentinel later it would have done what it was going to do.
_LOOKS = 12
_ASKED = 30


class TestReturning(base.NovaTestCase):
    """What comes back after the decision is ended, and nothing else is."""

    def _state(self, host: str, name: str) -> Any:
        path = self.host(host).files.state / 'nova/specreds' / name
        return json.loads(path.read_text()) if path.exists() else None

    def _looks(self, host: str) -> tuple[int, int]:
        found = self._state(host, 'sentinel.json') or {'pid': 0, 'looks': 0}
        return found['pid'], found['looks']

    def _wait_looks(self, host: str) -> None:
        """Wait until the sentinel of a host has looked at its domains, again and again."""
        pid, looks = self._looks(host)
        self.wait(f'the sentinel on {host} to look around', lambda: (
            self._looks(host)[0] not in (0, pid) or self._looks(host)[1] >= looks + _LOOKS))

    def _known(self, server: drills.Server) -> None:
        """Wait until the sentinel has learnt which client is a server's."""
        volume = f'volumes/volume-{server.volumes[0]}'
        self.wait(f'the sentinel to know the client of {server.name}', lambda: any(
            images.get(volume) for images in (self._state(
                server.host, 'sentinel-clients.json') or {'seen': {}})['seen'].values()))

    def _wait_ended(self, server: drills.Server) -> None:
        """Wait until nothing of a server runs where it was before, and see who did that."""
        began = time.monotonic()
        self.wait(f'{server.name} to be ended on {server.host}',
                  lambda: self.drill.pid(server, server.host) is None)
        self.addDetail('ended', content.text_content(
            f'it took {time.monotonic() - began:.2f} s'))
        self.assertEqual(server.id, self._state(
            server.host, f'stale/{server.id}.json')['instance_uuid'])

    def assertOneTalks(self, server: drills.Server, who: str) -> None:
        """See that exactly one guest answers under a server's address, and which one."""
        arp, asked = (users.Pinger(self.cloud, self.scratch()) for _ in range(2))
        for pinger in (arp, asked):
            self.addCleanup(pinger.close)
        arp.start(server.address, 'arp', 0.1)
        asked.start(server.address, 'who', 0.2)
        time.sleep(_ASKED * 0.1)
        self.assertEqual(0, arp.stop()['doubles'])
        self.assertEqual([who], list(asked.stop()['talkers']))

    def assertLeftAlone(self, recovery: drills.Recovery, pid: int | None) -> None:
        """See that the promoted backup is still the process that it was."""
        self._wait_looks(recovery.host)
        self.assertEqual(pid, self.drill.pid(recovery.server, recovery.host))

    def test_hung_until_after_the_promotion(self) -> None:
        server, other = self.boot(), self.boot()
        others = self.drill.pid(other, base.PRIMARY)
        before = self.who(server)
        primary = self.host(base.PRIMARY)
        primary.hang()
        recovery = self.begin(server)
        self.drill.promote(recovery)
        pid = self.drill.pid(server, base.BACKUP)
        after = self.who(server)
        self.assertNotEqual(before, after)
        primary.resume()
        self._wait_ended(server)
        self.assertOneTalks(server, after)
        self.drill.adopt(recovery)
        self.drill.merged(recovery)
        self.assertLeftAlone(recovery, pid)
        self.assertEqual(after, self.who(server))
        self.assertEqual('ACTIVE', self.drill.show(server.id)['status'])
        self.assertEqual(others, self.drill.pid(other, base.PRIMARY))

    def test_hung_until_after_the_abort(self) -> None:
        server = self.boot()
        self.heartbeat(server, 0.5)
        who, pid = self.who(server), self.drill.pid(server, base.PRIMARY)
        primary = self.host(base.PRIMARY)
        primary.hang()
        recovery = self.begin(server)
        # Neutron keeps something of the box while the agent of the hung host does not answer.
        with contextlib.suppress(exception.UndoIncomplete):
            self.drill.abort(recovery)
        primary.resume()
        self.wait('the backup to be dropped altogether', lambda: self._aborted(recovery))
        self._wait_looks(base.PRIMARY)
        self.assertEqual(pid, self.drill.pid(server, base.PRIMARY))
        self.assertOneTalks(server, who)
        count = self._beats(server)
        self.wait('the guest to go on writing', lambda: self._beats(server) > count)

    def test_cut_off_until_all_is_over(self) -> None:
        server = self.boot()
        self._known(server)
        before = self.who(server)
        primary = self.host(base.PRIMARY)
        primary.cut(control=True, storage=True)
        recovery = self.begin(server)
        self.drill.promote(recovery)
        self.drill.adopt(recovery)
        self.drill.merged(recovery)
        pid = self.drill.pid(server, base.BACKUP)
        # It has to know the client from before, whatever happened to itself.
        primary.kill_program(services.SENTINEL)
        primary.start(services.SENTINEL)
        self._wait_looks(base.BACKUP)
        self.assertIsNotNone(self.drill.pid(server, base.PRIMARY))
        primary.heal()
        self._wait_ended(server)
        after = self.who(server)
        self.assertNotEqual(before, after)
        self.assertOneTalks(server, after)
        self.assertLeftAlone(recovery, pid)

    def test_without_libvirt(self) -> None:
        server = self.boot()
        self._known(server)
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

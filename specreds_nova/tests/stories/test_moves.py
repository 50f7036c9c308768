# SPDX-License-Identifier: Apache-2.0
"""Cold migration, resize and their ends, between hosts with the plug-in."""

from typing import Any

from cloud.hosts import host as one_host
from specreds_nova.tests.cloud import base

_SSH = '/usr/bin/ssh'
# Nova runs commands on the other host by ssh, to see whether both hosts have the same directory.
_SCRIPT = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do
    [ "$1" = -o ] && shift
    shift
done
shift
exec "$@"
"""


class TestMoves(base.NovaTestCase):
    """Hosts that share the directory of instances, as on NFS.

    The hosts of the cloud have no ssh daemons. As they are on one machine, a command for the other
    host may run on the same one.
    """

    def setUp(self) -> None:
        super().setUp()
        primary, *others = (self.host(name) for name in (base.PRIMARY, base.BACKUP, base.OTHER))
        script = self.scratch() / 'ssh'
        script.write_text(_SCRIPT)
        script.chmod(0o755)
        script.parent.chmod(0o755)
        for host in (primary, *others):
            self._bind(host, str(script), _SSH)
        for host in others:
            self._bind(host, str(primary.files.instances), str(host.files.instances))
        self.server = self.boot()
        self.name = self.guest_name(self.server)

    def test_migrated_server_runs_on_the_other_host(self) -> None:
        self.drill.act(self.server.id, 'migrate', {'host': base.BACKUP})
        self._moved(base.BACKUP)
        self.drill.act(self.server.id, 'confirmResize')
        here = self.drill.active(self.server.id, base.BACKUP)
        self.wait_answer(here)
        self.assertEqual([base.BACKUP], self.drill.running(self.server))
        # The hosts have the plug-in, and the server can be recovered as before.
        recovery = self.begin(here, base.OTHER)
        self.end(recovery)
        self.assertNothingLeft(recovery)

    def test_reverted_migration_ends_on_the_first_host(self) -> None:
        self.drill.act(self.server.id, 'migrate', {'host': base.BACKUP})
        self._moved(base.BACKUP)
        self.drill.act(self.server.id, 'revertResize')
        self.wait_answer(self.drill.active(self.server.id, base.PRIMARY))
        self.assertEqual([base.PRIMARY], self.drill.running(self.server))

    def test_resized_server_has_the_new_flavor_until_it_is_reverted(self) -> None:
        flavor = self.drill.show(self.server.id)['flavor']['original_name']
        self.drill.act(self.server.id, 'resize', {'flavorRef': self.drill.flavor_id('m1.large')})
        host = self._moved(None)
        self.assertNotEqual(flavor, self.drill.show(self.server.id)['flavor']['original_name'])
        self.assertEqual([host], self.drill.running(self.server))
        self.drill.act(self.server.id, 'revertResize')
        self.wait_answer(self.drill.active(self.server.id, base.PRIMARY))
        self.assertEqual(flavor, self.drill.show(self.server.id)['flavor']['original_name'])
        self.assertNotEqual(self.name, self.guest_name(self.server))

    def _moved(self, host: str | None) -> str:
        """Wait until a server has moved and waits to be confirmed; return its host."""
        def shown() -> dict[str, Any] | None:
            server = self.drill.show(self.server.id)
            self.assertNotEqual('ERROR', server['status'], server.get('fault'))
            return server if server['status'] == 'VERIFY_RESIZE' else None
        server: dict[str, Any] = self.wait(f'{self.server.name} to be moved', shown)
        here = str(server['OS-EXT-SRV-ATTR:host'])
        self.assertIn(here, [host] if host else self.cloud.settings.host_names)
        self.wait_answer(self.server)
        return here

    def _bind(self, host: one_host.Host, source: str, target: str) -> None:
        host.run(['mount', '--bind', source, target])
        self.addCleanup(host.run, ['umount', target])

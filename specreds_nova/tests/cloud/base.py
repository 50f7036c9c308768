# SPDX-License-Identifier: Apache-2.0
"""Base class of the tests on a cloud with compute hosts: its servers, recoveries and clients."""

from collections.abc import Callable, Mapping, Sequence
import functools
import json
import os
import pathlib
import signal
import tempfile
from typing import Any
import uuid

import testtools
from testtools import content

from cloud import cloud as clouds
from cloud import commands
from cloud import drill as drills
from cloud import users
from cloud.hosts import host as one_host
from cloud.hosts import services
from cloud.openstack import files
from cloud.openstack import nova
from specreds_nova.tests.cloud import service_warnings

_ENVIRONMENT = 'SPECREDS_TEST_CLOUD'
# The hosts of the cloud by their roles.
PRIMARY = 'cn1'
BACKUP = 'cn2'
OTHER = 'cn3'
# The last microversion at which Nova does not compare extra specs with those that it documents.
_ANY_SPECS = '2.85'


class NovaTestCase(testtools.TestCase):
    """A test on the cloud that `./run test` has brought up.

    The end of a test removes whatever its methods have created, and brings every host up again.
    """

    def setUp(self) -> None:
        super().setUp()
        data = os.environ.get(_ENVIRONMENT)
        if not data:
            self.skipTest(f'{_ENVIRONMENT} does not name the data directory of a running cloud; '
                          './run test does that')
        self.cloud = clouds.Cloud(data)
        self.drill = drills.Drill(self.cloud)
        noted = service_warnings.Warnings(self.cloud.logs)
        losses = self.cloud.losses()

        def explain(_failure: object) -> None:
            if lost := losses.found():
                # Details are shown by their names: this one is the first.
                self.addDetail('lost services', content.text_content('\n'.join(lost)))
            self.addDetail('warnings of the services', content.text_content(noted.text()))
        self.addOnException(explain)
        self.addCleanup(self.drill.close)
        self.addCleanup(self.mend)

    # Hosts

    def host(self, name: str) -> one_host.Host:
        """Return a host of the cloud."""
        return self.cloud.host(name)

    def mend(self) -> None:
        """Bring every host up: running, connected, with all its services, and up for Nova."""
        disconnected = set()
        for host in self.cloud.hosts:
            if host.state == one_host.HUNG:
                host.resume()
            # A nova-compute takes a minute or more to notice that its broker is reachable again.
            if host.cuts or self.drill.forced_down(host.name):
                disconnected.add(host.name)
            host.heal()
        for host in self.cloud.hosts:
            if services.COMPUTE not in host.boot() and host.name in disconnected:
                host.restart(services.COMPUTE)
        for host in self.cloud.hosts:
            self.drill.bring_up(host.name)
            # No server gets its network on a host without this agent.
            self.wait(f'the network agent of {host.name} to be up',
                      functools.partial(self.drill.networked, host.name))

    def restart_libvirt(self, recovery: drills.Recovery) -> None:
        """Kill libvirt on the host of a backup, start it, and wait until Nova uses the host again.

        nova-compute disables its host when it loses libvirt, and enables it again after it has
        connected, neither of which anything waits for. The scheduler refuses the host meanwhile.
        """
        host = self.host(recovery.host)
        host.kill_program(services.LIBVIRT)
        self.wait(f'nova-compute to disable {host.name}',
                  lambda: not self.drill.schedulable(host.name))
        host.boot()
        self.wait(f'nova-compute on {host.name} to use libvirt again',
                  lambda: self.drill.status(recovery)['domain'])
        self.wait(f'Nova to place servers on {host.name} again',
                  functools.partial(self.drill.schedulable, host.name))

    def crash_switch(self, name: str) -> None:
        """Let the switch of a host crash, and wait until it runs again."""
        host = self.host(name)

        def pid() -> int:
            return next(service.pid for service in host.services if service.name == services.OVS)
        before = pid()
        host.kill_program(services.OVS, signal.SIGSEGV)
        self.wait(f'the switch of {name} to run again', lambda: pid() not in (0, before))

    def reconfigure(self, path: pathlib.Path, options: str, names: Sequence[str]) -> None:
        """Add options to a configuration file until the end of the test.

        :param options: with their section
        :param names: the services that read the file, which are restarted
        """
        def restart(text: str) -> None:
            files.write(path, text)
            for name in names:
                self.cloud.restart_daemon(name)
            self.cloud.wait_ready()
        configured = path.read_text()
        self.addCleanup(restart, configured)
        restart(f'{configured}\n{options}')

    # Servers

    def boot(self, host: str = PRIMARY, *, image: str = 'g1',
             metadata: Mapping[str, str] | None = None, **more: Any) -> drills.Server:
        """Boot a server from a volume, and wait until its guest is on the network."""
        return self.booted(self.boot_later(host, image=image, metadata=metadata, **more))

    def boot_later(self, host: str = PRIMARY, *, image: str = 'g1',
                   metadata: Mapping[str, str] | None = None, **more: Any) -> str:
        """Boot a server as `boot` does, without waiting, and return its id."""
        ready = drills.READY[image] | dict(metadata or {})
        server_id = self.drill.boot_later(f'test-{uuid.uuid4().hex[:8]}', host, image=image,
                                          metadata=ready, **more)
        self.addCleanup(self.drill.delete, server_id)
        # Runs before the deletion: Nova would delete a server of a host that is down in its
        # database only.
        self.addCleanup(self.mend)
        return server_id

    def flavor(self, specs: Mapping[str, str] | None = None, *, vcpus: int = 1,
               ephemeral: int = 0, swap: int = 0) -> str:
        """Make a flavor with extra specs until the end of the test, and return its name.

        :param ephemeral: size of the disk beside the root disk in GiB
        :param swap: size of the swap disk in MiB
        """
        compute = self.drill.compute
        made = compute.post('/flavors', json={'flavor': {
            'name': f'test-{uuid.uuid4().hex[:8]}', 'ram': nova.FLAVOURS['m1.g1'],
            'vcpus': vcpus, 'disk': 0, 'OS-FLV-EXT-DATA:ephemeral': ephemeral, 'swap': swap,
        }}).json()['flavor']
        self.addCleanup(compute.delete, f'/flavors/{made["id"]}')
        if specs:
            compute.post(f'/flavors/{made["id"]}/os-extra_specs', microversion=_ANY_SPECS,
                         json={'extra_specs': dict(specs)})
        return str(made['name'])

    def booted(self, server_id: str) -> drills.Server:
        """Wait until the guest of a server is on the network, and return the server."""
        server = self.drill.active(server_id)
        self.wait_answer(server)
        return server

    def wait_answer(self, server: drills.Server) -> None:
        """Wait until a server's guest is on the network."""
        self.wait_guest(server, f'{server.name} to answer',
                        lambda: self.cloud.tenant.answers(server.address))

    def wait_ended(self, server: drills.Server) -> None:
        """Wait until the guest of a server that has moved has ended on its former host."""
        self.wait(f'{server.name} to be ended on {server.host}',
                  lambda: self.drill.pid(server, server.host) is None)

    def wait_status(self, server_id: str, status: str) -> dict[str, Any]:
        """Wait until a server has a status and no task."""
        def reached() -> dict[str, Any] | None:
            shown = self.drill.show(server_id)
            if shown['status'] == 'ERROR' and status != 'ERROR':
                self.fail(json.dumps(shown.get('fault')))
            ready = shown['status'] == status and shown['OS-EXT-STS:task_state'] is None
            return shown if ready else None
        shown: dict[str, Any] = self.wait(f'server {server_id} to be {status}', reached)
        return shown

    def guest_name(self, server: drills.Server) -> str:
        """Return the name of the guest that answers; each boot of a guest has a new one."""
        self.wait_answer(server)
        return self.get(server, '/who')

    def heartbeat(self, server: drills.Server, seconds: float) -> dict[str, Any]:
        """Let a server's guest write to its disk at an interval; 0 stops that."""
        answer: dict[str, Any] = json.loads(self.get(server, f'/cgi-bin/heartbeat?{seconds:g}'))
        return answer

    def count(self, server: drills.Server) -> int:
        """Return how often the guest has written to its disk."""
        answer: dict[str, Any] = json.loads(self.get(server, '/cgi-bin/heartbeat'))
        return int(answer['count'])

    def write(self, server: drills.Server) -> int:
        """Let the guest write to its disk for a while; return how often it has written.

        Ceph forgets a client that hangs, unless it has written.
        """
        before = self.count(server)
        self.heartbeat(server, 0.2)
        self.wait('the guest to write', lambda: self.count(server) > before + 2)
        self.heartbeat(server, 0)
        return self.count(server)

    def get(self, server: drills.Server, path: str) -> str:
        """Return what a server's guest answers to a tenant over HTTP."""
        return self.cloud.tenant.run(
            ['curl', '-sS', '--max-time', '10', f'http://{server.address}{path}']).strip()

    # Recoveries

    def attach_port(self, server: drills.Server) -> dict[str, str]:
        """Attach another port to a server, and return its description."""
        attached: dict[str, str] = self.drill.compute.post(
            f'/servers/{server.id}/os-interface', json={
                'interfaceAttachment': {'net_id': self.drill.network_id()}}
        ).json()['interfaceAttachment']
        return attached

    def begin(self, server: drills.Server, host: str = BACKUP, *, ready: bool = True
              ) -> drills.Recovery:
        """Superpose a server's volumes and start its backup."""
        recovery = self.drill.recovery(server, host)
        self.addCleanup(self.end, recovery)
        self.drill.begin(recovery)
        if ready:
            self.drill.ready(recovery)
        return recovery

    def end(self, recovery: drills.Recovery) -> None:
        """Drop a recovery, unless it has been decided."""
        if self.drill.state(recovery) not in ('superposed', 'collapsing'):
            return
        self.mend()
        # A collapse whose caller was not answered may still promote the backup.
        self.wait('the collapse to end', lambda: self.drill.state(recovery) != 'collapsing')
        if self.drill.state(recovery) == 'superposed':
            self.drill.abort(recovery)

    def assertNothingLeft(self, recovery: drills.Recovery, bound_to: str | None = None) -> None:
        """Assert that a removed backup has left nothing on its host or in a service.

        :param bound_to: the host of the server's ports; by default the one that Nova names
        """
        server = recovery.server
        host = self.host(recovery.host)
        self.assertIsNone(self.drill.pid(server, recovery.host))
        self.assertNotIn(self.drill.show(server.id)['OS-EXT-SRV-ATTR:instance_name'],
                         host.domains())
        self.assertIsNone(self.drill.state(recovery))
        self.assertEqual([], self.leftovers(recovery))
        self.assertEqual({}, self.drill.claim(recovery))
        self.assertEqual([bound_to or server.host], self.drill.bindings(server))

    def leftovers(self, recovery: drills.Recovery) -> list[str]:
        """Return the devices, bridges, namespaces and files of a recovery on its host."""
        host = self.host(recovery.host)
        ports = [port[:11] for port in self.drill.ports(recovery.server)]
        devices = host.run(['ip', '-o', 'link']).splitlines()
        bridges = host.run(['ovs-vsctl', '--timeout=10', 'list-br']).splitlines()
        spaces = host.run(['ip', 'netns', 'list']).splitlines()
        instance = host.files.instances / recovery.server.id
        return [line for line in (*devices, *bridges, *spaces)
                if any(port in line for port in ports)] + (
            [str(instance)] if instance.exists() else [])

    # Others

    def wait(self, what: str, probe: Callable[[], Any], seconds: float = 120.0) -> Any:
        """Wait until a function returns a true value, and return the value."""
        try:
            return self.drill.wait(what, probe, seconds)
        except commands.CloudError as exc:
            self.fail(str(exc))

    def wait_guest(self, server: drills.Server, what: str, probe: Callable[[], Any]) -> Any:
        """Wait for something that a server's guest does; a failure quotes its console."""
        try:
            return self.drill.wait_guest(server, what, probe)
        except commands.CloudError as exc:
            self.fail(str(exc))

    def scratch(self) -> pathlib.Path:
        """Return a directory that is removed after the test."""
        scratch = tempfile.TemporaryDirectory(prefix='specreds-')
        self.addCleanup(scratch.cleanup)
        return pathlib.Path(scratch.name)


class Client(users.Postgres):
    """A tenant's client of a PostgreSQL server, which writes and reads all the time.

    :param case: the test that uses the client
    :param server: a server of image g2
    """

    def __init__(self, case: NovaTestCase, server: drills.Server) -> None:
        super().__init__(case.cloud, case.scratch(), server.address)
        self._case = case
        self._of = server

    def start(self, *options: str) -> None:
        """Start the client, which ends with the test."""
        super().start(*options)
        self._case.addCleanup(self.stop)

    def wait_more(self, count: int = 50) -> None:
        """Wait until some more transactions have been acknowledged."""
        wanted = self.acknowledged() + count
        self._case.wait_guest(self._of, 'acknowledged transactions',
                              lambda: self.acknowledged() >= wanted)

    def assert_nothing_lost(self) -> None:
        """Assert that every acknowledged transaction is there, as it was written."""
        result = self.verify()
        self._case.assertEqual(([], []), (result['missing'], result['wrong']))

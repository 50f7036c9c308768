# SPDX-License-Identifier: Apache-2.0
"""The accidents of the cloud's hosts: kill, hang, cut, and the death of services."""

import pathlib
import signal
import socket
import time

from cloud import commands
from cloud import drill as drills
from cloud.hosts import host as one_host
from cloud.hosts import layout as hosts_layout
from cloud.hosts import packets
from cloud.hosts import services
from specreds_nova.tests.cloud import base

# The host that has the accident, and one beside it.
VICTIM = base.OTHER
NEIGHBOUR = base.BACKUP

# Seconds between two heartbeats of a guest.
_INTERVAL = 0.3

# A network namespace in the role of another machine, its device, and addresses for examples
# (RFC 5737).
_SPACE = 'specreds-next'
_MACHINE = '198.51.100.1'
_NEIGHBOUR_ADDRESS = '198.51.100.2'


class HostsTestCase(base.NovaTestCase):
    """A test with a host that has an accident."""

    def setUp(self) -> None:
        super().setUp()
        self.victim = self.host(VICTIM)
        self.neighbour = self.host(NEIGHBOUR)

    def answers(self, network: str) -> bool:
        """Return whether the host answers its neighbour on a network."""
        address = self.victim.files.addresses[network].ip
        try:
            self.neighbour.run(['ping', '-n', '-q', '-c', '1', '-W', '1', str(address)])
        except commands.CloudError:
            return False
        return True

    def silent(self, server: drills.Server) -> bool:
        """Return whether a server's guest does not answer."""
        return not self.cloud.tenant.answers(server.address)

    def qemu(self, server: drills.Server) -> int:
        """Return the process that runs a server's guest."""
        pid = self.drill.pid(server, VICTIM)
        assert pid is not None
        return pid


class TestKill(HostsTestCase):
    """A power failure."""

    def test_killed_host_leaves_no_process_and_boots_again(self) -> None:
        server = self.boot(VICTIM)
        members = self.victim.members()
        self.assertIn(self.qemu(server), members)

        self.victim.kill()
        self.assertEqual(one_host.OFF, self.victim.state)
        self.assertEqual([], [pid for pid in members if _alive(pid)])
        self.assertTrue(self.silent(server))
        self.assertFalse(self.answers(hosts_layout.CONTROL))
        links = commands.run(self.cloud.hosts.fabric.argv('ip', '-o', 'link'))
        self.assertNotIn(f'{VICTIM}-', links)
        self.assertRaisesRegex(commands.CloudError, 'is off', self.victim.run, ['true'])
        self.assertNotIn(VICTIM, self.cloud.hosts.running())

        # The disk is unchanged, and none of the earlier processes runs.
        self.assertIn(services.COMPUTE, self.victim.boot())
        self.assertEqual(one_host.RUNNING, self.victim.state)
        self.assertEqual(VICTIM, self.victim.run(['hostname']).strip())
        self.assertIsNone(self.drill.pid(server, VICTIM))
        self.assertIn(self.drill.show(server.id)['OS-EXT-SRV-ATTR:instance_name'],
                      self.victim.domains())
        self.assertTrue(self.answers(hosts_layout.CONTROL))
        self.drill.bring_up(VICTIM)

    def test_hung_host_can_be_killed(self) -> None:
        members = self.victim.members()
        self.victim.hang()
        self.victim.kill()
        self.assertEqual([], [pid for pid in members if _alive(pid)])


class TestHang(HostsTestCase):
    """All processes are stopped, and none has ended."""

    def test_hung_host_stands_still_until_it_resumes(self) -> None:
        server = self.boot(VICTIM)
        name = self.guest_name(server)
        members = set(self.victim.members())
        # A process that entered the host from outside stops too.
        guest = self.victim.popen(['sleep', '1000'])
        self.addCleanup(guest.wait)
        self.addCleanup(guest.kill)

        self.victim.hang()
        self.assertEqual(one_host.HUNG, self.victim.state)
        before = {pid: _ticks(pid) for pid in self.victim.members()}
        self.assertLess(members, before.keys())
        self.assertTrue(self.silent(server))
        self.assertEqual(before, {pid: _ticks(pid) for pid in self.victim.members()})
        # Its kernel is not hung.
        self.assertTrue(self.answers(hosts_layout.CONTROL))
        self.assertRaisesRegex(commands.CloudError, 'is hung', self.victim.run, ['true'])
        self.assertRaisesRegex(commands.CloudError, 'is hung', self.victim.boot)
        self.assertNotIn(VICTIM, self.cloud.hosts.running())

        self.victim.resume()
        self.assertEqual(one_host.RUNNING, self.victim.state)
        self.wait_answer(server)
        self.assertEqual(name, self.guest_name(server))
        self.assertLessEqual(members, set(self.victim.members()))


class TestCut(HostsTestCase):
    """A network is disconnected."""

    def test_each_network_is_cut_by_itself(self) -> None:
        server = self.boot(VICTIM)

        self.victim.cut(tenant=True)
        self.assertEqual([hosts_layout.TENANT], self.victim.cuts)
        self.assertTrue(self.silent(server))
        self.assertTrue(self.answers(hosts_layout.CONTROL))
        self.assertTrue(self.answers(hosts_layout.STORAGE))
        self.assertIsNotNone(self.drill.pid(server, VICTIM))
        self.victim.heal(tenant=True)
        self.wait_answer(server)

        self.heartbeat(server, _INTERVAL)
        self.wait('a heartbeat on the disk', lambda: self._writes(server))
        self.victim.cut(storage=True)
        self.assertFalse(self.answers(hosts_layout.STORAGE))
        self.assertTrue(self.answers(hosts_layout.CONTROL))
        self.wait('the guest to be stuck', lambda: not self._writes(server))
        self.victim.heal(storage=True)
        self.wait('the guest to write again', lambda: self._writes(server))

        self.victim.cut(control=True)
        self.assertFalse(self.answers(hosts_layout.CONTROL))
        self.assertTrue(self.answers(hosts_layout.STORAGE))
        self.assertTrue(self._writes(server))
        self.wait(f'nova-compute on {VICTIM} to be down',
                  lambda: not self.drill.compute_up(VICTIM))
        self.victim.heal()
        self.assertEqual([], self.victim.cuts)
        self.assertTrue(self.answers(hosts_layout.CONTROL))
        self.drill.bring_up(VICTIM)

    def _count(self, server: drills.Server) -> int:
        """Return how many writes of a guest have ended.

        The guest itself cannot say that without storage: the sentinel sets its network down. Nor
        does ``domstats`` answer then, as it asks for the size of each disk.
        """
        stats = self.victim.virsh('domblkstat', server.id)
        return sum(int(words[-1]) for words in map(str.split, stats.splitlines())
                   if words[-2:-1] == ['wr_req'])

    def _writes(self, server: drills.Server) -> bool:
        """Return whether a guest writes, at its interval or up to ten times slower."""
        before = self._count(server)
        time.sleep(10 * _INTERVAL)
        return self._count(server) > before


class TestServices(HostsTestCase):
    """The services of a host die or are restarted one by one."""

    def test_guest_outlives_libvirt_and_nova_compute(self) -> None:
        server = self.boot(VICTIM)
        pid = self.qemu(server)
        for service in (services.LIBVIRT, services.COMPUTE, services.AGENT):
            self.victim.restart(service)
        self.victim.kill_program(services.LIBVIRT)
        self.victim.kill_program(services.COMPUTE)
        self._wait_state(services.LIBVIRT, running=False)
        self._wait_state(services.COMPUTE, running=False)
        self.assertEqual(pid, self.drill.pid(server, VICTIM))
        self.assertTrue(self.cloud.tenant.answers(server.address))

        # Only a boot of the host starts them again.
        self.assertLessEqual({services.LIBVIRT, services.COMPUTE}, set(self.victim.boot()))
        self._wait_state(services.LIBVIRT, running=True)
        self._wait_state(services.COMPUTE, running=True)
        self.assertEqual(pid, self.drill.pid(server, VICTIM))
        self.drill.bring_up(VICTIM)

    def test_killed_service_is_named_by_the_status(self) -> None:
        self.victim.kill_program(services.AGENT, signal.SIGKILL)
        self._wait_state(services.AGENT, running=False)
        [check] = [check for check in self.cloud.hosts.status() if check.name == VICTIM]
        self.assertFalse(check.good)
        self.assertIn(f'{services.AGENT} exited', check.words)
        self.assertRaisesRegex(commands.CloudError, 'is not running', self.victim.kill_program,
                               services.AGENT)

    def _wait_state(self, name: str, *, running: bool) -> None:
        self.wait(f'{name} {"to run" if running else "to end"}', lambda: running == any(
            service.name == name and service.state == 'RUNNING'
            for service in self.victim.services))


class TestNetworks(HostsTestCase):
    """The networks connect the hosts with each other, and with nothing else."""

    def test_guest_migrates_between_hosts(self) -> None:
        server = self.boot(VICTIM)
        name = self.guest_name(server)
        self.drill.migrate(server.id, NEIGHBOUR)
        self.wait_answer(server)
        self.assertEqual(name, self.guest_name(server))

        file = self.scratch() / 'packets'
        with self.cloud.hosts.capture(hosts_layout.TENANT, file, 'icmp'):
            self.assertTrue(self.cloud.tenant.answers(server.address))
        self.assertIn(f'{self.cloud.tenant.address} > {server.address}: ICMP echo request',
                      '\n'.join(packets.read(file)))

    def test_hosts_have_no_default_route(self) -> None:
        self.assertEqual('', self.victim.run(['ip', 'route', 'show', 'default']))
        self.assertEqual('', self.cloud.tenant.run(['ip', 'route', 'show', 'default']))

    def test_neighbour_of_the_machine_reaches_no_service(self) -> None:
        for words in (('netns', 'add', _SPACE),
                      ('link', 'add', _SPACE, 'type', 'veth', 'peer', 'name', 'door',
                       'netns', _SPACE),
                      ('address', 'add', f'{_MACHINE}/30', 'dev', _SPACE),
                      ('link', 'set', _SPACE, 'up'),
                      ('-n', _SPACE, 'address', 'add', f'{_NEIGHBOUR_ADDRESS}/30', 'dev', 'door'),
                      ('-n', _SPACE, 'link', 'set', 'door', 'up'),
                      ('-n', _SPACE, 'route', 'add', 'default', 'via', _MACHINE)):
            commands.run(['ip', *words])
            if words[:2] == ('netns', 'add'):
                # This removes the devices as well.
                self.addCleanup(commands.run, ['ip', 'netns', 'delete', _SPACE])
        reach = ['ip', 'netns', 'exec', _SPACE, 'ping', '-n', '-q', '-c', '1', '-W', '2']
        commands.run([*reach, _MACHINE])
        for address in (self.cloud.settings.host, self.cloud.settings.storage_host):
            self.assertRaises(commands.CloudError, commands.run, [*reach, address])

    def test_services_listen_on_networks_of_the_cloud_only(self) -> None:
        own = {'127.0.0.1', self.cloud.settings.host, self.cloud.settings.storage_host}
        ports = range(self.cloud.settings.port, self.cloud.settings.port + 200)
        self.assertEqual(set(), {address for address, port in _listening()
                                 if port in ports} - own)


def _alive(pid: int) -> bool:
    try:
        fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    except OSError:
        return False
    return fields[0] not in 'ZX'


def _ticks(pid: int) -> tuple[str, ...]:
    """Return the processor time of a process, in ticks."""
    fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    return tuple(fields[11:13])


def _listening() -> list[tuple[str, int]]:
    """Return the IPv4 addresses and ports of this machine on which a program listens."""
    listening = []
    for line in pathlib.Path('/proc/net/tcp').read_text().splitlines()[1:]:
        _, local, _, state, *_ = line.split()
        if state == '0A':
            address, port = local.split(':')
            listening.append((socket.inet_ntoa(bytes.fromhex(address)[::-1]), int(port, 16)))
    return listening

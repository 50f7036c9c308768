# SPDX-License-Identifier: Apache-2.0
"""Backups of servers with pinned CPUs and huge pages."""

import os
import pathlib
import xml.etree.ElementTree as ElementTree

from cloud import drill as drills
from cloud.openstack import nova
from specreds_nova import exception
from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import life

_MEMORY = nova.FLAVOURS['m1.g1']
_PAGE_KIB = 2048
_MISFIT = 'do not fit'
# Both versions of the server have their pages from the same machine.
_PAGES = 2 * _MEMORY * 1024 // _PAGE_KIB
_HUGE_PAGES = pathlib.Path(f'/sys/kernel/mm/hugepages/hugepages-{_PAGE_KIB}kB/free_hugepages')


class PinnedTestCase(life.LifeTestCase):
    """A test with servers of flavors of its own."""

    def setUp(self) -> None:
        super().setUp()
        if not self.cloud.settings.dedicated_cpus:
            self.skipTest('bring the cloud up with --dedicated-cpus')

    def domain_xml(self, server: drills.Server, host: str) -> ElementTree.Element:
        """Return the configuration of a server's domain on a host."""
        return ElementTree.fromstring(self.host(host).virsh('dumpxml', server.id))

    def wait_room(self, server: drills.Server) -> None:
        """Wait until the host of backups has room for one of a server.

        The tracker of Nova counts a server that is deleted within a minute of its evacuation
        until its next audit.
        """
        self.wait(f'{base.BACKUP} to have room for a backup of {server.name}', lambda: not any(
            _MISFIT in reason
            for reason in self.drill.backups.check({}, base.BACKUP, server.id)['reasons']))

    def pins(self, server: drills.Server, host: str) -> dict[str, str]:
        """Return the CPUs of a host to which a domain is pinned, by virtual CPU."""
        return {str(pin.get('vcpu')): str(pin.get('cpuset'))
                for pin in self.domain_xml(server, host).iterfind('./cputune/vcpupin')}

    def recorded_pins(self, server: drills.Server) -> dict[str, str]:
        """Return the CPUs of a server in Nova's database, by virtual CPU."""
        [node] = self.drill.compute.get(f'/servers/{server.id}/topology').json()['nodes']
        return {str(vcpu): str(cpu) for vcpu, cpu in node['cpu_pinning'].items()}


class TestPinned(PinnedTestCase):
    """A backup has CPUs of its own host, which no other server gets."""

    def setUp(self) -> None:
        super().setUp()
        # All of a host, so that there is room for one server.
        self.cpus = (os.cpu_count() or 1) - 1
        self.pinned = self.flavor({'hw:cpu_policy': 'dedicated'}, vcpus=self.cpus)

    def test_dropped_backup_gives_its_cpus_back(self) -> None:
        server = self.boot(flavor=self.pinned)
        primary = self.pins(server, base.PRIMARY)
        self.wait_room(server)
        dropped = self.begin(server)
        self.assertEqual(set(primary), set(self.pins(server, base.BACKUP)))
        [resources] = self.drill.claim(dropped).values()
        self.assertEqual({'PCPU': self.cpus, 'MEMORY_MB': _MEMORY}, resources['resources'])
        refused = self.boot_later(base.BACKUP, flavor=self.pinned)
        self.wait_status(refused, 'ERROR')
        self.drill.abort(dropped)
        self.assertNothingLeft(dropped)
        other = self.boot(base.BACKUP, flavor=self.pinned)
        self.assertEqual(set(primary), set(self.pins(other, base.BACKUP)))

    def test_host_refuses_what_it_cannot_give(self) -> None:
        servers = [self.boot(host, flavor=self.pinned) for host in (base.PRIMARY, base.OTHER)]
        self.wait_room(servers[0])
        first = self.begin(servers[0])
        error = self.assertRaises(exception.ServerNotEligible, self.begin, servers[1])
        self.assertIn('choose another host', str(error))
        reasons = self.drill.backups.check({}, base.BACKUP, servers[1].id)['reasons']
        self.assertIn(_MISFIT, '; '.join(reasons))
        # What was refused takes nothing from what runs.
        self.assertIn(base.BACKUP, self.drill.running(first.server))
        self.assertEqual(self.cpus, len(self.pins(first.server, base.BACKUP)))

    def test_adopted_server_keeps_the_cpus_of_its_backup(self) -> None:
        server = self.boot(flavor=self.pinned)
        name = self.guest_name(server)
        self.wait_room(server)
        self.host(base.PRIMARY).kill()
        recovery = self.begin(server)
        pins, pid = self.pins(server, base.BACKUP), self.drill.pid(server, base.BACKUP)
        self.assertEqual(self.cpus, len(pins))
        # The claim is in the journal.
        self.drill.restart_compute(base.BACKUP)
        self.drill.promote(recovery)
        adopted = self.drill.adopt(recovery)
        self.assertEqual(pins, self.recorded_pins(server))
        self.assertEqual((pins, pid), (self.pins(adopted, base.BACKUP),
                                       self.drill.pid(adopted, base.BACKUP)))
        self.assertNotEqual(name, self.guest_name(adopted))
        self.drill.merged(recovery)
        # Nova itself pins the server to the same CPUs.
        self.drill.act(server.id, 'reboot', {'type': 'HARD'})
        self.wait_status(server.id, 'ACTIVE')
        self.assertEqual(pins, self.pins(adopted, base.BACKUP))
        self.wait_answer(adopted)


class TestHugePages(PinnedTestCase):
    """A backup has huge pages of its own host."""

    def setUp(self) -> None:
        super().setUp()
        if not _HUGE_PAGES.exists() or int(_HUGE_PAGES.read_text()) < _PAGES:
            self.skipTest(f'before the cloud is brought up, give this machine {_PAGES} huge pages '
                          f'of {_PAGE_KIB} KiB (sysctl vm.nr_hugepages)')

    def pages(self, server: drills.Server, host: str) -> str | None:
        """Return the size of the pages of a domain in KiB."""
        page = self.domain_xml(server, host).find('./memoryBacking/hugepages/page')
        return None if page is None else page.get('size')

    def test_adopted_server_keeps_the_pages_of_its_backup(self) -> None:
        server = self.boot(flavor=self.flavor({'hw:mem_page_size': 'large'}))
        self.assertEqual(str(_PAGE_KIB), self.pages(server, base.PRIMARY))
        self.wait_room(server)
        dropped = self.begin(server)
        free = int(_HUGE_PAGES.read_text())
        self.assertEqual(str(_PAGE_KIB), self.pages(server, base.BACKUP))
        self.drill.abort(dropped)
        self.assertNothingLeft(dropped)
        self.assertLess(free, int(_HUGE_PAGES.read_text()))
        recovery = self.adopted(server=server)
        self.drill.merged(recovery)
        self.assertEqual(str(_PAGE_KIB), self.pages(recovery.server, base.BACKUP))
        self.wait_answer(recovery.server)

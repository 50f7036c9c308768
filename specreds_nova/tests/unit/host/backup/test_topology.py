# SPDX-License-Identifier: Apache-2.0
"""A claimed topology in the configuration of the backup's domain, as Nova makes it."""

from typing import Any
from unittest import mock

from nova.virt.libvirt import driver as nova_driver

from specreds_nova.host.backup import topology
from specreds_nova.tests.unit.host.backup import numa_host


class DomainTest(numa_host.TestCase):
    """What Nova's driver makes of a topology that was read from the journal."""

    def config(self, specs: dict[str, str], vcpus: int = 3) -> tuple[Any, Any, Any]:
        """Return a claimed topology, and what it makes of CPUs and of memory."""
        instance = self.server(vcpus=vcpus, **specs)
        self.backup(instance)
        record = self.on_disk()
        assert record is not None and record.numa_topology is not None
        claimed = topology.from_primitive(record.numa_topology)
        driver = nova_driver.LibvirtDriver.__new__(nova_driver.LibvirtDriver)
        # Older releases look whether it encrypts memory.
        driver._host = mock.Mock(supports_amd_sev=False)
        with mock.patch.object(driver, '_has_numa_support', return_value=True), \
                mock.patch.object(driver, '_get_host_numa_topology', return_value=self.empty), \
                mock.patch.object(driver, '_get_vcpu_available', return_value=set()):
            config = driver._get_guest_numa_config(claimed, instance.flavor, instance.image_meta)
            memory = driver._get_guest_memory_backing_config(
                claimed, config.numatune, instance.flavor, instance.image_meta)
        return claimed, config, memory

    def test_domain_is_pinned_to_the_claimed_cpus(self) -> None:
        claimed, config, memory = self.config({'cpu_policy': 'dedicated'})
        [cell] = claimed.cells
        self.assertEqual({virtual: {cpu} for virtual, cpu in cell.cpu_pinning.items()},
                         {pin.id: pin.cpuset for pin in config.cputune.vcpupin})
        self.assertEqual(claimed.cpu_pinning, config.cputune.emulatorpin.cpuset)
        self.assertEqual([cell.id], config.numatune.memory.nodeset)
        self.assertIsNone(memory)

    def test_emulator_has_the_cpu_that_is_reserved_for_it(self) -> None:
        claimed, config, _ = self.config({'cpu_policy': 'dedicated',
                                          'emulator_threads_policy': 'isolate'})
        [cell] = claimed.cells
        self.assertEqual(1, len(cell.cpuset_reserved))
        self.assertEqual(cell.cpuset_reserved, config.cputune.emulatorpin.cpuset)

    def test_memory_is_backed_by_the_claimed_pages(self) -> None:
        claimed, config, memory = self.config({'mem_page_size': 'large'}, vcpus=2)
        self.assertEqual([2048], [page.size_kb for page in memory.hugepages])
        self.assertEqual([claimed.cells[0].id], config.numatune.memory.nodeset)

    def test_nodes_are_those_that_are_claimed(self) -> None:
        claimed, config, _ = self.config({
            'numa_nodes': '2', 'numa_cpus.0': '0', 'numa_cpus.1': '1,2', 'numa_mem.0': '64',
            'numa_mem.1': '64'})
        self.assertEqual([cell.id for cell in claimed.cells],
                         [node.nodeset[0] for node in config.numatune.memnodes])
        self.assertEqual([{0}, {1, 2}], [cell.cpus for cell in config.numaconfig.cells])

# SPDX-License-Identifier: Apache-2.0
"""A host with two NUMA nodes: Nova's own resource tracker and objects, without a database."""

import json
from typing import Any
from unittest import mock

import fixtures
from nova import context as nova_context
from nova import objects
from nova.compute import claims
from nova.compute import resource_tracker
from nova.pci import stats as pci_stats
from nova.virt import hardware

from specreds_nova.host.backup import journal as journals
from specreds_nova.host.backup import topology
from specreds_nova.tests.unit.host import base

NODE = 'node2.example'
ALLOCATIONS: dict[str, Any] = {}


def cell(number: int, cpus: set[int]) -> Any:
    """Return a NUMA node with dedicated CPUs and two others, 1 GiB, and 256 pages of 2 MiB."""
    shared = {20 + number, 30 + number}
    return objects.NUMACell(
        id=number, cpuset=shared, pcpuset=cpus, memory=1024, cpu_usage=0, memory_usage=0,
        pinned_cpus=set(), siblings=[{cpu} for cpu in cpus | shared], socket=number,
        mempages=[objects.NUMAPagesTopology(size_kb=4, total=131072, used=0),
                  objects.NUMAPagesTopology(size_kb=2048, total=256, used=0)],
        network_metadata=objects.NetworkMetadata(physnets=set(), tunneled=False))


class TestCase(base.TestCase):
    """With a resource tracker that respects the claims of backups."""

    def setUp(self) -> None:
        super().setUp()
        self.context = nova_context.get_admin_context()
        for owner, name in ((objects.Instance, 'save'), (objects.Migration, 'save'),
                            (resource_tracker.ResourceTracker, '_update_to_placement')):
            self.useFixture(fixtures.MockPatchObject(owner, name))
        self.useFixture(fixtures.MockPatch('nova.db.main.api.instance_extra_update_by_uuid'))
        self.useFixture(fixtures.MockPatchObject(
            claims.Claim, '_test_numa_topology', claims.Claim._test_numa_topology))
        self.useFixture(fixtures.MockPatchObject(
            objects.ComputeNode, 'save', lambda node: self.rows.append(node.numa_topology)))
        # What Nova's scheduler would read, in the order of the reports.
        self.rows: list[str] = []
        self.empty = objects.NUMATopology(cells=[cell(0, {0, 1, 2, 3}), cell(1, {4, 5, 6, 7})])
        self.tracker = self.restarted()
        self.numa_claims = self.installed(self.journal)

    def restarted(self) -> Any:
        """Return the resource tracker of a nova-compute that has just started."""
        driver = mock.Mock(**{'get_host_ip_addr.return_value': '192.0.2.2'})
        tracker = resource_tracker.ResourceTracker(base.HOST, driver, reportclient=mock.Mock())
        tracker.compute_nodes[NODE] = objects.ComputeNode(
            id=1, host=base.HOST, hypervisor_hostname=NODE, cpu_allocation_ratio=16.0,
            ram_allocation_ratio=1.5, numa_topology=self.empty._to_json(), memory_mb=2048,
            memory_mb_used=0, local_gb=10, local_gb_used=0, vcpus=8, vcpus_used=0,
            free_ram_mb=2048, free_disk_gb=10, running_vms=0,
            pci_device_pools=objects.PciDevicePoolList())
        tracker.pci_tracker = mock.Mock(
            stats=pci_stats.PciDeviceStats(self.empty), **{'claim_instance.return_value': []})
        return tracker

    def installed(self, journal: journals.Journal) -> topology.TopologyClaims:
        """Return the claims of backups, which the tracker respects."""
        numa_claims = topology.TopologyClaims(journal, self.tracker)
        numa_claims.install()
        return numa_claims

    def server(self, uuid: str = base.SERVER, host: str | None = base.PRIMARY, vcpus: int = 2,
               **specs: str) -> Any:
        """Return a server of Nova's; its extra specs are those of ``hw:``."""
        flavor = objects.Flavor(
            id=1, flavorid='f', name='f', memory_mb=128, vcpus=vcpus, root_gb=0, ephemeral_gb=0,
            swap=0, extra_specs={f'hw:{name}': value for name, value in specs.items()})
        instance = objects.Instance(
            self.context, id=1, uuid=uuid, project_id='p', user_id='u', host=host, node=host,
            vm_state='active', task_state=None, flavor=flavor, image_ref='', system_metadata={},
            deleted=False, numa_topology=None, instance_type_id=1, resources=None,
            pci_requests=objects.InstancePCIRequests(requests=[]), migration_context=None,
            pci_devices=objects.PciDeviceList(objects=[]), info_cache=None, old_flavor=None,
            new_flavor=None, os_type=None)
        instance.numa_topology = hardware.numa_get_constraints(flavor, instance.image_meta)
        self.tracker.is_bfv[uuid] = True
        return instance

    def pinned(self, uuid: str = base.SERVER, **more: Any) -> Any:
        """Return a server with pinned CPUs."""
        return self.server(uuid, cpu_policy='dedicated', **more)

    def backup(self, instance: Any, backup_id: str = base.BACKUP_ID) -> journals.Record:
        """Return the record of a server's backup whose topology is claimed."""
        record = journals.Record(backup_id, instance.uuid, base.SUPERPOSITION, base.HOST,
                                 phase=journals.STARTING)
        self.numa_claims.claim(record, instance)
        return record

    def boot(self, uuid: str, **more: Any) -> set[int]:
        """Boot a server as nova-compute does, and return its CPUs."""
        instance = self.pinned(uuid, host=None, **more)
        self.tracker.instance_claim(self.context, instance, NODE, ALLOCATIONS)
        return set(instance.numa_topology.cpu_pinning)

    def evacuate(self, instance: Any) -> Any:
        """Claim as Nova's evacuation does, and return the claim."""
        instance.task_state = 'rebuilding'
        migration = objects.Migration(
            self.context, id=7, uuid=base.SUPERPOSITION, instance_uuid=instance.uuid,
            migration_type='evacuation', source_compute=base.PRIMARY, source_node=base.PRIMARY,
            status='accepted', created_at=None, updated_at=None)
        return self.tracker.rebuild_claim(
            self.context, instance, NODE, ALLOCATIONS, image_meta=instance.image_meta,
            migration=migration)

    def reported(self) -> set[int]:
        """Return the CPUs that are in use as Nova's scheduler reads them."""
        return set().union(*(each.pinned_cpus for each in self._read().cells))

    def pages(self, number: int) -> int:
        """Return how many huge pages of a node are in use as Nova's scheduler reads them."""
        return int(self._read().cells[number].mempages[1].used)

    def _read(self) -> Any:
        return objects.NUMATopology.obj_from_primitive(json.loads(self.rows[-1]))

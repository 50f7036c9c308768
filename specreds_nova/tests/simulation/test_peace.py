# SPDX-License-Identifier: Apache-2.0
"""Peace leaves the memory of Nova's scheduler as it was."""

import datetime
from typing import Any
from unittest import mock

from nova import objects
from nova.scheduler import host_manager
from nova.virt import hardware
from oslo_utils import timeutils
from oslo_utils.fixture import uuidsentinel
import testtools

from testing.simulation import play
from testing.simulation import schedule as schedules
from testing.simulation import world as worlds

_HOST_CPUS, _SERVER_CPUS = 40, 8
# Seconds of peace, at the end of which a simulated fault changes nothing.
_PEACE = 400.0


class Scheduler:
    """Nova's view of one host, from which each selection takes what it selects."""

    def __init__(self) -> None:
        objects.register_all()
        cpus = set(range(_HOST_CPUS))
        pages = objects.NUMAPagesTopology(size_kb=4, total=2 ** 26, used=0, reserved=0)
        cell = objects.NUMACell(
            id=0, cpuset=set(), pcpuset=cpus, memory=2 ** 18, cpu_usage=0, memory_usage=0,
            pinned_cpus=set(), socket=0, siblings=[{cpu} for cpu in cpus], mempages=[pages],
            network_metadata=objects.NetworkMetadata(physnets=set(), tunneled=False))
        self._record = objects.ComputeNode(
            uuid=uuidsentinel.node, vcpus=_HOST_CPUS, vcpus_used=0, memory_mb=2 ** 18,
            free_ram_mb=2 ** 18, local_gb=1000, local_gb_used=0, free_disk_gb=1000,
            disk_available_least=None, hypervisor_type='QEMU', hypervisor_version=7002000,
            hypervisor_hostname='h', cpu_info='', host_ip=None, supported_hv_specs=[], stats={},
            pci_device_pools=None, metrics='[]', cpu_allocation_ratio=1.0,
            ram_allocation_ratio=1.0, disk_allocation_ratio=1.0,
            numa_topology=objects.NUMATopology(cells=[cell])._to_json(),
            updated_at=timeutils.utcnow(with_timezone=True) - datetime.timedelta(minutes=1))
        self._host = host_manager.HostState('h', 'h', uuidsentinel.cell)

    def fits(self) -> bool:
        """Return whether a server with dedicated CPUs fits on the host, which is empty."""
        self._host.update(compute=self._record, inst_dict={})
        return hardware.numa_fit_instance_to_host(
            self._host.numa_topology, _request().numa_topology,
            provider_mapping=None) is not None

    def select(self) -> list[str]:
        """Select the host for a server, as ``select_destinations`` does without claims."""
        if not self.fits():
            return []
        self._host.consume_from_request(_request())
        return ['h']


def _request() -> Any:
    cell = objects.InstanceNUMACell(
        id=0, cpuset=set(), pcpuset=set(range(_SERVER_CPUS)), memory=2 ** 14, pagesize=None,
        cpu_policy='dedicated', cpu_thread_policy=None, cpu_pinning_raw=None)
    return objects.RequestSpec(
        flavor=objects.Flavor(vcpus=_SERVER_CPUS, memory_mb=2 ** 14, root_gb=0, ephemeral_gb=0,
                              swap=0),
        numa_topology=objects.InstanceNUMATopology(cells=[cell]), requested_resources=[],
        pci_requests=objects.InstancePCIRequests(requests=[]), num_instances=1)


class PeaceTest(testtools.TestCase):

    def test_questions_fill_an_empty_host(self) -> None:
        scheduler = Scheduler()
        self.assertEqual([['h']] * 5 + [[]], [scheduler.select() for _ in range(6)])

    def test_nothing_is_asked_before_a_host_is_suspected(self) -> None:
        scheduler = Scheduler()
        schedule = schedules.Schedule(
            seed=0, hosts=('h1', 'h2'), engines=('e1', 'e2'), nodes=1,
            servers={f's{number}': ('h1', 0.0, 2.0) for number in range(6)}, clocks={},
            options={}, faults=(schedules.Fault(_PEACE, schedules.REFUSED, 's0', 1.0),))
        with mock.patch.object(worlds.World, 'candidates',
                               lambda *_: scheduler.select()):
            result = play.play(schedule)
        self.assertEqual(([], {}), (result.wrong, result.outcomes))
        self.assertLess(_PEACE, result.seconds)
        self.assertTrue(scheduler.fits())

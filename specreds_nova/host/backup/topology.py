# SPDX-License-Identifier: Apache-2.0
"""The NUMA topology of a backup: pinned CPUs, NUMA nodes and huge pages of this host.

Whether a topology fits is computed by Nova's own functions, as an evacuation computes it.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from nova import exception as nova_exception
from nova import objects
import nova.conf
from nova.objects import fields
from nova.virt import hardware
from oslo_log import log as logging

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

_DEDICATED = (fields.CPUAllocationPolicy.DEDICATED, fields.CPUAllocationPolicy.MIXED)


def refusals(instance: Any) -> Iterator[str]:
    """Return why no backup of a server with a NUMA topology may run on this host."""
    if instance.numa_topology is None:
        return
    if hardware.is_realtime_enabled(instance.flavor):
        yield 'its CPUs are realtime ones'
    cells = instance.numa_topology.cells
    if CONF.libvirt.cpu_power_management and any(
            cell.cpu_policy in _DEDICATED for cell in cells):
        yield ('its CPUs are pinned, and nova-compute on this host powers dedicated CPUs down '
               'when it starts ([libvirt] cpu_power_management)')
    if CONF.libvirt.file_backed_memory and any(cell.pagesize for cell in cells):
        yield 'it needs pages of a certain size, and the memory on this host is backed by files'


def fit(instance: Any, compute_node: Any, host: Any, pci_stats: Any) -> Any | None:
    """Return a server's topology on a host, or None if it does not fit.

    :param compute_node: Nova's record of the host
    :param host: the topology of the host, with all usage
    :param pci_stats: the PCI devices of the host, from which the server is kept away
    """
    requested = hardware.numa_get_constraints(instance.flavor, instance.image_meta)
    limits = objects.NUMATopologyLimits(
        cpu_allocation_ratio=compute_node.cpu_allocation_ratio,
        ram_allocation_ratio=compute_node.ram_allocation_ratio)
    networks = objects.RequestSpec()
    networks.ensure_network_information(instance)
    if 'network_metadata' in networks:
        limits.network_metadata = networks.network_metadata
    return hardware.numa_fit_instance_to_host(
        host, requested, provider_mapping=None, limits=limits, pci_requests=[],
        pci_stats=pci_stats)


def of_host(compute_node: Any) -> Any | None:
    """Return the topology of a host in Nova's record, or None if the host has none."""
    if 'numa_topology' not in compute_node or not compute_node.numa_topology:
        return None
    return objects.NUMATopology.obj_from_db_obj(compute_node.numa_topology)


def is_free(host: Any, claimed: Any) -> bool:
    """Return whether the CPUs of a claimed topology exist on a host and are free."""
    try:
        hardware.numa_usage_from_instance_numa(host, claimed)
    except (nova_exception.CPUPinningInvalid, nova_exception.CPUPinningUnknown):
        return False
    return True


def with_usage(host: Any, claimed: Iterable[Any]) -> Any:
    """Return the topology of a host with claimed topologies in use."""
    for topology in claimed:
        try:
            host = hardware.numa_usage_from_instance_numa(host, topology)
        except (nova_exception.CPUPinningInvalid, nova_exception.CPUPinningUnknown) as exc:
            # The options of the host have changed, or Nova has the same CPUs in use.
            LOG.error('CPUs that are claimed for a backup are also in use by Nova, or are not '
                      "among the host's dedicated ones: %s", exc)
            for cell in host.cells:
                cell.pinned_cpus |= cell.pcpuset & _cpus(topology, cell.id)
    return host


def _cpus(topology: Any, cell_id: int) -> set[int]:
    """Return the CPUs of a host's NUMA node that a topology has pinned."""
    return {cpu for cell in topology.cells if cell.id == cell_id
            for cpu in (*(cell.cpu_pinning or {}).values(), *(cell.cpuset_reserved or ()))}


def to_primitive(topology: Any) -> dict[str, Any]:
    """Return a server's topology as something that JSON can hold."""
    primitive: dict[str, Any] = topology.obj_to_primitive()
    return primitive


def from_primitive(primitive: dict[str, Any]) -> Any:
    """Return a server's topology from what :func:`to_primitive` has returned."""
    return objects.InstanceNUMATopology.obj_from_primitive(primitive)

# SPDX-License-Identifier: Apache-2.0
"""The NUMA topology of a backup: pinned CPUs, NUMA nodes and huge pages of this host.

Whether a topology fits is computed by Nova's own functions, as an evacuation computes it.
"""

from collections.abc import Callable, Iterable, Iterator
import contextlib
import functools
from typing import Any

from nova import exception as nova_exception
from nova import objects
from nova.compute import claims
from nova.compute import resource_tracker
import nova.conf
from nova.objects import fields
from nova.virt import hardware
from oslo_concurrency import lockutils
from oslo_log import log as logging

from specreds_nova import exception
from specreds_nova.host.backup import journal as journals

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


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """Hold the lock under which Nova's tracker changes. A lock that is not fair is another one."""
    with lockutils.lock(resource_tracker.COMPUTE_RESOURCE_SEMAPHORE, 'nova-', fair=True):
        yield


class TopologyClaims:
    """The NUMA topologies that are claimed on this host for backups.

    :param tracker: Nova's resource tracker
    """

    def __init__(self, journal: journals.Journal, tracker: Any) -> None:
        self._journal = journal
        self._tracker = tracker

    def install(self) -> None:
        """Make Nova's tracker respect the claims. Servers without a topology are not concerned."""
        self._tracker._update = functools.partial(self._update, self._tracker._update)
        test = claims.Claim._test_numa_topology

        def respecting(claim: Any, compute_node: Any, limit: Any) -> Any:
            nova_test = functools.partial(test, claim, compute_node, limit)
            if claim.tracker is not self._tracker:
                return nova_test()
            return self._test(nova_test, claim, compute_node)

        claims.Claim._test_numa_topology = respecting

    def claim(self, record: journals.Record, instance: Any) -> Any:
        """Claim what a server needs of this host, and return its topology here.

        When this returns, the claim is in the journal. :meth:`report` makes it known to Nova's
        scheduler.

        :raises ServerNotEligible: it does not fit
        """
        with _locked():
            fitted = self._fit(instance)
            if fitted is None:
                raise exception.ServerNotEligible(_misfit(instance))
            record.numa_topology = to_primitive(fitted)
            self._journal.save(record)
        LOG.info('claimed NUMA nodes %s and CPUs %s for backup %s',
                 [cell.id for cell in fitted.cells], sorted(fitted.cpu_pinning),
                 record.backup_id, instance=instance)
        return fitted

    def reasons(self, instance: Any) -> list[str]:
        """Return why a server's topology does not fit on this host at the moment; none if it does.

        Nothing is claimed.
        """
        if instance.numa_topology is None:
            return []
        with _locked():
            return [] if self._fit(instance) is not None else [_misfit(instance)]

    def offer(self, record: journals.Record) -> None:
        """Report the claim of a backup as free, so that Nova's scheduler allows its evacuation.

        Here it is kept: no other server gets it.

        :raises ReportFailed: Nova does not take the report
        """
        if record.numa_topology is None or record.phase not in journals.HIDDEN:
            return
        record.topology_offered = True
        self._journal.save(record)
        self.report()

    def report(self) -> None:
        """Write the topology of this host, with the claims, to Nova's database.

        Nova's tracker does so at its next audit, too.

        :raises ReportFailed: Nova does not take the report
        """
        try:
            with _locked():
                for node in self._tracker.compute_nodes.values():
                    with _with_claims(node, self._reported()):
                        # Even an unchanged row outdates what the scheduler has in memory.
                        node.save()
        except Exception as exc:
            raise exception.ReportFailed(
                f'Nova does not take the report of the NUMA topology of host '
                f'{self._tracker.host} ({exc}): try again when it does') from exc

    # The other methods are called with Nova's lock held

    def _fit(self, instance: Any) -> Any | None:
        node = next(iter(self._tracker.compute_nodes.values()), None)
        host = None if node is None else of_host(node)
        if host is None:
            return None
        host = with_usage(host, _topologies(self._held()))
        return fit(instance, node, host, self._tracker.pci_tracker.stats)

    def _held(self, besides: str | None = None) -> list[journals.Record]:
        """Return the backups whose claims Nova's tracker does not count itself.

        :param besides: a server to leave out
        """
        return [record for record in self._journal.records()
                if record.numa_topology is not None and record.phase in journals.HIDDEN
                and record.instance_uuid != besides
                and not self._counted_by_nova(record.instance_uuid)]

    def _reported(self) -> list[journals.Record]:
        return [record for record in self._held() if not record.topology_offered]

    def _counted_by_nova(self, instance_uuid: str) -> bool:
        """Return whether the server is this host's, or an evacuation has claimed for it here."""
        migration = self._tracker.tracked_migrations.get(instance_uuid)
        return instance_uuid in self._tracker.tracked_instances or (
            _evacuating(migration) and migration.dest_compute == self._tracker.host)

    def _test(self, nova_test: Callable[[], Any], claim: Any, compute_node: Any) -> Any:
        """Test a claim of Nova's tracker; return why it fails, or None."""
        uuid = claim.instance.uuid
        evacuated = uuid if _evacuating(claim.migration) else None
        held = self._held(besides=evacuated)
        own = self._own(uuid) if evacuated else None
        if own is not None and (host := of_host(compute_node)) is not None:
            fitted = from_primitive(own.numa_topology or {})
            if is_free(with_usage(host, _topologies(held)), fitted):
                LOG.info('the evacuation takes over NUMA nodes %s and CPUs %s of backup %s',
                         [cell.id for cell in fitted.cells], sorted(fitted.cpu_pinning),
                         own.backup_id, instance=claim.instance)
                claim.claimed_numa_topology = fitted
                # Nova aborts a claim by a copy of the server that has no migration context, so
                # that the CPUs would be in use until its next audit.
                claim.instance.migration_context = objects.MigrationContext(
                    claim.context, instance_uuid=uuid, new_numa_topology=fitted)
                return None
            LOG.error('CPUs %s, on which backup %s runs, are not free for the server that adopts '
                      'it: Nova chooses other ones, on which the server is after a hard reboot',
                      sorted(fitted.cpu_pinning), own.backup_id, instance=claim.instance)
        with _with_claims(compute_node, held):
            return nova_test()

    def _own(self, instance_uuid: str) -> journals.Record | None:
        record = self._journal.of_instance(instance_uuid)
        if record is None or record.phase not in journals.HIDDEN or not record.numa_topology:
            return None
        return record

    def _update(self, update: Callable[..., Any], context: Any, compute_node: Any, *args: Any,
                **kwargs: Any) -> Any:
        """Report a host to Nova's database as Nova's tracker does, with the claims."""
        with _with_claims(compute_node, self._reported()):
            return update(context, compute_node, *args, **kwargs)


def _evacuating(migration: Any) -> bool:
    return (migration is not None
            and migration.migration_type == fields.MigrationType.EVACUATION)


def _misfit(instance: Any) -> str:
    return (f'the NUMA topology, pinned CPUs or huge pages of server {instance.uuid} do not fit '
            f'into what is free on this host: choose another host')


def _topologies(records: Iterable[journals.Record]) -> Iterator[Any]:
    for record in records:
        yield from_primitive(record.numa_topology or {})


@contextlib.contextmanager
def _with_claims(compute_node: Any, records: list[journals.Record]) -> Iterator[None]:
    """Have Nova's record of a host show the claims of backups as used."""
    host = of_host(compute_node) if records else None
    if host is None:
        yield
        return
    own = compute_node.numa_topology
    compute_node.numa_topology = with_usage(host, _topologies(records))._to_json()
    try:
        yield
    finally:
        compute_node.numa_topology = own

# SPDX-License-Identifier: Apache-2.0
"""Claims of NUMA topologies for backups, beside Nova's own claims."""

from concurrent import futures
import threading
from typing import Any
from unittest import mock

from nova import exception as nova_exception
from nova import objects
from nova.compute import resource_tracker
from nova.network import model
from oslo_concurrency import lockutils

from specreds_nova import exception
from specreds_nova.host.backup import journal as journals
from specreds_nova.host.backup import topology
from specreds_nova.tests.unit.host import base
from specreds_nova.tests.unit.host.backup import numa_host

OTHER = '55555555-5555-4555-8555-555555555555'
THIRD = '66666666-6666-4666-8666-666666666666'
FOURTH = '77777777-7777-4777-8777-777777777777'
OTHER_BACKUP = 'b7777777-7777-4777-8777-777777777777'


def cpus(record: journals.Record) -> set[int]:
    """Return the CPUs that are claimed for a backup."""
    assert record.numa_topology is not None
    return set(topology.from_primitive(record.numa_topology).cpu_pinning)


class ClaimTest(numa_host.TestCase):
    """What a backup is backups, and what others are given beside it."""

    def test_topology_is_that_of_the_host_and_in_the_journal(self) -> None:
        instance = self.pinned()
        record = journals.Record(base.BACKUP_ID, base.SERVER, base.SUPERPOSITION, base.HOST)
        fitted = self.numa_claims.claim(record, instance)
        [cell] = fitted.cells
        self.assertEqual({0, 1}, set(cell.cpu_pinning))
        self.assertLessEqual(set(cell.cpu_pinning.values()),
                             self.empty.cells[cell.id].pcpuset)
        read = self.on_disk()
        assert read is not None and read.numa_topology is not None
        [again] = topology.from_primitive(read.numa_topology).cells
        self.assertEqual((cell.id, cell.cpu_pinning, cell.memory, {0, 1}, 'dedicated'),
                         (again.id, again.cpu_pinning, again.memory, again.pcpuset,
                          again.cpu_policy))

    def test_other_servers_boot_on_other_cpus(self) -> None:
        record = self.backup(self.pinned(vcpus=4))
        self.assertEqual(set(range(8)) - cpus(record), self.boot(OTHER, vcpus=4))
        self.assertRaises(nova_exception.ComputeResourcesUnavailable, self.boot, THIRD, vcpus=1)

    def test_backup_gets_other_cpus_than_servers(self) -> None:
        taken = self.boot(OTHER, vcpus=4)
        self.assertEqual(set(range(8)) - taken, cpus(self.backup(self.pinned(vcpus=4))))

    def test_host_without_room_refuses_and_claims_nothing(self) -> None:
        self.boot(OTHER, vcpus=4)
        self.boot(THIRD, vcpus=3)
        error = self.assertRaises(exception.ServerNotEligible, self.backup, self.pinned())
        self.assertIn('choose another host', str(error))
        self.assertIsNone(self.on_disk())

    def test_host_without_a_topology_refuses(self) -> None:
        self.tracker.compute_nodes[numa_host.NODE].numa_topology = None
        self.assertRaises(exception.ServerNotEligible, self.backup, self.pinned())
        self.tracker.compute_nodes.clear()
        self.assertRaises(exception.ServerNotEligible, self.backup, self.pinned())

    def test_check_claims_nothing(self) -> None:
        instance = self.pinned(vcpus=4)
        for _ in range(3):
            self.assertEqual([], self.numa_claims.reasons(instance))
        self.boot(OTHER, vcpus=4)
        self.boot(THIRD, vcpus=4)
        [reason] = self.numa_claims.reasons(instance)
        self.assertIn('do not fit', reason)
        instance.numa_topology = None
        self.assertEqual([], self.numa_claims.reasons(instance))

    def test_two_backups_at_once_get_different_cpus_or_none(self) -> None:
        servers = [self.pinned(uuid, vcpus=4) for uuid in (base.SERVER, OTHER, THIRD)]
        ready = threading.Barrier(len(servers))

        def start(number: int) -> set[int] | None:
            record = journals.Record(f'{number}4444444-4444-4444-8444-444444444444',
                                     servers[number].uuid, base.SUPERPOSITION, base.HOST)
            ready.wait()
            try:
                self.numa_claims.claim(record, servers[number])
            except exception.ServerNotEligible:
                return None
            return cpus(record)

        with futures.ThreadPoolExecutor(len(servers)) as pool:
            claimed = [taken for taken in pool.map(start, range(len(servers))) if taken]
        self.assertEqual(2, len(claimed))
        self.assertEqual(set(range(8)), set().union(*claimed))

    def test_claim_holds_the_lock_that_nova_holds(self) -> None:
        owned = []
        lock = lockutils.internal_fair_lock(resource_tracker.COMPUTE_RESOURCE_SEMAPHORE)
        # By the one that Nova takes, and by that of a backup.
        with mock.patch.object(objects.Instance, 'save',
                               lambda instance: owned.append(lock.is_writer())):
            self.boot(OTHER)
        with mock.patch.object(self.journal, 'save',
                               lambda record: owned.append(lock.is_writer())):
            self.backup(self.pinned())
        self.assertEqual([True, True], owned)
        self.assertFalse(lock.is_writer())

    def test_huge_pages_are_claimed(self) -> None:
        # 128 MiB are 64 of the 256 pages of a node.
        record = self.backup(self.server(mem_page_size='2048'))
        [cell] = topology.from_primitive(record.numa_topology or {}).cells
        self.assertEqual(2048, cell.pagesize)
        self.numa_claims.report()
        self.assertEqual([64, 0], [self.pages(cell.id), self.pages(1 - cell.id)])

    def test_huge_pages_end(self) -> None:
        backups = 0
        for number in range(9):
            server = self.server(f'{number}1111111-1111-4111-8111-111111111111',
                                 mem_page_size='large')
            record = journals.Record(f'{number}4444444-4444-4444-8444-444444444444',
                                     server.uuid, base.SUPERPOSITION, base.HOST)
            if not self.numa_claims.reasons(server):
                self.numa_claims.claim(record, server)
                backups += 1
        # Two nodes have 256 pages each, and each backup takes 64.
        self.assertEqual(8, backups)

    def test_emulator_threads_and_several_nodes_are_fitted(self) -> None:
        record = self.backup(self.pinned(vcpus=4, numa_nodes='2',
                                         emulator_threads_policy='isolate'))
        fitted = topology.from_primitive(record.numa_topology or {})
        self.assertEqual({0, 1}, {cell.id for cell in fitted.cells})
        [reserved] = fitted.cells[0].cpuset_reserved
        free = set(range(8)) - set(fitted.cpu_pinning) - {reserved}
        self.assertEqual(3, len(free))
        self.assertLessEqual(self.boot(OTHER, vcpus=1), free)

    def test_networks_of_other_nodes_are_refused(self) -> None:
        instance = self.pinned(vcpus=4)
        for cell in self.empty.cells:
            cell.network_metadata.physnets = {'fast'} if cell.id == 1 else set()
            cell.network_metadata.tunneled = True
        self.tracker.compute_nodes[numa_host.NODE].numa_topology = self.empty._to_json()
        instance.info_cache = objects.InstanceInfoCache(network_info=model.NetworkInfo([
            model.VIF(id=base.VOLUME, network=model.Network(
                id=base.SUPERPOSITION, physical_network='fast'))]))
        self.assertEqual([1], [cell.id for cell in topology.from_primitive(
            self.backup(instance).numa_topology or {}).cells])
        self.assertEqual(1, len(self.numa_claims.reasons(instance)))


    def test_nothing_is_counted_twice_while_nova_counts_it(self) -> None:
        instance = self.server(mem_page_size='2048')
        record = self.backup(instance)
        [cell] = topology.from_primitive(record.numa_topology or {}).cells
        self.evacuate(instance)
        self.assertEqual(64, self.pages(cell.id))
        self.tracker.finish_evacuation(
            instance, numa_host.NODE, self.tracker.tracked_migrations.pop(base.SERVER))
        self.tracker.tracked_instances.add(base.SERVER)
        self.numa_claims.report()
        self.assertEqual(64, self.pages(cell.id))


class LifeTest(numa_host.TestCase):
    """How long a claim is held, and for whom."""

    def test_claim_survives_a_restart(self) -> None:
        record = self.backup(self.pinned(vcpus=4))
        journal = journals.Journal(f'{self.state}/specreds')
        journal.load()
        self.tracker = self.restarted()
        self.numa_claims = self.installed(journal)
        self.assertEqual(set(range(8)) - cpus(record), self.boot(OTHER, vcpus=4))

    def test_audit_of_nova_keeps_the_claim_and_reports_it(self) -> None:
        record = self.backup(self.pinned(vcpus=4))
        self.audit()
        self.assertEqual(cpus(record), self.reported())
        self.assertEqual(set(range(8)) - cpus(record), self.boot(OTHER, vcpus=4))
        self.assertEqual(set(range(8)), self.reported())
        # Nova itself counts its own server only.
        own = objects.NUMATopology.obj_from_db_obj(
            self.tracker.compute_nodes[numa_host.NODE].numa_topology)
        self.assertEqual(4, sum(len(cell.pinned_cpus) for cell in own.cells))

    def audit(self, *instances: Any) -> None:
        """Run Nova's audit of the host."""
        resources = {'hypervisor_hostname': numa_host.NODE, 'uuid': base.VOLUME,
                     'numa_topology': self.empty._to_json(), 'stats': {}}
        node = self.tracker.compute_nodes[numa_host.NODE]
        node.service_id = 1
        self.tracker.service_ref = mock.Mock(id=1)
        for owner, name, value in (
                (objects.InstanceList, 'get_by_host_and_node', list(instances)),
                (objects.MigrationList, 'get_in_progress_and_error', []),
                (self.tracker, '_ensure_compute_id_for_instances', None),
                (self.tracker, '_remove_deleted_instances_allocations', None),
                (self.tracker, '_populate_assigned_resources', None)):
            patch = mock.patch.object(owner, name, return_value=value)
            patch.start()
            self.addCleanup(patch.stop)
        self.tracker._update_available_resource(self.context, resources)

    def test_end_of_a_backup_gives_its_cpus_back(self) -> None:
        for phase in journals.ENDED:
            record = self.backup(self.pinned(vcpus=4))
            self.numa_claims.report()
            self.assertEqual(cpus(record), self.reported())
            record.phase = phase
            self.journal.save(record)
            self.numa_claims.report()
            self.assertEqual(set(), self.reported())
            self.journal.forget(base.BACKUP_ID)
        self.boot(OTHER, vcpus=4)
        self.boot(THIRD, vcpus=4)

    def test_backup_that_is_being_removed_keeps_its_cpus(self) -> None:
        # Its domain may run.
        record = self.backup(self.pinned(vcpus=4))
        record.phase = journals.ABORTING
        self.journal.save(record)
        self.assertEqual(set(range(8)) - cpus(record), self.boot(OTHER, vcpus=4))

    def test_offered_claim_is_free_for_the_scheduler_only(self) -> None:
        record = self.backup(self.pinned(vcpus=4))
        other = journals.Record(OTHER_BACKUP, OTHER, base.SUPERPOSITION, base.HOST)
        self.numa_claims.claim(other, self.pinned(OTHER, vcpus=2))
        record.phase = journals.PROMOTED
        self.numa_claims.offer(record)
        self.assertEqual(cpus(other), self.reported())
        self.assertRaises(nova_exception.ComputeResourcesUnavailable, self.boot, THIRD, vcpus=4)
        # A restart of nova-compute, or an audit, does not take the offer back.
        read = self.on_disk()
        assert read is not None
        self.assertTrue(read.topology_offered)
        self.audit()
        self.assertEqual(cpus(other), self.reported())

    def test_offer_of_a_server_without_a_topology_reports_nothing(self) -> None:
        self.numa_claims.offer(self.record(journals.PROMOTED))
        self.assertEqual([], self.rows)

    def test_failed_report_is_an_error_in_words(self) -> None:
        record = self.backup(self.pinned())
        with mock.patch.object(objects.ComputeNode, 'save', side_effect=OSError('broken pipe')):
            error = self.assertRaises(exception.ReportFailed, self.numa_claims.offer, record)
        self.assertIn('broken pipe', str(error))
        # What the tracker itself has is as before.
        self.assertEqual(self.empty._to_json(),
                         self.tracker.compute_nodes[numa_host.NODE].numa_topology)

    def test_hosts_without_claims_are_left_alone(self) -> None:
        self.record(journals.RUNNING)
        before = self.tracker.compute_nodes[numa_host.NODE].numa_topology
        with mock.patch.object(topology, 'with_usage') as with_usage:
            self.tracker._update(self.context, self.tracker.compute_nodes[numa_host.NODE])
            self.boot(OTHER, vcpus=4)
        with_usage.assert_not_called()
        self.assertEqual(before, self.rows[0])


class AdoptionTest(numa_host.TestCase):
    """Nova's evacuation of the server to its backup."""

    def promoted(self, **more: Any) -> tuple[Any, journals.Record]:
        """Return a server and the record of its promoted backup, on the CPUs of the second node.

        Nova itself would choose those of the first one.
        """
        instance = self.pinned(**more)
        taken = self.boot(OTHER, vcpus=4)
        record = self.backup(instance)
        self.assertEqual(set(), cpus(record) & taken)
        # The server that had the first ones is deleted.
        self.tracker.tracked_instances.discard(OTHER)
        self.tracker.compute_nodes[numa_host.NODE].numa_topology = self.empty._to_json()
        record.phase = journals.PROMOTED
        self.journal.save(record)
        self.numa_claims.offer(record)
        return instance, record

    def test_nova_would_choose_other_cpus(self) -> None:
        instance, record = self.promoted(vcpus=3)
        self.journal.forget(record.backup_id)
        claim = self.evacuate(instance)
        self.assertNotEqual(cpus(record), set(claim.claimed_numa_topology.cpu_pinning))

    def test_evacuation_gets_exactly_what_the_domain_has(self) -> None:
        instance, record = self.promoted(vcpus=3)
        self.evacuate(instance)
        domain = topology.from_primitive(record.numa_topology or {})
        new = instance.migration_context.new_numa_topology
        self.assertEqual([(cell.id, cell.cpu_pinning) for cell in domain.cells],
                         [(cell.id, cell.cpu_pinning) for cell in new.cells])
        self.assertEqual(cpus(record), self.reported())
        self.tracker.finish_evacuation(
            instance, numa_host.NODE, self.tracker.tracked_migrations[base.SERVER])
        self.assertEqual(cpus(record), set(instance.numa_topology.cpu_pinning))
        self.assertEqual(base.HOST, instance.host)

    def test_others_never_get_the_cpus_during_an_adoption(self) -> None:
        instance, record = self.promoted(vcpus=3)
        self.evacuate(instance)
        self.assertEqual(set(), self.boot(THIRD, vcpus=4) & cpus(record))
        record.phase = journals.ADOPTED
        self.journal.save(record)
        self.assertEqual(1, len(self.numa_claims.reasons(self.pinned(OTHER, vcpus=2))))

    def test_failed_evacuation_leaves_the_claim_with_the_backup(self) -> None:
        instance, record = self.promoted(vcpus=4)
        claim = self.evacuate(instance)
        claim.abort()
        self.assertNotIn(base.SERVER, self.tracker.tracked_migrations)
        self.assertEqual(set(range(8)) - cpus(record), self.boot(THIRD, vcpus=4))
        # The next one gets it again.
        claim = self.evacuate(instance)
        self.assertEqual(cpus(record), set(claim.claimed_numa_topology.cpu_pinning))

    def test_live_migration_of_the_server_gets_other_cpus(self) -> None:
        instance, record = self.promoted(vcpus=4)
        migration = objects.Migration(
            self.context, id=8, uuid=base.SUPERPOSITION, instance_uuid=instance.uuid,
            migration_type='live-migration', source_compute=base.PRIMARY,
            source_node=base.PRIMARY, status='accepted')
        claim = self.tracker.live_migration_claim(
            self.context, instance, numa_host.NODE, migration, None, numa_host.ALLOCATIONS)
        self.assertEqual(set(range(8)) - cpus(record),
                         set(claim.claimed_numa_topology.cpu_pinning))

    def test_cpus_that_nova_has_given_away_do_not_keep_the_server_from_its_host(self) -> None:
        # The file of the record was unreadable for a while, and nova-compute restarted meanwhile.
        instance, record = self.promoted(vcpus=4)
        self.journal.forget(record.backup_id)
        taken = self.boot(THIRD, vcpus=4) | self.boot(OTHER, vcpus=2)
        self.assertNotEqual(set(), taken & cpus(record))
        self.journal.save(record)
        instance = self.pinned(vcpus=2)
        claim = self.evacuate(instance)
        self.assertEqual(set(), set(claim.claimed_numa_topology.cpu_pinning) & taken)

    def test_cpus_that_are_in_use_twice_are_never_given_to_a_third(self) -> None:
        _instance, record = self.promoted(vcpus=4)
        self.journal.forget(record.backup_id)
        self.boot(OTHER, vcpus=4)
        both = self.boot(THIRD, vcpus=2)
        self.assertLess(both, cpus(record))
        self.journal.save(record)
        self.assertRaises(nova_exception.ComputeResourcesUnavailable, self.boot, FOURTH, vcpus=2)

    def test_tracker_of_another_process_is_left_alone(self) -> None:
        self.backup(self.pinned(vcpus=4))
        self.tracker = self.restarted()
        self.assertEqual(8, len(self.boot(OTHER, vcpus=4) | self.boot(THIRD, vcpus=4)))

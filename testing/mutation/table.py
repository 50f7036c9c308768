# SPDX-License-Identifier: Apache-2.0
"""The mutations: what each takes out of the code, and the test that must notice."""

import dataclasses

_UNIT = 'specreds_cinder.tests.unit'
_FUNCTIONAL = 'specreds_cinder.tests.functional'
_SUPERPOSITION = 'specreds_cinder/superposition'


@dataclasses.dataclass(frozen=True)
class Mutation:
    """One safety step that is taken out.

    :param path: file, from the top of the checkout
    :param old: text that occurs exactly once in the file
    :param new: text that takes its place
    :param test: id of the test that must fail
    """

    name: str
    path: str
    old: str
    new: str
    test: str

    @property
    def needs_ceph(self) -> bool:
        """Whether the test needs a cluster."""
        return self.test.startswith(_FUNCTIONAL)

    def apply(self, source: str) -> str:
        """Return the file's text with the mutation.

        :raises ValueError: the text to replace does not occur exactly once
        """
        if source.count(self.old) != 1:
            raise ValueError(f'mutation {self.name}: {self.path} has the text to replace '
                             f'{source.count(self.old)} times')
        return source.replace(self.old, self.new)


MUTATIONS = (
    Mutation('host-fence-without-barrier', f'{_SUPERPOSITION}/steps/host_fence.py',
             '        _barrier(site, recorded)\n', '',
             f'{_FUNCTIONAL}.test_host_fence.HostFenceTest.'
             'test_every_placement_group_has_the_fence'),
    Mutation('host-fence-of-other-hosts', f'{_SUPERPOSITION}/steps/host_fence.py',
             'return self.addresses is None or address.host(client) in self.addresses',
             'return True',
             f'{_FUNCTIONAL}.test_host_fence.HostFenceTest.test_clients_of_other_hosts_live'),
    Mutation('host-fence-of-unknown-clients', f'{_SUPERPOSITION}/steps/host_fence.py',
             'if len(current) < target.clients:', 'if False:',
             f'{_FUNCTIONAL}.test_host_fence.HostFenceTest.'
             'test_shared_volume_without_a_known_client_is_refused'),
    Mutation('cut-of-changing-groups', f'{_SUPERPOSITION}/evidence/cut.py',
             'if (after.pg_num, after.merges) == (before.pg_num, before.merges):', 'if True:',
             f'{_UNIT}.superposition.evidence.test_cut.TakeTest.'
             'test_cut_is_repeated_when_groups_change'),
    Mutation('cut-shared-too-late', f'{_SUPERPOSITION}/evidence/cut.py',
             'needed = self._started + 1', 'needed = self._started',
             f'{_UNIT}.superposition.evidence.test_cut.CutterTest.'
             'test_waiting_calls_share_the_next_cut'),
    Mutation('sweep-with-wrong-bound', f'{_SUPERPOSITION}/evidence/sweep.py',
             'bounds = numpy.array(cut.versions, dtype=numpy.uint64)[groups]',
             'bounds = numpy.array(cut.versions, dtype=numpy.uint64).max()',
             f'{_UNIT}.superposition.evidence.test_sweep.SweeperTest.'
             'test_object_is_compared_with_its_own_group'),
    Mutation('sweep-ignores-the-version-of-the-cut', f'{_SUPERPOSITION}/evidence/sweep.py',
             '(swept >= bounds)', '(swept > bounds)',
             f'{_UNIT}.superposition.evidence.test_sweep.SweeperTest.'
             'test_object_with_the_version_of_the_cut_is_dirty'),
    Mutation('versions-of-the-first-sweep-ignored', f'{_SUPERPOSITION}/evidence/sweep.py',
             'if earlier is not None and earlier.batches != tuple(self._fingerprints):',
             'if False:',
             f'{_UNIT}.superposition.evidence.test_sweep.SweeperTest.'
             'test_groups_merged_after_the_first_sweep_prove_as_much'),
    Mutation('map-of-merged-groups-compared-with-the-cut', f'{_SUPERPOSITION}/evidence/sweep.py',
             'if version < bound and (earlier is None or version == earlier.map_version):',
             'if version < bound:',
             f'{_UNIT}.superposition.evidence.test_sweep.SweeperTest.'
             'test_map_changed_in_merged_groups_is_dirty'),
    Mutation('unproven-sweep-taken-for-the-first', f'{_SUPERPOSITION}/evidence/sweep.py',
             'if not dirty and self._unproven is None and', 'if not dirty and',
             f'{_UNIT}.superposition.evidence.test_sweep.SweeperTest.'
             'test_first_sweep_that_proves_nothing_is_not_kept'),
    Mutation('eviction-that-shortens-a-fence', f'{_SUPERPOSITION}/exclusion/fence.py',
             'short = [client for client in clients if left.get(client, 0) < expiry_s / 2]',
             'short = list(clients)',
             f'{_UNIT}.superposition.exclusion.test_fence.FenceTest.'
             'test_backup_is_evicted_for_a_day'),
    Mutation('entry-that-was-taken-for-a-remain', f'{_SUPERPOSITION}/truth/store.py',
             'if not listed:', 'if False:',
             f'{_FUNCTIONAL}.test_overtaken.CreationTest.'
             'test_creation_whose_entry_was_taken_for_a_remain_is_listed'),
    Mutation('silent-group-of-an-object-ignored', f'{_SUPERPOSITION}/steps/create.py',
             'if not cuts.bounded(site.cluster, volume, taken_cuts)', 'if False',
             f'{_UNIT}.superposition.steps.test_creation.CutsTest.'
             'test_cut_is_repeated_until_it_bounds_the_volumes'),
    Mutation('silent-group-of-a-dirty-sweep-ignored', f'{_SUPERPOSITION}/evidence/sweep.py',
             'if self._first is not None or self._unproven is not None:',
             'if self._unproven is not None:',
             f'{_UNIT}.superposition.evidence.test_sweep.SweeperTest.'
             'test_silent_group_fails_a_dirty_sweep_behind_the_fence'),
    Mutation('silent-group-of-an-unproven-sweep-ignored', f'{_SUPERPOSITION}/evidence/sweep.py',
             'if self._first is not None or self._unproven is not None:',
             'if self._first is not None:',
             f'{_UNIT}.superposition.evidence.test_sweep.SweeperTest.'
             'test_silent_group_fails_an_unproven_sweep_behind_the_fence'),
    Mutation('silent-group-of-a-host-fence-ignored', f'{_SUPERPOSITION}/steps/host_fence.py',
             'while not cuts.answered_by_all(site.cutter(pool_id, namespace).take()):',
             'while not site.cutter(pool_id, namespace).take():',
             f'{_UNIT}.superposition.steps.test_creation.CutsTest.'
             'test_barrier_of_a_fence_fails_if_a_group_stays_silent'),
    Mutation('watcher-taken-for-fenced', f'{_SUPERPOSITION}/steps/create.py',
             'for client in watchers - site.fence.outside(watchers)', 'for client in watchers',
             f'{_UNIT}.superposition.steps.test_creation.EndedTest.'
             'test_listed_client_without_a_blocklist_entry_counts'),
    Mutation('fenced-watcher-not-in-the-ledger', f'{_SUPERPOSITION}/steps/create.py',
             'site.ledger.enter(volume, [client], entry, replace=True)', 'pass',
             f'{_UNIT}.superposition.steps.test_creation.EndedTest.'
             'test_fenced_watcher_is_a_client_of_the_earlier_superposition'),
    Mutation('sweep-ignores-merged-groups', f'{_SUPERPOSITION}/evidence/sweep.py',
             ' or pool.merges != cut.merges', '',
             f'{_UNIT}.superposition.evidence.test_sweep.SweeperTest.'
             'test_groups_merged_during_the_sweep_are_unproven'),
    Mutation('sweep-ignores-the-map', f'{_SUPERPOSITION}/evidence/sweep.py',
             'if objectmap.digest(io, volume.image_id) != volume.map_digest:', 'if False:',
             f'{_UNIT}.superposition.evidence.test_sweep.SweeperTest.test_changed_map_is_dirty'),
    Mutation('sweep-ignores-the-lock', f'{_SUPERPOSITION}/evidence/sweep.py',
             'if owners & self._record.clients:', 'if False:',
             f'{_UNIT}.superposition.evidence.test_sweep.SweeperTest.'
             'test_map_touched_by_the_primary_is_dirty_unless_fenced'),
    Mutation('second-sweep-stops-early', f'{_SUPERPOSITION}/evidence/sweep.py',
             'return self._first is not None and not self._thorough',
             'return self._first is not None',
             f'{_FUNCTIONAL}.test_fence.FenceTest.test_second_sweep_reaches_every_osd'),
    Mutation('second-sweep-is-no-barrier', f'{_SUPERPOSITION}/evidence/sweep.py',
             'if self._thorough:\n            for pool_id', 'if False:\n            for pool_id',
             f'{_FUNCTIONAL}.test_fence.FenceTest.test_second_sweep_reaches_every_osd'),
    Mutation('map-moved-after-the-cut', f'{_SUPERPOSITION}/steps/create.py',
             'if sweep.moved(site.cluster, volume, cut):', 'if False:',
             f'{_FUNCTIONAL}.test_superposition.DirtyTest.'
             'test_object_discarded_between_cut_and_map_is_dirty'),
    Mutation('swap-without-version', f'{_SUPERPOSITION}/truth/store.py',
             'op.assert_version(old.version)', 'pass',
             f'{_UNIT}.superposition.truth.test_store.StoreTest.'
             'test_swap_asserts_the_version_that_was_read'),
    Mutation('void-claim-replaced-without-version', f'{_SUPERPOSITION}/truth/store.py',
             'op.assert_version(holder.version)', 'pass',
             f'{_UNIT}.superposition.truth.test_store.StoreTest.'
             'test_void_claim_is_replaced_by_compare_and_swap'),
    Mutation('changed-claim-taken-for-void', f'{_SUPERPOSITION}/truth/store.py',
             'claim, last = self.claimed(home, image_id), claim', 'claim = None',
             f'{_UNIT}.superposition.truth.test_store.StoreTest.'
             'test_claim_of_another_one_meanwhile_holds_its_volume'),
    Mutation('claim-of-a-superposition-taken-for-void', f'{_SUPERPOSITION}/truth/store.py',
             '            if self._exists(holder):\n', '            if False:\n',
             f'{_UNIT}.superposition.truth.test_store.StoreTest.'
             'test_claim_of_another_superposition_is_refused'),
    Mutation('remains-of-an-overtaken-creation-stay', f'{_SUPERPOSITION}/steps/create.py',
             '        end.clean(site, dataclasses.replace(',
             '        (lambda *_, **__: 0)(dataclasses.replace(',
             f'{_FUNCTIONAL}.test_overtaken.CreationTest.'
             'test_controller_that_wakes_removes_what_it_has_made'),
    Mutation('overlay-header-made-anew', f'{_SUPERPOSITION}/overlay/overlay.py',
             'op.assert_version(version)', 'pass',
             f'{_FUNCTIONAL}.test_overtaken.CreationTest.'
             'test_header_that_was_removed_is_not_made_anew'),
    Mutation('removed-overlay-not-listed', f'{_SUPERPOSITION}/overlay/removal.py',
             '        removals.Removed(cluster).enter(ref.home, entry)\n', '',
             f'{_FUNCTIONAL}.test_overtaken.CreationTest.'
             'test_objects_that_are_written_after_the_removal_are_found'),
    Mutation('overlay-of-a-superposed-volume-taken-for-an-orphan',
             f'{_SUPERPOSITION}/steps/end.py',
             'if image_id is not None and site.store.holder(ref.home, image_id) is not None:',
             'if False:',
             f'{_UNIT}.superposition.steps.test_end.OrphanTest.'
             'test_overlay_of_a_volume_that_is_superposed_stays'),
    Mutation('orphan-removed-under-its-user', f'{_SUPERPOSITION}/overlay/removal.py',
             '        _shut_out(ref, _users(cluster, ref, image_id, evict=False), fencing, '
             'evict=False)\n', '',
             f'{_FUNCTIONAL}.test_overtaken.OrphanTest.'
             'test_overlay_that_a_client_has_open_stays_until_it_is_closed'),
    Mutation('orphan-known-by-its-name-alone', f'{_SUPERPOSITION}/overlay/removal.py',
             'if not overlay.is_striped(image):', 'if False:',
             f'{_FUNCTIONAL}.test_overtaken.OrphanTest.'
             'test_image_that_only_has_such_a_name_stays'),
    Mutation('hung-backup-not-fenced-by-an-abort', f'{_SUPERPOSITION}/overlay/removal.py',
             '(volumes.clients if evict else volumes.watchers)', 'volumes.watchers',
             f'{_FUNCTIONAL}.test_ledger.HungTest.'
             'test_hung_backup_is_fenced_before_its_overlay_is_removed'),
    Mutation('torn-overlay-promoted', f'{_SUPERPOSITION}/steps/collapse.py',
             '    _assert_durable(site, dataclasses.replace(record, labels=labels))\n', '',
             f'{_FUNCTIONAL}.test_durable.DurableTest.'
             'test_backup_that_has_written_and_died_is_not_promoted'),
    Mutation('overlay-written-during-the-collapse-promoted',
             f'{_SUPERPOSITION}/steps/collapse.py',
             '        _assert_durable(site, record)\n        _assert_fenced(site, record)\n',
             '        _assert_fenced(site, record)\n',
             f'{_FUNCTIONAL}.test_durable.DurableTest.test_write_during_the_collapse_counts'),
    Mutation('change-of-an-overlay-ignored', f'{_SUPERPOSITION}/overlay/overlay.py',
             'version != written.get(str(number), 0)', 'version and str(number) not in written',
             f'{_FUNCTIONAL}.test_durable.DurableTest.test_single_change_of_a_header_counts'),
    Mutation('swap-to-any-state', f'{_SUPERPOSITION}/truth/store.py',
             'old.check_successor(new)', 'pass',
             f'{_UNIT}.superposition.truth.test_store.StoreTest.'
             'test_swap_writes_no_transition_that_is_not_allowed'),
    Mutation('fence-without-osdmap', f'{_SUPERPOSITION}/exclusion/fence.py',
             'expiry_s))\n        self.wait_osdmap()', 'expiry_s))',
             f'{_UNIT}.superposition.exclusion.test_fence.FenceTest.'
             'test_close_waits_for_the_osdmap_at_the_end'),
    Mutation('fence-without-librbd-osdmap', f'{_SUPERPOSITION}/ceph/cluster.py',
             'self.rados.wait_for_latest_osdmap()', 'pass',
             f'{_UNIT}.superposition.exclusion.test_fence.FenceTest.'
             'test_close_waits_for_the_osdmap_at_the_end'),
    Mutation('fence-that-expires', f'{_SUPERPOSITION}/exclusion/fence.py',
             'failed.update(self._lengthen(clients - failed.keys(), expiry_s))', 'pass',
             f'{_UNIT}.superposition.exclusion.test_fence.FenceTest.'
             'test_close_prolongs_an_existing_entry'),
    Mutation('no-second-sweep', f'{_SUPERPOSITION}/steps/collapse.py',
             'report = _sweep_renewed(site, renewal, thorough=True, sealed=sealed)',
             'report = sweep.SweepReport(False, None, 0, 0.0)',
             f'{_FUNCTIONAL}.test_fence.FenceTest.test_write_before_the_fence_is_late_dirty'),
    Mutation('unproven-taken-for-clean-before-the-fence', f'{_SUPERPOSITION}/steps/collapse.py',
             'if first.clean or (dead', 'if not first.dirty or (dead',
             f'{_FUNCTIONAL}.test_superposition.DirtyTest.'
             'test_disabled_object_map_is_unproven'),
    Mutation('unproven-taken-for-clean-behind-the-fence',
             f'{_SUPERPOSITION}/steps/collapse.py',
             'if not second.clean:', 'if second.dirty:',
             f'{_FUNCTIONAL}.test_fence.FenceTest.test_resize_before_the_fence_is_late_dirty'),
    Mutation('second-host-not-shut-out', 'specreds_nova/engine/recovery/steps/merge.py',
             'run.context.volumes.fence(server, server.host, run.id)', 'pass',
             'specreds_nova.tests.unit.engine.recovery.steps.test_merge.SecondFailureTest.'
             'test_server_is_shut_out_after_evacuate_after'),
    Mutation('evacuated-before-the-merge', 'specreds_nova/engine/recovery/steps/merge.py',
             'while _is_merging(run, superposition, detail):', 'while False:',
             'specreds_nova.tests.unit.engine.recovery.steps.test_merge.SecondFailureTest.'
             'test_nova_is_not_asked_before_the_merge_has_ended'),
    Mutation('unproven-primary-unwatched', 'specreds_nova/engine/recovery/steps/fence.py',
             'if objection is None and not watched:', 'if False:',
             'specreds_nova.tests.unit.engine.recovery.steps.test_fence.UnprovenTest.'
             'test_primary_that_writes_is_not_evacuated'),
    Mutation('rebuild-taken-for-a-valid-map', f'{_SUPERPOSITION}/evidence/rebuild.py',
             '            raise errors.Rebuilding(',
             '            return facts\n            raise (',
             f'{_UNIT}.superposition.evidence.test_rebuild.InspectTest.'
             'test_rebuild_that_takes_long_is_no_refusal'),
    Mutation('long-sweep-taken-for-interrupted', f'{_SUPERPOSITION}/evidence/sweep.py',
             '        self._renew()\n', '',
             f'{_UNIT}.superposition.evidence.test_sweep.SweeperTest.'
             'test_decision_is_renewed_after_each_batch'),
    Mutation('newcomer-unfenced', f'{_SUPERPOSITION}/steps/collapse.py',
             'if clients <= known:', 'if True:',
             f'{_FUNCTIONAL}.test_fence.FenceTest.'
             'test_client_that_opens_during_the_fence_is_fenced'),
    Mutation('overtaken-fence-stays', f'{_SUPERPOSITION}/steps/collapse.py',
             'end.unfence_lost(site, dataclasses.replace(record, fenced=tuple(known)))', 'pass',
             f'{_FUNCTIONAL}.test_fence.FenceTest.test_fence_after_a_dirty_decision_is_lifted'),
    Mutation('dirty-primary-stays-fenced', f'{_SUPERPOSITION}/steps/end.py',
             'if (record.outcome in states.LIVING and',
             'if (record.outcome == states.ABORTED and',
             f'{_FUNCTIONAL}.test_fence.FenceTest.'
             'test_fence_during_a_dirty_decision_is_lifted'),
    Mutation('late-fence-of-a-living-primary-stays', f'{_SUPERPOSITION}/steps/end.py',
             'site.dropped.enter(record)', 'pass',
             f'{_FUNCTIONAL}.test_late_fence.LateFenceTest.'
             'test_fence_that_comes_after_its_controller_has_died_is_lifted'),
    Mutation('fence-of-a-later-superposition-lifted', f'{_SUPERPOSITION}/steps/end.py',
             '\n            and {claim.superposition for claim in _claims(site, record)} <= '
             '{record.id}', '',
             f'{_FUNCTIONAL}.test_fence.FenceTest.'
             'test_unfence_of_an_overtaken_controller_spares_a_later_fence'),
    Mutation('overlay-removed-under-its-user', f'{_SUPERPOSITION}/overlay/removal.py',
             '        fencing.evict(users)\n', '        pass\n',
             f'{_FUNCTIONAL}.test_removal.RemovalTest.'
             'test_user_of_a_half_removed_overlay_is_fenced'),
    Mutation('client-fenced-during-the-merge-ignored', f'{_SUPERPOSITION}/overlay/merge.py',
             'lambda clients: clients - dead', 'fencing.outside',
             f'{_UNIT}.superposition.overlay.test_merge.OfflineTest.'
             'test_client_fenced_during_the_merge_may_have_written'),
    Mutation('merge-beside-a-hung-backup', f'{_SUPERPOSITION}/steps/merge.py',
             ' if backup is not None else _shut_out(site, record)', '',
             f'{_FUNCTIONAL}.test_ledger.HungTest.'
             'test_hung_backup_is_fenced_before_its_overlay_is_merged'),
    Mutation('merge-of-an-overtaken-controller', f'{_SUPERPOSITION}/steps/merge.py',
             '        record = site.store.swap(record, record)\n', '        pass\n',
             f'{_FUNCTIONAL}.test_merge.MergeTest.'
             'test_controller_that_is_overtaken_before_it_writes_writes_nothing'),
    Mutation('merge-without-announcement', f'{_SUPERPOSITION}/overlay/merge.py',
             '                    announce()\n', '',
             f'{_UNIT}.superposition.overlay.test_merge.OfflineTest.'
             'test_merge_that_was_overtaken_writes_nothing'),
    Mutation('silent-client-unfenced', f'{_SUPERPOSITION}/exclusion/roles.py',
             'return self.primary | self.newcomers | self.silent',
             'return self.primary | self.newcomers',
             f'{_UNIT}.superposition.exclusion.test_roles.RolesTest.'
             'test_client_of_an_earlier_superposition_is_fenced_also_when_silent'),
    Mutation('backup-by-host-alone', f'{_SUPERPOSITION}/exclusion/roles.py',
             'volume.image - record.clients - earlier', 'volume.image - record.clients',
             f'{_UNIT}.superposition.exclusion.test_roles.RolesTest.'
             'test_host_does_not_make_an_earlier_client_a_backup'),
    Mutation('backup-not-in-the-ledger', f'{_SUPERPOSITION}/steps/clients.py',
             '_remember(site, record, volume, clients, classified.backup)', 'pass',
             f'{_FUNCTIONAL}.test_ledger.EntriesTest.test_promoted_backup_is_in_the_ledger'),
    Mutation('newcomer-behind-the-address-of-the-backup', f'{_SUPERPOSITION}/exclusion/roles.py',
             'if len(near) == count:', 'if near:',
             f'{_UNIT}.superposition.exclusion.test_roles.RolesTest.'
             'test_newcomer_behind_the_same_address_is_unclear_at_first'),
    Mutation('promotion-beside-an-unfenced-client', f'{_SUPERPOSITION}/steps/collapse.py',
             '        _assert_fenced(site, record)\n        committing', '        committing',
             f'{_FUNCTIONAL}.test_ledger.EntriesTest.'
             'test_promotion_waits_until_every_client_of_the_ledger_is_fenced'),
    Mutation('hand-out-without-a-look', 'specreds_cinder/service/worker/operations.py',
             '        self._hand_outs.begin(record, record.labels[_HANDED_AT])\n        return',
             '        return',
             f'{_FUNCTIONAL}.test_ledger.HungTest.'
             'test_server_that_hangs_as_soon_as_it_is_started_again_is_fenced'),
    Mutation('sealed-whatever-the-header', f'{_SUPERPOSITION}/exclusion/latch.py',
             'return before.version == version', 'return True',
             f'{_FUNCTIONAL}.test_handover.AnswerTest.'
             'test_primary_that_writes_right_before_the_decision_is_not_late_dirty'),
    Mutation('proven-without-a-seal', f'{_SUPERPOSITION}/steps/collapse.py',
             'return site.latch.seal(volume, record.id, free[volume])', 'return True',
             f'{_FUNCTIONAL}.test_handover.AnswerTest.'
             'test_write_that_waits_for_the_decision_succeeds_if_the_primary_wins'),
    Mutation('lock-taken-since-the-check-unswept', f'{_SUPERPOSITION}/steps/collapse.py',
             '        first = _sweep_renewed(site, renewal, thorough=False, sealed=[\n'
             '            volume for volume in record.volumes if volume not in rest])\n', '',
             f'{_FUNCTIONAL}.test_handover.AnswerTest.'
             'test_primary_that_writes_right_before_the_decision_is_not_late_dirty'),
    Mutation('fence-without-a-hand-over', f'{_SUPERPOSITION}/steps/collapse.py',
             '                first = _shut_rest(site, renewal, first, [\n'
             '                    volume for volume in record.volumes '
             'if volume not in shut | silent])\n', '',
             f'{_FUNCTIONAL}.test_handover.DecisionTest.'
             'test_owner_beside_other_clients_hands_its_lock_over_before_the_fence'),
    Mutation('slow-owner-taken-for-silent', f'{_SUPERPOSITION}/steps/collapse.py',
             'if not site.latch.unowned(volume, record.id))', 'if True)',
             f'{_FUNCTIONAL}.test_handover.DecisionTest.'
             'test_primary_that_answers_late_hands_its_lock_over_before_the_fence'),
    Mutation('free-lock-left-to-the-primary', f'{_SUPERPOSITION}/steps/collapse.py',
             'free = _free(site, record)', 'free: dict[records.Volume, int] = {}',
             f'{_FUNCTIONAL}.test_handover.AnswerTest.'
             'test_idle_primary_loses_without_any_sweep'),
    Mutation('primary-that-keeps-its-lock-fenced', f'{_SUPERPOSITION}/steps/collapse.py',
             'if version == 0]:', 'if version == -1]:',
             f'{_FUNCTIONAL}.test_handover.DecisionTest.test_primary_that_keeps_its_lock_wins'),
    Mutation('changed-header-taken-for-idle', f'{_SUPERPOSITION}/evidence/sweep.py',
             '== [volume.handed]', '!= [0]',
             f'{_FUNCTIONAL}.test_handover.AnswerTest.'
             'test_primary_that_writes_wins_and_takes_its_lock_again'),
    Mutation('handed-over-beside-an-owner', f'{_SUPERPOSITION}/exclusion/latch.py',
             'return 0 if header is None or owned else header.version',
             'return header.version if header else 0',
             f'{_UNIT}.superposition.exclusion.test_latch.UnownedTest.'
             'test_owned_lock_has_no_version'),
    Mutation('lock-of-several-clients-asked-for', f'{_SUPERPOSITION}/steps/create.py',
             'len(image.clients) == 1 and image.clients == image.owners', 'image.owners',
             f'{_FUNCTIONAL}.test_handover.SilenceTest.'
             'test_volume_with_another_client_is_not_asked_for'),
    Mutation('lock-of-a-read-volume-asked-for', f'{_SUPERPOSITION}/steps/create.py',
             'for image in facts if image.ref not in read\n                      and ',
             'for image in facts if ',
             f'{_FUNCTIONAL}.test_handover.SilenceTest.'
             'test_volume_that_another_host_reads_is_not_asked_for'),
    Mutation('handed-over-beside-a-hung-client', f'{_SUPERPOSITION}/steps/create.py',
             '    if site.fence.outside(others):\n', '    if False:\n',
             f'{_FUNCTIONAL}.test_handover.SilenceTest.'
             'test_client_of_an_earlier_superposition_that_may_wake_prevents_it'),
    Mutation('sealed-first-without-a-fence', f'{_SUPERPOSITION}/steps/create.py',
             '        site.fence.close(clients)\n', '        pass\n',
             f'{_FUNCTIONAL}.test_handover.DeadTest.'
             'test_every_placement_group_has_the_fence_before_the_cut'),
    Mutation('sealed-first-beside-an-owner', f'{_SUPERPOSITION}/steps/create.py',
             'sealed = volumes.owners(site.cluster, volume.ref) <= clients', 'sealed = True',
             f'{_FUNCTIONAL}.test_handover.DeadTest.'
             'test_lock_of_an_owner_that_nobody_knows_proves_nothing'),
    Mutation('client-that-answers-taken-for-dead', f'{_SUPERPOSITION}/steps/create.py',
             'site.each(lambda volume: handover.lives(site.cluster, volume), used)', '()',
             f'{_FUNCTIONAL}.test_handover.DeadTest.'
             'test_server_that_was_started_again_on_the_host_is_not_fenced'),
    Mutation('one-of-several-clients-taken-for-dead', f'{_SUPERPOSITION}/steps/create.py',
             'if any(len(volume.clients) > 1 for volume in used) or any(', 'if any(',
             f'{_FUNCTIONAL}.test_handover.DeadTest.test_one_of_two_clients_may_live'),
    Mutation('resize-before-the-header-is-read-unseen', f'{_SUPERPOSITION}/steps/create.py',
             'if version and sweep.changes(', 'if False and sweep.changes(',
             f'{_FUNCTIONAL}.test_handover.AnswerTest.'
             'test_volume_that_is_resized_before_its_header_is_read_is_swept'),
    Mutation('snapshot-taken-for-a-write', f'{_SUPERPOSITION}/evidence/objectmap.py',
             'fingerprint.update((states ^ (clean << 1)).tobytes())',
             'fingerprint.update(states.tobytes())',
             f'{_UNIT}.superposition.evidence.test_objectmap.ObjectMapTest.'
             'test_fingerprint_is_of_the_objects_that_exist'),
    Mutation('lock-handed-over-twice-taken-for-idle', f'{_SUPERPOSITION}/evidence/sweep.py',
             'elif volume.handed and not owners:', 'elif False:',
             f'{_UNIT}.superposition.evidence.test_sweep.SweeperTest.test_map_touched_by_a_client_that_has_gone_proves_'
             'nothing_of_a_volume_handed_over'),
    Mutation('late-message-sent-all-the-same', f'{_SUPERPOSITION}/ceph/cluster.py',
             '            if answers.cancel():\n                return None\n', '',
             f'{_UNIT}.superposition.ceph.test_cluster.NotificationTest.'
             'test_message_that_waits_behind_hung_clients_is_never_sent'),
    Mutation('primary-waits-for-the-monitors', f'{_SUPERPOSITION}/steps/collapse.py',
             'if dead or fencing or silent == frozenset(record.volumes):', 'if True:',
             f'{_UNIT}.superposition.steps.test_collapse.AnsweredTest.'
             'test_primary_goes_on_if_ceph_does_not_help_between_seal_and_fence'),
    Mutation('fence-that-may-come-taken-for-none', f'{_SUPERPOSITION}/steps/collapse.py',
             '                fencing = True\n', '',
             f'{_UNIT}.superposition.steps.test_collapse.AnsweredTest.'
             'test_primary_that_may_be_fenced_waits_for_the_decision'),
    Mutation('latch-opened-before-the-fence-is-lifted', f'{_SUPERPOSITION}/steps/end.py',
             'in (_unfence, looks.unlatch) if fenced', 'in (looks.unlatch, _unfence) if fenced',
             f'{_UNIT}.superposition.steps.test_collapse.AnsweredTest.'
             'test_fence_is_lifted_before_the_latch_opens'),
    Mutation('dead-primary-given-up', f'{_SUPERPOSITION}/steps/collapse.py',
             'if dead or fencing or silent ==', 'if fencing or silent ==',
             f'{_UNIT}.superposition.steps.test_collapse.AnsweredTest.'
             'test_primary_that_is_dead_as_a_fact_stays_shut_out'),
    Mutation('latch-opened-behind-the-monitors', f'{_SUPERPOSITION}/steps/end.py',
             'else (looks.unlatch, _unfence):', 'else (_unfence, looks.unlatch):',
             f'{_UNIT}.superposition.steps.test_collapse.AnsweredTest.'
             'test_latch_is_opened_before_the_fence_is_taken_back'),
    Mutation('interrupted-fence-taken-for-closed', f'{_SUPERPOSITION}/exclusion/fence.py',
             '                    batch.error = exc\n', '                    batch.error = None\n',
             f'{_UNIT}.superposition.exclusion.test_fence.FenceTest.'
             'test_error_is_raised_to_every_caller_that_was_served_together'),
    Mutation('death-taken-from-silence', 'specreds_nova/engine/recovery/steps/super.py',
             '    if host.dead_at is None:\n        return False\n',
             '    if host.dead_at is None:\n        return True\n',
             'specreds_nova.tests.unit.engine.recovery.test_death.DeathTest.'
             'test_silence_is_no_fact'),
    Mutation('host-that-is-reset-taken-for-off', 'specreds_nova/engine/recovery/power.py',
             '                self._off.pop(host.name, None)\n', '                pass\n',
             'specreds_nova.tests.unit.engine.recovery.test_power.OffTest.'
             'test_host_that_is_off_for_a_moment_is_not'),
    Mutation('word-of-death-outlives-a-beat', 'specreds_nova/engine/recovery/steps/super.py',
             'heard is not None and heard < said', 'heard is not None',
             'specreds_nova.tests.unit.engine.recovery.test_death.DeathTest.'
             'test_word_is_void_once_an_engine_has_heard_the_host'),
    Mutation('boot-taken-for-the-death-of-a-new-guest',
             'specreds_nova/engine/recovery/steps/super.py',
             'gone = booted and', 'gone = booted or',
             'specreds_nova.tests.unit.engine.recovery.test_death.DeathTest.'
             'test_host_that_has_booted_without_the_server_is_shut_out_first'),
    Mutation('part-of-a-sweep-taken-for-the-first', f'{_SUPERPOSITION}/evidence/sweep.py',
             'self._unproven is None and self._volumes == self._record.volumes:',
             'self._unproven is None:',
             f'{_UNIT}.superposition.evidence.test_sweep.SweeperTest.'
             'test_sweep_of_some_volumes_is_not_the_first'),
    Mutation('promotion-without-latch', f'{_SUPERPOSITION}/steps/collapse.py',
             '        _latch(site, record)\n', '',
             f'{_FUNCTIONAL}.test_latch.PromotedTest.'
             'test_stranger_cannot_write_to_a_promoted_volume'),
    Mutation('latch-opened-to-all', f'{_SUPERPOSITION}/steps/merge.py',
             'site.fence.close(new)', 'pass',
             f'{_FUNCTIONAL}.test_latch.PromotedTest.'
             'test_online_merge_lets_only_the_server_write'),
    Mutation('latch-closed-by-an-overtaken-controller', f'{_SUPERPOSITION}/exclusion/latch.py',
             'if self.armed != superposition:', 'if False:',
             f'{_FUNCTIONAL}.test_latch.OpenedTest.'
             'test_overtaken_controller_cannot_close_the_latch'),
    Mutation('latch-opened-for-a-moment', f'{_SUPERPOSITION}/exclusion/latch.py',
             'armed=None if header.armed == superposition else header.armed',
             'armed=header.armed',
             f'{_FUNCTIONAL}.test_latch.OpenedTest.'
             'test_controller_overtaken_by_a_merge_cannot_close_the_latch'),
    Mutation('latch-armed-without-a-claim', f'{_SUPERPOSITION}/exclusion/latch.py',
             'if foreign and not self._claims(volume, superposition):', 'if False:',
             f'{_FUNCTIONAL}.test_latch.OpenedTest.'
             'test_superposition_without_the_claim_does_not_arm'),
    Mutation('latch-breaks-the-lock', f'{_SUPERPOSITION}/exclusion/latch.py',
             'return Lock((*self._others, _owner(superposition)),',
             'return Lock((_owner(superposition),),',
             f'{_FUNCTIONAL}.test_latch.OpenedTest.'
             'test_aborted_collapse_leaves_the_lock_as_it_was'),
    Mutation('owner-of-the-overlay-not-fenced', f'{_SUPERPOSITION}/steps/merge.py',
             ' | site.owners(record)', '',
             f'{_FUNCTIONAL}.test_ledger.HungTest.'
             'test_hung_backup_that_is_in_no_ledger_is_fenced_before_its_overlay_is_merged'),
    Mutation('client-that-an-ended-superposition-has-fenced-let-go',
             f'{_SUPERPOSITION}/steps/end.py',
             'needed |= clients & _fenced_for_good(site, record)', 'pass',
             f'{_UNIT}.superposition.steps.test_end.LiftTest.'
             'test_client_that_an_ended_superposition_has_fenced_for_good_is_fenced_again'),
    Mutation('late-unfence-not-mended', f'{_SUPERPOSITION}/steps/end.py',
             '            _restore_fence(site, record, clients)\n', '            pass\n',
             f'{_FUNCTIONAL}.test_fence.FenceTest.'
             'test_unfence_that_hangs_leaves_a_later_fence_in_force'),
    Mutation('decision-without-its-fence-not-repeated', f'{_SUPERPOSITION}/steps/end.py',
             'site.store.swap(other, dataclasses.replace(other, updated_at=records.now()))',
             'pass',
             f'{_FUNCTIONAL}.test_fence.FenceTest.'
             'test_decision_is_repeated_if_its_fence_was_missing_for_a_moment'),
    Mutation('hidden-server-shown-by-others', 'specreds_nova/sentinel/lease.py',
             'self._keep_hidden(guest)', 'pass',
             'specreds_nova.tests.unit.sentinel.test_lease.LeaseTest.'
             'test_interface_that_somebody_else_set_up_is_set_down_again'),
    Mutation('merge-ends-before-the-adoption', 'specreds_nova/host/merge/job.py',
             'while not self._adopted():', 'while False:',
             'specreds_nova.tests.unit.host.merge.test_job.UnadoptedTest.'
             'test_other_hosts_are_kept_out_until_the_adoption'),
    Mutation('merge-ends-beside-an-evacuation', 'specreds_nova/host/merge/pivot.py',
             '        self._stays()\n', '',
             'specreds_nova.tests.unit.host.merge.test_job_end.EndTest.'
             'test_guest_of_a_server_that_is_evacuated_during_the_end_does_not_run_on'),
    Mutation('server-that-was-never-read-is-hidden', 'specreds_nova/sentinel/lease.py',
             '(self._read is None or guest.places <= self._read)', 'True',
             'specreds_nova.tests.unit.sentinel.test_watch.WatchTest.'
             'test_server_that_one_of_two_users_may_not_read_is_not_hidden'),
    Mutation('server-that-runs-already-evacuated-once-more',
             'specreds_nova/engine/recovery/evacuation.py',
             'self._due() and not self._finishes(server)', 'self._due()',
             'specreds_nova.tests.unit.engine.recovery.test_evacuation_worker.FinishingTest.'
             'test_host_is_waited_for'),
    Mutation('promoted-server-caches-its-writes', 'specreds_nova/host/disks/backup_clients.py',
             'cache_policy.OPTION: cache_policy.SAFE', "cache_policy.OPTION: 'writeback'",
             f'{_FUNCTIONAL}.test_cache_policy.CachePolicyTest.'
             'test_write_is_in_ceph_when_it_is_acknowledged'),
    Mutation('guest-of-a-soft-reboot-started-without-a-look',
             'specreds_nova/host/unmerged/operations.py',
             'dropped_requests.refuse(instance)', 'pass',
             'specreds_nova.tests.unit.host.unmerged.test_reboot.RebootTest.'
             'test_guest_of_a_server_that_has_gone_elsewhere_is_not_started'),
    Mutation('restart-that-an-operator-ends', 'specreds_nova/engine/recovery/steps/restart.py',
             '        if run.recovery.abort:\n'
             '            return verdicts.StepVerdict(verdicts.ABORTED, ',
             '        if False:\n'
             '            return verdicts.StepVerdict(verdicts.ABORTED, ',
             'specreds_nova.tests.unit.engine.recovery.steps.test_restart.RestartingTest.'
             'test_abort_by_an_operator_ends_the_restart'),
    Mutation('mode-of-a-recovery', 'specreds_nova/engine/recovery/run.py',
             'if (mode := self.insist(self.context.modes.of, self._recovery.host)) != model.ACT:',
             'if mode := None:',
             'specreds_nova.tests.unit.engine.recovery.test_run.BackTest.'
             'test_mode_ends_a_recovery_whose_primary_is_not_fenced'),
    Mutation('mode-of-a-restart', 'specreds_nova/engine/recovery/steps/restart.py',
             'mode := run.context.modes.of(host)) != model.ACT:', 'mode := None):',
             'specreds_nova.tests.unit.engine.recovery.steps.test_restart.RestartingTest.'
             'test_mode_ends_the_restart'),
    Mutation('mode-of-a-new-installation', 'specreds_nova/engine/modes.py',
             '    return model.OBSERVE\n', '    return model.ACT\n',
             'specreds_nova.tests.unit.engine.test_modes.ModesTest.'
             'test_new_installation_observes'),
    Mutation('mode-that-cannot-be-read', 'specreds_nova/engine/modes.py',
             '            known = self._store.modes()\n',
             '            try:\n'
             '                known = self._store.modes()\n'
             '            except exception.Unreachable:\n'
             '                return model.ACT\n',
             'specreds_nova.tests.unit.engine.recovery.test_dispatch.DispatcherTest.'
             'test_nothing_begins_while_the_mode_cannot_be_read'),
    Mutation('drill-that-does-not-give-way', 'specreds_nova/engine/recovery/run.py',
             '            return self._gives_way()\n', '            return None\n',
             'specreds_nova.tests.unit.engine.recovery.steps.test_drill.DrillTest.'
             'test_second_of_two_drills_gives_way'),
    Mutation('drill-that-ends-with-a-write', 'specreds_nova/engine/recovery/steps/race.py',
             'if began < self._sweep or run.drill:', 'if began < self._sweep:',
             'specreds_nova.tests.unit.engine.recovery.steps.test_drill.DrillTest.'
             'test_backup_of_a_server_that_writes_becomes_ready_and_is_dropped'),
    Mutation('drill-beside-a-recovery', 'specreds_nova/engine/api/handlers.py',
             'if active := store.active():', 'if active := []:',
             'specreds_nova.tests.unit.engine.api.test_drills.DrillsTest.'
             'test_there_is_no_drill_beside_a_recovery'),
    Mutation('hiding-by-an-old-answer', 'specreds_nova/sentinel/lease.py',
             'at < self._heeded or renewals.now() - at > renewals.HEEDED_S', 'False',
             'specreds_nova.tests.unit.sentinel.test_lease.LeaseTest.'
             'test_answer_of_an_engine_that_stood_still_is_not_heeded'),
    Mutation('hiding-asked-of-a-later-beat', 'specreds_nova/beats/answering.py',
             'beat for beat in beats if',
             'beat for beat in [_Due(*each) for each in self._heard.answerable()] if',
             'specreds_nova.tests.unit.beats.test_answering.AnswersTest.'
             'test_beat_from_after_the_reading_of_the_modes_is_not_answered_by_them'),
    Mutation('showing-recorded-once-for-all', 'specreds_nova/beats/answering.py',
             'if host not in before & known]', 'if host not in known]',
             'specreds_nova.tests.unit.beats.test_answering.AnswersTest.'
             'test_each_begin_is_recorded_as_engines_may_count_on_the_host_between'),
    Mutation('hiding-counted-at-once', 'specreds_nova/engine/suspicion/sentinels.py',
             'ACTS_S = 30.0', 'ACTS_S = 0.0',
             'specreds_nova.tests.unit.engine.suspicion.test_sentinels.ShowingTest.'
             'test_host_counts_again_when_it_reports_so_after_a_while_of_acting'),
    Mutation('hiding-counted-over-another-mode', 'specreds_nova/engine/suspicion/sentinels.py',
             'if known != generation:', 'if False:',
             'specreds_nova.tests.unit.engine.suspicion.test_sentinels.ShowingTest.'
             'test_host_that_is_told_once_more_begins_anew'),
    Mutation('mode-of-an-unknown-zone', 'specreds_nova/engine/modes.py',
             'if here and scope in _PLACES and places is None:', 'if False:',
             'specreds_nova.tests.unit.engine.test_modes.ModesTest.'
             'test_mode_of_a_host_in_an_unknown_zone_is_unknown'),
    Mutation('restart-on-a-suspected-host', 'specreds_nova/engine/recovery/steps/restart.py',
             'state == model.TRUSTED or self._returned():', 'state == model.TRUSTED or True:',
             'specreds_nova.tests.unit.engine.recovery.steps.test_restart.RestartingTest.'
             'test_restart_ends_when_the_host_fails'),
    Mutation('claim-of-a-recovery-that-was-claimed', 'specreds_nova/engine/store/recoveries.py',
             '                            _T.c.engine.is_not_distinct_from(recovery.engine),\n'
             '                            _T.c.epoch == recovery.epoch)',
             '                            )',
             'specreds_nova.tests.unit.engine.store.test_recoveries.RecoveriesTest.'
             'test_recovery_is_claimed_only_as_it_was_read'),
    Mutation('report-after-a-forgotten-goodbye', 'specreds_nova/engine/suspicion/monitor.py',
             '(host.heard, host.goodbye_at)', '(host.heard,)',
             'specreds_nova.tests.unit.engine.suspicion.test_monitor_evidence.UnpluggedTest.'
             'test_host_without_heartbeat_is_not_taken_for_dead_when_an_engine_starts'),
    Mutation('lease-over-by-a-missing-row', 'specreds_nova/engine/suspicion/votes.py',
             '            before = self._rows.get(self._engine)\n',
             '            before = self._rows.get(self._engine)\n'
             '            self._rows = {vote.engine: self._rows[vote.engine] for vote in votes\n'
             '                          if vote.engine in self._rows}\n',
             'specreds_nova.tests.unit.engine.suspicion.test_leases_of_engines.LeasesTest.'
             'test_row_that_is_missing_ends_no_lease_of_a_living_engine'),
    Mutation('lease-of-an-unknown-engine', 'specreds_nova/engine/suspicion/votes.py',
             'if self._read_at - began >= LEASE + self._slow else set()', '',
             'specreds_nova.tests.unit.engine.suspicion.test_leases_of_engines.LeasesTest.'
             'test_lease_of_an_engine_without_a_row_is_over_after_a_lease'),
    Mutation('lease-kept-by-old-rows', 'specreds_nova/engine/suspicion/votes.py',
             'if known is None or vote.counter > known[0].counter:',
             'if known is None or vote.counter != known[0].counter:',
             'specreds_nova.tests.unit.engine.suspicion.test_leases_of_engines.LeasesTest.'
             'test_old_rows_between_others_keep_no_lease'),
    Mutation('lease-over-by-late-writes', 'specreds_nova/engine/suspicion/votes.py',
             'lag = max(behind, *self._lags)', 'lag = 0.0',
             'specreds_nova.tests.unit.engine.suspicion.test_leases_of_engines.LeasesTest.'
             'test_engine_that_is_late_waits_for_others_which_may_be_as_late'),
    Mutation('lease-over-by-an-outage', 'specreds_nova/engine/suspicion/votes.py',
             'now + _WRITTEN', 'now',
             'specreds_nova.tests.unit.engine.suspicion.test_leases_of_engines.LeasesTest.'
             'test_outage_ends_no_lease_of_a_living_engine'),
    Mutation('lease-over-by-hung-writes', 'specreds_nova/engine/suspicion/votes.py',
             'lag = max(behind, *self._lags)', 'lag = max(self._lags)',
             'specreds_nova.tests.unit.engine.suspicion.test_leases_of_engines.LeasesTest.'
             'test_writes_that_hang_end_no_lease_of_a_living_engine'),
    Mutation('lease-of-an-engine-that-counts-anew', 'specreds_nova/engine/suspicion/votes.py',
             'int(self._clock.wall() * 1000) if own is None', '0 if own is None',
             'specreds_nova.tests.unit.engine.suspicion.test_leases_of_engines.LeasesTest.'
             'test_engine_that_starts_again_without_its_row_has_a_lease'),
    Mutation('first-frame-of-a-moment', 'specreds_nova/engine/recovery/steps/race.py',
             '        return self._left <= 0',
             '        return True',
             'specreds_nova.tests.unit.engine.recovery.steps.test_race.FirstFrameTest.'
             'test_decides_five_seconds_after_the_last_beat'),
    Mutation('first-frame-without-a-question', 'specreds_nova/engine/recovery/steps/race.py',
             "if not status.get('primary_silent') or ",
             'if ',
             'specreds_nova.tests.unit.engine.recovery.steps.test_race.FirstFrameTest.'
             'test_backup_gets_ready_where_the_sentinel_could_not_be_asked'),
    Mutation('first-frame-despite-an-answer', 'specreds_nova/engine/recovery/steps/race.py',
             " or status.get('primary_runs') is not None:",
             ':',
             'specreds_nova.tests.unit.engine.recovery.steps.test_race.FirstFrameTest.'
             'test_backup_gets_ready_if_the_sentinel_answers'),
    Mutation('first-frame-without-a-sentinel', 'specreds_nova/engine/recovery/steps/race.py',
             'silence is None or host.sentinel != model.LIVE',
             'silence is None',
             'specreds_nova.tests.unit.engine.recovery.steps.test_race.FirstFrameTest.'
             'test_backup_gets_ready_if_the_sentinel_was_silent_before'),
    Mutation('first-frame-behind-a-gate', 'specreds_nova/engine/recovery/steps/race.py',
             '                or not run.context.suspects.lost(host.name)):',
             '                ):',
             'specreds_nova.tests.unit.engine.recovery.steps.test_race.FirstFrameTest.'
             'test_backup_gets_ready_if_gates_would_hold_the_host'),
    Mutation('stuck-evacuation', 'specreds_nova/engine/recovery/evacuation.py',
             'if host and self._lost(host):', 'if False:',
             'specreds_nova.tests.unit.engine.recovery.test_evacuation.HangingTest.'
             'test_evacuation_to_a_backup_whose_host_has_died_is_requested_again'),
    Mutation('lease-by-earlier-votes', 'specreds_nova/engine/suspicion/votes.py',
             'age is None or self._taken[engine][0] < since',
             'age is None',
             'specreds_nova.tests.unit.engine.suspicion.test_votes.EnginesTest.'
             'test_last_beat_is_that_of_the_engine_that_heard_the_host_longest'),
    Mutation('lease-by-own-beats', 'specreds_nova/engine/suspicion/votes.py',
             'for engine, (vote, seen) in self._rows.items():',
             'for engine, (vote, seen) in [(self._engine, self._rows[self._engine])]:',
             'specreds_nova.tests.unit.engine.suspicion.test_votes.EnginesTest.'
             'test_last_beat_is_that_of_the_engine_that_heard_the_host_longest'),
    Mutation('voice-with-any-nonce', 'specreds_nova/beats/voices.py',
             'fresh = beat.nonce in self._nonces', 'fresh = True',
             'specreds_nova.tests.unit.beats.test_voices.StateTest.'
             'test_nonce_of_another_process_does_not_count'),
    Mutation('voice-without-a-key', 'specreds_nova/beats/voices.py',
             'if key.proves(datagram):', 'if True:',
             'specreds_nova.tests.unit.beats.test_voices.StateTest.'
             'test_wrong_key_is_shown_as_such_and_is_no_silence'),
    Mutation('voice-of-another-boot', 'specreds_nova/engine/suspicion/weighing.py',
             'return not before or self._voices', 'return True or self._voices',
             'specreds_nova.tests.unit.engine.suspicion.test_two_voices.TwoVoicesTest.'
             'test_sentinel_of_another_boot_says_nothing_of_the_servers_that_ran_before'),
    Mutation('voice-not-in-the-vote', 'specreds_nova/engine/suspicion/monitor.py',
             'spoken = self._voices.last(name)', 'spoken = None',
             'specreds_nova.tests.unit.engine.suspicion.test_two_voices.TwoVoicesTest.'
             'test_vote_tells_when_either_voice_was_heard_last'),
    Mutation('goodbye-for-an-hour', 'specreds_nova/engine/suspicion/weighing.py',
             'RETURN_S = 60.0', 'RETURN_S = 3600.0',
             'specreds_nova.tests.unit.engine.suspicion.test_two_voices.TwoVoicesTest.'
             'test_goodbye_of_a_nova_compute_excuses_its_sentinel_for_a_minute'),
    Mutation('lease-by-a-new-process', 'specreds_nova/engine/suspicion/monitor.py',
             'return max(heard, default=self._began)', 'return max(heard, default=-9e9)',
             'specreds_nova.tests.unit.engine.suspicion.test_votes.EnginesTest.'
             'test_engine_that_has_started_may_have_heard_a_host_before'),
    Mutation('lease-by-deaf-engines', 'specreds_nova/engine/suspicion/votes.py',
             'age = None if vote.deaf else vote.ages.get(host)',
             'age = vote.ages.get(host, 9e9)',
             'specreds_nova.tests.unit.engine.suspicion.test_votes.EnginesTest.'
             'test_last_beat_is_unknown_if_an_engine_does_not_say'),
)

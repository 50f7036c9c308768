# SPDX-License-Identifier: Apache-2.0
"""Mutations that take out the last look before an act that cannot be taken back.

A look before a fence, a promotion, a removal, an evacuation or the like may be long ago when the
act comes. So the code looks once more right before the act, and each such look has a test, whose
name says what happens meanwhile.
"""

from testing.mutation import table

_STEPS = 'specreds_nova/engine/recovery/steps'
_RECOVERY = 'specreds_nova/engine/recovery'
_DETECTION = 'specreds_nova/engine/suspicion'
_ENGINE = 'specreds_nova/engine'
_SENTINEL = 'specreds_nova/sentinel'
_BACKUP = 'specreds_nova/host/backup'
_PROTOCOL = 'specreds_cinder/superposition/steps'
_SUPERPOSITION = 'specreds_cinder/superposition'
_WORKER = 'specreds_cinder/service/worker'
_ENGINE_TESTS = 'specreds_nova.tests.unit.engine'
_SENTINEL_TESTS = 'specreds_nova.tests.unit.sentinel'
_VIRT_TESTS = 'specreds_nova.tests.unit.host'
_CINDER_TESTS = 'specreds_cinder.tests.unit'

MUTATIONS = (
    table.Mutation('overlay-opened-while-its-name-goes', f'{_SUPERPOSITION}/overlay/removal.py',
                   '        _shut_out(ref, _users(cluster, ref, image_id, evict=evict) - '
                   'users, fencing, evict=evict)\n',
                   '',
                   f'{_CINDER_TESTS}.superposition.overlay.test_removal.RemovalTest.'
                   'test_user_that_opens_the_overlay_meanwhile_is_fenced'),
    table.Mutation('orphan-that-was-opened', f'{_SUPERPOSITION}/overlay/removal.py',
                   '        _shut_out(ref, _users(cluster, ref, image_id, evict=False), '
                   'fencing, evict=False)\n',
                   '',
                   f'{_CINDER_TESTS}.superposition.overlay.test_removal.RemovalTest.'
                   'test_orphan_that_a_client_has_opened_meanwhile_stays'),
    table.Mutation('removed-overlay-forgotten-at-once', f'{_SUPERPOSITION}/overlay/removal.py',
                   'if entry.age_seconds >= older_s\n',
                   'if True\n',
                   f'{_CINDER_TESTS}.superposition.overlay.test_removal.RemovalTest.'
                   'test_overlay_is_looked_for_again_once_its_writers_have_ended_meanwhile'),
    table.Mutation('blocklist-copied-between-two-epochs', f'{_SUPERPOSITION}/exclusion/fence.py',
                   'self._epoch = epoch if self._current() == epoch else None',
                   'self._epoch = epoch',
                   f'{_CINDER_TESTS}.superposition.exclusion.test_fence.FenceTest.'
                   'test_copy_is_not_used_if_the_osdmap_has_changed_meanwhile'),
    table.Mutation('blocklist-copied-before-its-epoch', f'{_SUPERPOSITION}/exclusion/fence.py',
                   'self._epoch = epoch if self._current() == epoch else None',
                   'self._epoch = self._current()',
                   f'{_CINDER_TESTS}.superposition.exclusion.test_fence.FenceTest.'
                   'test_copy_is_not_used_if_the_osdmap_has_changed_meanwhile'),
    table.Mutation('fence-of-an-overtaken-controller', f'{_PROTOCOL}/base.py',
                   '        if self.reload(record).version != record.version:',
                   '        if False:',
                   f'{_CINDER_TESTS}.superposition.steps.test_collapse.CollapseTest.'
                   'test_controller_that_was_overtaken_meanwhile_does_not_fence'),
    table.Mutation('promotion-of-an-overlay-written-since', f'{_PROTOCOL}/collapse.py',
                   '        _assert_durable(site, record)\n'
                   '        _assert_fenced(site, record)\n',
                   '        _assert_fenced(site, record)\n',
                   f'{_CINDER_TESTS}.superposition.steps.test_collapse.CollapseTest.'
                   'test_overlay_that_is_written_meanwhile_is_not_promoted'),
    table.Mutation('promotion-beside-a-client-that-has-come', f'{_PROTOCOL}/collapse.py',
                   '        if clients <= known:\n'
                   '            return report\n',
                   '        return report\n',
                   f'{_CINDER_TESTS}.superposition.steps.test_collapse.CollapseTest.'
                   'test_client_that_has_come_meanwhile_is_fenced_and_swept_behind'),
    table.Mutation('dirty-although-fenced', f'{_PROTOCOL}/collapse.py',
                   'if first.clean or (dead and _was_fenced(site, renewal.record)):',
                   'if first.clean:',
                   f'{_CINDER_TESTS}.superposition.steps.test_collapse.CollapseTest.'
                   'test_primary_that_an_interrupted_decision_has_fenced_meanwhile_is_late_dirty'),
    table.Mutation('clients-of-one-that-has-ended-entered', f'{_PROTOCOL}/clients.py',
                   '    if site.reload(record).state in (states.MERGED, states.ABORTING):',
                   '    if False:',
                   f'{_CINDER_TESTS}.superposition.steps.test_collapse.ObserveTest.'
                   'test_clients_that_were_seen_of_one_that_ended_meanwhile_are_not_entered'),
    table.Mutation('fence-that-comes-late-stays', f'{_PROTOCOL}/end.py',
                   '    # since. Without a record it fences nothing, but the monitors may '
                   'commit its entries late.\n'
                   '    _unfence(site, record)\n',
                   '    # since. Without a record it fences nothing, but the monitors may '
                   'commit its entries late.\n',
                   f'{_CINDER_TESTS}.superposition.steps.test_end.LateFenceTest.'
                   'test_fence_that_comes_while_the_overlays_are_removed_is_lifted_meanwhile'),
    table.Mutation('late-fence-of-another-superposition-lifted', f'{_PROTOCOL}/end.py',
                   '    if _claims(site, record):\n'
                   '        return\n',
                   '',
                   f'{_CINDER_TESTS}.superposition.steps.test_end.LateFenceTest.'
                   'test_entry_of_a_volume_that_was_superposed_meanwhile_stays'),
    table.Mutation('fence-lifted-for-good-although-settled', f'{_PROTOCOL}/end.py',
                   'if living := _living(site, record, entries) & entries.keys():',
                   'if living := _living(site, record, entries):',
                   f'{_CINDER_TESTS}.superposition.steps.test_end.LateFenceTest.'
                   'test_entry_of_a_client_that_has_left_the_ledger_meanwhile_stays'),
    table.Mutation('blocklist-entry-of-librbd-removed', f'{_PROTOCOL}/end.py',
                   '                              if left > site.settings.fence_expiry_s / 2)',
                   '                              )',
                   f'{_CINDER_TESTS}.superposition.steps.test_end.LateFenceTest.'
                   'test_entry_that_librbd_has_made_meanwhile_stays'),
    table.Mutation('merge-of-an-overlay-opened-while-fencing', f'{_PROTOCOL}/merge.py',
                   '    late = site.fence.outside(looks.entries(site, record).keys() - fenced)\n'
                   '    if late:',
                   '    late = frozenset()\n'
                   '    if late:',
                   f'{_CINDER_TESTS}.superposition.steps.test_merging.MergingTest.'
                   'test_overlay_that_was_opened_and_left_meanwhile_is_not_written'),
    table.Mutation('merge-begun-under-a-server', f'{_PROTOCOL}/merge.py',
                   '    if backup is None:\n'
                   '        unused(site, record)\n',
                   '',
                   f'{_CINDER_TESTS}.superposition.steps.test_merging.MergingTest.'
                   'test_overlay_that_was_opened_meanwhile_stays_promoted'),
    table.Mutation('merge-fences-a-server', f'{_PROTOCOL}/merge.py',
                   '    observed = looks.classified(site, record, attended=False)\n'
                   '    unused(site, record)\n',
                   '    observed = looks.classified(site, record, attended=False)\n',
                   f'{_CINDER_TESTS}.superposition.steps.test_merging.MergingTest.'
                   'test_server_that_opens_the_overlay_meanwhile_is_not_fenced'),
    table.Mutation('guest-resumed-although-merged', f'{_PROTOCOL}/merge.py',
                   '        if site.reload(record).state == states.MERGING:\n'
                   '            backup.proceed()',
                   '        backup.proceed()',
                   f'{_CINDER_TESTS}.superposition.steps.test_merging.MergingTest.'
                   'test_guest_whose_merge_was_recorded_meanwhile_stays_suspended'),
    table.Mutation('worker-hands-out-without-a-look', f'{_WORKER}/operations.py',
                   '        with contextlib.suppress(sp.RecordChanged):\n'
                   '            self._protocol.observe(record)\n'
                   '        record = self._protocol.label',
                   '        record = self._protocol.label',
                   f'{_CINDER_TESTS}.service.worker.test_operations.OperationsTest.'
                   'test_clients_are_looked_at_before_another_one_may_come_meanwhile'),
    table.Mutation('worker-durable-not-recorded', f'{_WORKER}/operations.py',
                   '            record = self._protocol.label(record, **{records.DURABLE: '
                   'True})\n',
                   '            pass\n',
                   f'{_CINDER_TESTS}.service.worker.test_operations.OperationsTest.'
                   'test_durable_backup_is_recorded_before_a_decision_that_a_crash_may_end_meanwhile'),
    table.Mutation('worker-resumes-without-durability', f'{_WORKER}/operations.py',
                   'resume(record, durable=bool(record.labels.get(records.DURABLE)))',
                   'resume(record)',
                   f'{_CINDER_TESTS}.service.worker.test_operations.OperationsTest.'
                   'test_durable_backup_is_recorded_before_a_decision_that_a_crash_may_end_meanwhile'),
    table.Mutation('worker-watch-of-an-ended', f'{_WORKER}/operations.py',
                   '        for ended in watched - {record.id for record in listed} '
                   '- unreadable.keys():\n'
                   '            self._watches.end(ended)\n',
                   '',
                   f'{_CINDER_TESTS}.service.worker.test_operations.OperationsTest.'
                   'test_superposition_that_another_service_has_ended_meanwhile_is_not_watched'),
    table.Mutation('worker-watch-read-after-list', f'{_WORKER}/operations.py',
                   '        watched = self._watches.watched()\n'
                   '        unreadable: dict[str, sp.ClusterError] = {}\n'
                   '        listed = self._records(unreadable)\n',
                   '        unreadable: dict[str, sp.ClusterError] = {}\n'
                   '        listed = self._records(unreadable)\n'
                   '        watched = self._watches.watched()\n',
                   f'{_CINDER_TESTS}.service.worker.test_operations.OperationsTest.'
                   'test_superposition_that_is_created_while_all_are_listed_meanwhile_is_watched'),
    table.Mutation('worker-watch-during-decision', f'{_WORKER}/operations.py',
                   '        self._watches.end(superposition)\n'
                   '        try:\n'
                   '            if record.state == states.COLLAPSING:\n',
                   '        try:\n'
                   '            if record.state == states.COLLAPSING:\n',
                   f'{_CINDER_TESTS}.service.worker.test_operations.OperationsTest.'
                   'test_decision_is_not_slowed_by_a_sweep_meanwhile'),
    table.Mutation('worker-watch-during-a-drop', f'{_WORKER}/operations.py',
                   '            record = self._get(superposition)\n'
                   '            self._watches.end(superposition)\n',
                   '            record = self._get(superposition)\n',
                   f'{_CINDER_TESTS}.service.worker.test_operations.OperationsTest.'
                   'test_decision_is_not_slowed_by_a_sweep_meanwhile'),
    table.Mutation('worker-watch-of-a-decided', f'{_WORKER}/operations.py',
                   '        if record.state in states.DECIDED:\n'
                   '            self._watches.end(superposition)\n'
                   '        self._watches.begin(record)',
                   '        self._watches.begin(record)',
                   f'{_CINDER_TESTS}.service.worker.test_operations.OperationsTest.'
                   'test_superposition_that_another_service_has_decided_meanwhile_is_not_watched'),
    table.Mutation('worker-watch-of-one-that-is-gone', f'{_WORKER}/operations.py',
                   '        self._watches.end(superposition)\n'
                   '        raise sp.NotSuperposed',
                   '        raise sp.NotSuperposed',
                   f'{_CINDER_TESTS}.service.worker.test_operations.OperationsTest.'
                   'test_superposition_that_is_found_to_be_gone_meanwhile_is_not_watched'),
    table.Mutation('merge-begun-after-its-turn-without-a-look',
                   'specreds_cinder/service/merging.py',
                   '    # A server may have been started meanwhile.\n'
                   "    backend.call(ctxt, 'unused', superposition=shown['id'])\n",
                   '',
                   f'{_CINDER_TESTS}.service.test_merging.MergeTest.'
                   'test_merge_of_an_overlay_that_is_opened_meanwhile_is_skipped_silently'),
    table.Mutation('hand-out-whose-second-client-comes-late', f'{_WORKER}/handouts.py',
                   '>= _CLIENTS for',
                   '>= 1 for',
                   f'{_CINDER_TESTS}.service.worker.test_handouts.HandOutsTest.'
                   'test_client_that_comes_after_another_one_meanwhile_is_entered'),
    table.Mutation('hand-out-whose-clients-are-not-entered', f'{_WORKER}/handouts.py',
                   '            self._protocol.observe(record)\n',
                   '            pass\n',
                   f'{_CINDER_TESTS}.service.worker.test_handouts.HandOutsTest.'
                   'test_client_that_comes_after_another_one_meanwhile_is_entered'),
    table.Mutation('hand-out-of-one-volume-of-several', f'{_WORKER}/handouts.py',
                   '        return all(\n',
                   '        return any(\n',
                   f'{_CINDER_TESTS}.service.worker.test_handouts.HandOutsTest.'
                   'test_clients_of_a_volume_that_come_after_the_others_meanwhile_are_entered'),
    table.Mutation('merge-into-an-image-of-the-old-name', f'{_SUPERPOSITION}/overlay/merge.py',
                   '        named = _existing(cluster, volume)\n',
                   '        named = volume\n',
                   f'{_CINDER_TESTS}.superposition.overlay.test_merge.OfflineTest.'
                   'test_volume_that_is_renamed_meanwhile_is_written_by_its_new_name'),
    table.Mutation('merge-that-ends-at-a-deleted-volume', f'{_SUPERPOSITION}/overlay/merge.py',
                   '        if named is None:\n'
                   '            continue\n',
                   '        if named is None:\n'
                   '            break\n',
                   f'{_CINDER_TESTS}.superposition.overlay.test_merge.OfflineTest.'
                   'test_other_volumes_are_written_if_one_is_deleted_meanwhile'),
    table.Mutation('host-fence-by-attachments-read-before-the-lock',
                   'specreds_cinder/service/host_fence.py',
                   '    with hints.lock(*volume_ids):\n'
                   '        volumes = eligibility.volumes(volume_ids)\n'
                   '        targets = [_target(backend, ctxt, volume, fenced_host, fence_id) for '
                   'volume in volumes]\n',
                   '    volumes = eligibility.volumes(volume_ids)\n'
                   '    targets = [_target(backend, ctxt, volume, fenced_host, fence_id) for '
                   'volume in volumes]\n'
                   '    with hints.lock(*volume_ids):\n',
                   f'{_CINDER_TESTS}.service.test_host_fence.HostFenceTest.'
                   'test_volume_that_moves_to_another_host_meanwhile_is_not_fenced_there'),
    table.Mutation('worker-hand-out-of-a-dead-worker', f'{_WORKER}/operations.py',
                   '        if handed_at is not None and _since(handed_at) < _RECENT_S:\n'
                   '            # A service that was started since goes on with the looks.\n'
                   '            self._hand_outs.begin(record, handed_at)\n',
                   '',
                   f'{_CINDER_TESTS}.service.worker.test_operations.OperationsTest.'
                   'test_hand_out_of_a_worker_that_has_died_meanwhile_is_looked_for'),
    table.Mutation('worker-begins-a-decision-twice', f'{_WORKER}/operations.py',
                   '            if record.state == states.COLLAPSING:\n',
                   '            if False:\n',
                   f'{_CINDER_TESTS}.service.worker.test_operations.OperationsTest.'
                   'test_decision_that_another_worker_has_begun_meanwhile_is_resumed'),
    table.Mutation('reset-beside-a-silent-destination', f'{_RECOVERY}/evacuation.py',
                   'self._is_worked_on(server) or self._must_wait(server)',
                   'self._is_worked_on(server)',
                   f'{_ENGINE_TESTS}.recovery.test_unclaimed.UnclaimedTest.'
                   'test_request_to_a_host_that_is_silent_meanwhile_gets_no_rival'),
    table.Mutation('deletion-of-a-server-that-has-moved', f'{_RECOVERY}/evacuation.py',
                   ' and fresh.deleting and fresh.host == self._source:',
                   ' and fresh.deleting:',
                   f'{_ENGINE_TESTS}.recovery.test_evacuation_meanwhile.DeletionTest.'
                   'test_server_that_has_moved_meanwhile_is_not_deleted'),
    table.Mutation('deletion-that-was-dropped', f'{_RECOVERY}/evacuation.py',
                   ' and fresh.deleting and fresh.host == self._source:',
                   ' and fresh.host == self._source:',
                   f'{_ENGINE_TESTS}.recovery.test_evacuation_meanwhile.DeletionTest.'
                   'test_server_whose_deletion_was_dropped_meanwhile_is_not_deleted'),
    table.Mutation('deletion-without-its-living-host', f'{_RECOVERY}/evacuation.py',
                   'if server.host != self._source or not self._lost(self._source) or not '
                   'self._due():',
                   'if server.host != self._source or not self._due():',
                   f'{_ENGINE_TESTS}.recovery.test_evacuation_meanwhile.DeletionTest.'
                   'test_server_whose_host_is_heard_meanwhile_is_left_to_it'),
    table.Mutation('deletion-repeated-at-once', f'{_RECOVERY}/evacuation.py',
                   'if server.host != self._source or not self._lost(self._source) or not '
                   'self._due():',
                   'if server.host != self._source or not self._lost(self._source):',
                   f'{_ENGINE_TESTS}.recovery.test_evacuation_meanwhile.DeletionTest.'
                   'test_nova_may_carry_a_deletion_out_meanwhile'),
    table.Mutation('evacuation-repeated-at-once', f'{_RECOVERY}/evacuation.py',
                   'return self._asked is None or self._run.now - self._asked >= wait',
                   'return True',
                   f'{_ENGINE_TESTS}.recovery.test_evacuation_meanwhile.RequestTest.'
                   'test_nova_may_begin_an_evacuation_that_it_has_refused_meanwhile'),
    table.Mutation('evacuation-of-a-server-that-has-moved', f'{_RECOVERY}/evacuation.py',
                   '(fresh.host, fresh.task) != (server.host, server.task)',
                   'fresh.task != server.task',
                   f'{_ENGINE_TESTS}.recovery.test_evacuation_meanwhile.RequestTest.'
                   'test_server_that_changes_meanwhile_is_not_evacuated'),
    table.Mutation('evacuation-of-a-server-whose-task-has-ended', f'{_RECOVERY}/evacuation.py',
                   '(fresh.host, fresh.task) != (server.host, server.task)',
                   'fresh.host != server.host',
                   f'{_ENGINE_TESTS}.recovery.test_evacuation_meanwhile.HangingTest.'
                   'test_evacuation_whose_task_ends_meanwhile_may_have_moved_the_server'),
    table.Mutation('evacuation-after-a-slow-fence', f'{_RECOVERY}/evacuation.py',
                   '            if slow or self._changed(server):\n',
                   '            if slow:\n',
                   f'{_ENGINE_TESTS}.recovery.test_evacuation.MovingTest.'
                   'test_server_that_changes_meanwhile_in_another_fence_is_not_evacuated'),
    table.Mutation('evacuation-to-a-lost-backup', f'{_RECOVERY}/evacuation.py',
                   '            self._let_out(target)\n'
                   '            target = self._target()\n',
                   '            self._let_out(target)\n',
                   f'{_ENGINE_TESTS}.recovery.test_evacuation_meanwhile.RequestTest.'
                   'test_backup_that_is_lost_meanwhile_is_not_the_destination'),
    table.Mutation('evacuation-ends-before-nova', f'{_RECOVERY}/evacuation.py',
                   'moved = server.host != self._source and server.task is None',
                   'moved = server.host != self._source',
                   f'{_ENGINE_TESTS}.recovery.test_evacuation_meanwhile.RequestTest.'
                   'test_server_that_nova_works_on_after_its_move_is_waited_for_meanwhile'),
    table.Mutation('reset-of-a-server-that-has-moved', f'{_RECOVERY}/evacuation.py',
                   'if seen != server and not', 'if seen is None and not',
                   f'{_ENGINE_TESTS}.recovery.test_evacuation_meanwhile.RequestTest.'
                   'test_server_that_changes_while_its_host_comes_back_is_looked_at_again_meanwhile'),
    table.Mutation('start-of-a-server-that-runs', f'{_RECOVERY}/evacuation.py',
                   'if seen != server and not', 'if seen is None and not',
                   f'{_ENGINE_TESTS}.recovery.test_evacuation_meanwhile.SupersededTest.'
                   'test_server_that_a_user_starts_meanwhile_is_not_started'),
    table.Mutation('act-of-a-superseded-engine', f'{_RECOVERY}/evacuation.py',
                   '        self._run.fresh()\n        seen = self._server()',
                   '        seen = self._server()',
                   f'{_ENGINE_TESTS}.recovery.test_evacuation_meanwhile.SupersededTest.'
                   'test_guest_that_another_engine_takes_meanwhile_is_not_started'),
    table.Mutation('leave-reboots-running', f'{_RECOVERY}/evacuation.py',
                   'gone = run.context.suspects.running(self._source, server.id) is False',
                   'gone = True',
                   f'{_ENGINE_TESTS}.recovery.test_evacuation_meanwhile.HangingTest.'
                   'test_guest_that_runs_on_the_source_meanwhile_is_not_started'),
    table.Mutation('decide-standing-ignored', f'{_STEPS}/decide.py',
                   'verdict = run.standing(anew=raced.kind != verdicts.READY) or raced',
                   'verdict = raced',
                   f'{_ENGINE_TESTS}.recovery.steps.test_meanwhile.DecideTest.'
                   'test_decision_that_another_engine_has_made_meanwhile_is_not_made_again'),
    table.Mutation('promotion-of-a-server-that-was-stopped', f'{_STEPS}/decide.py',
                   'wait_unseen(run) or reading.verdict() or _ask_again(run)',
                   'wait_unseen(run) or _ask_again(run)',
                   f'{_ENGINE_TESTS}.recovery.steps.test_meanwhile.DecideTest.'
                   'test_server_that_a_user_stops_meanwhile_is_not_promoted'),
    table.Mutation('promotion-without-the-sentinel', f'{_STEPS}/decide.py',
                   'reading.verdict() or _ask_again(run)\n',
                   'reading.verdict()\n',
                   f'{_ENGINE_TESTS}.recovery.steps.test_meanwhile.DecideTest.'
                   'test_server_that_its_sentinel_sees_meanwhile_is_not_decided_on'),
    table.Mutation('hardening-without-the-sentinel', f'{_STEPS}/decide.py',
                   'return run.second_opinion(status) or run.spared()',
                   'return run.spared()',
                   f'{_ENGINE_TESTS}.recovery.steps.test_meanwhile.DecideTest.'
                   'test_server_that_its_sentinel_sees_during_the_hardening_meanwhile_is_spared'),
    table.Mutation('promotion-although-its-host-is-back', f'{_STEPS}/decide.py',
                   '                   or run.lives() or collapse(run))',
                   '                   or collapse(run))',
                   f'{_ENGINE_TESTS}.recovery.steps.test_meanwhile.DecideTest.'
                   'test_host_that_is_back_meanwhile_keeps_its_server'),
    table.Mutation('decision-of-an-overtaken-engine', f'{_STEPS}/decide.py',
                   '                run.fresh()\n'
                   '                verdict = run.spared()\n'
                   '                if verdict is None and refused',
                   '                verdict = run.spared()\n'
                   '                if verdict is None and refused',
                   f'{_ENGINE_TESTS}.recovery.steps.test_meanwhile.DecideTest.'
                   'test_engine_that_is_overtaken_meanwhile_does_not_ask_again_for_a_decision'),
    table.Mutation('decision-although-its-host-is-back', f'{_STEPS}/decide.py',
                   '                verdict = run.spared()\n'
                   '                if verdict is None and refused',
                   '                verdict = None\n'
                   '                if verdict is None and refused',
                   f'{_ENGINE_TESTS}.recovery.steps.test_meanwhile.DecideTest.'
                   'test_host_that_is_back_meanwhile_ends_the_request_for_a_decision'),
    table.Mutation('removal-of-a-promoted-backup', f'{_STEPS}/decide.py',
                   '            if state in states.DECIDED or state == states.COLLAPSING:',
                   '            if False:',
                   f'{_ENGINE_TESTS}.recovery.steps.test_meanwhile.DecideTest.'
                   'test_backup_that_is_promoted_meanwhile_is_not_removed'),
    table.Mutation('removal-of-a-backup-that-is-decided-on', f'{_STEPS}/decide.py',
                   '            if state in states.DECIDED or state == states.COLLAPSING:',
                   '            if state in states.DECIDED:',
                   f'{_ENGINE_TESTS}.recovery.steps.test_meanwhile.DecideTest.'
                   'test_backup_that_is_being_decided_on_meanwhile_is_not_removed'),
    table.Mutation('ended-decision-taken-for-none', f'{_STEPS}/decide.py',
                   '            if state is None and run.deciding():',
                   '            if False:',
                   f'{_ENGINE_TESTS}.recovery.steps.test_meanwhile.DecideTest.'
                   'test_decision_that_ended_meanwhile_has_an_unknown_outcome'),
    table.Mutation('drop-of-a-promoted-version', f'{_STEPS}/decide.py',
                   '        if state != states.ABORTING:\n'
                   '            return False\n',
                   '        if False:\n'
                   '            return False\n',
                   f'{_ENGINE_TESTS}.recovery.steps.test_meanwhile.DecideTest.'
                   'test_version_that_is_promoted_meanwhile_is_not_given_up'),
    table.Mutation('second-race-for-a-server-that-has-moved', f'{_STEPS}/decide.py',
                   '        verdict = _moved(run) or verdict\n',
                   '        pass\n',
                   f'{_ENGINE_TESTS}.recovery.steps.test_meanwhile.DecideTest.'
                   'test_server_that_has_moved_meanwhile_needs_no_other_race'),
    table.Mutation('fence-of-a-server-that-was-stopped', f'{_STEPS}/fence.py',
                   'objection = tenant.objection(run)\n',
                   'objection = None\n',
                   f'{_ENGINE_TESTS}.recovery.steps.test_meanwhile.FenceTest.'
                   'test_server_that_a_user_stops_meanwhile_is_not_decided_on'),
    table.Mutation('fence-of-a-deleted-server', f'{_STEPS}/fence.py',
                   '    while True:\n'
                   '        server = run.server(anew=True)\n'
                   '        if server is None:\n'
                   '            return verdicts.StepVerdict(verdicts.ABORTED',
                   '    while True:\n'
                   '        server = run.server()\n'
                   '        if server is None:\n'
                   '            return verdicts.StepVerdict(verdicts.ABORTED',
                   f'{_ENGINE_TESTS}.recovery.steps.test_meanwhile.FenceTest.'
                   'test_server_that_was_deleted_meanwhile_is_not_fenced'),
    table.Mutation('fence-of-a-host-that-has-failed-again', f'{_STEPS}/fence.py',
                   'min(run.suspected_for(host),',
                   "min(float('inf'),",
                   f'{_ENGINE_TESTS}.recovery.steps.test_meanwhile.FenceTest.'
                   'test_host_that_has_failed_again_meanwhile_gets_all_of_its_time'),
    table.Mutation('shut-out-of-a-server-that-has-moved', f'{_STEPS}/fence.py',
                   '    if server.host != run.recovery.host:\n',
                   '    if False:\n',
                   f'{_ENGINE_TESTS}.recovery.steps.test_meanwhile.ShutOutTest.'
                   'test_server_that_has_moved_meanwhile_is_not_shut_out'),
    table.Mutation('shut-out-of-a-deleted-server', f'{_STEPS}/fence.py',
                   '"""\n    server = run.server(anew=True)\n',
                   '"""\n    server = run.server()\n',
                   f'{_ENGINE_TESTS}.recovery.steps.test_meanwhile.ShutOutTest.'
                   'test_server_that_was_deleted_meanwhile_is_not_shut_out'),
    table.Mutation('shut-out-by-an-overtaken-engine', f'{_STEPS}/fence.py',
                   '            run.pause(_PAUSE)\n'
                   '            run.fresh()\n',
                   '            run.pause(_PAUSE)\n',
                   f'{_ENGINE_TESTS}.recovery.steps.test_meanwhile.ShutOutTest.'
                   'test_engine_that_is_overtaken_meanwhile_does_not_fence_again'),
    table.Mutation('unfenced-evacuation-of-a-stopped-server', f'{_STEPS}/fence.py',
                   '    run.fresh()\n'
                   '    if verdict := tenant.objection(run):\n'
                   '        return verdict\n'
                   '    if run.context.suspects',
                   '    run.fresh()\n'
                   '    if run.context.suspects',
                   f'{_ENGINE_TESTS}.recovery.steps.test_meanwhile.ShutOutTest.'
                   'test_server_that_a_user_stops_meanwhile_is_not_evacuated'),
    table.Mutation('unfenced-evacuation-although-its-host-is-back', f'{_STEPS}/fence.py',
                   '    if run.context.suspects.is_well(run.recovery.host):\n'
                   '        _restart_there(run)\n',
                   '',
                   f'{_ENGINE_TESTS}.recovery.steps.test_meanwhile.ShutOutTest.'
                   'test_server_whose_host_is_back_meanwhile_without_it_is_started_there'),
    table.Mutation('force-down-by-a-superseded-engine', f'{_RECOVERY}/cleaning.py',
                   '    run.fresh()\n',
                   '',
                   f'{_ENGINE_TESTS}.recovery.test_evacuation.MovingTest.'
                   'test_superseded_meanwhile_an_engine_forces_no_host_down'),
    table.Mutation('force-down-of-a-trusted-host', f'{_RECOVERY}/cleaning.py',
                   '    if not _require_cleaning(run, source):\n'
                   '        return False\n',
                   '',
                   f'{_ENGINE_TESTS}.recovery.test_evacuation.MovingTest.'
                   'test_host_trusted_meanwhile_is_not_forced_down'),
    table.Mutation('force-down-of-a-host-trusted-since', f'{_RECOVERY}/cleaning.py',
                   '    if not returned(run, source):\n'
                   '        return True\n',
                   '    return True\n',
                   f'{_ENGINE_TESTS}.recovery.test_evacuation.MovingTest.'
                   'test_host_trusted_meanwhile_is_forced_up_again'),
    table.Mutation('unknown-decision-not-repeated', f'{_RECOVERY}/run.py',
                   "step.name == COLLAPSE and step.detail.get('outcome') == 'gone'",
                   'False',
                   f'{_ENGINE_TESTS}.recovery.test_run.BackTest.'
                   'test_unknown_decision_is_repeated_although_the_host_is_well_meanwhile'),
    table.Mutation('recovery-of-a-server-that-has-moved', f'{_RECOVERY}/run.py',
                   'server = self.server(anew=True)\n'
                   '        if server is None:\n'
                   "            return verdicts.StepVerdict(verdicts.ABORTED, 'the server is "
                   "deleted')\n"
                   '        if server.host != host',
                   'server = self.server()\n'
                   '        if server is None:\n'
                   "            return verdicts.StepVerdict(verdicts.ABORTED, 'the server is "
                   "deleted')\n"
                   '        if server.host != host',
                   f'{_ENGINE_TESTS}.recovery.steps.test_meanwhile.SparedTest.'
                   'test_server_that_has_moved_meanwhile_is_not_recovered'),
    table.Mutation('choice-read-before-it-is-recorded', f'{_STEPS}/destination.py',
                   '    if server is not None and _policy(server) in _STRICT:\n'
                   '        run.flush()\n',
                   '',
                   f'{_ENGINE_TESTS}.recovery.steps.test_destination.GroupTest.'
                   'test_choice_is_recorded_before_those_that_others_record_meanwhile_are_read'),
    table.Mutation('start-on-another-host-than-recorded', f'{_STEPS}/start.py',
                   'if placed.kind == verdicts.STARTED and run.recovery.destination is None:',
                   'if placed.kind == verdicts.STARTED and placed.why:',
                   f'{_ENGINE_TESTS}.recovery.steps.test_start.StartingTest.'
                   'test_host_that_was_recorded_meanwhile_is_not_replaced'),
    table.Mutation('start-in-a-superposition-that-has-ended', f'{_STEPS}/start.py',
                   '\n            and run.superposition() == superposed.why):',
                   '):',
                   f'{_ENGINE_TESTS}.recovery.steps.test_start.StartingTest.'
                   'test_superposition_that_has_ended_meanwhile_gets_no_backup'),
    table.Mutation('start-without-a-superposition', f'{_STEPS}/start.py',
                   'if recovery.superposition is None:',
                   'if False:',
                   f'{_ENGINE_TESTS}.recovery.steps.test_start.StartingTest.'
                   'test_superposition_that_has_ended_meanwhile_gets_no_backup'),
    table.Mutation('start-although-the-host-is-back', f'{_STEPS}/start.py',
                   '        if over := run.over():\n'
                   '            return over\n'
                   '        recovery = run.recovery',
                   '        recovery = run.recovery',
                   f'{_ENGINE_TESTS}.recovery.steps.test_start.StartingTest.'
                   'test_server_whose_host_is_back_meanwhile_gets_no_backup'),
    table.Mutation('start-repeated-although-the-host-is-back', f'{_STEPS}/start.py',
                   '        if over := run.over():\n'
                   '            return over\n'
                   '        run.pause(_PAUSE)',
                   '        run.pause(_PAUSE)',
                   f'{_ENGINE_TESTS}.recovery.steps.test_start.StartingTest.'
                   'test_start_is_not_repeated_if_the_host_is_back_meanwhile'),
    table.Mutation('restart-by-an-overtaken-engine', f'{_STEPS}/restart.py',
                   '            run.fresh()\n'
                   '            try:',
                   '            try:',
                   f'{_ENGINE_TESTS}.recovery.steps.test_meanwhile.RestartTest.'
                   'test_engine_that_is_overtaken_meanwhile_does_not_reboot_again'),
    table.Mutation('restart-of-a-server-that-runs', f'{_STEPS}/restart.py',
                   '            if run.now - began >= _PAUSE:',
                   '            if False:',
                   f'{_ENGINE_TESTS}.recovery.steps.test_meanwhile.RestartTest.'
                   'test_server_that_runs_meanwhile_is_not_rebooted'),
    table.Mutation('restart-on-a-lost-host', f'{_STEPS}/restart.py',
                   'or not run.context.suspects.is_well(server.host):\n'
                   '            return None',
                   'or False:\n'
                   '            return None',
                   f'{_ENGINE_TESTS}.recovery.steps.test_meanwhile.RestartTest.'
                   'test_server_whose_host_is_lost_meanwhile_is_not_rebooted'),
    table.Mutation('restart-of-a-server-at-work', f'{_STEPS}/restart.py',
                   '        if server.task is not None:\n'
                   '            return None\n',
                   '',
                   f'{_ENGINE_TESTS}.recovery.steps.test_meanwhile.RestartTest.'
                   'test_server_that_nova_works_on_meanwhile_is_waited_for'),
    table.Mutation('restart-repeated-at-once', f'{_STEPS}/restart.py',
                   'if run.now - self._requested < _ASK_AGAIN or not',
                   'if not',
                   f'{_ENGINE_TESTS}.recovery.steps.test_meanwhile.RestartTest.'
                   'test_reboot_may_end_meanwhile'),
    table.Mutation('destination-that-leaves', f'{_DETECTION}/monitor.py',
                   'host.beat is not None and not host.suspected and not host.leaving\n',
                   'host.beat is not None and not host.suspected\n',
                   f'{_ENGINE_TESTS}.suspicion.test_monitor.SilenceTest.'
                   'test_host_that_leaves_meanwhile_is_no_destination'),
    table.Mutation('fenced-client-learned', f'{_SENTINEL}/watch.py',
                   'opened.local - self._fenced[image.user]',
                   'opened.local',
                   f'{_SENTINEL_TESTS}.test_watch_meanwhile.MeanwhileTest.'
                   'test_server_that_was_started_meanwhile_does_not_own_the_clients_of_a_fenced_one'),
    table.Mutation('domain-started-anew-ended', f'{_SENTINEL}/watch.py',
                   'if domain is None or domain.number != known.domain.number:',
                   'if domain is None:',
                   f'{_SENTINEL_TESTS}.test_watch_meanwhile.MeanwhileTest.'
                   'test_domain_that_was_started_anew_meanwhile_is_kept'),
    table.Mutation('domain-judged-by-its-former-disks', f'{_SENTINEL}/watch.py',
                   '            domain = self._hypervisor.describe(known.domain.uuid)\n'
                   '        if domain is None or',
                   '            pass\n'
                   '        if domain is None or',
                   f'{_SENTINEL_TESTS}.test_watch_meanwhile.MeanwhileTest.'
                   'test_domain_whose_disks_were_switched_meanwhile_is_judged_by_the_new_ones'),
    table.Mutation('domain-ended-without-a-second-look', f'{_SENTINEL}/watch.py',
                   'return now - known.fenced_since >= self._settings.confirm_s',
                   'return True',
                   f'{_SENTINEL_TESTS}.test_watch_meanwhile.MeanwhileTest.'
                   'test_domain_that_does_not_look_fenced_meanwhile_has_all_of_its_time_again'),
    table.Mutation('domain-ended-in-spite-of-a-record', f'{_SENTINEL}/watch.py',
                   '        if verdict.kind is not decide.Kind.FENCED:\n'
                   '            known.fenced_since = None\n',
                   '        if verdict.kind is not decide.Kind.FENCED:\n',
                   f'{_SENTINEL_TESTS}.test_watch_meanwhile.MeanwhileTest.'
                   'test_domain_that_does_not_look_fenced_meanwhile_has_all_of_its_time_again'),
    table.Mutation('domain-ended-in-spite-of-a-clean-look', f'{_SENTINEL}/watch.py',
                   '            return self._judge(known, process, images[0].user)\n'
                   '        known.fenced_since = None\n',
                   '            return self._judge(known, process, images[0].user)\n',
                   f'{_SENTINEL_TESTS}.test_watch_meanwhile.MeanwhileTest.'
                   'test_domain_that_does_not_look_fenced_meanwhile_has_all_of_its_time_again'),
    table.Mutation('domain-ended-in-spite-of-trouble', f'{_SENTINEL}/watch.py',
                   '        if user in troubles:\n'
                   '            known.fenced_since = None\n',
                   '        if user in troubles:\n',
                   f'{_SENTINEL_TESTS}.test_watch_meanwhile.MeanwhileTest.'
                   'test_domain_that_does_not_look_fenced_meanwhile_has_all_of_its_time_again'),
    table.Mutation('record-before-blocklist', f'{_SENTINEL}/watch.py',
                   '        fenced = storage.blocklisted(self._settings.fenced_for_good_s)\n'
                   '        opened = storage.opened(image.ref)\n'
                   '        record = storage.record(image.ref, opened.image_id) if opened is '
                   'not None else None\n',
                   '        opened = storage.opened(image.ref)\n'
                   '        record = storage.record(image.ref, opened.image_id) if opened is '
                   'not None else None\n'
                   '        fenced = storage.blocklisted(self._settings.fenced_for_good_s)\n',
                   f'{_SENTINEL_TESTS}.test_watch_meanwhile.MeanwhileTest.'
                   'test_client_that_watches_meanwhile_is_not_fenced_by_an_old_blocklist'),
    table.Mutation('blocklist-of-before-the-silence', f'{_SENTINEL}/watch.py',
                   '        self._asked.pop(user, None)\n',
                   '',
                   f'{_SENTINEL_TESTS}.test_watch_meanwhile.MeanwhileTest.'
                   'test_blocklist_is_read_again_after_storage_was_silent_meanwhile'),
    table.Mutation('clients-of-a-former-process', f'{_SENTINEL}/watch.py',
                   'if known is None or known.domain.number != number:',
                   'if known is None:',
                   f'{_SENTINEL_TESTS}.test_watch_meanwhile.MeanwhileTest.'
                   'test_process_that_is_started_meanwhile_is_another_one'),
    table.Mutation('ended-process-known-without-libvirt', f'{_SENTINEL}/watch.py',
                   'if known.process is None or known.process.ended(0):',
                   'if known.process is None:',
                   f'{_SENTINEL_TESTS}.test_watch_meanwhile.MeanwhileTest.'
                   'test_domain_that_runs_on_while_libvirt_is_silent_meanwhile_is_known'),
    table.Mutation('power-off-of-a-host-that-is-back', f'{_ENGINE}/recovery/power.py',
                   '            if not self._dead(self._context.store.host(host.name)):\n'
                   '                return\n',
                   '',
                   f'{_ENGINE_TESTS}.recovery.test_power.PowerOffTest.'
                   'test_host_that_is_back_meanwhile_is_left_alone'),
    table.Mutation('power-off-of-a-host-that-is-heard', f'{_ENGINE}/recovery/power.py',
                   '                and self._context.suspects.suspected(host))',
                   '                )',
                   f'{_ENGINE_TESTS}.recovery.test_power.PowerOffTest.'
                   'test_host_that_is_not_suspected_any_more_meanwhile_is_left_alone'),
    table.Mutation('power-off-by-two-engines', f'{_ENGINE}/recovery/power.py',
                   "return self._note(host, 'begun') if self._due(host) else None",
                   "return self._note(host, 'begun') or host if self._due(host) else None",
                   f'{_ENGINE_TESTS}.recovery.test_power.PowerOffTest.'
                   'test_host_that_another_engine_has_changed_meanwhile_is_left_to_it'),
    table.Mutation('drop-of-the-superposition-of-a-new-recovery', f'{_ENGINE}/recovery/janitor.py',
                   '            if recovery is None or recovery.state == model.ENDED:',
                   '            if True:',
                   f'{_ENGINE_TESTS}.recovery.test_janitor.JanitorTest.'
                   'test_superposition_of_a_recovery_that_begins_meanwhile_stays'),
    table.Mutation('forced-down-lifted-from-a-host-in-trouble', f'{_RECOVERY}/cleaning.py',
                   'or context.suspects.suspected(name) or not context.suspects.is_well(name)):',
                   'or context.suspects.suspected(name)):',
                   f'{_ENGINE_TESTS}.recovery.test_janitor.JanitorTest.'
                   'test_host_that_has_trouble_meanwhile_stays_down'),
    table.Mutation('forced-down-lifted-twice', f'{_RECOVERY}/cleaning.py',
                   "if not service.get('forced_down') or not service.get('enabled', True):",
                   "if not service.get('enabled', True):",
                   f'{_ENGINE_TESTS}.recovery.test_janitor.JanitorTest.'
                   'test_host_that_an_operator_has_lifted_meanwhile_is_left_alone'),
    table.Mutation('reboot-on-a-host-that-is-lost-again', f'{_STEPS}/adopt.py',
                   'if moved or not run.context.suspects.is_well(run.recovery.host):',
                   'if moved:',
                   f'{_ENGINE_TESTS}.recovery.steps.test_adopt.LateTest.'
                   'test_server_whose_host_is_lost_again_meanwhile_is_evacuated'),
    table.Mutation('reboot-of-a-server-at-work', f'{_STEPS}/adopt.py',
                   '        if server.task is None:\n'
                   '            try:\n'
                   '                compute.reboot',
                   '        if True:\n'
                   '            try:\n'
                   '                compute.reboot',
                   f'{_ENGINE_TESTS}.recovery.steps.test_adopt.LateTest.'
                   'test_server_that_nova_works_on_meanwhile_is_waited_for'),
    table.Mutation('recorded-goodbye-of-a-heard-host', f'{_DETECTION}/monitor.py',
                   '            if watched_host is not None and watched_host.beat is None:\n'
                   '                watched_host.goodbye',
                   '            if watched_host is not None:\n'
                   '                watched_host.goodbye',
                   f'{_ENGINE_TESTS}.suspicion.test_monitor.SilenceTest.'
                   'test_host_that_is_heard_meanwhile_has_said_no_earlier_goodbye'),
    table.Mutation('recorded-boot-of-a-heard-host', f'{_DETECTION}/monitor.py',
                   '            if watched_host is not None and watched_host.beat is None:\n'
                   '                watched_host.kernel = kernel',
                   '            if watched_host is not None:\n'
                   '                watched_host.kernel = kernel',
                   f'{_ENGINE_TESTS}.suspicion.test_monitor.SilenceTest.'
                   'test_boot_of_a_host_that_is_heard_meanwhile_is_the_latest'),
    table.Mutation('removal-of-a-backup-as-it-was', f'{_BACKUP}/backups.py',
                   '            # A start that has just ended may have left a record.\n'
                   '            record = self._journal.get(backup_id)\n',
                   '',
                   f'{_VIRT_TESTS}.backup.test_backups.DecideTest.'
                   'test_backup_that_is_promoted_meanwhile_is_not_removed'),
    table.Mutation('removal-of-a-backup-in-any-phase', f'{_BACKUP}/backups.py',
                   '            check_phase(record, journals.STARTING, '
                   'journals.RUNNING,\n'
                   '                                      journals.HARDENED, '
                   'journals.ABORTING)\n',
                   '',
                   f'{_VIRT_TESTS}.backup.test_backups.DecideTest.'
                   'test_backup_that_is_promoted_meanwhile_is_not_removed'),
    table.Mutation('promotion-of-a-backup-in-any-phase', f'{_BACKUP}/backups.py',
                   '            check_phase(record, journals.RUNNING, '
                   'journals.HARDENED)\n'
                   '            state = self',
                   '            state = self',
                   f'{_VIRT_TESTS}.backup.test_backups.DecideTest.'
                   'test_backup_that_is_removed_meanwhile_is_not_promoted'),
    table.Mutation('latch-closed-that-was-opened', f'{_SUPERPOSITION}/exclusion/latch.py',
                   '                op.assert_version(header.version)\n',
                   '',
                   f'{_CINDER_TESTS}.superposition.evidence.test_changed_objects.LatchTest.'
                   'test_latch_that_was_opened_for_good_meanwhile_stays_open'),
    table.Mutation('latch-left-open-for-a-lock', f'{_SUPERPOSITION}/exclusion/latch.py',
                   '                    raise _Overtaken(',
                   '                    raise errors.RecordChanged(',
                   f'{_CINDER_TESTS}.superposition.evidence.test_changed_objects.LatchTest.'
                   'test_latch_whose_lock_was_taken_meanwhile_is_closed'),
    table.Mutation('client-fenced-anew-not-listed', f'{_SUPERPOSITION}/exclusion/fenced.py',
                   '            op.assert_version(listing.version)\n',
                   '',
                   f'{_CINDER_TESTS}.superposition.evidence.test_changed_objects.FencedClientsTest.'
                   'test_client_that_is_fenced_anew_meanwhile_stays_in_the_list'),
    table.Mutation('host-fence-of-a-superposed-volume', f'{_PROTOCOL}/host_fence.py',
                   '    if claim is not None:\n'
                   '        raise',
                   '    if False:\n'
                   '        raise',
                   f'{_CINDER_TESTS}.superposition.evidence.test_changed_objects.HostFenceTest.'
                   'test_volume_that_was_superposed_meanwhile_is_left_to_its_superposition'),
)

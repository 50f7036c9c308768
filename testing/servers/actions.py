# SPDX-License-Identifier: Apache-2.0
"""What becomes of a user's or operator's request that meets a recovery, and the tests of it."""

import dataclasses

_TENANTS = 'specreds_nova.tests.engine_stories.test_tenants.TestTenants'
_PENDING = 'specreds_nova.tests.engine_stories.test_pending.TestPending'
_BEFORE = 'specreds_nova.tests.engine_stories.test_pending.TestPendingBefore'
_UNMERGED = 'specreds_nova.tests.stories.test_unmerged.TestUnmerged'
_LABELS = f'{_TENANTS}.test_name_metadata_and_lock_are_kept'
_LABELS_UNMERGED = f'{_UNMERGED}.test_name_metadata_lock_and_console_are_as_ever_before_the_merge'
_ALLOWED = ('specreds_nova.tests.cloud.test_afterwards.TestBeforeTheMerge.'
            'test_allowed_operations_keep_the_overlay')
_REFUSED = ('specreds_nova.tests.cloud.test_afterwards.TestBeforeTheMerge.'
            'test_refused_operations_are_allowed_after_the_merge')

_TENANT = 'specreds_nova.tests.unit.engine.recovery.test_tenant.TenantTest'
_ENDED = f'{_TENANT}.test_what_a_user_asks_for_ends_the_recovery'
_OPERATIONS = 'specreds_nova.tests.unit.host.unmerged.test_operations'
_REQUESTS = 'specreds_nova.tests.unit.host.test_requests.RequestsTest'
_EVACUATED = f'{_REQUESTS}.test_request_during_an_evacuation_is_refused'
_FAILED_HOST = ('specreds_nova.tests.cloud.test_afterwards.TestBeforeTheMerge.'
                'test_host_that_was_wrongly_suspected_refuses_a_reboot_and_a_detach')
_CONSOLES = 'specreds_nova.tests.unit.host.unmerged.test_consoles.ConsolesTest'
_CLIENTS = 'specreds_nova.tests.unit.engine.clients'

_SPARED = 'works; the recovery ends, the primary stays'
_AGAIN = 'works; another backup is started'
_WORKS = 'works'
_LATER = 'refused until merged'
_BUSY = 'refused by Nova while it evacuates'
_DROPPED = f'{_BUSY}; before that, dropped if the failed host is dead'
_UNTESTED = '–'


@dataclasses.dataclass(frozen=True)
class Action:
    """A request to Nova, by the phase of a recovery that it meets.

    :ivar racing: effect while primary and backup race
    :ivar decided: effect between the decision and the end of the adoption
    :ivar unmerged: effect between the adoption and the end of the merge
    :ivar tests: ids of the tests that show the effects
    """

    what: str
    racing: str
    decided: str
    unmerged: str
    tests: tuple[str, ...]

    @property
    def tested(self) -> str:
        """Where the tests run; every effect of a row without a cloud is one of unit tests."""
        kinds = {'units' if '.unit.' in test else 'cloud' for test in self.tests}
        return ' and '.join(sorted(kinds))


ACTIONS = (
    Action('stop', _SPARED, f'{_BUSY}; before that, it is stopped when it is adopted', _WORKS,
           (f'{_TENANTS}.test_stopped_server_stays_stopped', _EVACUATED,
            f'{_PENDING}.test_server_that_is_stopped_after_the_decision_stays_stopped',
            'specreds_nova.tests.unit.host.backup.test_adoption.GiveBackTest.'
            'test_server_that_a_user_has_stopped_stays_stopped', _ALLOWED)),
    Action('reboot', 'works; the recovery continues',
           'refused on the failed host; dropped if that is dead', 'works; the merge starts again',
           (f'{_TENANTS}.test_rebooted_server_serves_on_one_host', _FAILED_HOST, _ALLOWED,
            f'{_BEFORE}.test_reboot_before_the_suspicion_does_not_keep_the_server_there',
            f'{_PENDING}.test_reboot_during_the_race_does_not_keep_the_server_there')),
    Action('pause', _SPARED, _DROPPED, _WORKS,
           (f'{_TENANTS}.test_paused_server_stays_paused', _EVACUATED, _ALLOWED)),
    Action('suspend', _SPARED, _DROPPED, _LATER,
           (f'{_TENANTS}.test_suspended_server_resumes_with_its_network', _EVACUATED, _REFUSED,
            f'{_PENDING}.test_suspension_after_the_decision_is_dropped')),
    Action('shelve', 'works; the recovery ends', _DROPPED, 'works; it runs again after the merge',
           (f'{_TENANTS}.test_unshelved_server_serves_on_one_host', _EVACUATED,
            f'{_UNMERGED}.test_unshelved_server_runs_on_merged_volumes',
            f'{_PENDING}.test_shelving_after_the_decision_is_dropped')),
    Action('snapshot of a volume', 'refused by Cinder', 'refused by Cinder', 'refused by Cinder',
           (f'{_TENANTS}.test_snapshot_of_its_volume_is_refused', _LABELS_UNMERGED,
            'specreds_cinder.tests.unit.api.test_guards.TestRefused.'
            'test_snapshot_of_an_attached_volume_is_refused',
            'specreds_cinder.tests.unit.api.test_guards.TestRefused.'
            'test_snapshot_is_refused_after_the_decision',
            'specreds_cinder.tests.unit.api.test_guards.TestDecision.'
            'test_refusal_names_the_command_that_helps')),
    Action('snapshot of a disk that Nova keeps', 'works; the recovery continues', _BUSY, _LATER,
           (f'{_TENANT}.test_what_no_user_asks_for_does_not', _EVACUATED,
            f'{_OPERATIONS}.ServerDisksTest.test_operations_on_unmerged_disks_are_refused')),
    Action('resize, cold migration', _SPARED, _BUSY,
           'works with volumes, the merge is done on the new host; refused until merged with '
           'disks that Nova keeps in RBD',
           (_ENDED, _EVACUATED, f'{_UNMERGED}.test_resize_keeps_the_overlay_on_its_host',
            f'{_OPERATIONS}.ServerDisksTest.'
            'test_cold_migration_of_unmerged_disks_keeps_the_state_of_the_server')),
    Action('rebuild', _SPARED, _BUSY, _LATER,
           (_ENDED, _EVACUATED, 'specreds_nova.tests.unit.host.test_driver.DriverTest.'
            'test_rebuild_on_the_same_host_is_novas',
            f'{_OPERATIONS}.RefuseTest.test_refused_operation_keeps_the_state_of_the_server')),
    Action('rescue', _SPARED, _DROPPED, 'waits for the merge',
           (_ENDED, _EVACUATED, f'{_OPERATIONS}.OpenTest.test_rescue_waits_for_the_merge')),
    Action('change of the password', 'works; the recovery continues', _DROPPED, _WORKS,
           (f'{_TENANT}.test_what_no_user_asks_for_does_not', _EVACUATED,
            'specreds_nova.tests.unit.engine.recovery.test_pending.PendingTest.'
            'test_request_that_the_failed_host_has_not_taken_does_not_keep_the_server_there',
            'specreds_nova.tests.unit.host.unmerged.test_dropped_requests.ManagerTest.'
            'test_request_that_stands_is_fulfilled')),
    Action('live migration', 'works, except to the host of the backup; the recovery ends', _BUSY,
           _LATER,
           (f'{_TENANTS}.test_live_migrated_server_serves_on_its_new_host', _EVACUATED,
            _REFUSED)),
    Action('attach a volume', 'refused by Cinder until decided',
           f'plugged in when it is adopted; {_BUSY}', _WORKS,
           (f'{_TENANTS}.test_volume_is_attached_only_after_the_decision',
            'specreds_nova.tests.cloud.test_afterwards.TestBeforeTheMerge.'
            'test_volume_attached_before_the_adoption_is_plugged', _EVACUATED, _ALLOWED)),
    Action('detach a volume', _AGAIN, f'refused on the failed host; {_BUSY}', _LATER,
           (f'{_TENANT}.test_other_volumes_need_another_backup', _FAILED_HOST, _EVACUATED,
            _REFUSED)),
    Action('attach a port', _AGAIN, _BUSY, _WORKS,
           (f'{_TENANTS}.test_attached_port_is_not_lost', _EVACUATED,
            f'{_UNMERGED}.test_port_is_attached_before_the_merge')),
    Action('detach a port', _AGAIN, f'refused on the failed host; {_BUSY}', _WORKS,
           (f'{_TENANTS}.test_detached_port_does_not_return',
            f'{_TENANT}.test_other_ports_need_another_backup', _EVACUATED,
            'specreds_nova.tests.unit.host.unmerged.test_dropped_requests.ManagerTest.'
            'test_port_whose_server_leaves_meanwhile_is_kept',
            f'{_UNMERGED}.test_port_is_detached_before_the_merge')),
    Action('evacuate by hand', 'refused by Nova until its host is down',
           'not refused by Nova for the evacuation that is under way', 'waits for the merge',
           (f'{_TENANTS}.test_evacuation_by_hand_is_refused',
            f'{_REQUESTS}.test_second_evacuation_is_not_refused_for_the_first',
            'specreds_nova.tests.stories.test_killed.TestKilled.'
            'test_promoted_backup_that_dies_is_evacuated')),
    Action('delete',
           'works, there is no backup any more; after evacuate_after seconds if the failed host '
           'is dead, and volumes may be left',
           'works, instead of the adoption if the failed host is dead; volumes may be left',
           'works; the volumes are merged before they are deleted',
           (f'{_TENANTS}.test_deleted_server_leaves_nothing',
            f'{_TENANT}.test_server_whose_deletion_was_requested_needs_no_backup',
            f'{_PENDING}.test_server_that_is_deleted_in_the_race_is_deleted_without_its_host',
            f'{_PENDING}.test_server_that_is_deleted_after_the_decision_leaves_nothing',
            'specreds_nova.tests.unit.engine.recovery.test_pending.DeletionTest.'
            'test_deletion_is_repeated_once_the_host_is_down_for_nova',
            f'{_UNMERGED}.test_delete_ends_the_superposition')),
    Action('console, console log',
           'that of the primary, without an answer if its host is dead; the recovery continues',
           'asked of the failed host, without an answer if that is dead',
           f'{_WORKS}, by a new URL',
           (_LABELS, f'{_TENANT}.test_nothing_was_asked', _LABELS_UNMERGED,
            f'{_REQUESTS}.test_console_during_an_evacuation_is_that_of_the_host_that_nova_names',
            f'{_CONSOLES}.test_console_of_an_unmerged_server_is_shown',
            f'{_CONSOLES}.test_console_log_of_an_unmerged_server_is_shown')),
    Action('rename', 'works; the recovery continues', _WORKS, _WORKS,
           (_LABELS, _LABELS_UNMERGED, f'{_TENANT}.test_what_no_user_asks_for_does_not',
            f'{_REQUESTS}.test_server_is_renamed_during_an_evacuation')),
    Action('change of the metadata',
           'works; the recovery continues, even if the server is not protected any more', _WORKS,
           _WORKS, (_LABELS, _LABELS_UNMERGED,
                    f'{_TENANT}.test_what_no_user_asks_for_does_not',
                    f'{_REQUESTS}.test_metadata_are_changed_during_an_evacuation')),
    Action('lock', 'works; the recovery continues', _WORKS, _WORKS,
           (_LABELS, _LABELS_UNMERGED, f'{_TENANT}.test_what_no_user_asks_for_does_not',
            f'{_REQUESTS}.test_server_is_locked_during_an_evacuation')),
    Action('host aggregates', 'count for the next destination', _UNTESTED, _UNTESTED,
           (f'{_CLIENTS}.test_compute.ComputeTest.'
            'test_candidates_have_the_aggregate_of_the_flavor',)),
    Action('requested availability zone', 'counts for the destination', _UNTESTED, _UNTESTED,
           (f'{_CLIENTS}.test_scheduler.NovaSchedulerTest.'
            'test_scheduler_gets_the_stored_request_and_claims_nothing',)),
)

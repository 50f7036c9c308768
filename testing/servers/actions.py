# SPDX-License-Identifier: Apache-2.0
"""What becomes of a user's or operator's request that meets a recovery, and the tests of it."""

import dataclasses

_TENANTS = 'specreds_nova.tests.engine_stories.test_tenants.TestTenants'
_UNMERGED = 'specreds_nova.tests.stories.test_unmerged.TestUnmerged'
_ALLOWED = ('specreds_nova.tests.cloud.test_afterwards.TestBeforeTheMerge.'
            'test_allowed_operations_keep_the_overlay')
_REFUSED = ('specreds_nova.tests.cloud.test_afterwards.TestBeforeTheMerge.'
            'test_refused_operations_are_allowed_after_the_merge')

_SPARED = 'works; the recovery ends, the primary stays'
_AGAIN = 'works; another backup is started'
_WORKS = 'works'
_LATER = 'refused until merged'


@dataclasses.dataclass(frozen=True)
class Action:
    """A request to Nova, by the phase of a recovery that it meets.

    :ivar racing: effect while primary and backup race
    :ivar unmerged: effect between the adoption and the end of the merge
    :ivar tests: ids of the tests that show the effects on a real cloud
    """

    what: str
    racing: str
    unmerged: str
    tests: tuple[str, ...]


ACTIONS = (
    Action('stop', _SPARED, _WORKS,
           (f'{_TENANTS}.test_stopped_server_stays_stopped', _ALLOWED)),
    Action('reboot', 'works; the recovery continues', 'works; the merge starts again',
           (f'{_TENANTS}.test_rebooted_server_serves_on_one_host', _ALLOWED)),
    Action('pause', _SPARED, _WORKS,
           (f'{_TENANTS}.test_paused_server_stays_paused', _ALLOWED)),
    Action('suspend', _SPARED, _LATER,
           (f'{_TENANTS}.test_suspended_server_resumes_with_its_network', _REFUSED)),
    Action('shelve', 'works; the recovery ends', 'works; it runs again after the merge',
           (f'{_TENANTS}.test_unshelved_server_serves_on_one_host',
            f'{_UNMERGED}.test_unshelved_server_runs_on_merged_volumes')),
    Action('live migration', 'works, except to the host of the backup; the recovery ends', _LATER,
           (f'{_TENANTS}.test_live_migrated_server_serves_on_its_new_host', _REFUSED)),
    Action('attach a volume', 'refused by Cinder until decided', _WORKS,
           (f'{_TENANTS}.test_volume_is_attached_only_after_the_decision', _ALLOWED)),
    Action('attach a port', _AGAIN, _WORKS,
           (f'{_TENANTS}.test_attached_port_is_not_lost',
            f'{_UNMERGED}.test_port_is_attached_before_the_merge')),
    Action('evacuate by hand', 'refused by Nova until its host is down', 'waits for the merge',
           (f'{_TENANTS}.test_evacuation_by_hand_is_refused',
            'specreds_nova.tests.stories.test_killed.TestKilled.'
            'test_promoted_backup_that_dies_is_evacuated')),
    Action('delete', _SPARED, 'works; the volumes are merged before they are deleted',
           (f'{_TENANTS}.test_deleted_server_leaves_nothing',
            f'{_UNMERGED}.test_delete_ends_the_superposition')),
)

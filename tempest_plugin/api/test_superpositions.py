# SPDX-License-Identifier: Apache-2.0
"""Tests of superpositions of unattached volumes, up to each outcome."""

from tempest.lib import decorators

from tempest_plugin.common import base


class SuperpositionsTest(base.BaseTest):
    """The requests that an administrator can make by hand."""

    @decorators.attr(type='smoke')
    @decorators.idempotent_id('69668170-4d92-4564-a454-7b1ee0e9fbf3')
    def test_promote(self) -> None:
        """A promoted version is merged, and its volume can be deleted again."""
        volume_id = self.make_volume()
        made = self.superpose(volume_id, reason='tempest')
        self.assertEqual(('superposed', 'tempest', [volume_id], None), (
            made['state'], made['reason'], made['volume_ids'], made['outcome']))
        check = self.superpositions.check_superposition(made['id'])['check']
        self.assertFalse(check['dirty'])
        decided = self.superpositions.collapse_superposition(made['id'], 'promote')['collapse']
        self.assertEqual('promoted', decided['outcome'])
        self.wait_merged(made['id'])
        self.assertEqual('available', self.volume(volume_id)['status'])
        self.volumes.delete_volume(volume_id)

    @decorators.idempotent_id('a239c070-fa85-4d24-b743-c13f81689c79')
    def test_abort(self) -> None:
        """A collapse with ``abort`` drops the second version."""
        volume_id = self.make_volume()
        made = self.superpose(volume_id)
        decided = self.superpositions.collapse_superposition(made['id'], 'abort')['collapse']
        self.assertEqual('aborted', decided['outcome'])
        self.wait_ended(made['id'])
        self.assertEqual('available', self.volume(volume_id)['status'])

    @decorators.idempotent_id('45a17084-99bb-459b-ba3a-a4e52536beb6')
    def test_delete(self) -> None:
        """A volume can be superposed again after its superposition is deleted."""
        volume_id = self.make_volume()
        made = self.superpose(volume_id)
        self.superpositions.delete_superposition(made['id'])
        self.wait_ended(made['id'])
        self.assertNotEqual(made['id'], self.superpose(volume_id)['id'])

    @decorators.idempotent_id('174ed1ca-4e0e-4cfe-bda0-ee3aa998ba20')
    def test_several_volumes(self) -> None:
        """Several volumes are superposed, shown and decided together."""
        volume_ids = {self.make_volume(), self.make_volume()}
        made = self.superpose(*volume_ids)
        self.assertEqual(volume_ids, set(made['volume_ids']))
        self.assertEqual(volume_ids, {volume['id'] for volume in made['volumes']})
        decided = self.superpositions.collapse_superposition(made['id'], 'promote')['collapse']
        self.assertEqual('promoted', decided['outcome'])
        self.wait_merged(made['id'])

    @decorators.idempotent_id('e9e66633-99e6-4988-abe4-1f7f0e36ca8b')
    def test_found(self) -> None:
        """A superposition can be shown, and found by each filter."""
        volume_id = self.make_volume()
        made = self.superpose(volume_id)
        shown = self.superpositions.show_superposition(made['id'])
        self.assertEqual(made['volumes'][0]['id'], shown['superposition']['volumes'][0]['id'])
        self.assertEqual(self.owner().credentials.project_id,
                         shown['superposition']['project_id'])
        for detail in (False, True):
            for query in ({'volume_id': volume_id}, {'state': 'superposed'}):
                listed = self.superpositions.list_superpositions(
                    detail=detail, all_tenants=1, **query)['superpositions']
                self.assertIn(made['id'], [superposition['id'] for superposition in listed])
        listed = self.superpositions.list_superpositions(
            all_tenants=1, volume_id=volume_id, state='promoted')['superpositions']
        self.assertEqual([], listed)

    @decorators.idempotent_id('f2214bd2-b0c1-4d9c-b9e8-a2e23535e0a6')
    def test_eligibility(self) -> None:
        """A new volume is eligible."""
        volume_id = self.make_volume()
        [eligibility] = self.superpositions.show_eligibility(volume_id)['eligibility']
        self.assertEqual((volume_id, True, []), (
            eligibility['volume_id'], eligibility['eligible'], eligibility['reasons']))

# SPDX-License-Identifier: Apache-2.0
"""Tests of the default policies of superpositions."""

from typing import Any

from tempest.lib import decorators

from tempest_plugin.common import base


class SuperpositionsRbacTest(base.BaseTest):
    """Requests of all personas for a superposed volume of a project's member."""

    credentials = ['admin', 'project_member', 'project_reader', 'alt',
                   ['specreds', 'specreds']]

    @classmethod
    def owner(cls) -> Any:
        """Return the clients of the project's member."""
        return cls.os_project_member

    @classmethod
    def setup_clients(cls) -> None:
        """Create each persona's client."""
        super().setup_clients()
        cls.member, cls.reader, cls.other, cls.engine = (
            persona.superpositions.SuperpositionsClient() for persona in (
                cls.os_project_member, cls.os_project_reader, cls.os_alt,
                cls.os_roles_specreds))

    def setUp(self) -> None:
        super().setUp()
        self.volume_id = self.make_volume()
        self.made = self.superpose(self.volume_id)

    @decorators.idempotent_id('acb39f60-0fbb-441b-b8fd-314050f39ca0')
    def test_members_and_readers_see_their_own(self) -> None:
        """Members and readers see superpositions of their project, without back ends."""
        for client in (self.member, self.reader):
            shown = client.show_superposition(self.made['id'])['superposition']
            self.assertEqual(self.made['id'], shown['id'])
            self.assertNotIn('hosts', shown)
            listed = client.list_superpositions()['superpositions']
            self.assertEqual([self.made['id']], [superposition['id'] for superposition in listed])
            [eligibility] = client.show_eligibility(self.volume_id)['eligibility']
            self.assertEqual(self.volume_id, eligibility['volume_id'])

    @decorators.idempotent_id('ca618850-9192-4078-b79e-9d8f98669b2a')
    def test_engines_and_administrators_decide(self) -> None:
        """Engines and administrators decide for the volumes of all projects."""
        shown = self.superpositions.show_superposition(self.made['id'])['superposition']
        self.assertIn('hosts', shown)
        listed = self.engine.list_superpositions(
            all_tenants=1, volume_id=self.volume_id)['superpositions']
        self.assertEqual([self.made['id']], [superposition['id'] for superposition in listed])
        self.engine.check_superposition(self.made['id'])
        self.engine.delete_superposition(self.made['id'])
        self.wait_ended(self.made['id'])
        again = self.engine.create_superposition(volume_ids=[self.volume_id])['superposition']
        self.addCleanup(self.end, again['id'])
        decided = self.engine.collapse_superposition(again['id'], 'abort')['collapse']
        self.assertEqual('aborted', decided['outcome'])

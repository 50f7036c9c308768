# SPDX-License-Identifier: Apache-2.0
"""Tests of the engine's default policies."""

from typing import Any

from tempest.lib import decorators

from tempest_plugin.common import engine


class RecoveriesRbacTest(engine.EngineTest):
    """Requests of all personas, on an undisturbed cloud."""

    credentials = ['admin', 'project_member', 'project_reader',
                   ['specreds', 'specreds']]

    @classmethod
    def owner(cls) -> Any:
        """Return the clients of the project's member."""
        return cls.os_project_member

    @decorators.idempotent_id('57a11069-8645-40b7-9b9c-ee25d261e701')
    def test_members_and_readers_list_their_own(self) -> None:
        """Members and readers list their own project, which has had no recoveries."""
        for persona in (self.os_project_member, self.os_project_reader):
            client = persona.speculative.RecoveriesClient()
            self.assertEqual([], client.list_recoveries()['recoveries'])
            self.assertEqual([], client.list_recoveries(
                project_id=persona.credentials.project_id)['recoveries'])

    @decorators.idempotent_id('5f358560-59c9-4885-b4ae-501d72241622')
    def test_operators_see_all(self) -> None:
        """The role ``specreds`` sees the same hosts and recoveries as administrators."""
        operator = self.os_roles_specreds.speculative
        names = [host['name'] for host in self.hosts.list_hosts()['hosts']]
        self.assertEqual(names, [host['name'] for host in
                                 operator.HostsClient().list_hosts()['hosts']])
        for host in names:
            operator.HostsClient().show_host(host)
        operator.RecoveriesClient().list_recoveries(host=names[0])

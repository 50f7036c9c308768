# SPDX-License-Identifier: Apache-2.0
"""The default policies as a table: what each persona gets for each rule of both APIs."""

from collections.abc import Callable
from typing import Any

from tempest.lib import exceptions

from tempest_plugin.common import engine

# A persona, and the attribute with its clients. The last one is a member of another project.
PERSONAS = {
    'admin': 'os_admin', 'specreds': 'os_roles_specreds', 'service': 'os_roles_service',
    'manager': 'os_project_manager', 'member': 'os_project_member',
    'reader': 'os_project_reader', 'other': 'os_project_alt_member'}
CREDENTIALS: list[str | list[str]] = [
    'admin', ['specreds', 'specreds'], ['service', 'service'], 'project_manager',
    'project_member', 'project_reader', 'project_alt_member']

# What each persona gets: "+" for an answer, or the status of the refusal. An object of another
# project is answered for as if it did not exist.
RULES = {
    #                                  admin specreds service manager member reader other
    'superposition:get':               '+   +   +   +   +   +   404',
    'superposition:get_all':           '+   +   +   +   +   +   +',
    'superposition:get_all_tenants':   '+   +   +   403 403 403 403',
    'superposition:eligibility':       '+   +   +   +   +   +   404',
    'superposition:create':            '+   +   404 403 403 403 404',
    'superposition:check':             '+   +   403 403 403 403 404',
    'superposition:collapse':          '+   +   403 403 403 403 404',
    'superposition:delete':            '+   +   403 403 403 403 404',
    'superposition:merge':             '+   +   +   403 403 403 404',
    'superposition:connection':        '+   +   +   403 403 403 404',
    'superposition:fence':             '+   +   404 403 403 403 404',
    'superposition:release':           '+   +   403 403 403 403 403',
    'superposition:server_disks':      '+   +   403 403 403 403 403',
    'recovery:list':                   '+   +   403 +   +   +   +',
    'recovery:list:all_projects':      '+   +   403 403 403 403 403',
    'recovery:show':                   '+   +   404 +   +   +   404',
    'recovery:show:details':           '+   +   403 403 403 403 403',
    'recovery:abort':                  '+   +   404 403 403 403 404',
    'host:list':                       '+   +   403 403 403 403 403',
    'host:show':                       '+   +   403 403 403 403 403',
    'host:suspect':                    '+   +   403 403 403 403 403',
    'host:clear':                      '+   +   403 403 403 403 403',
    'mode:list':                       '+   +   403 403 403 403 403',
    'mode:set':                        '+   +   403 403 403 403 403',
    'server:protection':               '+   +   404 +   +   +   404',
    'server:drill':                    '+   +   403 403 403 403 403',
    'coverage:show':                   '+   +   403 403 403 403 403',
    'simulation:show':                 '+   +   403 403 403 403 403',
}
# What appears in an answer only for these personas, by rule.
DETAILS = {'server:protection:details': ('admin', 'specreds')}


class PersonasTest(engine.EngineTest):
    """A test with the clients of all personas."""

    credentials = CREDENTIALS

    @classmethod
    def owner(cls) -> Any:
        """Return the clients of the project's member."""
        return cls.os_project_member

    def assert_rule(self, rule: str, request: Callable[..., Any],
                    prepare: Callable[[], str] | None = None) -> None:
        """Assert what each persona gets.

        :param request: takes the clients of a persona, and what ``prepare`` has returned
        :param prepare: is called before each request
        """
        for persona, expected in zip(PERSONAS, RULES[rule].split(), strict=True):
            arguments = [prepare()] if prepare else []
            self.assertEqual(expected, self._answer(
                request, getattr(self, PERSONAS[persona]), *arguments), f'{rule} by {persona}')

    def _answer(self, request: Callable[..., Any], *arguments: Any) -> str:
        """Return "+" for a request that the policy permits, whatever becomes of it."""
        try:
            request(*arguments)
        except exceptions.Forbidden:
            return '403'
        except exceptions.NotFound:
            return '404'
        except (exceptions.BadRequest, exceptions.Conflict):
            return '+'
        return '+'

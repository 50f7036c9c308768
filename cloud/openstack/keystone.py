# SPDX-License-Identifier: Apache-2.0
"""Keystone's configuration, its first start, and its users and catalogue."""

from collections.abc import Callable, Mapping
import getpass
import grp
import os
from typing import Any

from keystoneauth1 import adapter
from keystoneauth1 import exceptions as keystone_exceptions
from keystoneauth1 import session as keystone_session

from cloud import commands
from cloud.openstack import accounts
from cloud.openstack import answers
from cloud.openstack import credentials
from cloud.openstack import database
from cloud.openstack import files as private
from cloud.openstack import layout
from specreds_nova import deployment

_DOMAIN = 'default'
_TIMEOUT = 120.0


def conf(files: layout.Layout, settings: layout.Settings,
         passwords: Mapping[str, str]) -> private.Conf:
    """Return the contents of `keystone.conf`."""
    state = files.state / 'keystone'
    return {
        'DEFAULT': {'debug': 'false'},
        'database': {'connection': database.url(settings, 'keystone', passwords)},
        'token': {'provider': 'fernet'},
        'fernet_tokens': {'key_repository': state / 'fernet-keys'},
        'credential': {'key_repository': state / 'credential-keys'},
        # The passwords have 256 random bits: slow hashes would add nothing but time.
        'identity': {'password_hash_rounds': 4},
    }


def prepare(files: layout.Layout) -> None:
    """Make what must be there before Keystone starts, except its first user.

    :raises CloudError: `keystone-manage` failed
    """
    (files.state / 'keystone').mkdir(parents=True, exist_ok=True)
    owner = ['--keystone-user', getpass.getuser(),
             '--keystone-group', grp.getgrgid(os.getgid()).gr_name]
    for words in (['db_sync'], ['fernet_setup', *owner], ['credential_setup', *owner]):
        _manage(files, words)


def bootstrap(files: layout.Layout, settings: layout.Settings,
              passwords: Mapping[str, str]) -> None:
    """Make the administrator, and Keystone's own entry in the catalogue.

    :raises CloudError: `keystone-manage` failed
    """
    _manage(files, ['bootstrap'], {
        'OS_BOOTSTRAP_PASSWORD': passwords['admin'], 'OS_BOOTSTRAP_REGION_ID': layout.REGION,
        **{f'OS_BOOTSTRAP_{interface}_URL': settings.auth_url
           for interface in ('ADMIN', 'INTERNAL', 'PUBLIC')}})


def wait(session: keystone_session.Session, log: object) -> None:
    """Wait until Keystone gives the administrator a token.

    :param log: the log that the error names
    :raises CloudError: it did not in time
    """
    answers.wait('Keystone', session.get_token, (keystone_exceptions.ClientException,), log,
                 _TIMEOUT)


def _manage(files: layout.Layout, words: list[str],
            variables: Mapping[str, str] | None = None) -> None:
    commands.run([str(layout.BIN / 'keystone-manage'), '--config-file', str(files.keystone_conf),
                  *words], timeout=180, variables=variables)


def _catalogue(settings: layout.Settings) -> list[tuple[str, str, str]]:
    """Return kind, name and URL of each service in the catalogue beside Keystone."""
    known = [('block-storage', 'cinder', settings.volume_url),
             ('volumev3', 'cinderv3', f'{settings.volume_url}/%(project_id)s')]
    if settings.hosts:
        known += [('placement', 'placement', settings.url(settings.placement_port)),
                  ('compute', 'nova', settings.url(settings.nova_port, '/v2.1')),
                  ('image', 'glance', settings.url(settings.glance_port)),
                  ('network', 'neutron', settings.url(settings.neutron_port))]
    if settings.engine_numbers:
        known.append((deployment.SERVICE_TYPE, deployment.SERVICE_NAME,
                      settings.url(settings.engine_port)))
    return known


class Seed:
    """Creates what the cloud needs in Keystone, and leaves alone what exists.

    :param session: the administrator's
    """

    def __init__(self, session: keystone_session.Session, settings: layout.Settings,
                 passwords: Mapping[str, str]) -> None:
        self._api = adapter.Adapter(session, service_type='identity', interface='public')
        self._settings = settings
        self._passwords = passwords
        self._roles = self._known('roles')
        self._projects = self._known('projects')
        self._users = self._known('users')

    def run(self) -> None:
        """Make the services' users, the personas and the catalogue."""
        for user in ('cinder', *(accounts.COMPUTE if self._settings.hosts else ()),
                     *((accounts.ENGINE,) if self._settings.engine_numbers else ())):
            self.account(user)
        for persona in credentials.PERSONAS.values():
            for role in persona.roles:
                self._grant(persona.name, persona.project, role)
        for kind, name, url in _catalogue(self._settings):
            self.publish(kind, name, url)

    def account(self, user: str) -> None:
        """Make the account of a service."""
        for role in accounts.ROLES:
            self._grant(user, accounts.PROJECT, role)

    def publish(self, kind: str, name: str, url: str) -> None:
        """Enter a service and its endpoints in the catalogue."""
        services = self._api.get('/services', params={'type': kind}).json()['services']
        service = services[0] if services else self._api.post('/services', json={
            'service': {'type': kind, 'name': name}}).json()['service']
        endpoints = self._api.get('/endpoints', params={'service_id': service['id']}).json()
        present = {endpoint['interface'] for endpoint in endpoints['endpoints']}
        for interface in sorted({'public', 'internal', 'admin'} - present):
            self._api.post('/endpoints', json={'endpoint': {
                'service_id': service['id'], 'interface': interface, 'url': url,
                'region_id': layout.REGION}})

    def _known(self, kind: str) -> dict[str, str]:
        answer = self._api.get(f'/{kind}').json()[kind]
        return {item['name']: item['id'] for item in answer}

    def _find(self, known: dict[str, str], name: str, make: Callable[[], dict[str, Any]],
              kind: str) -> str:
        if name not in known:
            known[name] = self._api.post(f'/{kind}s', json={kind: make()}).json()[kind]['id']
        return known[name]

    def _grant(self, user: str, project: str, role: str) -> None:
        """Grant a role in a project to a user, and create whichever of the three is missing."""
        role_id = self._find(self._roles, role, lambda: {'name': role}, 'role')
        project_id = self._find(self._projects, project,
                                lambda: {'name': project, 'domain_id': _DOMAIN}, 'project')
        user_id = self._find(self._users, user, lambda: {
            'name': user, 'domain_id': _DOMAIN, 'password': self._passwords[user],
            'default_project_id': project_id}, 'user')
        self._api.put(f'/projects/{project_id}/users/{user_id}/roles/{role_id}')

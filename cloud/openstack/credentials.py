# SPDX-License-Identifier: Apache-2.0
"""Passwords, random for each cloud, and the personas that act in it."""

from collections.abc import Mapping
import dataclasses
import json
import os
import secrets
import shlex

from cloud import commands
from cloud.openstack import accounts
from cloud.openstack import database
from cloud.openstack import files as private
from cloud.openstack import layout

# The master key of the heartbeats by UDP.
VOICES = 'voice-key'
_SERVICES = (*database.ACCOUNTS, 'rabbitmq', 'cinder', *accounts.COMPUTE, accounts.ENGINE,
             accounts.MASAKARI, 'cinder-key', VOICES)
# The highest that the installed OpenStackClient and the services both know.
_VOLUME_API = '3.70'
_COMPUTE_API = '2.104'
_FOREIGN = ('OS_CLOUD', 'OS_TOKEN', 'OS_SYSTEM_SCOPE', 'OS_USER_DOMAIN_NAME', 'OS_PROJECT_ID',
            'OS_PROJECT_DOMAIN_NAME', 'OS_TENANT_NAME', 'OS_AUTH_TYPE', 'OS_USER_ID')


@dataclasses.dataclass(frozen=True)
class Persona:
    """A user of the cloud."""

    name: str
    project: str
    roles: tuple[str, ...]


PERSONAS = {persona.name: persona for persona in (
    Persona('admin', 'admin', ('admin',)),
    Persona('demo', 'demo', ('member',)),
    Persona('reader', 'demo', ('reader',)),
    Persona('other', 'other', ('member',)),
    # An OpenStack service, such as Nova, and whoever may do what the engine does.
    Persona('service', 'service', ('service',)),
    Persona('operator', 'service', ('specreds',)))}


def load(files: layout.Layout) -> dict[str, str]:
    """The cloud's passwords by service and persona.

    :raises CloudError: there is no cloud
    """
    try:
        known: dict[str, str] = json.loads(files.passwords.read_text())
    except FileNotFoundError as exc:
        raise commands.CloudError(f'there is no cloud in {files.root}; make one with '
                                  './run cloud up') from exc
    return known


def create(files: layout.Layout) -> None:
    """Make the passwords that are missing."""
    known = load(files) if files.passwords.exists() else {}
    for name in (*_SERVICES, *PERSONAS):
        known.setdefault(name, secrets.token_hex(32))
    private.write(files.passwords, json.dumps(known, indent=1) + '\n')


def variables(settings: layout.Settings, persona: str, password: str) -> dict[str, str]:
    """The environment variables of a persona for OpenStack's clients."""
    return {'OS_AUTH_URL': settings.auth_url, 'OS_USERNAME': persona, 'OS_PASSWORD': password,
            'OS_PROJECT_NAME': PERSONAS[persona].project, 'OS_USER_DOMAIN_ID': 'default',
            'OS_PROJECT_DOMAIN_ID': 'default', 'OS_IDENTITY_API_VERSION': '3',
            'OS_VOLUME_API_VERSION': _VOLUME_API, 'OS_COMPUTE_API_VERSION': _COMPUTE_API,
            'OS_REGION_NAME': layout.REGION}


def environment(settings: layout.Settings, persona: str, password: str) -> dict[str, str]:
    """This process's environment, for a client that acts as a persona."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith('OS_')}
    return inherited | variables(settings, persona, password) | {
        'PATH': f'{layout.BIN}:{os.environ.get("PATH", os.defpath)}'}


def write(files: layout.Layout, settings: layout.Settings, known: Mapping[str, str]) -> None:
    """Write what a persona's shell sources, and `clouds.yaml`."""
    clouds = {}
    for persona in PERSONAS:
        own = variables(settings, persona, known[persona])
        lines = [f'unset {" ".join(_FOREIGN)}',
                 *(f'export {name}={shlex.quote(value)}' for name, value in own.items()),
                 f'case :$PATH: in *:{layout.BIN}:*) ;; '
                 f'*) export PATH={shlex.quote(str(layout.BIN))}:$PATH ;; esac']
        private.write(files.openrc(persona), '\n'.join(lines) + '\n')
        clouds[persona] = {
            'auth': {'auth_url': settings.auth_url, 'username': persona,
                     'password': known[persona], 'project_name': PERSONAS[persona].project,
                     'user_domain_id': 'default', 'project_domain_id': 'default'},
            'region_name': layout.REGION, 'volume_api_version': _VOLUME_API,
            'compute_api_version': _COMPUTE_API}
    # JSON is YAML, too.
    private.write(files.clouds_yaml, json.dumps({'clouds': clouds}, indent=1) + '\n')

# SPDX-License-Identifier: Apache-2.0
"""Checks that an engine and its API can start on this host, and that clients find the API."""

from collections.abc import Iterator, Sequence
import pathlib

from alembic import script
from alembic import util as alembic_util
from keystoneauth1 import adapter
from keystoneauth1 import exceptions
from oslo_config import cfg
from oslo_policy import policy
import requests

from specreds_nova.engine import conf as engine_conf
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine import policies
from specreds_nova.engine.clients import rest
from specreds_nova.engine.store import connection
from specreds_nova.engine.store import migration
from specreds_nova.engine.store import store as stores
from specreds_nova.status import files
from specreds_nova.status import findings

_RABBIT = 'oslo_messaging_rabbit'
_TYPE = 'speculative-recovery'
# Clients use one or the other by default.
_INTERFACES = ('public', 'internal')
_TIMEOUT_S = 10.0


def settings(config: files.Files, nova: files.Files | None) -> Iterator[findings.Finding]:
    """Check the required options of other groups, and the engine's own options.

    :param nova: of Nova's services on this host; None if there are none
    """
    for section, name, purpose in (
            ('DEFAULT', 'transport_url', 'the broker to which nova-compute sends its heartbeats'),
            ('service_auth', 'auth_type',
             'the credentials with which the engine calls Nova, Placement and Cinder')):
        if not config.get(section, name):
            yield findings.failure(f'{config}: set [{section}] {name}: {purpose}')
    if not config.get('keystone_authtoken', 'auth_type'):
        yield findings.warning(f'{config}: [keystone_authtoken] auth_type is not set, so the API '
                               'cannot authenticate requests')
    yield from files.judge(config, engine_conf.GROUP, engine_conf.OPTIONS)
    if nova is not None and _exchange(config) != _exchange(nova):
        yield findings.failure(
            f'[{_RABBIT}] of {config} and {nova} differ, so RabbitMQ refuses what the engine asks '
            'hosts and the scheduler: set rabbit_quorum_queue, amqp_durable_queues and '
            'amqp_auto_delete of the engine as for Nova')


def _exchange(config: files.Files) -> tuple[bool, bool]:
    """Return whether oslo.messaging declares exchanges as durable, and as auto-deleted."""
    quorum, durable, deleted = (
        config.flag(_RABBIT, name, default=False)
        for name in ('rabbit_quorum_queue', 'amqp_durable_queues', 'amqp_auto_delete'))
    return quorum or durable, deleted


def database(conf: cfg.ConfigOpts) -> Iterator[findings.Finding]:
    """Check that the database answers, has the version of this release, and has a mode."""
    modes: Sequence[model.Mode] = ()
    hosts = 0
    try:
        version = migration.version(connection.connect(conf))
        if version == migration.newest():
            store = stores.from_conf(conf)
            modes, hosts = store.modes(), store.host_count()
    except exception.EngineError as exc:
        yield findings.failure(str(exc))
        return
    newest = migration.newest()
    if version is None:
        yield findings.failure('the database has no tables: run specreds-engine-manage db sync')
    elif version == newest:
        if not modes:
            yield findings.warning('no mode is set, so that engines only observe: openstack '
                                   'speculative mode set act lets them act')
        if not hosts:
            yield findings.warning(
                'no engine has heard any host: start one; if it runs, its [DEFAULT] transport_url '
                'has to lead to the broker and the virtual host of nova-compute')
    elif _known(version):
        yield findings.failure(f'the database has version {version}, and this release needs '
                               f'{newest}: run specreds-engine-manage db sync before you start '
                               'an engine of this release')
    else:
        yield findings.failure(f'the database has version {version} of a newer release, and this '
                               f'release needs {newest}: start no engine of this release')


def _known(version: str) -> bool:
    place = pathlib.Path(migration.__file__).with_name('migrations')
    try:
        script.ScriptDirectory(str(place)).get_revision(version)
    except alembic_util.CommandError:
        return False
    return True


def rules(conf: cfg.ConfigOpts) -> Iterator[findings.Finding]:
    """Check that the policy file can be read, and names only existing rules."""
    enforcer = policy.Enforcer(conf, use_conf=True)
    enforcer.suppress_deprecation_warnings = True
    enforcer.register_defaults(policies.list_rules())
    try:
        enforcer.load_rules(force_reload=True)
        if not enforcer.check_rules():
            yield findings.failure('policies refer to rules that do not exist, or to themselves: '
                                   'see the log for their names')
    except (cfg.Error, OSError, ValueError, policy.InvalidDefinitionError) as exc:
        yield findings.failure(f'the policy file cannot be read: {exc}')
        return
    # A name without a colon may be a rule that only other rules of the file use.
    for name in sorted(set(enforcer.file_rules) - set(enforcer.registered_rules)):
        if ':' in name:
            yield findings.warning(f'the policy {name} has no effect: there is no such rule')


def answers(conf: cfg.ConfigOpts) -> Iterator[findings.Finding]:
    """Check each endpoint of the API in Keystone's catalogue."""
    try:
        session = rest.Session(conf).keystone
        urls = {interface: adapter.Adapter(
            session, service_type=_TYPE, interface=interface,
            region_name=conf.service_auth.region_name).get_endpoint()
            for interface in _INTERFACES}
    except (exceptions.ClientException, exception.Invalid) as exc:
        yield findings.warning(f"Keystone does not answer, so that the engine's API is not "
                               f'looked for: {exc}')
        return
    for interface, url in urls.items():
        if url is None:
            yield findings.warning(
                f"Keystone's catalogue has no {interface} endpoint of type {_TYPE}, so that "
                f'clients of that interface do not find the API: openstack endpoint create '
                f'specreds {interface} URL')
    for url in dict.fromkeys(filter(None, urls.values())):
        health = f'{url.rstrip("/").removesuffix("/v1")}/healthcheck'
        try:
            requests.get(health, timeout=_TIMEOUT_S, verify=session.verify).raise_for_status()
        except requests.RequestException as exc:
            yield findings.failure(
                f"the engine's API does not answer at its endpoint: start specreds-api, and let "
                f'http-socket in specreds-api-uwsgi.ini be the address to which the endpoint '
                f'leads ({exc})')

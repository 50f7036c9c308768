# SPDX-License-Identifier: Apache-2.0
"""Whether an engine, and its API, can start on this host."""

from collections.abc import Iterator
import pathlib

from alembic import script
from alembic import util as alembic_util
from oslo_config import cfg
from oslo_policy import policy
import requests

from specreds_nova.engine import conf as engine_conf
from specreds_nova.engine import exception
from specreds_nova.engine import policies
from specreds_nova.engine.api import conf as api_conf
from specreds_nova.engine.db import connection
from specreds_nova.engine.db import migration
from specreds_nova.status import files
from specreds_nova.status import findings
from specreds_nova.status import options

_TIMEOUT_S = 5.0
# The first with the paths of its API that are used.
_ETCD = (3, 4)


def settings(config: files.Files) -> Iterator[findings.Finding]:
    """Check what an engine cannot do without, and its own options."""
    for section, name, who in (
            ('DEFAULT', 'transport_url', 'where nova-compute sends its heartbeats'),
            ('service_auth', 'auth_type', 'as whom the engine asks Nova, Placement and Cinder')):
        if not config.get(section, name):
            yield findings.failure(f'{config}: set [{section}] {name}: {who}')
    if not config.get('keystone_authtoken', 'auth_type'):
        yield findings.warning(f'{config}: [keystone_authtoken] auth_type is not set, so the API '
                               'cannot tell who asks')
    yield from options.judge(config, engine_conf.GROUP, engine_conf.OPTIONS)
    yield from options.judge(config, api_conf.GROUP.name, api_conf.OPTIONS)


def database(conf: cfg.ConfigOpts) -> Iterator[findings.Finding]:
    """Check that the database answers, and is of this release."""
    try:
        found = migration.version(connection.connect(conf))
    except exception.EngineError as error:
        yield findings.failure(str(error))
        return
    newest = migration.newest()
    if found is None:
        yield findings.failure('the database has no tables: specreds-engine-manage db sync')
    elif found == newest:
        return
    elif _known(found):
        yield findings.failure(f'the database is of version {found}, and this release works on '
                               f'{newest}: specreds-engine-manage db sync, before any engine of '
                               'this release is started')
    else:
        yield findings.failure(f'the database is of version {found}, of a newer release than this '
                               f'one, which works on {newest}: start no engine of this release')


def _known(version: str) -> bool:
    place = pathlib.Path(migration.__file__).with_name('migrations')
    try:
        script.ScriptDirectory(str(place)).get_revision(version)
    except alembic_util.CommandError:
        return False
    return True


def rules(conf: cfg.ConfigOpts) -> Iterator[findings.Finding]:
    """Check that the policy file can be read, and names rules that there are."""
    enforcer = policy.Enforcer(conf, use_conf=True)
    enforcer.suppress_deprecation_warnings = True
    enforcer.register_defaults(policies.list_rules())
    try:
        enforcer.load_rules(force_reload=True)
        if not enforcer.check_rules():
            yield findings.failure('policies refer to rules that there are not, or to themselves; '
                                   'the log says which')
    except (cfg.Error, OSError, ValueError, policy.InvalidDefinitionError) as exc:
        yield findings.failure(f'the policy file cannot be read: {exc}')
        return
    # Those that are only used by other rules of the file are no mistake.
    for name in sorted(set(enforcer.file_rules) - set(enforcer.registered_rules)):
        if ':' in name:
            yield findings.warning(f'the policy {name} has no effect: there is no such rule')


def jobboard(conf: cfg.ConfigOpts) -> Iterator[findings.Finding]:
    """Check that etcd answers, and is new enough."""
    chosen = conf.engine
    url = f'{chosen.jobboard_protocol}://{chosen.jobboard_host}:{chosen.jobboard_port}/version'
    cert = (chosen.jobboard_cert, chosen.jobboard_key)
    try:
        answer = requests.get(url, timeout=_TIMEOUT_S, verify=chosen.jobboard_ca_cert or True,
                              cert=cert if all(cert) else None)
        answer.raise_for_status()
        version = str(answer.json()['etcdserver'])
        numbers = tuple(int(number) for number in version.split('.')[:2])
    except (requests.RequestException, OSError, ValueError, KeyError, TypeError) as error:
        yield findings.failure(f'etcd does not answer at {url}: {error}')
        return
    if numbers < _ETCD:
        yield findings.failure(f'etcd at {url} is {version}: 3.4 or newer is needed')

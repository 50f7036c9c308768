# SPDX-License-Identifier: Apache-2.0
"""The handlers of the routes: functions from a call to a status and a body."""

from http import HTTPStatus
import time
import uuid

from oslo_log import log as logging
from oslo_utils import uuidutils

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine import modes
from specreds_nova.engine import policies
from specreds_nova.engine.api import call as api_call
from specreds_nova.engine.api import errors
from specreds_nova.engine.api import views
from specreds_nova.engine.placing import judgement
from specreds_nova.engine.placing import protection as answers
from specreds_nova.engine.suspicion import evidence
from specreds_nova.engine.suspicion import gates

LOG = logging.getLogger(__name__)

# What the store calls the parameters of a query.
_FILTERS = {'server_id': 'server', 'host': 'host', 'project_id': 'project', 'state': 'state',
            'outcome': 'outcome'}
_WORD_RULES = {model.SUSPECT: policies.SUSPECT, model.CLEAR: policies.CLEAR}
# Engines change a host only now and then.
_TRIES = 10
_NO_BACKUP = 'no backup could be started at the moment'


def list_versions(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """List the versions."""
    return HTTPStatus.OK, {'versions': [_v1(call)]}


def show_version(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Show the only version."""
    return HTTPStatus.OK, {'version': _v1(call)}


def _v1(call: api_call.Call) -> api_call.Body:
    return {
        'id': 'v1.0',
        'status': 'CURRENT',
        'min_version': api_call.VERSIONS[0],
        # Of the same meaning: Nova's and Cinder's name, and Placement's.
        'version': api_call.VERSIONS[-1],
        'max_version': api_call.VERSIONS[-1],
        'links': [{'rel': 'self', 'href': call.url('/v1')}],
    }


def list_recoveries(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """List recoveries, the newest first: all, or only for the caller's project."""
    filters = {_FILTERS[name]: value for name, value in call.query.items() if name in _FILTERS}
    if 'host' in filters:
        call.authorize(policies.DETAILS)
    if not call.allows(policies.LIST_ALL):
        own = call.context.project_id
        call.authorize(policies.LIST, own)
        if own is None or filters.setdefault('project', own) != own:
            call.authorize(policies.LIST_ALL)
    limit = call.limit
    recoveries = call.services.store.recoveries(filters, limit + 1, call.query.get('marker'))
    shown = [views.recovery(recovery, details=call.allows(policies.DETAILS, recovery.project))
             for recovery in recoveries[:limit]]
    return HTTPStatus.OK, call.page('recoveries', recoveries, shown, 'id')


def show_recovery(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Show a recovery with its steps."""
    return HTTPStatus.OK, _recovery_shown(call, _visible(call))


def abort_recovery(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Abort a recovery, which then ends in favour of the primary."""
    recovery = _visible(call)
    call.authorize(policies.ABORT, recovery.project)
    why = f'user {call.context.user_id} wants it to end'
    if not call.services.store.request_abort(recovery.id, why):
        recovery = _visible(call)
        if recovery.state == model.ENDED:
            raise errors.conflict(
                'recovery-ended', f'recovery {recovery.id} has ended already: {recovery.outcome}')
        raise errors.conflict(
            'recovery-committed',
            f'recovery {recovery.id} is {recovery.state}: the primary is fenced, and the backup '
            f'has become the server, so that the recovery cannot be aborted')
    LOG.info('recovery %s of server %s: %s', recovery.id, recovery.server, why)
    return HTTPStatus.ACCEPTED, _recovery_shown(call, _visible(call))


def _recovery_shown(call: api_call.Call, recovery: model.Recovery) -> api_call.Body:
    details = call.allows(policies.DETAILS, recovery.project)
    return {'recovery': {**views.recovery(recovery, details=details),
                         'steps': views.timeline(recovery, details=details)}}


def _visible(call: api_call.Call) -> model.Recovery:
    """Return the recovery in the path.

    :raises exception.NotFound: the recovery does not exist, or the caller may not see it
    """
    recovery_id = call.path['recovery_id']
    recovery = call.services.store.get(recovery_id)
    if recovery is None or not call.allows(policies.SHOW, recovery.project):
        raise api_call.missing('recovery', recovery_id)
    return recovery


def list_hosts(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """List hosts by name."""
    call.authorize(policies.HOST_LIST)
    after = call.query.get('marker', '')
    hosts = [host for host in call.services.store.hosts()
             if host.name > after and call.query.get('state') in (None, host.shown)]
    shown = [views.host(host) for host in hosts[:call.limit]]
    return HTTPStatus.OK, call.page('hosts', hosts, shown, 'name')


def show_host(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Show a host with the active recoveries of its servers."""
    call.authorize(policies.HOST_SHOW)
    return HTTPStatus.OK, _host_shown(call, _known_host(call, call.path['host']))


def say_of_host(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Record the word of an operator; the engines act on it."""
    (action, arguments), = call.body.items()
    call.authorize(_WORD_RULES[action])
    for _ in range(_TRIES):
        host = _known_host(call, call.path['host'])
        if action == model.CLEAR and host.state == model.FENCED:
            raise errors.conflict(
                'host-fenced',
                f'host {host.name} is fenced: its servers were recovered on other hosts. It is '
                f'cleaned and trusted again as soon as it is back')
        changed = call.services.store.change_host(
            host, word=action,
            word_reason=f'{arguments["reason"]} (user {call.context.user_id})',
            dead_at=time.time() if arguments.get('dead') else None)
        if changed is not None:
            LOG.info('host %s: user %s requests %s', host.name, call.context.user_id, call.body)
            return HTTPStatus.ACCEPTED, _host_shown(call, changed)
    raise errors.conflict(
        'host-changed',
        f'host {host.name} was changed by engines during each of {_TRIES} tries: try again')


def _known_host(call: api_call.Call, name: str) -> model.Host:
    """Return a host.

    :raises exception.NotFound: no engine has ever heard the host
    """
    host = call.services.store.host(name)
    if host.generation == 0:
        raise exception.NotFound(
            f'no engine has heard of a host {host.name}: use a name of "openstack compute '
            f'service list", and run its nova-compute with the plug-in')
    return host


def _host_shown(call: api_call.Call, host: model.Host) -> api_call.Body:
    active = [views.recovery(recovery, details=True)
              for recovery in call.services.store.active(host.name)]
    return {'host': {**views.host(host), 'recoveries': active}}


def list_modes(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """List the modes that have not ended."""
    call.authorize(policies.MODE_LIST)
    now = time.time()
    return HTTPStatus.OK, {'modes': [views.mode(mode) for mode in call.services.store.modes()
                                     if mode.until is None or now < mode.until]}


def set_mode(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Set a mode; the engines heed it within a second."""
    call.authorize(policies.MODE_SET)
    body, now = call.body, time.time()
    if body['scope'] == model.HOST:
        _known_host(call, body['name'])
    _check_place(call, body['scope'], body.get('name', ''))
    mode = model.Mode(
        body['scope'], body.get('name', ''), body['mode'], body['reason'],
        call.context.user_id or '', now,
        now + body['seconds'] if 'seconds' in body else None)
    call.services.store.set_mode(mode)
    LOG.info('user %s sets a mode: %s', mode.user, body)
    return HTTPStatus.OK, {'mode': views.mode(mode)}


def _check_place(call: api_call.Call, scope: str, name: str) -> None:
    """Check that an availability zone or an aggregate exists.

    A mode may be urgent, so it is set unchecked while Nova does not answer.

    :raises exception.NotFound: no compute host is in it
    """
    place = modes.place(scope, name)
    if place is None:
        return
    try:
        known = call.services.places()
    except exception.Unreachable as exc:
        LOG.warning('a mode is set for %s, which is not looked up: %s', place, exc)
        return
    if place not in known:
        raise exception.NotFound(
            f'no compute host is in {place}: use a name of "openstack '
            f'{"aggregate" if scope == model.AGGREGATE else "availability zone"} list"')


def remove_mode(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Remove the modes of one scope and name, for which the next less specific one counts."""
    call.authorize(policies.MODE_SET)
    scope, name = call.query['scope'], call.query.get('name', '')
    if not call.services.store.unset_mode(scope, name):
        raise api_call.missing('mode of', f'{scope} {name}'.strip())
    LOG.info('user %s removes the mode of %s %s', call.context.user_id, scope, name)
    return list_modes(call)


def show_protection(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Show whether a backup of a server could be started at the moment, or why not."""
    server_id = call.path['server_id']
    answer = _protection_of(call, server_id)
    if not call.allows(policies.PROTECTION, answer['project']):
        raise api_call.missing('server', server_id)
    details = call.allows(policies.PROTECTION_DETAILS, answer['project'])
    shown: api_call.Body = {
        'server_id': server_id,
        'project_id': answer['project'],
        'protected': answer['protected'],
        'recovery': answer['recovery'],
        'reasons': list(answer['reasons']) if details else _without_hosts(answer),
        'volumes': {volume: list(reasons) for volume, reasons in answer['volumes'].items()},
    }
    if details:
        shown |= {'host': answer['host'], 'destinations': list(answer['destinations']),
                  'rules': list(answer['rules'])}
    return HTTPStatus.OK, {'protection': shown}


def begin_drill(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Begin a drill of a server, which any engine holds."""
    call.authorize(policies.DRILL)
    server_id, store = call.path['server_id'], call.services.store
    answer = _protection_of(call, server_id)
    host, now = answer['host'], time.time()
    # Where engines only observe, nothing else keeps a server from having a backup.
    reasons = [reason for reason in answer['reasons'] if reason != gates.observing(host)]
    if reasons or (answer['recovery'] != judgement.SPECULATIVE and not answer['reasons']):
        raise errors.conflict('no-backup', f'server {server_id} would have no backup: '
                                           f'{"; ".join(reasons) or answer["recovery"]}')
    if active := store.active():
        raise errors.conflict(
            'recovery-active', f'{len(active)} recoveries are under way, such as {active[0].id}: '
                               f'a drill is held when there are none')
    recovery = model.Recovery(
        id=str(uuid.uuid4()), server=server_id, server_name=answer['name'],
        project=answer['project'], host=host, suspected=now, created=now,
        why=(evidence.of(evidence.DRILL, call.context.user_id, now).told(),))
    if not store.create([recovery]):
        raise errors.conflict('recovery-active', 'another recovery of it has just begun')
    LOG.info('drill %s of server %s: user %s requests it', recovery.id, server_id,
             call.context.user_id)
    return HTTPStatus.ACCEPTED, {'recovery': {
        **views.recovery(recovery, details=True), 'steps': []}}


def _protection_of(call: api_call.Call, server_id: str) -> answers.Answer:
    """Return whether a server is protected.

    :raises exception.NotFound: there is no such server
    """
    if not uuidutils.is_uuid_like(server_id):
        raise api_call.missing('server', server_id)
    try:
        return call.services.protection(server_id)
    except exception.NotFound as exc:
        raise api_call.missing('server', server_id) from exc


def _without_hosts(answer: answers.Answer) -> list[str]:
    """Return the reasons without those that name hosts."""
    hosts = [answer['host'], *answer['destinations']]
    reasons = [reason for reason in answer['reasons'] if not any(host in reason for host in hosts)]
    return reasons if len(reasons) == len(answer['reasons']) else [*reasons, _NO_BACKUP]


def show_coverage(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Show what each server would get if its host failed, and the sums."""
    call.authorize(policies.COVERAGE)
    return HTTPStatus.OK, {'coverage': views.reading(call.services.coverage().report())}


def simulate(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Show what would become of the servers of hosts that fail together."""
    call.authorize(policies.SIMULATION)
    hosts = call.request.GET.getall('host')
    return HTTPStatus.OK, {'simulation': views.reading(
        call.services.coverage().simulate(hosts, call.query.get('aggregate')))}

# SPDX-License-Identifier: Apache-2.0
"""List and show hosts, and record the words of operators."""

from http import HTTPStatus
import time

from oslo_log import log as logging

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine import policies
from specreds_nova.engine.api import call as api_call
from specreds_nova.engine.api import errors
from specreds_nova.engine.api import views

LOG = logging.getLogger(__name__)

_RULES = {model.SUSPECT: policies.SUSPECT, model.CLEAR: policies.CLEAR}
# Engines change a host only now and then.
_TRIES = 10


def index(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """List hosts by name."""
    call.authorize(policies.HOST_LIST)
    after = call.query.get('marker', '')
    hosts = [host for host in call.services.store.hosts()
             if host.name > after and call.query.get('state') in (None, host.shown)]
    shown = [views.host(host) for host in hosts[:call.limit]]
    return HTTPStatus.OK, call.page('hosts', hosts, shown, 'name')


def show(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Show a host with the active recoveries of its servers."""
    call.authorize(policies.HOST_SHOW)
    return HTTPStatus.OK, _shown(call, known(call, call.path['host']))


def act(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Record the word of an operator; the engines act on it."""
    (action, arguments), = call.body.items()
    call.authorize(_RULES[action])
    for _ in range(_TRIES):
        host = known(call, call.path['host'])
        if action == model.CLEAR and host.state == model.FENCED:
            raise errors.conflict(
                'host-fenced',
                f'host {host.name} is fenced: its servers were recovered on other hosts. It is '
                f'cleaned and trusted again as soon as it is back')
        changed = call.services.store.change_host(
            host, word=action, word_reason=arguments['reason'],
            dead_at=time.time() if arguments.get('dead') else None)
        if changed is not None:
            LOG.info('host %s: user %s requests %s', host.name, call.context.user_id, call.body)
            return HTTPStatus.ACCEPTED, _shown(call, changed)
    raise errors.conflict(
        'host-changed',
        f'host {host.name} was changed by engines during each of {_TRIES} tries: try again')


def known(call: api_call.Call, name: str) -> model.Host:
    """Return a host.

    :raises exception.NotFound: no engine has ever heard the host
    """
    host = call.services.store.host(name)
    if host.generation == 0:
        raise exception.NotFound(
            f'no engine has heard of a host {host.name}: use a name of "openstack compute '
            f'service list", and run its nova-compute with the plug-in')
    return host


def _shown(call: api_call.Call, host: model.Host) -> api_call.Body:
    active = [views.recovery(recovery, details=True)
              for recovery in call.services.store.active(host.name)]
    return {'host': {**views.host(host), 'recoveries': active}}

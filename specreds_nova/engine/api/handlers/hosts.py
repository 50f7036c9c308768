# SPDX-License-Identifier: Apache-2.0
"""Hosts: listed and shown, and what an operator says of them."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from oslo_log import log as logging

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine import policies
from specreds_nova.engine.api import call as api_call
from specreds_nova.engine.api import views

LOG = logging.getLogger(__name__)

MAINTENANCE = 'maintenance'
NO_MAINTENANCE = 'no_maintenance'
_RULES = {model.SUSPECT: policies.SUSPECT, model.CLEAR: policies.CLEAR,
          MAINTENANCE: policies.MAINTENANCE, NO_MAINTENANCE: policies.MAINTENANCE}
# Engines change a host now and then, not all the time.
_TRIES = 10


def index(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """List them by name."""
    call.authorize(policies.HOST_LIST)
    after = call.query.get('marker', '')
    found = [host for host in call.services.store.hosts()
             if host.name > after and call.query.get('state') in (None, host.shown)]
    shown = [views.host(host) for host in found[:call.limit]]
    return HTTPStatus.OK, call.page('hosts', found, shown, 'name')


def show(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Show one, with what goes on for its servers."""
    call.authorize(policies.HOST_SHOW)
    return HTTPStatus.OK, _shown(call, _known(call))


def act(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Note what an operator says of one; the engines act on it."""
    (action, said), = call.body.items()
    call.authorize(_RULES[action])
    for _ in range(_TRIES):
        found = _known(call)
        if action == model.CLEAR and found.state == model.FENCED:
            raise exception.Refused(
                f'host {found.name} is fenced: servers of it were recovered elsewhere. It is '
                f'cleaned as soon as it is back, and trusted again then')
        changed = call.services.store.change_host(found, **_values(action, said))
        if changed is not None:
            LOG.info('an operator says of host %s: %s', found.name, call.body)
            return HTTPStatus.ACCEPTED, _shown(call, changed)
    raise exception.Refused(f'host {found.name} is being changed all the time: try again')


def _values(action: str, said: Mapping[str, str] | None) -> dict[str, Any]:
    """Return what an action changes of a host."""
    reason = said['reason'] if said is not None else None
    if action in (MAINTENANCE, NO_MAINTENANCE):
        return {'maintenance': reason}
    return {'word': action, 'word_reason': reason}


def _known(call: api_call.Call) -> model.Host:
    """Find a host.

    :raises exception.NotFound: no engine has ever heard of it
    """
    found = call.services.store.host(call.path['host'])
    if found.generation == 0:
        raise exception.NotFound(
            f'no engine has heard of a host {found.name}: it is named as by "openstack compute '
            f'service list", and its nova-compute has to run with the plug-in')
    return found


def _shown(call: api_call.Call, found: model.Host) -> api_call.Body:
    active = [views.recovery(one, details=True) for one in call.services.store.active(found.name)]
    return {'host': {**views.host(found), 'recoveries': active}}

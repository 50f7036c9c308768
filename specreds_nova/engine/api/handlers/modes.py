# SPDX-License-Identifier: Apache-2.0
"""List, set and remove the modes in which engines treat hosts."""

from http import HTTPStatus
import time

from oslo_log import log as logging

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine import modes
from specreds_nova.engine import policies
from specreds_nova.engine.api import call as api_call
from specreds_nova.engine.api import views
from specreds_nova.engine.api.handlers import hosts

LOG = logging.getLogger(__name__)


def index(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """List the modes that have not ended."""
    call.authorize(policies.MODE_LIST)
    now = time.time()
    return HTTPStatus.OK, {'modes': [views.mode(mode) for mode in call.services.store.modes()
                                     if mode.until is None or now < mode.until]}


def put(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Set a mode; the engines heed it within a second."""
    call.authorize(policies.MODE_SET)
    body, now = call.body, time.time()
    if body['scope'] == model.HOST:
        hosts.known(call, body['name'])
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


def delete(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Remove the modes of one scope and name, for which the next less specific one counts."""
    call.authorize(policies.MODE_SET)
    scope, name = call.query['scope'], call.query.get('name', '')
    if not call.services.store.unset_mode(scope, name):
        raise api_call.missing('mode of', f'{scope} {name}'.strip())
    LOG.info('user %s removes the mode of %s %s', call.context.user_id, scope, name)
    return index(call)

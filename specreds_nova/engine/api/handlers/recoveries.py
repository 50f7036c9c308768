# SPDX-License-Identifier: Apache-2.0
"""Recoveries: listed, shown and aborted."""

from http import HTTPStatus

from oslo_log import log as logging

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine import policies
from specreds_nova.engine.api import call as api_call
from specreds_nova.engine.api import views

LOG = logging.getLogger(__name__)

_FILTERS = ('server', 'host', 'project', 'state', 'outcome')


def index(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """List them, the newest first: all, or those of the caller's project."""
    filters = {name: call.query[name] for name in _FILTERS if name in call.query}
    if 'host' in filters:
        call.authorize(policies.DETAILS)
    if not call.allows(policies.LIST_ALL):
        own = call.context.project_id
        call.authorize(policies.LIST, own)
        if own is None or filters.setdefault('project', own) != own:
            call.authorize(policies.LIST_ALL)
    limit = call.limit
    found = call.services.store.recoveries(filters, limit + 1, call.query.get('marker'))
    shown = [views.recovery(one, details=call.allows(policies.DETAILS, one.project))
             for one in found[:limit]]
    return HTTPStatus.OK, call.page('recoveries', found, shown, 'id')


def show(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Show one, with its steps."""
    return HTTPStatus.OK, _shown(call, _visible(call))


def act(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Have one end in favour of the primary."""
    found = _visible(call)
    call.authorize(policies.ABORT, found.project)
    if not call.services.store.request_abort(found.id):
        found = _visible(call)
        raise exception.Refused(
            f'recovery {found.id} has ended already: {found.outcome}'
            if found.state == model.ENDED else
            f'recovery {found.id} is {found.state}: the backup is the server now, and the '
            f'primary is fenced, so it can only go on to its end')
    LOG.info('an operator aborts recovery %s of server %s', found.id, found.server)
    return HTTPStatus.ACCEPTED, _shown(call, _visible(call))


def _shown(call: api_call.Call, found: model.Recovery) -> api_call.Body:
    details = call.allows(policies.DETAILS, found.project)
    return {'recovery': {**views.recovery(found, details=details),
                         'steps': views.timeline(found, details=details)}}


def _visible(call: api_call.Call) -> model.Recovery:
    """Find a recovery that the caller may know of.

    :raises exception.NotFound: there is none, for him
    """
    recovery_id = call.path['recovery_id']
    found = call.services.store.get(recovery_id)
    if found is None or not call.allows(policies.SHOW, found.project):
        raise api_call.missing('recovery', recovery_id)
    return found

# SPDX-License-Identifier: Apache-2.0
"""List, show and abort recoveries."""

from http import HTTPStatus

from oslo_log import log as logging

from specreds_nova.engine import model
from specreds_nova.engine import policies
from specreds_nova.engine.api import call as api_call
from specreds_nova.engine.api import errors
from specreds_nova.engine.api import views

LOG = logging.getLogger(__name__)

# What the store calls the parameters of a query.
_FILTERS = {'server_id': 'server', 'host': 'host', 'project_id': 'project', 'state': 'state',
            'outcome': 'outcome'}


def index(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
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


def show(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Show a recovery with its steps."""
    return HTTPStatus.OK, _shown(call, _visible(call))


def act(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Abort a recovery, which then ends in favour of the primary."""
    recovery = _visible(call)
    call.authorize(policies.ABORT, recovery.project)
    if not call.services.store.request_abort(recovery.id):
        recovery = _visible(call)
        if recovery.state == model.ENDED:
            raise errors.conflict(
                'recovery-ended', f'recovery {recovery.id} has ended already: {recovery.outcome}')
        raise errors.conflict(
            'recovery-committed',
            f'recovery {recovery.id} is {recovery.state}: the primary is fenced, and the backup '
            f'has become the server, so that the recovery cannot be aborted')
    LOG.info('recovery %s of server %s: user %s requests its abort', recovery.id,
             recovery.server, call.context.user_id)
    return HTTPStatus.ACCEPTED, _shown(call, _visible(call))


def _shown(call: api_call.Call, recovery: model.Recovery) -> api_call.Body:
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

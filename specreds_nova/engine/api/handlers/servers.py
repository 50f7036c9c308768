# SPDX-License-Identifier: Apache-2.0
"""Show whether servers are protected."""

from http import HTTPStatus

from oslo_utils import uuidutils

from specreds_nova.engine import exception
from specreds_nova.engine import policies
from specreds_nova.engine.api import call as api_call
from specreds_nova.engine.api import protection as answers

_NO_BACKUP = 'no backup could be started at the moment'


def protection(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Show whether a backup of a server could be started at the moment, or why not."""
    server_id = call.path['server_id']
    if not uuidutils.is_uuid_like(server_id):
        raise api_call.missing('server', server_id)
    try:
        answer = call.services.protection(server_id)
    except exception.NotFound as exc:
        raise api_call.missing('server', server_id) from exc
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
        shown |= {'host': answer['host'], 'destinations': list(answer['destinations'])}
    return HTTPStatus.OK, {'protection': shown}


def _without_hosts(answer: answers.Answer) -> list[str]:
    """Return the reasons without those that name hosts."""
    hosts = [answer['host'], *answer['destinations']]
    reasons = [reason for reason in answer['reasons'] if not any(host in reason for host in hosts)]
    return reasons if len(reasons) == len(answer['reasons']) else [*reasons, _NO_BACKUP]

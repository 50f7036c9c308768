# SPDX-License-Identifier: Apache-2.0
"""Servers: whether they are protected."""

from http import HTTPStatus

from oslo_utils import uuidutils

from specreds_nova.engine import exception
from specreds_nova.engine import policies
from specreds_nova.engine.api import call as api_call
from specreds_nova.engine.api import protection as answers

_NO_HOST = 'no host could run its backup'


def protection(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Tell whether a backup of one could be started now, and why not."""
    server_id = call.path['server_id']
    if not uuidutils.is_uuid_like(server_id):
        raise api_call.missing('server', server_id)
    try:
        found = call.services.protection.check(server_id)
    except exception.NotFound as error:
        raise api_call.missing('server', server_id) from error
    if not call.allows(policies.PROTECTION, found['project']):
        raise api_call.missing('server', server_id)
    details = call.allows(policies.PROTECTION_DETAILS, found['project'])
    shown: api_call.Body = {
        'server_id': server_id,
        'project_id': found['project'],
        'protected': found['protected'],
        'reasons': list(found['reasons']) if details else _without_hosts(found),
        'volumes': {volume: list(reasons) for volume, reasons in found['volumes'].items()},
    }
    if details:
        shown |= {'host': found['host'], 'destinations': list(found['destinations'])}
    return HTTPStatus.OK, {'protection': shown}


def _without_hosts(found: answers.Answer) -> list[str]:
    """Give the reasons without those that tell of hosts."""
    hosts = [found['host'], *found['destinations']]
    told = [reason for reason in found['reasons'] if not any(host in reason for host in hosts)]
    return told if len(told) == len(found['reasons']) else [*told, _NO_HOST]

# SPDX-License-Identifier: Apache-2.0
"""Show whether servers are protected, and begin drills."""

from http import HTTPStatus
import time
import uuid

from oslo_log import log as logging
from oslo_utils import uuidutils

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine import policies
from specreds_nova.engine.api import call as api_call
from specreds_nova.engine.api import errors
from specreds_nova.engine.api import protection as answers
from specreds_nova.engine.api import views
from specreds_nova.engine.placing import judgement
from specreds_nova.engine.suspicion import evidence
from specreds_nova.engine.suspicion import gates

LOG = logging.getLogger(__name__)

_NO_BACKUP = 'no backup could be started at the moment'


def protection(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Show whether a backup of a server could be started at the moment, or why not."""
    server_id = call.path['server_id']
    answer = _asked(call, server_id)
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


def act(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Begin a drill of a server, which any engine holds."""
    call.authorize(policies.DRILL)
    server_id, store = call.path['server_id'], call.services.store
    answer = _asked(call, server_id)
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


def _asked(call: api_call.Call, server_id: str) -> answers.Answer:
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

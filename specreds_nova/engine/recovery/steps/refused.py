# SPDX-License-Identifier: Apache-2.0
"""Step ``refused``: the recovery of a server fails that no engine may recover in its state.

That is a server whose dead host would do something to it when it is back, or whose disks are on
that host: an operator decides. Others are evacuated (:mod:`specreds_nova.engine.recovery.left`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from oslo_log import log as logging

from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.suspicion import servers

LOG = logging.getLogger(__name__)

_KIND = 'refused'
_MOVES = ('migrating', 'resize')


def fact(server: model.Server, reasons: Sequence[str], at: float) -> Mapping[str, Any]:
    """Return the evidence that a server is left in its state.

    :param reasons: why no engine may recover it
    :param at: time by the clock of the system
    """
    words = verdicts.with_remedy('; '.join(reasons), _advice(server))
    return {'kind': _KIND, 'words': words, 'at': at}


def _advice(server: model.Server) -> str:
    """Return what an operator can do."""
    if servers.Volumes().reason(server):
        return (f'its disk is on {server.host}: make that run, or evacuate the server with a new '
                f'disk once {server.host} is off: openstack server evacuate {server.id}')
    command = verdicts.make_active(server.id)
    state = f'{server.status} {server.task or ""}'.lower()
    if any(word in state for word in _MOVES):
        return f'it may run on another host: look there before you make it active ({command})'
    return f'to have it recovered once {server.host} is off, make it active: {command}'


def concerns(recovery: model.Recovery) -> bool:
    """Return whether the server of a recovery is left in its state."""
    return any(fact.get('kind') == _KIND for fact in recovery.why)


def attempt(run: runs.Run) -> str:
    """Record the outcome, and return it.

    :raises exception.Superseded: another engine has taken over the recovery
    """
    run.free()
    why = next(str(fact['words']) for fact in run.recovery.why if fact.get('kind') == _KIND)
    run.change(state=model.ENDED, outcome=model.FAILED, error=why)
    LOG.warning('recovery %s: server %s stays on %s, which is suspected: %s', run.id,
                run.recovery.server, run.recovery.host, why)
    return model.FAILED

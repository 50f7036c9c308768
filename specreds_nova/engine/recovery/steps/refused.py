# SPDX-License-Identifier: Apache-2.0
"""Step ``refused``: the recovery of a server fails that no engine may recover in its state.

A dead host leaves servers that Nova moves or resizes, and others that do not run. Engines do not
know where such a server may run, or whether its user wants that: an operator decides.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from oslo_log import log as logging

from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs

LOG = logging.getLogger(__name__)

_KIND = 'refused'
_MOVES = ('migrating', 'resize')


def fact(server: model.Server, reasons: Sequence[str], at: float) -> Mapping[str, Any]:
    """Return the evidence that a server is left in its state.

    :param reasons: why no engine may recover it
    :param at: time by the clock of the system
    """
    state = f'{server.status} {server.task or ""}'.lower()
    moved = any(word in state for word in _MOVES)
    command = f'openstack server set --state active {server.id}'
    advice = (f'it may run on another host: look there before you make it active ({command})'
              if moved else
              f'to have it recovered once {server.host} is off, make it active: {command}')
    return {'kind': _KIND, 'words': f'{"; ".join(reasons)}; {advice}', 'at': at}


def concerns(recovery: model.Recovery) -> bool:
    """Return whether the server of a recovery is left in its state."""
    return any(fact.get('kind') == _KIND for fact in recovery.why)


def attempt(run: runs.Run) -> str:
    """Record the outcome, and return it.

    :raises exception.Superseded: another engine has taken over the recovery
    """
    run.free()
    why = next(str(fact['words']) for fact in run.recovery.why if fact.get('kind') == _KIND)
    run.change(state=model.ENDED, outcome=model.FAILED, error=why[:255])
    LOG.warning('recovery %s: server %s stays on %s, which is suspected: %s', run.id,
                run.recovery.server, run.recovery.host, why)
    return model.FAILED

# SPDX-License-Identifier: Apache-2.0
"""Hosts that Nova forces down late: by an engine's request, but after they were trusted again.

A request may take effect long after its answer was lost, or a second time, and the engine that
lifts ``forced_down`` does not know of it. Such a host would stay down in Nova for ever.

Nova does not say who has forced a host down. Late requests of engines are carried out together,
once Nova works again. If a host is forced down once more a minute after that was lifted, an
operator insists on it.
"""

from typing import Any

from specreds_nova.engine import model
from specreds_nova.engine.recovery import context as contexts
from specreds_nova.engine.recovery import stamps

# Seconds after which none of the requests of an engine is still on its way.
_LATEST = 600.0
# Seconds after a lift from which another request is an operator's.
_TOGETHER = 60.0
# Recoveries that are read to find out whether engines have forced a host down.
_MANY = 200
# Outcomes of recoveries that may have done so.
_FORCING = (model.RECOVERED, model.RESTARTED, model.EVACUATED, model.FAILED)
# Kind of the note that ``forced_down`` was lifted, among the evidence of the trusted host.
LIFTED = 'lifted'


def lift(context: contexts.Context, name: str) -> bool:
    """Lift ``forced_down`` of a host if engines have caused it, and trust the host.

    What an operator has forced down stays so: engines have then not evacuated the host lately, or
    its mode is not to act, or it is disabled, or the operator has done so again after a lift.

    :returns: whether it was lifted
    :raises exception.Unreachable: Nova or the database does not answer
    """
    host = context.store.host(name)
    if (host.state != model.TRUSTED or context.modes.of(name) != model.ACT
            or stamps.age(context.clock, host.since) >= _LATEST
            or context.suspects.suspected(name) or not context.suspects.is_well(name)):
        return False
    if _insisted(context, host) or not _forced(context, host):
        return False
    service = context.compute.service(name)
    if not service.get('forced_down') or not service.get('enabled', True):
        return False
    if not context.compute.force_down(name, False):
        return False
    # For all engines, and for operators; another change of the host is of more importance.
    context.store.change_host(host, why=(_note(context),))
    return True


def _insisted(context: contexts.Context, host: model.Host) -> bool:
    """Return whether a request after a lift is an operator's."""
    return any(fact.get('kind') == LIFTED and stamps.age(context.clock, fact['at']) >= _TOGETHER
               for fact in host.why)


def _note(context: contexts.Context) -> dict[str, Any]:
    return {'kind': LIFTED, 'at': context.clock.wall(),
            'words': 'Nova had forced it down, probably by a late request of an engine: this was '
                     'lifted, and will not be if it is forced down again'}


def _forced(context: contexts.Context, host: model.Host) -> bool:
    """Return whether engines have evacuated servers of a host before they trusted it last."""
    recoveries = [*context.store.recoveries({'host': host.name}, _MANY),
                  *context.store.recoveries({}, _MANY)]
    return any(host.name in (recovery.host, recovery.destination)
               and (recovery.state == model.MERGING or recovery.outcome in _FORCING)
               and recovery.updated >= host.since - _LATEST for recovery in recoveries)

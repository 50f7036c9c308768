# SPDX-License-Identifier: Apache-2.0
"""Hosts that Nova forces down late: by an engine's request, but after they were trusted again.

A request may take effect long after its answer was lost, or a second time, and the engine that
lifts ``forced_down`` does not know of it. Such a host would stay down in Nova for ever.
"""

from specreds_nova.engine import model
from specreds_nova.engine.recovery import context as contexts
from specreds_nova.engine.recovery import stamps

# Seconds after which none of the requests of an engine is still on its way.
_LATEST = 600.0
# Recoveries that are read to find out whether engines have forced a host down.
_MANY = 200
# Outcomes of recoveries that may have done so.
_FORCING = (model.RECOVERED, model.RESTARTED, model.EVACUATED, model.FAILED)


def lift(context: contexts.Context, name: str) -> bool:
    """Lift ``forced_down`` of a host if engines have caused it, and trust the host.

    What an operator has forced down stays so: engines have then not evacuated the host lately, or
    it is in maintenance, or disabled.

    :returns: whether it was lifted
    :raises exception.Unreachable: Nova or the database does not answer
    """
    host = context.store.host(name)
    if (host.state != model.TRUSTED or host.maintenance is not None
            or stamps.age(context.clock, host.since) >= _LATEST
            or context.suspects.suspected(name) or not context.suspects.is_well(name)):
        return False
    if not _forced(context, host):
        return False
    service = context.compute.service(name)
    if not service.get('forced_down') or not service.get('enabled', True):
        return False
    return context.compute.force_down(name, False)


def _forced(context: contexts.Context, host: model.Host) -> bool:
    """Return whether engines have evacuated servers of a host before they trusted it last."""
    recoveries = [*context.store.recoveries({'host': host.name}, _MANY),
                  *context.store.recoveries({}, _MANY)]
    return any(host.name in (recovery.host, recovery.destination)
               and (recovery.state == model.MERGING or recovery.outcome in _FORCING)
               and recovery.updated >= host.since - _LATEST for recovery in recoveries)

# SPDX-License-Identifier: Apache-2.0
"""A failed host: it is cleaned before it is trusted again, and Nova has it down until then."""

from collections.abc import Collection
from typing import Any

from specreds_nova.engine import model
from specreds_nova.engine.recovery import context as contexts
from specreds_nova.engine.recovery import run as runs

FAILED = (model.SUSPECTED, model.FENCED)
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


def failed(run: runs.Run, name: str) -> bool:
    """Return whether a host is suspected or fenced."""
    return run.insist(run.context.store.host, name).state in FAILED


def require(run: runs.Run, name: str, states: Collection[str] = model.HOST_STATES) -> bool:
    """Record that a host has to be cleaned, and up in Nova, before it is trusted again.

    :param states: states of the host in which this is recorded
    :returns: False if the host is in another state
    """
    while True:
        host = run.insist(run.context.store.host, name)
        if host.state not in states:
            return False
        if host.state == model.FENCED or run.insist(_fence, run, host):
            return True


def _fence(run: runs.Run, host: model.Host) -> model.Host | None:
    # A suspected host is fenced in the same suspicion.
    since = host.since if host.state == model.SUSPECTED else run.context.clock.wall()
    return run.context.store.change_host(host, state=model.FENCED, since=since)


def force_down(run: runs.Run, source: str) -> bool:
    """Force a host down in Nova; return False if Nova refuses or the host is trusted.

    An engine that trusts the host again lifts only what was forced before. So the host is read
    before and after, and an engine that was superseded meanwhile takes back what it did.

    :param source: the host that the server leaves
    :raises exception.Superseded: another engine has the recovery
    """
    compute = run.context.compute
    run.fresh()
    if not _require_cleaning(run, source):
        return False
    if not compute.force_down(source, True):
        return False
    if not returned(run, source):
        return True
    run.insist(compute.force_down, source, False)
    return False


def returned(run: runs.Run, source: str) -> bool:
    """Return whether the host that the server leaves has not failed, or is trusted again.

    A gate that keeps engines from acting on the recovery's own host does not end the recovery:
    the decision has been made.
    """
    if source != run.recovery.host:
        return not failed(run, source)
    return run.insist(run.context.store.host, source).state == model.TRUSTED


def _require_cleaning(run: runs.Run, source: str) -> bool:
    """Record that the host that the server leaves has to be cleaned.

    :returns: False if that host has not failed, or is trusted again
    """
    if source == run.recovery.host:
        # The commit point has recorded it.
        return not returned(run, source)
    return require(run, source, FAILED)


def lift(context: contexts.Context, name: str) -> bool:
    """Lift ``forced_down`` of a trusted host if a late request of an engine has caused it.

    A request may take effect long after its answer was lost, or a second time, and the engine that
    lifts ``forced_down`` does not know of it. Such a host would stay down in Nova for ever. Nova
    does not say who has forced a host down. Late requests of engines are carried out together,
    once Nova works again.

    What an operator has forced down stays so: engines have then not evacuated the host lately, or
    its mode is not to act, or it is disabled, or the operator has done so again after a lift.

    :returns: whether it was lifted
    :raises exception.Unreachable: Nova or the database does not answer
    """
    host = context.store.host(name)
    if (host.state != model.TRUSTED or context.modes.of(name) != model.ACT
            or context.age(host.since) >= _LATEST
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
    return any(fact.get('kind') == LIFTED and context.age(fact['at']) >= _TOGETHER
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

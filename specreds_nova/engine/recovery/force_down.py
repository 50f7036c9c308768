# SPDX-License-Identifier: Apache-2.0
"""A failed host is forced down in Nova, so that Nova takes its servers away from it."""

from specreds_nova.engine import model
from specreds_nova.engine.recovery import cleaning
from specreds_nova.engine.recovery import run as runs


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
        return not cleaning.failed(run, source)
    return run.insist(run.context.store.host, source).state == model.TRUSTED


def _require_cleaning(run: runs.Run, source: str) -> bool:
    """Record that the host that the server leaves has to be cleaned.

    :returns: False if that host has not failed, or is trusted again
    """
    if source == run.recovery.host:
        # The commit point has recorded it.
        return not returned(run, source)
    return cleaning.require(run, source, cleaning.FAILED)

# SPDX-License-Identifier: Apache-2.0
"""Wait until tenants cannot see a primary that may live on a host that is cut off.

A host that is cut off from engines and Ceph hides its servers when its lease on the network is
over (``specreds_nova/sentinel/lease.py``). Engines renew the lease of trusted hosts only
(``specreds_nova/beats/answering.py``), so it is over this long after the database has
shown the host as suspected::

    FRESH + LEASE_S + network_lease_margin

Mostly the boot of the backup takes longer.

Where the sentinel of a host had ended before, nothing hides the servers of the host. Then only
time speaks for their end: they are not promoted before nothing was heard of the host for
``evacuate_after``, unless the host is dead as a fact. The step says that tenants may see both.
"""

from specreds_nova.engine import model
from specreds_nova.engine.recovery import death
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import timeline
from specreds_nova.engine.recovery import verdict as verdicts

_PAUSE = 0.5


def wait(run: runs.Run) -> verdicts.StepVerdict | None:
    """Wait until the primary cannot be seen; return the reason to spare it, if there is one."""
    shown = _is_unhidden(run)
    if not shown and not _left(run):
        return None
    with run.step(timeline.UNSEEN) as detail:
        if shown:
            detail['why'] = (f'{run.recovery.host} has no live sentinel: tenants may see the '
                             f'server beside its backup')
        while left := _left(run):
            run.pause(min(_PAUSE, left))
            run.fresh()
            if verdict := run.spared():
                detail['why'] = verdict.why
                return verdict
    return None


def _left(run: runs.Run) -> float:
    host, suspects = run.recovery.host, run.context.suspects
    if suspects.is_well(host) and suspects.running(host, run.recovery.server) is False:
        # The host reports that the server does not run.
        return 0.0
    recorded_host = run.insist(run.context.store.host, host)
    leases = run.context.leases
    left = leases.left(recorded_host, run.now, run.settings)
    silence = leases.silence(recorded_host, run.now) if _is_unhidden(run) else None
    return left if silence is None else max(left, run.options.evacuate_after - silence)


def _is_unhidden(run: runs.Run) -> bool:
    """Return whether the primary may run on a host that was known to have no live sentinel."""
    recorded_host = run.insist(run.context.store.host, run.recovery.host)
    return (recorded_host.state != model.TRUSTED and recorded_host.sentinel == model.SILENT
            and death.fact(run) is None)

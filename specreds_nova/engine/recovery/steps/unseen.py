# SPDX-License-Identifier: Apache-2.0
"""Wait until tenants cannot see a primary that may live on a host that is cut off.

A host that is cut off from engines and Ceph hides its servers when its lease on the network is
over (``specreds_nova/sentinel/lease.py``). Engines renew the lease of trusted hosts only
(``specreds_nova/beats/answering.py``), so it is over this long after the database has
shown the host as suspected::

    FRESH + LEASE_S + network_lease_margin

Mostly the boot of the backup takes longer.
"""

from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import timeline
from specreds_nova.engine.recovery import verdict as verdicts

_PAUSE = 0.5


def wait(run: runs.Run) -> verdicts.StepVerdict | None:
    """Wait until the primary cannot be seen; return the reason to spare it, if there is one."""
    if not _left(run):
        return None
    with run.step(timeline.UNSEEN) as detail:
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
    return run.context.leases.left(recorded_host, run.now, run.settings)

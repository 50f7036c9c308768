# SPDX-License-Identifier: Apache-2.0
"""What proves that a primary is dead: a boot of its host, or somebody who knows.

Silence proves nothing, however long it lasts. A word is about the boot of that time: it is void
once an engine has heard the host.
"""

from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import stamps
from specreds_nova.engine.suspicion import evidence


def fact(run: runs.Run) -> str | None:
    """Return the proof that the primary of a recovery is dead; None without one."""
    name, suspects = run.recovery.host, run.context.suspects
    if suspects.is_well(name):
        booted = any(each.get('kind') == evidence.BOOT for each in run.recovery.why)
        # Nova may have started the server there again.
        gone = booted and suspects.running(name, run.recovery.server) is False
        return f'{name} has booted' if gone else None
    host = run.insist(run.context.store.host, name)
    if host.dead_at is None:
        return None
    said = run.now - stamps.age(run.context.clock, host.dead_at)
    heard = suspects.last_heard(name, said)
    if heard is None or heard >= said:
        return None
    return f'somebody knows that {name} is dead'

# SPDX-License-Identifier: Apache-2.0
"""What a server would get if its host failed, by what is known of it.

``server check``, ``coverage`` and ``specreds-preflight`` share this code. Imports nothing of Nova.
"""

from specreds_nova.engine import model
from specreds_nova.engine.recovery import left
from specreds_nova.engine.suspicion import servers

# The classes of servers.
CLASSES = SPECULATIVE, EVACUATED, FAILED, NONE = 'speculative', 'evacuated', 'failed', 'none'


def never_heard(host: str) -> str:
    """Return why no server of a host is recovered of which no engine has ever heard."""
    return f'no engine has ever heard {host}'


def gated_by(gates: servers.Gates, server: model.Server) -> tuple[list[str], bool]:
    """Return the reasons of a server's shut gates, and whether they also prevent an evacuation."""
    # A reboot that its host never does keeps no server from being recovered.
    reasons = gates.reasons(server if server.deleting else servers.without_request(server))
    evacuated = left.can_be_evacuated(server) and not gates.reasons(left.as_if_active(server))
    return reasons, bool(reasons and not evacuated)


def outcome(*, gated: bool, against: bool, stays: bool) -> str:
    """Return what a server would get if its host failed.

    :param gated: a gate of the server or of its host is shut
    :param against: something keeps it from having a backup
    :param stays: that, or something else, keeps it from being evacuated
    """
    if gated:
        return NONE
    if not against:
        return SPECULATIVE
    return FAILED if stays else EVACUATED

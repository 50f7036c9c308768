# SPDX-License-Identifier: Apache-2.0
"""The record that a host has failed, and has to be cleaned before it is trusted again."""

from collections.abc import Collection

from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs

FAILED = (model.SUSPECTED, model.FENCED)


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

# SPDX-License-Identifier: Apache-2.0
"""Have the engine recover a host that Masakari was notified of."""

from collections.abc import Callable
import time

from osc_lib import exceptions as osc_exceptions

from specreds_nova.osc import client as engine_client

_ENDED, _FAILED = 'ended', 'failed'
# The state of a recovery whose server serves, and of hosts about which the engine does something.
_SERVES = 'merging'
_ACTS = ('suspected', 'fenced')
# Seconds between two looks at the recoveries.
_POLL = 1.0
# Seconds until the engine has to act on the word. If it holds back longer, Masakari has to know.
_PATIENCE = 120.0


class HandOverFailedError(Exception):
    """The engine cannot be reached, holds back, or could not recover a server."""


def hand_over(engine: engine_client.Client, host_name: str, notification: str,
              report: Callable[[str, float], object]) -> None:
    """Report to the engine that a host has failed, and wait until its servers serve.

    The engine does with the host what it does with any other that is suspected by an operator: if
    it is alive, its servers stay.

    :param host_name: of the host, as Masakari knows it
    :param notification: id of Masakari's notification
    :param report: receives what has happened, and the share of the work that is done
    :raises HandOverFailedError: the recoveries that the engine has started go on
    """
    try:
        _hand_over(engine, host_name, notification, report)
    except osc_exceptions.CommandError as exc:
        raise HandOverFailedError(f'the engine cannot recover host {host_name}: {exc}') from exc


def _hand_over(engine: engine_client.Client, host_name: str, notification: str,
               report: Callable[[str, float], object]) -> None:
    name = _known(engine, host_name)
    earlier = {recovery['id'] for recovery in engine.recoveries({'host': name, 'state': _ENDED})}
    engine.say(name, 'suspect', reason=f'Masakari was notified: {notification}')
    report(f'the engine was told that host {name} has failed', 0.1)
    if not _heeded(engine, name):
        raise HandOverFailedError(f'the engine holds back from recovering host {name}: see '
                                  f'"openstack speculative host show {name}"')
    while any(recovery['state'] != _SERVES for recovery in engine.host(name)['recoveries']):
        time.sleep(_POLL)
    recovered = [recovery for recovery in engine.recoveries({'host': name})
                 if recovery['id'] not in earlier]
    failed = sorted(recovery['server_id'] for recovery in recovered
                    if recovery['outcome'] == _FAILED)
    if failed:
        raise HandOverFailedError(f'servers of host {name} were not recovered: '
                                  f'{", ".join(failed)}')
    report(f'the engine has recovered {len(recovered)} servers of host {name}', 1.0)


def _heeded(engine: engine_client.Client, name: str) -> bool:
    """Wait until the engine acts on a suspicion, and return whether it does."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        host = engine.host(name)
        if host['recoveries'] or host['state'] in _ACTS:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL)


def _known(engine: engine_client.Client, host_name: str) -> str:
    """Return the name of a host for the engine: Masakari may have it with its domain.

    :raises osc_exceptions.CommandError: the engine does not know the host, or does not answer
    """
    try:
        engine.host(host_name)
    except osc_exceptions.CommandError:
        short = host_name.split('.')[0]
        engine.host(short)
        return short
    return host_name

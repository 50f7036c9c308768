# SPDX-License-Identifier: Apache-2.0
"""Have the engine recover a host that Masakari was notified of."""

from collections.abc import Callable, Collection
import operator
import time
from typing import Any

from osc_lib import exceptions as osc_exceptions
import tenacity

from specreds_nova.osc import client as engine_client

_ENDED, _FAILED = 'ended', 'failed'
# The state of a recovery whose server serves, and the states of a host on which the engine acts.
_SERVES = 'merging'
_ACTS = ('suspected', 'fenced')
# Looks at the host and its recoveries are a second apart.
_WAIT = tenacity.wait_fixed(1.0)
_UNTIL_TRUE = tenacity.retry_if_result(operator.not_)
# Seconds for the engine to act on the suspicion; after that, handing over the host has failed.
_PATIENCE = 120.0
# Seconds until a suspected host has recoveries: the engine asks Nova for its servers first.
_SETTLE = 30.0


class HandOverFailedError(Exception):
    """The engine cannot be reached, does not act on the host, or could not recover a server."""


def hand_over(engine: engine_client.Client, host_name: str, notification: str,
              report: Callable[[str, float], object]) -> None:
    """Report to the engine that a host has failed, and wait until its servers serve.

    The engine treats the host as one that an operator suspects: if it is alive, its servers stay.

    :param host_name: name of the host in Masakari
    :param notification: id of Masakari's notification
    :param report: receives a text on the progress, and the share of the work that is done
    :raises HandOverFailedError: it failed; the recoveries that the engine has started continue
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
    report(f'host {name} is suspected in the engine', 0.1)
    if not _acted(engine, name):
        raise HandOverFailedError(f'the engine does not act on host {name}: see '
                                  f'"openstack speculative host show {name}"')
    settled = time.monotonic() + _SETTLE

    def serve() -> bool:
        # Before the look at the host, which shows those that have not ended.
        recovered = _new(engine, name, earlier)
        return (all(recovery['state'] == _SERVES for recovery in engine.host(name)['recoveries'])
                and (bool(recovered) or time.monotonic() >= settled))
    tenacity.Retrying(retry=_UNTIL_TRUE, wait=_WAIT)(serve)
    # Those that had not ended when they were listed have an outcome by now.
    recovered = _new(engine, name, earlier)
    failed = sorted(recovery['server_id'] for recovery in recovered
                    if recovery['outcome'] == _FAILED)
    if failed:
        raise HandOverFailedError(f'servers of host {name} were not recovered: '
                                  f'{", ".join(failed)}')
    report(f'the engine has recovered host {name}, servers: {len(recovered)}', 1.0)


def _new(engine: engine_client.Client, name: str, earlier: Collection[str]
         ) -> list[dict[str, Any]]:
    """Return the recoveries of a host without earlier ones."""
    return [recovery for recovery in engine.recoveries({'host': name})
            if recovery['id'] not in earlier]


def _acted(engine: engine_client.Client, name: str) -> bool:
    """Wait until the engine acts on a suspicion; return False if it does not in time."""
    def acts() -> bool:
        host = engine.host(name)
        return bool(host['recoveries']) or host['state'] in _ACTS
    return tenacity.Retrying(
        retry=_UNTIL_TRUE, wait=_WAIT, stop=tenacity.stop_after_delay(_PATIENCE),
        retry_error_callback=lambda _: False)(acts)


def _known(engine: engine_client.Client, host_name: str) -> str:
    """Return the engine's name of a host. That of Masakari may end with a domain.

    :raises osc_exceptions.CommandError: the engine does not know the host, or does not answer
    """
    try:
        engine.host(host_name)
    except osc_exceptions.CommandError:
        short = host_name.split('.')[0]
        engine.host(short)
        return short
    return host_name

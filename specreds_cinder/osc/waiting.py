# SPDX-License-Identifier: Apache-2.0
"""Wait until a superposition has ended."""

from collections.abc import Callable
import time

from keystoneauth1 import exceptions as auth_exceptions
from openstack import exceptions

from specreds_cinder.osc import client
from specreds_cinder.osc import progress
from specreds_cinder.osc import shown

_FIRST_S = 0.25
_SLOWEST_S = 2.0


def until_gone(superpositions: client.Superpositions, superposition_id: str,
               sleep: Callable[[float], None] = time.sleep) -> str | None:
    """Wait until a superposition no longer exists, and show its progress.

    A service that does not answer is asked again without limit.

    :returns: the outcome, if any answer had one
    """
    outcome: str | None = None
    pause = _FIRST_S
    with progress.StatusLine() as line:
        while True:
            try:
                now = superpositions.get(superposition_id)
            except exceptions.NotFoundException:
                return outcome
            except (exceptions.HttpException, auth_exceptions.ConnectFailure) as exc:
                if getattr(exc, 'status_code', None) in range(400, 500):
                    raise
                line.say(f'superposition {superposition_id}: the service does not answer')
            else:
                outcome = now['outcome'] or outcome
                line.say(f'superposition {superposition_id} is {now["state"]}, '
                         f'overlay left: {shown.size(now["overlay_bytes"])}')
            sleep(pause)
            pause = min(pause * 2, _SLOWEST_S)

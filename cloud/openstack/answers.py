# SPDX-License-Identifier: Apache-2.0
"""Waits until a service that was started answers."""

from collections.abc import Callable
import time

from cloud import commands

_POLL = 0.2


def wait(name: str, ask: Callable[[], object], failures: tuple[type[Exception], ...],
         log: object, timeout: float) -> None:
    """Ask again and again.

    :param name: of the service, for people
    :param ask: raises one of `failures` as long as it does not answer
    :param log: what to read if it does not
    :param timeout: seconds
    :raises CloudError: it did not in time
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            ask()
            return
        except failures as exc:
            if time.monotonic() > deadline:
                raise commands.CloudError(f'{name} does not answer ({exc}); see {log}'
                                          ) from exc
            time.sleep(_POLL)

# SPDX-License-Identifier: Apache-2.0
"""Wait until a service that was started answers."""

from collections.abc import Callable
import time

from cloud import commands
from cloud import deadline

_POLL = 0.2


def wait(name: str, ask: Callable[[], object], failures: tuple[type[Exception], ...],
         log: object, timeout: float) -> None:
    """Call a function until it raises none of the expected failures.

    :param name: of the service, for people
    :param ask: function that raises one of `failures` while the service does not answer
    :param log: the log that the error names
    :param timeout: seconds
    :raises CloudError: it did not in time
    """
    limit = deadline.Deadline(timeout)
    while True:
        try:
            ask()
            return
        except failures as exc:
            if limit.passed:
                raise commands.CloudError(f'{name} does not answer ({exc}); see {log}'
                                          ) from exc
            time.sleep(_POLL)

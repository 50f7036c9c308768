# SPDX-License-Identifier: Apache-2.0
"""A service with as many workers as an installer sets."""

import heapq

# Of each API: what kolla-ansible sets on a controller with five processors or more.
COUNT = 5


class Workers:
    """Workers that serve one request each; other requests wait, the oldest one first.

    A request occupies its worker until it is answered, also while the API waits for a call.

    :ivar busy: seconds for which requests have occupied workers
    """

    def __init__(self, count: int = COUNT) -> None:
        self.busy = 0.0
        # When each worker is free.
        self._free = [0.0] * count

    def serve(self, seconds: float, now: float) -> float:
        """Return the seconds until a request is answered.

        :param seconds: time for which the request occupies a worker
        """
        self.busy += seconds
        end = max(now, self._free[0]) + seconds
        heapq.heapreplace(self._free, end)
        return end - now

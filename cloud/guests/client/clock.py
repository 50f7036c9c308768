# SPDX-License-Identifier: Apache-2.0
"""Time stamps that can be compared between processes of one machine, and never go backwards."""

import time

_OFFSET = time.time() - time.monotonic()


def now() -> float:
    """Seconds since the epoch; nobody who sets the clock meanwhile can disturb it."""
    return _OFFSET + time.monotonic()

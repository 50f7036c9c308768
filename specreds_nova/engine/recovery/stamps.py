# SPDX-License-Identifier: Apache-2.0
"""Times in the database, by the clocks of the systems of engines, which may be set."""

import math

from specreds_nova.engine.clients import clock as clocks

# Seconds by which the clocks of two engines may differ.
APART = 5.0


def age(clock: clocks.Clock, stamp: float) -> float:
    """Return the seconds since a time in the database.

    A time that is over in more than ``APART`` seconds was written by a clock that was ahead: how
    long ago is unknown, and nothing waits for that clock, so the time counts as long ago.
    """
    passed = clock.wall() - stamp
    return max(passed, 0.0) if passed >= -APART else math.inf
